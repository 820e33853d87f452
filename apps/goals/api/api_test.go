package api

import (
	"bufio"
	"context"
	"encoding/json"
	"html"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/chromedp/chromedp"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/stator-db/stator/apps/goals"
	"github.com/stator-db/stator/apps/internal/browsertest"
	"github.com/stator-db/stator/apps/internal/hometest"
)

const ana = "0356f2f8-8c84-4614-a99c-b302a84b53f7"

// front is a server with one customer.
type front struct {
	*testing.T
	*Server
	url string
}

func newFront(t *testing.T, name string) *front {
	t.Helper()
	h := hometest.Start(t, goals.Model)
	c := goals.Customer{
		PersonID: ana, Name: name, Preferences: goals.Preferences{Language: "pt-BR"}, LastUpdated: goals.Instant(time.Now().Add(-time.Hour)),
		Goals: []goals.Goal{
			{GoalID: "SAVINGS_ACCOUNT", Title: "Savings account", TargetAmount: 50000, SavedAmount: 32000, Status: goals.InProgress, SpecialRate: 800},
			{GoalID: "GOVERNMENT_BONDS", Title: "Government bonds", TargetAmount: 150000, Status: goals.NotStarted, SpecialRate: 1200},
		},
	}
	if _, err := hometest.Examine(h.DB).PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(goals.BatchTable), Item: c.Item()}); err != nil {
		t.Fatal(err)
	}
	s := &Server{Tables: &goals.Tables{DB: h.DB, Now: time.Now}, Live: &Live{Poll: time.Hour}, Log: slog.New(slog.DiscardHandler)}
	served := httptest.NewServer(s.Handler(prometheus.NewRegistry()))
	t.Cleanup(served.Close)
	return &front{t, s, served.URL}
}

