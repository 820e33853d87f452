package documents

import (
	"bufio"
	"cmp"
	"encoding/csv"
	"encoding/json"
	"io"
	"mime/quotedprintable"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stator-db/stator/apps/documents/export"
	"github.com/stator-db/stator/apps/documents/hook"
)

// The results of a batch are exported as CSV and as JSON.
func TestExports(t *testing.T) {
	s := start(t, nil)
	c, ids := furnished(s, "acme", "ann@acme.example")
	_, text := c.request("GET", "/v1"+fill(inBatch, ids)+"/results?format=csv", nil)
	lines, err := csv.NewReader(strings.NewReader(text)).ReadAll()
	if err != nil || len(lines) != 5 || strings.Join(lines[0], " ") != "documentId document status confidence reason number date customer total contact" {
		t.Errorf("%v, %v", lines, err)
	}
	if lines[1][1] != "acme-0.txt" || lines[1][2] != "REVIEW_REQUIRED" || lines[1][5] != "NW-1001" || lines[1][7] != "acme" {
		t.Errorf("%q", lines[1])
	}
	all := must[[]export.Entry](c, "GET", "/v1"+fill(inBatch, ids)+"/results", nil)
	if len(all) != 4 || all[0].Name != "acme-0.txt" || all[0].Fields[0].Value != "NW-1001" || all[2].Reason == "" {
		t.Errorf("%+v", all)
	}
	if status, _ := c.request("GET", "/v1"+fill(inBatch, ids)+"/results?format=xml", nil); status != 400 {
		t.Errorf("another format: %d", status)
	}
}

// receiver is a webhook that fails until it is repaired.
type receiver struct {
	mutex    sync.Mutex
	down     bool
	calls    int
	received []string // bodies that were accepted
	headers  []http.Header
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	r.mutex.Lock()
	defer r.mutex.Unlock()
	body, _ := io.ReadAll(q.Body)
	r.calls++
	if r.down {
		http.Error(w, "down", http.StatusBadGateway)
		return
	}
	r.received, r.headers = append(r.received, string(body)), append(r.headers, q.Header)
}

// A webhook gets the results of each finished batch, signed, and again with longer
// delays until it accepts them. What it does not accept is given up in the end, and
// the project says so.
func TestWebhook(t *testing.T) {
	hooked := new(receiver)
	server := httptest.NewServer(hooked)
	defer server.Close()
	now := new(clock)
	s := start(t, func(o *Options) { o.Now, o.Home.Now, o.PrivateHooks = now.Now, now.Now, true })
	c, project, workflow := s.newTenant("acme", "ann@acme.example")
	in := "/v1/projects/" + project
	secret := must[object](c, "PUT", in+"/reporting", object{"webhook": server.URL}).str("secret")
	if again := must[object](c, "PUT", in+"/reporting", object{"webhook": server.URL}); again["secret"] != nil {
		t.Error("the secret is shown twice")
	}
	if p := must[json.RawMessage](c, "GET", in, nil); strings.Contains(string(p), secret) {
		t.Error("the project shows the secret")
	}
	send := func() string {
		return must[object](c, "POST", in+"/batches", object{"workflowId": workflow, "name": "b", "documents": []object{
			{"name": "a.txt", "upload": c.upload([]byte("Invoice no NW-1001\nDate\n7.11.2026\nCustomer Ann\nTotal\nabout three hundred\n"))}}}).str("batchId")
	}
	hooked.down = true
	batch := send()
	s.passes()
	if hooked.calls != 1 {
		t.Fatalf("%d calls", hooked.calls)
	}
	now.Pass(9 * time.Second)
	s.passes()
	if hooked.calls != 1 {
		t.Error("the webhook is called again too early")
	}
	now.Pass(2 * time.Second)
	s.passes()
	now.Pass(15 * time.Second)
	s.passes()
	if hooked.calls != 2 {
		t.Errorf("%d calls, want the second after 10 s and the third 20 s later", hooked.calls)
	}
	hooked.down = false
	now.Pass(6 * time.Second)
	s.passes()
	if len(hooked.received) != 1 {
		t.Fatalf("%d messages after %d calls", len(hooked.received), hooked.calls)
	}
	if err := hook.Verify(secret, hooked.headers[0].Get(hook.SignatureHeader), now.Now(), time.Minute, []byte(hooked.received[0])); err != nil {
		t.Error(err)
	}
	var plain struct {
		Batch struct{ BatchID, Status string }
	}
	if err := json.Unmarshal([]byte(hooked.received[0]), &plain); err != nil || plain.Batch.BatchID != batch || plain.Batch.Status != "REVIEW_REQUIRED" {
		t.Errorf("%s, %v", hooked.received[0], err)
	}
	var rest struct {
		Event, Delivery string
		Documents       []export.Entry
	}
	if err := json.Unmarshal([]byte(hooked.received[0]), &rest); err != nil || rest.Event != "batch.finished" || len(rest.Documents) != 1 || rest.Documents[0].Fields[0].Value != "NW-1001" || rest.Delivery != hooked.headers[0].Get(hook.DeliveryHeader) {
		t.Errorf("%+v, %v", rest, err)
	}
	// A review changes the status of the batch, which is reported too.
	d := s.documentsOf(s.batchOf(batch))[0]
	must[object](c, "POST", in+"/batches/"+batch+"/documents/"+d.ID.String()+"/review", object{"approve": true})
	s.passes()
	if len(hooked.received) != 2 || !strings.Contains(hooked.received[1], `"SUCCEEDED"`) {
		t.Errorf("%q", hooked.received)
	}
	hooked.down = true
	hooked.calls = 0
	send()
	for range 40 {
		s.passes()
		now.Pass(time.Hour)
	}
	if hooked.calls != s.Runner.Reports.Attempts {
		t.Errorf("%d attempts", hooked.calls)
	}
	c.session = must[object](&client{s: s}, "POST", "/v1/sessions", object{"email": "ann@acme.example", "tenant": c.tenant}).str("session")
	if p := must[object](c, "GET", in, nil); !strings.Contains(p.str("problem"), "502") {
		t.Errorf("%v", p)
	}
}

