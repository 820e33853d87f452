package browser

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	_ "github.com/aws/aws-sdk-go-v2/config" // of the Go code that is run
)

// nasty has what shells, programming languages and PartiQL treat specially.
const nasty = "it's \"q\" ''' \\\"\"\" \\n \\u0041 $HOME ${HOME} $(id) `id` $1 $& %s %d {x} !x -- /* # */ ?\n\r\n\t\u0000\u007f\u2028\ufeff é 😀 </script>"

// copied is a request that is copied as code.
type copied struct {
	operation, input string
	writes           bool
}

// copiedRequests are requests for the table Hostile. With binary, its keys and values are binary, too.
func copiedRequests(binary bool) (item string, requests []copied) {
	encode := func(v any) string {
		text, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		return string(text)
	}
	type m = map[string]any
	s, n := func(v string) m { return m{"S": v} }, func(v string) m { return m{"N": v} }
	sort := n("-12345678901234567890123456789012345678")
	value := m{"M": m{
		"S": s(nasty), nasty: s(""), "B": n("1E-130"), "__proto__": m{"BOOL": true}, "several": m{"L": []m{s(nasty), n("0.1000000000000000055511151231257827021"), {"NULL": true}, {"BOOL": false}, {"L": []m{}}, {"M": m{}}}},
		"ss": m{"SS": []string{nasty, "a"}}, "ns": m{"NS": []string{"1", "12345678901234567890123456789012345678"}},
	}}
	if binary {
		sort = m{"B": "AP+AJwoiJFw="}
		value["M"].(m)["B"] = m{"B": "AP+AJwoiJFw="}
		value["M"].(m)["bs"] = m{"BS": []string{"AA==", "/w=="}}
	}
	project := map[bool]string{true: "#i, sort, #v.#n, #v.several[1], #p, #o", false: "#i, sort, #v, #p, #o"}[binary] // PartiQL has no such parts
	const table = "Hostile"
	key := m{"id": s(nasty), "sort": sort}
	old := m{"id": s(nasty), "sort": sort, "v": value, "old " + nasty: s("gone"), "__proto__": s("p"), "n38": n("12345678901234567890123456789012345678"), "when": s("2026")}
	other := m{"id": s(nasty + "2"), "sort": sort, "v": value, "__proto__": s(nasty)}
	names := m{"#p": "__proto__", "#v": "v", "#o": "old " + nasty, "#i": "id", "#n": nasty}
	some := func(of ...string) m {
		found := m{}
		for _, name := range of {
			found[name] = names[name]
		}
		return found
	}
	return encode(old), []copied{
		{"GetItem", encode(m{"TableName": table, "Key": key, "ConsistentRead": true}), false},
		{"Query", encode(m{"TableName": table, "KeyConditionExpression": "#i = :i AND sort = :s", "FilterExpression": "#v.#n = :e AND #v.several[0] = :i AND #p IN (:p, :e) AND attribute_exists(#o) AND n38 BETWEEN :n AND :n", "ScanIndexForward": false, "Limit": 7,
			"ExpressionAttributeNames": some("#i", "#v", "#n", "#o", "#p"), "ExpressionAttributeValues": m{":i": s(nasty), ":s": sort, ":e": s(""), ":p": s("p"), ":n": n("12345678901234567890123456789012345678")}}), false},
		{"Scan", encode(m{"TableName": table, "FilterExpression": "#v = :v OR contains(#p, :i)", "ProjectionExpression": project, "ConsistentRead": true,
			"ExpressionAttributeNames": some(map[bool][]string{true: {"#i", "#v", "#n", "#p", "#o"}, false: {"#i", "#v", "#p", "#o"}}[binary]...), "ExpressionAttributeValues": m{":v": value, ":i": s(nasty)}}), false},
		{"PutItem", encode(m{"TableName": table, "Item": other, "ConditionExpression": "attribute_not_exists(#i)", "ExpressionAttributeNames": some("#i")}), true},
		{"UpdateItem", encode(m{"TableName": table, "Key": key, "UpdateExpression": "SET #n = :v, #p = :i REMOVE #o", "ConditionExpression": "attribute_exists(#i) AND attribute_not_exists(#n) AND #v = :v AND #p = :p", "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
			"ExpressionAttributeNames": some("#n", "#p", "#o", "#i", "#v"), "ExpressionAttributeValues": m{":v": value, ":i": s(nasty), ":p": s("p")}}), true},
		{"UpdateItem", encode(m{"TableName": table, "Key": key, "AttributeUpdates": m{nasty: m{"Action": "PUT", "Value": value}, "v": m{"Action": "DELETE"}}, "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
			"Expected": m{"id": m{"ComparisonOperator": "EQ", "AttributeValueList": []m{s(nasty)}}, "v": m{"ComparisonOperator": "EQ", "AttributeValueList": []m{value}}, nasty: m{"ComparisonOperator": "NULL"}}}), true},
		{"DeleteItem", encode(m{"TableName": table, "Key": key, "ConditionExpression": "attribute_exists(#i) AND #v = :v", "ExpressionAttributeNames": some("#i", "#v"), "ExpressionAttributeValues": m{":v": value}}), true},
	}
}