func (f *front) ask(method, path, body string, headers ...string) (int, string, http.Header) {
	f.Helper()
	r, err := http.NewRequestWithContext(f.Context(), method, f.url+path, strings.NewReader(body))
	if err != nil {
		f.Fatal(err)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	answer, err := http.DefaultTransport.RoundTrip(r) // does not follow redirects
	if err != nil {
		f.Fatal(err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		f.Fatal(err)
	}
	return answer.StatusCode, string(b), answer.Header
}

func (f *front) deposit(goal string, balance goals.Money) {
	f.Helper()
	e := goals.Event{Type: goals.Deposit, EventID: uuid.NewString(), PersonID: ana, OccurredAt: time.Now(), Balance: &balance}
	p, _ := e.Pending(goal, time.Now())
	if wrote, err := f.Tables.Save(f.Context(), p); err != nil || !wrote {
		f.Fatal(wrote, err)
	}
	f.Live.Changed(ana)
}

func TestGoals(t *testing.T) {
	f := newFront(t, "Ana Silva")
	status, body, header := f.ask("GET", "/api/people/"+ana+"/goals", "")
	if status != 200 || header.Get("X-Read-Units") != "1" || !strings.Contains(body, `"savedAmount":320.00,"status":"IN_PROGRESS","specialRate":0.08`) {
		t.Fatalf("%d %s %v", status, body, header)
	}
	tag := header.Get("ETag")
	if status, body, _ := f.ask("GET", "/api/people/"+strings.ToUpper(ana)+"/goals", "", "If-None-Match", `"old", `+tag); status != 304 || body != "" {
		t.Errorf("unchanged, but the reply is %d %s", status, body)
	}
	f.deposit("SAVINGS_ACCOUNT", 37000)
	status, body, header = f.ask("GET", "/api/people/"+ana+"/goals", "", "If-None-Match", tag)
	if status != 200 || header.Get("ETag") == tag || header.Get("X-Read-Units") != "1" || !strings.Contains(body, `"savedAmount":370.00,"status":"PENDING_CONFIRMATION"`) || !strings.Contains(body, `"confirmedAmount":320.00`) {
		t.Errorf("after a deposit: %d %s %v", status, body, header)
	}
}

func TestChoice(t *testing.T) {
	f := newFront(t, "Ana Silva")
	path := "/api/people/" + ana + "/choice"
	if status, body, _ := f.ask("PUT", path, `{"goalId":"GOVERNMENT_BONDS"}`); status != 204 {
		t.Fatalf("%d %s", status, body)
	}
	_, body, _ := f.ask("GET", "/api/people/"+ana+"/goals", "")
	var view struct{ Goals []struct{ Chosen bool } }
	if err := json.Unmarshal([]byte(body), &view); err != nil || view.Goals[0].Chosen || !view.Goals[1].Chosen {
		t.Errorf("%s %v", body, err)
	}
	for _, c := range []struct {
		name, path, body string
		status           int
	}{
		{"an unknown goal", path, `{"goalId":"YACHT"}`, 422},
		{"no goal", path, `{}`, 422},
		{"something else", path, `{"balance":1000000}`, 400},
		{"no JSON", path, `goal`, 400},
		{"too much", path, `{"goalId":"` + strings.Repeat("x", 10000) + `"}`, 413},
		{"nobody", "/api/people/" + uuid.NewString() + "/choice", `{"goalId":"GOVERNMENT_BONDS"}`, 404},
		{"an invalid person", "/api/people/CHOICE/choice", `{"goalId":"GOVERNMENT_BONDS"}`, 400},
	} {
		if status, body, _ := f.ask("PUT", c.path, c.body); status != c.status {
			t.Errorf("%s: %d %s", c.name, status, body)
		}
	}
}

func TestHostileRequests(t *testing.T) {
	f := newFront(t, `<script>alert("Ana")</script>`)
	for _, c := range []struct {
		path   string
		status int
	}{
		{"/api/people/" + uuid.NewString() + "/goals", 404},
		{"/api/people/me/goals", 400},
		{"/api/people/%2e%2e%2f/goals", 400},
		{"/api/people/{" + ana + "}/goals", 400},
		{"/api/people/" + strings.Repeat("9", 9000) + "/goals", 400},
		{"/people/me", 400},
		{"/people?person=%3Cscript%3E", 400},
		{"/people?person=" + ana, 303},
		{"/demo/" + ana + "/night", 404},
		{"/healthz", 200},
		{"/metrics", 200},
		{"/", 200},
	} {
		if status, body, _ := f.ask("GET", c.path, ""); status != c.status {
			t.Errorf("GET %.80s: %d %.200s", c.path, status, body)
		}
	}
	if status, body, _ := f.ask("POST", "/demo/"+ana+"/night", ""); status != 404 {
		t.Errorf("the demonstration's bank is reachable: %d %s", status, body)
	}
	if _, body, _ := f.ask("GET", "/people/"+ana, ""); strings.Contains(body, "<script>alert") || !strings.Contains(body, "&lt;script&gt;alert") {
		t.Errorf("a name is not escaped: %s", body)
	}
}

// listen connects to the live events of a page and returns them.
func (f *front) listen(path string) (events func() string, stop func()) {
	f.Helper()
	ctx, cancel := context.WithCancel(f.Context())
	r, err := http.NewRequestWithContext(ctx, "GET", f.url+path, nil)
	if err != nil {
		f.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		f.Fatal(err)
	}
	lines := bufio.NewScanner(answer.Body)
	for lines.Scan() && lines.Text() != ": listening" {
	}
	return func() string {
			for lines.Scan() {
				if data, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
					return data
				}
			}
			f.Fatalf("the stream ended: %v", lines.Err())
			return ""
		}, func() {
			cancel()
			answer.Body.Close()
		}
}

var liveURL = regexp.MustCompile(`data-events="([^"]+)"`)

// openPage reads the page of Ana and returns the address of its live events.
func (f *front) openPage() string {
	f.Helper()
	status, body, _ := f.ask("GET", "/people/"+ana, "")
	found := liveURL.FindStringSubmatch(body)
	if status != 200 || found == nil {
		f.Fatalf("%d %s", status, body)
	}
	return html.UnescapeString(found[1])
}

// used returns the read units of all requests so far.
func (f *front) used() float64 {
	f.Helper()
	var now dto.Metric
	if err := f.units.Write(&now); err != nil {
		f.Fatal(err)
	}
	return now.GetCounter().GetValue()
}

// A page costs one unit when it is opened, and one for each change, however long it is
// open: it is notified without a read.
func TestOpenPageCosts(t *testing.T) {
	f := newFront(t, "Ana Silva")
	next, stop := f.listen(f.openPage())
	defer stop()
	if n := f.used(); n != 1 {
		t.Errorf("an open page has cost %v units, want 1", n)
	}
	for i := range 3 {
		f.deposit("SAVINGS_ACCOUNT", goals.Money(37000+i))
		next()
		f.openPage() // what the script does
	}
	if n := f.used(); n != 4 {
		t.Errorf("an open page with three changes has cost %v units, want 4", n)
	}
}

// A change between the read of the page and its connection is not lost.
func TestChangeBeforeThePageListens(t *testing.T) {
	f := newFront(t, "Ana Silva")
	path := f.openPage()
	f.deposit("SAVINGS_ACCOUNT", 37000)
	next, stop := f.listen(path)
	defer stop()
	_, _, header := f.ask("GET", "/api/people/"+ana+"/goals", "")
	if got := next(); got != header.Get("ETag") {
		t.Errorf("the event is %s, want %s", got, header.Get("ETag"))
	}
}

// Changes of other processes are found by polling.
func TestPolledChanges(t *testing.T) {
	f := newFront(t, "Ana Silva")
	f.Live.Poll = 5 * time.Millisecond
	next, stop := f.listen(f.openPage())
	defer stop()
	balance := goals.Money(37000)
	e := goals.Event{Type: goals.Deposit, EventID: uuid.NewString(), PersonID: ana, OccurredAt: time.Now(), Balance: &balance}
	p, _ := e.Pending("SAVINGS_ACCOUNT", time.Now())
	if _, err := f.Tables.Save(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	next()
}

// The page is in the customer's language, with its numbers and the bank's currency.
func TestLanguages(t *testing.T) {
	for _, c := range []struct {
		language, currency string
		want               []string
	}{
		{"en", "USD", []string{`lang="en"`, "Hello", "$1,320.00", "$1,500.00", "8% a year", "Reached", "invested at", "April 2026", "Confirmed as of May 15, 2026"}},
		{"pt-BR", "BRL", []string{`lang="pt-BR"`, "Olá", "R$ 1.320,00", "R$ 1.500,00", "8% ao ano", "Alcançada", "investidos a", "abril de 2026", "Confirmado até 15/05/2026"}},
		{"es-MX", "EUR", []string{`lang="es"`, "Hola", "1.320,00 €", "1.500,00 €", "8 % anual", "Alcanzada", "invertidos al", "abril de 2026", "Confirmado hasta el 15/5/2026"}},
		{"de", "CHF", []string{`lang="en"`, "CHF 1,320.00"}},
	} {
		t.Run(c.language, func(t *testing.T) {
			f := newFront(t, "Ana Silva")
			f.Currency = c.currency
			customer := goals.Customer{
				PersonID: ana, Name: "Ana", Preferences: goals.Preferences{Language: c.language}, LastUpdated: "2026-05-15T03:00:00.000000Z",
				Goals: []goals.Goal{
					{GoalID: "A", Title: "A", TargetAmount: 132000, SavedAmount: 132000, Status: goals.Completed, SpecialRate: 800},
					{GoalID: "B", Title: "B", TargetAmount: 150000, Status: goals.NotStarted, SpecialRate: 1250},
				},
				Accomplished: []goals.Accomplished{{Month: "2026-04", GoalID: "A", SavedAmount: 50000, SpecialRate: 800}}, AccomplishedCount: 1,
			}
			if _, err := hometest.Examine(f.Tables.DB).PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String(goals.BatchTable), Item: customer.Item()}); err != nil {
				t.Fatal(err)
			}
			_, body, _ := f.ask("GET", "/people/"+ana, "")
			for _, want := range c.want {
				if !strings.Contains(body, want) {
					t.Errorf("the page does not have %q: %s", want, body)
				}
			}
			if _, body, _ := f.ask("GET", "/", "", "Accept-Language", c.language+",en;q=0.5"); !strings.Contains(body, c.want[0]) {
				t.Errorf("the first page is not in the language: %s", body)
			}
			if _, body, _ := f.ask("GET", "/api/people/"+ana+"/goals", ""); !strings.Contains(body, `"currency":"`+c.currency+`"`) || !strings.Contains(body, `"invested":1320.00`) || !strings.Contains(body, `"accomplished":[{"month":"2026-04","goalId":"A","savedAmount":500.00,"specialRate":0.08}]`) {
				t.Errorf("the reply is %s", body)
			}
		})
	}
}