// By default a webhook cannot be at a private address.
func TestPrivateWebhooks(t *testing.T) {
	s := start(t, nil)
	c, project, _ := s.newTenant("acme", "ann@acme.example")
	for _, u := range []string{"http://example.com/", "https://127.0.0.1/", "https://169.254.169.254/latest/meta-data", "https://[::1]:8000", "x"} {
		if status, text := c.request("PUT", "/v1/projects/"+project+"/reporting", object{"webhook": u}); status != 400 || !strings.Contains(text, "bad_webhook") {
			t.Errorf("%s: %d %s", u, status, text)
		}
	}
}

// sink is an SMTP server that keeps mails.
type sink struct {
	net.Listener
	mutex sync.Mutex
	mails []string          // recipient, and the message
	busy  bool              // refuses all
	calls int               // recipients that were named
	no    map[string]string // replies to recipients that are refused
}

func newSink(t *testing.T) *sink {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &sink{Listener: l}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go s.serve(conn)
		}
	}()
	return s
}

func (s *sink) serve(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReader(conn)
	say := func(line string) { io.WriteString(conn, line+"\r\n") }
	say("220 sink")
	to := ""
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return
		}
		switch verb := strings.ToUpper(line[:4]); {
		case verb == "EHLO":
			say("250 sink")
		case verb == "MAIL" && s.busy:
			say("451 try again later")
		case verb == "RCPT":
			to = strings.Trim(strings.TrimSpace(line[len("RCPT TO:"):]), "<>")
			s.mutex.Lock()
			s.calls++
			no := s.no[to]
			s.mutex.Unlock()
			say(cmp.Or(no, "250 ok"))
		case verb == "DATA":
			say("354 go on")
			var message strings.Builder
			for {
				line, err := in.ReadString('\n')
				if err != nil || line == ".\r\n" {
					break
				}
				message.WriteString(line)
			}
			s.mutex.Lock()
			s.mails = append(s.mails, to, message.String())
			s.mutex.Unlock()
			say("250 kept")
		case verb == "QUIT":
			say("221 bye")
			return
		default:
			say("250 ok")
		}
	}
}

