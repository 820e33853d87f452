package cli

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/model"
)

// answers joins the answers of an interview; an empty one is the default.
func answers(all ...string) string { return strings.Join(all, "\n") + "\n" }

var (
	customerAnswers = answers("customer", "customerId:uuid", "name email active:BOOL", "100_000", "100/day")
	orderAnswers    = answers("order", "customerId orderId:ulid", "status=OPEN|PAID|SHIPPED placedAt:iso8601 total:N paidAt:epoch-seconds", "1_000_000", "")
)

func shopAnswers(patterns ...string) string {
	return answers("shop") + customerAnswers + orderAnswers + answers("") + strings.Join(patterns, "") + answers("")
}

// runInit answers the questions, and returns the model.
func runInit(t *testing.T, text string) (m *model.Model, questions, written string, err error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "new.model.yaml")
	var q strings.Builder
	err = initModel(t.Context(), path, strings.NewReader(text), io.Discard, &q)
	if file, readErr := os.ReadFile(path); readErr == nil {
		written = string(file)
		parsed, parseErr := model.Parse(path, file)
		if parseErr != nil {
			t.Fatalf("%v\n%s", parseErr, file)
		}
		m = parsed
	}
	return m, q.String(), written, err
}

// Each kind of access pattern becomes a model without faults, in which a key or
// index serves it.
func TestModelInit(t *testing.T) {
	for _, c := range []struct{ name, pattern, by, request string }{
		{"create", answers("p", "create", "order", "10/s", ""), "shop", "PutItem PK = CUSTOMER#{customerId}, SK = ORDER#{orderId} if attribute_not_exists(PK)"},
		{"replace", answers("p", "replace", "customer", "10/s", "20/s"), "shop", "PutItem PK = CUSTOMER#{customerId}, SK = CUSTOMER"},
		{"get", answers("p", "", "order", "", ""), "shop", "GetItem PK = CUSTOMER#{customerId}, SK = ORDER#{orderId}"},
		{"delete", answers("p", "delete", "order", "", ""), "shop", "DeleteItem PK = CUSTOMER#{customerId}, SK = ORDER#{orderId}"},
		{"update", answers("p", "update", "order", "total placedAt", "", ""), "shop", "UpdateItem PK = CUSTOMER#{customerId}, SK = ORDER#{orderId} if attribute_exists(PK)"},
		{"items of a partition", answers("p", "list", "order", "", "", "", "", ""), "shop", "Query PK = CUSTOMER#{customerId}, SK begins with ORDER#"},
		{"items of a partition by time", answers("p", "list", "order", "customerId", "placedAt", "", "", ""), "shop.GSI1", "Query GSI1PK = ORDER#{customerId}"},
		{"another attribute", answers("p", "list", "customer", "email", "", "1", "", ""), "shop.GSI1", "Query GSI1PK = CUSTOMER#{email}"},
		{"sorted by a number", answers("p", "list", "order", "customerId", "total", "", "", ""), "shop.GSI1", "Query GSI1PK = ORDER#{customerId}"},
		{"sorted by a time that is a number", answers("p", "list", "order", "customerId", "paidAt", "", "", ""), "shop.GSI1", "Query GSI1PK = ORDER#{customerId}"},
		{"two attributes", answers("p", "list", "order", "status customerId", "", "", "", ""), "shop.GSI1", "Query GSI1PK = ORDER#{status}#{customerId}"},
		{"everything", answers("p", "list", "customer", "none", "email", "", "1/min", ""), "shop.GSI1", "Query GSI1PK = CUSTOMER"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m, questions, written, err := runInit(t, shopAnswers(c.pattern))
			if err != nil {
				t.Fatalf("%v\n%s\n%s", err, questions, written)
			}
			if len(m.Patterns) != 1 {
				t.Fatalf("the model is\n%s", written)
			}
			if plan := m.Plan(m.Patterns[0]); !plan.Served() || plan.By() != c.by || plan.Summary() != c.request {
				t.Errorf("%s serves it with %s, want %s with %s\n%s", plan.By(), plan.Summary(), c.by, c.request, written)
			}
		})
	}
}