// Each language has all words.
func TestWords(t *testing.T) {
	for _, l := range languages {
		for key := range languages[0].words {
			if l.words[key] == "" {
				t.Errorf("%s has no word for %q", l.Tag, key)
			}
		}
		if len(l.words) != len(languages[0].words) || len(l.months) != 12 {
			t.Errorf("%s has %d words, want %d", l.Tag, len(l.words), len(languages[0].words))
		}
	}
}

// No page is wider than a phone, and all controls have a label.
func TestPagesFitAPhone(t *testing.T) {
	f := newFront(t, "Ana Maria Aparecida Conceição dos Santos Silva de Albuquerque Cavalcanti")
	f.deposit("SAVINGS_ACCOUNT", 41234)
	browsertest.FitsAPhone(browsertest.Open(t), t, f.url, []string{"/", "/people/" + ana, "/people/" + uuid.NewString()}, nil)
}

// The page shows a deposit without being reloaded, and a choice by a click.
func TestPageIsLive(t *testing.T) {
	f := newFront(t, "Ana Silva")
	ctx := browsertest.Open(t)
	if err := chromedp.Do(ctx, chromedp.Navigate(f.url+"/people/"+url.PathEscape(ana))); err != nil {
		t.Fatal(err)
	}
	total := func() string {
		t.Helper()
		text, err := chromedp.Run(ctx, chromedp.Text("#total b"))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	before := total()
	f.deposit("SAVINGS_ACCOUNT", 41234)
	if err := chromedp.Do(ctx, chromedp.WaitVisible(".tag.pending")); err != nil {
		t.Fatal(err)
	}
	if after := total(); before != "$\u00a0320,00" || after != "$\u00a0412,34" {
		t.Errorf("the page shows %q, then %q", before, after)
	}
	err := chromedp.Do(ctx, chromedp.Click(".goal:nth-of-type(2) button"), chromedp.WaitVisible(".goal.chosen:nth-of-type(2)"))
	if err != nil {
		t.Errorf("choosing a goal on the page: %v", err)
	}
}

// A change of another process after one of this process is not taken as the state that
// the page has read.
func TestPolledChangeAfterOwnChange(t *testing.T) {
	f := newFront(t, "Ana Silva")
	f.Live.Poll = 300 * time.Millisecond
	next, stop := f.listen(f.openPage())
	defer stop()
	f.deposit("SAVINGS_ACCOUNT", 40000)
	next()
	f.openPage() // what the script does
	balance := goals.Money(45000)
	e := goals.Event{Type: goals.Deposit, EventID: uuid.NewString(), PersonID: ana, OccurredAt: time.Now(), Balance: &balance}
	p, _ := e.Pending("SAVINGS_ACCOUNT", time.Now())
	if wrote, err := f.Tables.Save(t.Context(), p); err != nil || !wrote {
		t.Fatal(wrote, err)
	}
	_, _, header := f.ask("GET", "/api/people/"+ana+"/goals", "")
	defer time.AfterFunc(20*time.Second, stop).Stop()
	for next() != header.Get("ETag") { // fails when the stream ends
	}
}