// text returns the decoded text of a mail.
func textOf(t *testing.T, mail string) string {
	t.Helper()
	_, body, _ := strings.Cut(mail, "\r\n\r\n")
	text, err := io.ReadAll(quotedprintable.NewReader(strings.NewReader(body)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// Members that watch a project get a mail for each finished batch, also if the mail
// server is away for a time; somebody who is no longer a member gets none. Invitations
// are sent by mail.
func TestMails(t *testing.T) {
	mails := newSink(t)
	now := new(clock)
	s := start(t, func(o *Options) {
		o.Now, o.Home.Now = now.Now, now.Now
		o.SMTP, o.MailFrom, o.URL = "smtp://"+mails.Addr().String(), "Documents <documents@example.com>", "https://documents.example.com/"
	})
	c, project, workflow := s.newTenant("acme", "ann@acme.example")
	code := must[object](c, "POST", "/v1/invitations", object{"email": "ben@acme.example"}).str("invitation")
	if len(mails.mails) != 2 || mails.mails[0] != "ben@acme.example" || !strings.Contains(textOf(t, mails.mails[1]), "https://documents.example.com/join?invitation="+code) {
		t.Fatalf("%q", mails.mails)
	}
	ben := must[object](&client{s: s}, "POST", "/v1/invitations/accept", object{"invitation": code, "name": "Ben"}).str("userId")
	in := "/v1/projects/" + project
	if status, _ := c.request("PUT", in+"/reporting", object{"watchers": []string{"eve@example.com"}}); status != 400 {
		t.Errorf("a stranger gets mails: %d", status)
	}
	must[object](c, "PUT", in+"/reporting", object{"watchers": []string{"ann@acme.example", "Ben@Acme.example"}})
	send := func() {
		t.Helper()
		mails.mails = nil
		must[object](c, "POST", in+"/batches", object{"workflowId": workflow, "name": "März\r\nBcc: eve@example.com", "documents": []object{{"name": "a.txt", "upload": c.upload([]byte("x"))}}})
		s.passes()
	}
	send()
	if len(mails.mails) != 4 || mails.mails[0] != "ann@acme.example" || mails.mails[2] != "ben@acme.example" {
		t.Fatalf("%q", mails.mails)
	}
	head, _, _ := strings.Cut(mails.mails[1], "\r\n\r\n")
	if strings.Contains(head, "\r\nBcc") || !strings.Contains(textOf(t, mails.mails[1]), "1 documents: 0 succeeded, 0 need review, 1 failed") || !strings.Contains(textOf(t, mails.mails[1]), "https://documents.example.com/projects/"+project+"/batches/") {
		t.Errorf("%s", mails.mails[1])
	}
	must[object](c, "DELETE", "/v1/users/"+ben, nil)
	mails.busy = true
	send()
	mails.busy = false
	now.Pass(11 * time.Second)
	s.passes()
	if len(mails.mails) != 2 || mails.mails[0] != "ann@acme.example" {
		t.Errorf("%q", mails.mails)
	}
}

// An address that the mail server refuses does not repeat the mails to others. A final
// refusal is not repeated at all, and the project shows it.
func TestRefusedAddress(t *testing.T) {
	mails := newSink(t)
	now := new(clock)
	s := start(t, func(o *Options) {
		o.Now, o.Home.Now = now.Now, now.Now
		o.SMTP, o.MailFrom = "smtp://"+mails.Addr().String(), "documents@example.com"
	})
	c, ids := furnished(s, "acme", "ann@acme.example")
	in := "/v1" + fill(inProject, ids)
	must[object](c, "PUT", in+"/reporting", object{"watchers": []string{"acmesecond@example.com", "ann@acme.example"}})
	recipients := func(reply string) (all []string) {
		mails.mutex.Lock()
		mails.mails, mails.calls, mails.no = nil, 0, map[string]string{"acmesecond@example.com": reply}
		mails.mutex.Unlock()
		must[object](c, "POST", "/v1"+fill(inBatch, ids)+"/documents/"+ids["failed"]+"/retry", nil)
		for i := range 6 {
			if i == 3 {
				mails.mutex.Lock()
				mails.no = nil
				mails.mutex.Unlock()
			}
			s.passes()
			now.Pass(5 * time.Minute)
		}
		for i := 0; i < len(mails.mails); i += 2 {
			all = append(all, mails.mails[i])
		}
		return all
	}
	if all := recipients("451 try again later"); strings.Join(all, " ") != "ann@acme.example acmesecond@example.com" || mails.calls != 5 {
		t.Errorf("after a refusal for a time mails are sent to %q, with %d recipients", all, mails.calls)
	}
	if p := must[object](c, "GET", in, nil); p["problem"] != nil {
		t.Errorf("%v", p)
	}
	if all := recipients("550 no such mailbox"); strings.Join(all, " ") != "ann@acme.example" || mails.calls != 2 {
		t.Errorf("after a final refusal mails are sent to %q, with %d recipients", all, mails.calls)
	}
	if p := must[object](c, "GET", in, nil); !strings.Contains(p.str("problem"), "acmesecond@example.com") {
		t.Errorf("%v", p)
	}
}

// A batch that gets another final status because documents are deleted is reported too.
func TestDeletionIsReported(t *testing.T) {
	hooked := new(receiver)
	server := httptest.NewServer(hooked)
	defer server.Close()
	now := new(clock)
	s := start(t, func(o *Options) { o.Now, o.Home.Now, o.PrivateHooks = now.Now, now.Now, true })
	c, ids := furnished(s, "acme", "ann@acme.example")
	in := "/v1/projects/" + ids["project"]
	must[object](c, "PUT", in+"/reporting", object{"webhook": server.URL})
	for i, d := range []string{"failed", "spoilt"} {
		if status, body := c.request("DELETE", in+"/batches/"+ids["batch"]+"/documents/"+ids[d], nil); status != 204 {
			t.Fatal(status, body)
		}
		s.later(now)
		// The first deletion leaves the batch FAILED.
		if n := len(hooked.received); n != i {
			t.Errorf("the webhook is called %d times after %d deletions", n, i+1)
		}
	}
	if status := s.batchOf(ids["batch"]).Status; status != "REVIEW_REQUIRED" {
		t.Errorf("the batch is %s", status)
	}
	if len(hooked.received) == 1 && !strings.Contains(hooked.received[0], `"REVIEW_REQUIRED"`) {
		t.Errorf("the webhook received %s", hooked.received[0])
	}
}