// legacy reports whether a request is one of the legacy parameters, which the editor uses for wide items.
func (c copied) legacy() bool { return strings.Contains(c.input, `"Expected"`) }

// folder returns the name of the folder of the code.
func (c copied) folder() string {
	if c.legacy() {
		return c.operation + "Legacy"
	}
	return c.operation
}

// recorder passes requests on to a server, and keeps those of the API.
type recorder struct {
	mu    sync.Mutex
	calls []exchange
}

type exchange struct{ target, request, reply string }

func (r *recorder) before(t *testing.T, to string) (address string) {
	t.Helper()
	at, err := url.Parse(to)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(at)
	proxy.ModifyResponse = func(reply *http.Response) error {
		if reply.Request.URL.Path != "/" {
			return nil
		}
		body, err := io.ReadAll(reply.Body)
		reply.Body = io.NopCloser(bytes.NewReader(body))
		r.mu.Lock()
		defer r.mu.Unlock()
		r.calls[len(r.calls)-1].reply = string(body)
		return err
	}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, in *http.Request) {
		if in.URL.Path == "/" {
			body, err := io.ReadAll(in.Body)
			if err != nil {
				return
			}
			in.Body = io.NopCloser(bytes.NewReader(body))
			r.mu.Lock()
			r.calls = append(r.calls, exchange{target: in.Header.Get("X-Amz-Target"), request: string(body)})
			r.mu.Unlock()
		}
		proxy.ServeHTTP(w, in)
	}))
	t.Cleanup(web.Close)
	return web.URL
}

// take returns what was kept, and forgets it.
func (r *recorder) take() []exchange {
	r.mu.Lock()
	defer r.mu.Unlock()
	calls := r.calls
	r.calls = nil
	return calls
}

func sameJSON(a, b string) bool {
	var x, y any
	return json.Unmarshal([]byte(a), &x) == nil && json.Unmarshal([]byte(b), &y) == nil && reflect.DeepEqual(x, y)
}

// hostile is a server whose console makes code.
type hostile struct {
	*server
	*recorder
	page *tab
	old  string // the item in the table
}

func newHostile(t *testing.T, binary bool) (*hostile, []copied) {
	t.Helper()
	old, requests := copiedRequests(binary)
	h := &hostile{server: serve(t, nil), recorder: &recorder{}, old: old}
	h.create(t, "Hostile", "id S", map[bool]string{false: "sort N", true: "sort B"}[binary])
	direct := h.url
	h.url = h.before(t, direct)
	h.page = h.open(t, "#/table/Hostile/items")
	h.page.run(`await t.rows(0);`)
	h.url = direct
	return h, requests
}