// Patterns share indexes where they can, across entities too.
func TestModelInitSharesIndexes(t *testing.T) {
	m, _, written, err := runInit(t, shopAnswers(
		answers("a", "list", "order", "status", "placedAt", "", "", ""),
		answers("b", "list", "order", "status", "", "", "", ""),
		answers("c", "list", "customer", "email", "", "1", "", ""),
		answers("d", "list", "order", "customerId", "total", "", "", ""),
		answers("e", "list", "customer", "name", "", "1", "", ""),
	))
	if err != nil {
		t.Fatalf("%v\n%s", err, written)
	}
	var by []string
	for _, p := range m.Patterns {
		by = append(by, m.Plan(p).By())
	}
	if got := strings.Join(by, " "); got != "shop.GSI1 shop.GSI1 shop.GSI1 shop.GSI2 shop.GSI3" {
		t.Errorf("the indexes are %s\n%s", got, written)
	}
}

// An invalid answer is explained, and the question asked again.
func TestModelInitAsksAgain(t *testing.T) {
	m, questions, written, err := runInit(t, answers("a b", "shop", "", "no way", "no", "n:N", "n", "n on:X", "on null=a|b yes:BOOL", "many", "10", "fast", "1/day", "no", "",
		"", "list it", "find", "list", "missing", "yes", "on", "none", "10", "often", "1/s", "", "", ""))
	if err != nil {
		t.Fatalf("%v\n%s\n%s", err, questions, written)
	}
	for _, want := range []string{`"a b" is not a name of letters`, "at least one kind of item is needed", "n must be text to be a part of a key", `"X" is neither a type (S, N`, `"many" is not a number`,
		`"fast" is not a rate such as 100/day`, "there is already a kind no", "at least one access pattern is needed", `"find" is not one of get, list`, "no has no attribute missing", "yes cannot be a part of a key", `"often" is not a rate`} {
		if !strings.Contains(questions, want) {
			t.Errorf("the questions are\n%s\nwithout %q", questions, want)
		}
	}
	// Names that YAML reads as other types are quoted.
	if m.Entities[0].Name != "no" || len(m.Entities[0].Attributes) != 4 {
		t.Errorf("the model is\n%s", written)
	}
}

// init writes nothing if the answers end, if it is interrupted, or if the file
// exists.
func TestModelInitWritesNothing(t *testing.T) {
	if _, _, written, err := runInit(t, answers("shop")+customerAnswers); !errors.Is(err, errNoAnswer) || written != "" {
		t.Errorf("the error is %v, the file %q", err, written)
	}
	folder := t.TempDir()
	path := filepath.Join(folder, "a.model.yaml")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	blocked, end := io.Pipe()
	defer end.Close()
	if err := initModel(ctx, path, blocked, io.Discard, io.Discard); err == nil || !strings.Contains(err.Error(), "interrupted") {
		t.Errorf("the error is %v", err)
	}
	if err := os.WriteFile(path, []byte("mine"), 0o644); err != nil {
		t.Fatal(err)
	}
	if code, _, errs := runStator(t, "model", "init", path); code != 2 || !strings.Contains(errs, "already exists and would be overwritten") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	if text, err := os.ReadFile(path); err != nil || string(text) != "mine" {
		t.Errorf("the file is %q, %v", text, err)
	}
}

// A design that cannot work is written, and its faults are reported.
func TestModelInitReportsFaults(t *testing.T) {
	_, _, written, err := runInit(t, shopAnswers(answers("p", "create", "order", "50000/s", ""), answers("q", "list", "order", "status", "", "", "", "")))
	if err == nil || !strings.Contains(err.Error(), "is written and has") || written == "" {
		t.Errorf("the error is %v, the file %q", err, written)
	}
}