// codeScript makes the code of a request.
const codeScript = `const find = (name) => performance.getEntriesByType("resource").map((e) => e.name).find((n) => n.endsWith("/" + name));
  const [{ forms }, { describe }] = await Promise.all([import(find("copyas.js")), import(find("api.js"))]);
  return forms.find((f) => f.name === $1).make({ operation: $2, input: JSON.parse($3) }, await describe("Hostile"));`

// code returns the code of a request as the page makes it.
func (h *hostile) code(form string, c copied) string {
	h.page.Helper()
	return h.page.run(codeScript, form, c.operation, c.input)
}

// reset makes the table have the one item, and returns a function that tells what it has.
func (h *hostile) reset(t *testing.T) (state func() string) {
	t.Helper()
	var found struct{ Items []map[string]any }
	if err := json.Unmarshal([]byte(h.post(t, "Scan", `{"TableName":"Hostile"}`)), &found); err != nil {
		t.Fatal(err)
	}
	for _, item := range found.Items {
		key, err := json.Marshal(map[string]any{"id": item["id"], "sort": item["sort"]})
		if err != nil {
			t.Fatal(err)
		}
		h.post(t, "DeleteItem", `{"TableName":"Hostile","Key":`+string(key)+`}`)
	}
	h.post(t, "PutItem", `{"TableName":"Hostile","Item":`+h.old+`}`)
	return func() string { return h.post(t, "Scan", `{"TableName":"Hostile"}`) }
}

// want sends a request itself, and returns its reply and what the table has then.
func (h *hostile) want(t *testing.T, c copied) (reply, state string) {
	t.Helper()
	now := h.reset(t)
	before := now()
	reply, state = h.post(t, c.operation, c.input), now()
	if changed := before != state; changed != c.writes {
		t.Fatalf("whether %s changes the table is %v: %s", c.operation, changed, state)
	}
	if !c.writes && !strings.Contains(reply, `"p"`) {
		t.Fatalf("%s finds nothing: %s", c.operation, reply)
	}
	h.reset(t)
	return reply, state
}

// Each form in which a request is copied is run. It sends the request itself, and does the same.
func TestCopyAs(t *testing.T) {
	t.Parallel()
	modules, err := filepath.Abs("node_modules")
	if err != nil {
		t.Fatal(err)
	}
	command := func(t *testing.T, dir, name string, args ...string) string {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=b", "AWS_EC2_METADATA_DISABLED=true", "AWS_PAGER=", "AWS_CONFIG_FILE="+os.DevNull, "AWS_SHARED_CREDENTIALS_FILE="+os.DevNull)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %q: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	for _, form := range []struct {
		name, program, file string
		binary              bool
		ready               func(t *testing.T, dir string) // skips the test if something is missing
		run                 func(t *testing.T, dir, path string) string
	}{
		{name: "AWS CLI", program: "aws", file: "run.sh", run: func(t *testing.T, dir, path string) string { return command(t, dir, "sh", path) }},
		{name: "AWS CLI", program: "aws", file: "run.sh", binary: true, ready: func(t *testing.T, dir string) {
			if version := command(t, dir, "aws", "--version"); strings.HasPrefix(version, "aws-cli/1.") {
				t.Skip("version 1 of the AWS CLI does not read base64; the code has an option that it rejects")
			}
		}, run: func(t *testing.T, dir, path string) string { return command(t, dir, "sh", path) }},
		{name: "Python", program: "python3", file: "main.py", binary: true, ready: func(t *testing.T, _ string) {
			if exec.CommandContext(t.Context(), "python3", "-c", "import boto3").Run() != nil {
				t.Skip("boto3 is not installed")
			}
		}, run: func(t *testing.T, dir, path string) string { return command(t, dir, "python3", path) }},
		{name: "JavaScript", program: "node", file: "main.mjs", binary: true, ready: func(t *testing.T, dir string) {
			if _, err := os.Stat(filepath.Join(modules, "@aws-sdk")); err != nil {
				t.Skip("the SDK for JavaScript is not installed: npm ci installs it")
			}
			if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
				t.Fatal(err)
			}
		}, run: func(t *testing.T, dir, path string) string { return command(t, dir, "node", path) }},
		{name: "Go", program: "go", file: "main.go", binary: true, run: func(t *testing.T, _, path string) string {
			program := filepath.Join(filepath.Dir(path), "program")
			if _, err := os.Stat(program); err != nil { // it is built with the others
				t.Fatal(err)
			}
			return command(t, "", program)
		}},
	} {
		t.Run(fmt.Sprintf("%s, binary values %v", form.name, form.binary), func(t *testing.T) {
			t.Parallel()
			if _, err := exec.LookPath(form.program); err != nil {
				t.Skipf("%s is not installed", form.program)
			}
			dir := t.TempDir()
			if form.ready != nil {
				form.ready(t, dir)
			}
			h, requests := newHostile(t, form.binary)
			for _, c := range requests {
				at := filepath.Join(dir, c.folder())
				if err := os.Mkdir(at, 0o700); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(at, form.file), []byte(h.code(form.name, c)), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if form.name == "Go" {
				buildAll(t, dir, requests)
			}
			for _, c := range requests {
				wantReply, wantState := h.want(t, c)
				h.take()
				path := filepath.Join(dir, c.folder(), form.file)
				out := form.run(t, dir, path)
				calls := h.take()
				state := h.post(t, "Scan", `{"TableName":"Hostile"}`)
				text, _ := os.ReadFile(path)
				switch {
				case len(calls) != 1 || calls[0].target != "DynamoDB_20120810."+c.operation:
					t.Errorf("%s sends %q\n%s", c.operation, calls, text)
				case !sameJSON(calls[0].request, c.input):
					t.Errorf("%s sends\n%s\nwant\n%s\nthe code is\n%s", c.operation, calls[0].request, c.input, text)
				case !sameJSON(calls[0].reply, wantReply):
					t.Errorf("%s is answered with\n%s\nwant\n%s", c.operation, calls[0].reply, wantReply)
				case !sameJSON(state, wantState):
					t.Errorf("after %s the table has\n%s\nwant\n%s", c.operation, state, wantState)
				case !c.writes && !strings.Contains(out, "😀") && !strings.Contains(out, `\ud83d\ude00`):
					t.Errorf("%s does not print its reply: %s", c.operation, out)
				}
			}
		})
	}
	t.Run("PartiQL", func(t *testing.T) {
		t.Parallel()
		h, requests := newHostile(t, false)
		for _, c := range requests {
			if c.legacy() {
				continue // is tested below
			}
			wantReply, wantState := h.want(t, c)
			in, err := json.Marshal(map[string]any{"Statement": h.code("PartiQL", c), "ConsistentRead": !c.writes})
			if err != nil {
				t.Fatal(err)
			}
			got := h.post(t, "ExecuteStatement", string(in))
			if !c.writes && !reflect.DeepEqual(itemsOf(t, got), itemsOf(t, wantReply)) {
				t.Errorf("%s gives\n%s\nwant\n%s", in, got, wantReply)
			}
			if state := h.post(t, "Scan", `{"TableName":"Hostile"}`); !sameJSON(state, wantState) {
				t.Errorf("after %s the table has\n%s\nwant\n%s", in, state, wantState)
			}
		}
		// What PartiQL cannot say is not copied as something else.
		for _, c := range []copied{
			{operation: "PutItem", input: `{"TableName":"Hostile","Item":{"id":{"S":"1"},"sort":{"N":"1"}}}`},
			{operation: "PutItem", input: `{"TableName":"Hostile","Item":{"id":{"S":"1"},"sort":{"N":"1"}},"ConditionExpression":"attribute_not_exists(#i) OR #a = :a","ExpressionAttributeNames":{"#i":"id","#a":"a"},"ExpressionAttributeValues":{":a":{"S":"b"}}}`},
			{operation: "UpdateItem", input: `{"TableName":"Hostile","Key":{"id":{"S":"1"},"sort":{"N":"1"}},"UpdateExpression":"ADD #a :a","ExpressionAttributeNames":{"#a":"a"},"ExpressionAttributeValues":{":a":{"N":"1"}}}`},
			{operation: "GetItem", input: `{"TableName":"Hostile","Key":{"id":{"S":"1"},"sort":{"B":"AA=="}}}`},
			{operation: "DeleteItem", input: `{"TableName":"Hostile","Key":{"id":{"S":"1"},"sort":{"N":"1"}},"Expected":{"a":{"ComparisonOperator":"NULL"}}}`},
			{operation: "Scan", input: `{"TableName":"Hostile","ProjectionExpression":"#a.#b","ExpressionAttributeNames":{"#a":"a","#b":"b"}}`},
			{operation: "DescribeTable", input: `{"TableName":"Hostile"}`},
		} {
			if got := h.page.run(`try { await (async () => {`+codeScript+`})(); } catch (err) { return "PartiQL has no"; } return "a statement";`, "PartiQL", c.operation, c.input); got != "PartiQL has no" {
				t.Errorf("%s %s has a statement", c.operation, c.input)
			}
		}
	})
	// The page shows the code of the requests that it sends.
	t.Run("page", func(t *testing.T) {
		t.Parallel()
		s := serve(t, nil)
		s.create(t, "Notes", "id S")
		s.put(t, "Notes", item{"id": text("1"), "n": number("7")})
		b := s.open(t, "#/table/Notes/items")
		for name, want := range map[string]string{"JSON": `"TableName": "Notes"`, "AWS CLI": "aws dynamodb scan", "Go": "client.Scan(", "JavaScript": "new ScanCommand(", "Python": "client.scan(", "PartiQL": `SELECT * FROM "Notes" WHERE "n" > 5`} {
			if got := b.run(`await t.rows(1); if (!t.all(".copyas").length) { await t.click("button", "Add filter"); await t.fill(".filter input", "n"); await t.fill(".filter select", ">"); await t.fill(".filter select", "N", 1); await t.fill(".filter input", "5", 1); await t.click("[data-key=e]"); }
				await t.click(".copyas button", $1); return (await t.el("pre.request")).textContent;`, name); !strings.Contains(got, want) {
				t.Errorf("%s shows %s", name, got)
			}
		}
		if got := b.run(`await t.write(); await t.click(".grid button.link"); await t.fill('dialog [aria-label="Value of n"]', "8"); await t.click("dialog button", "Request"); await t.click("dialog .copyas button", "PartiQL"); return (await t.el("dialog pre.request")).textContent;`); got != `UPDATE "Notes" SET "n" = 8 WHERE "id" = '1' AND "n" = 7` {
			t.Errorf("the editor shows %s", got)
		}
	})
}

// itemsOf returns the items of a reply of GetItem, or of another operation that reads.
func itemsOf(t *testing.T, reply string) []any {
	t.Helper()
	var found struct {
		Item  any
		Items []any
	}
	if err := json.Unmarshal([]byte(reply), &found); err != nil {
		t.Fatal(err)
	}
	if found.Item != nil {
		return []any{found.Item}
	}
	return found.Items
}

// buildAll builds the Go code of requests, at once.
func buildAll(t *testing.T, dir string, requests []copied) {
	t.Helper()
	// Programs outside the module are given as files, each by its own command.
	var wait sync.WaitGroup
	for _, c := range requests {
		wait.Go(func() {
			at := filepath.Join(dir, c.folder())
			out, err := exec.CommandContext(t.Context(), "go", "build", "-ldflags=-s -w", "-o", filepath.Join(at, "program"), filepath.Join(at, "main.go")).CombinedOutput()
			if err != nil {
				text, _ := os.ReadFile(filepath.Join(at, "main.go"))
				t.Errorf("%s: %v\n%s\n%s", c.operation, err, out, text)
			}
		})
	}
	wait.Wait()
}
