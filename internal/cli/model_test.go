package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// runStator runs a command line.
func runStator(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	code = Run(args, &out, &errs)
	return code, out.String(), errs.String()
}

const (
	goodModel  = "../../apps/downloads/downloads.model.yaml"
	otherModel = "../../apps/goals/goals.model.yaml"
	faulty     = "../model/testdata/faults/no-index.model.yaml"
	noted      = "../model/testdata/notes/conflict.model.yaml"
	streamed   = "../model/testdata/faults/stream-readers.fixed.model.yaml"
	invalid    = "../model/testdata/faults/unknown-field.model.yaml"
)

// The exit codes distinguish a good design, a faulty one, and an invalid file.
func TestModelExitCodes(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		code int
		want string // in what is printed
	}{
		{"a good design", []string{"check", goodModel}, 0, "ok       30 of 30 access patterns are served by one request"},
		{"a faulty one", []string{"check", faulty}, 1, `missing  ../model/testdata/faults/no-index.model.yaml:22:12: "orders by status": no key or index serves it`},
		{"what to try", []string{"check", faulty}, 1, "         try an index with partition key status"},
		{"no ok above a fault", []string{"check", faulty}, 1, "served   1 of 2 access patterns are served by one request; 1 of 2 have faults"},
		{"a note", []string{"check", noted}, 0, `note     ../model/testdata/notes/conflict.model.yaml:20:10: "place order": at the peak 5 writes/s go to the busiest item`},
		{"a note as JSON", []string{"check", "--json", noted}, 0, `"code": "conflict",`},
		{"an invalid file", []string{"check", invalid}, 2, "unknown-field.model.yaml:6:11: unknown field partiton; did you mean partition?"},
		{"an invalid file as JSON", []string{"check", "--json", invalid}, 2, `"code": "syntax",`},
		{"no file", []string{"check", "none.yaml"}, 2, "cannot read the model"},
		{"no file to compare", []string{"diff", "none.yaml", goodModel}, 2, "cannot read the model"},
		{"no argument", []string{"check"}, 2, "needs one file"},
		{"no command", nil, 2, "needs a command"},
		{"another command", []string{"chekc"}, 2, `no command "chekc"`},
		{"a cost", []string{"cost", goodModel}, 0, "daily run     60        138        33            105"},
		{"the readers of a stream", []string{"cost", streamed}, 0, "stream of shop: 1 shard, 4 polls a second of each, 2 readers; functions that the service calls read it for free"},
		{"a cost of an invalid file", []string{"cost", invalid}, 2, "did you mean partition?"},
		{"a difference", []string{"cost", "--diff", goodModel, otherModel}, 0, "removed"},
		{"a difference of one file", []string{"cost", "--diff", goodModel}, 2, "needs two files"},
		{"an invalid price file", []string{"cost", "--prices", goodModel, goodModel}, 2, "this is not a price file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, errs := runStator(t, append([]string{"model"}, c.args...)...)
			if code != c.code || !strings.Contains(out+errs, c.want) {
				t.Errorf("exit code %d, want %d; the output is\n%s%s\nwithout %q", code, c.code, out, errs, c.want)
			}
			if help := strings.Contains(errs, "see stator --help"); help && strings.Contains(strings.Join(c.args, " "), ".yaml") && !strings.Contains(errs, "needs") {
				t.Errorf("a file is no reason to read the help: %s", errs)
			}
			if strings.Contains(out, "\x1b") {
				t.Error("the output has colours, but is not a terminal")
			}
		})
	}
}

// The field names of --json are stable.
func TestModelJSON(t *testing.T) {
	code, out, errs := runStator(t, "model", "check", "--json", faulty)
	if code != 1 || !strings.Contains(errs, "1 fault") {
		t.Errorf("exit code %d, %s", code, errs)
	}
	var got struct {
		File     string
		OK       bool
		Patterns []struct {
			Name, Status, Table, Index string
			Requests                   int
			Read, Write                float64
			Request                    []struct {
				Operation string
				Body      map[string]any
			}
			Faults []struct {
				Code, Message, Try string
				Position           struct{ Line, Column int }
			}
		}
		Heat []struct{ Key string }
	}
	d := json.NewDecoder(strings.NewReader(out))
	if err := d.Decode(&got); err != nil {
		t.Fatal(err)
	}
	if got.OK || got.File != faulty || len(got.Patterns) != 2 || len(got.Heat) == 0 {
		t.Fatalf("the report is %+v", got)
	}
	if p := got.Patterns[0]; p.Status != "ok" || p.Table != "shop" || p.Requests != 1 || p.Read != 0.5 || p.Request[0].Operation != "GetItem" ||
		p.Request[0].Body["TableName"] != "shop" {
		t.Errorf("the pattern that is served is reported as %+v", p)
	}
	if p := got.Patterns[1]; p.Status != "missing" || p.Faults[0].Code != "missing" || p.Faults[0].Position.Line != 22 || p.Faults[0].Try == "" {
		t.Errorf("the pattern that is not served is reported as %+v", p)
	}

	_, out, _ = runStator(t, "model", "cost", "--json", goodModel)
	for _, name := range []string{"prices", "patterns", "groups", "tables", "perSecond", "perDay", "amplification", "onDemandDollars", "provisionedDollars",
		"storageBytes", "storageDollars", "recoveryDollars", "streamDollars", "dollars", "tableRead", "tableWrite", "indexRead", "indexWrite"} {
		if !strings.Contains(out, `"`+name+`":`) {
			t.Errorf("the cost has no field %s", name)
		}
	}
}

// --prices replaces the built-in prices.
func TestModelPrices(t *testing.T) {
	text, err := os.ReadFile("../model/prices-2026-11.yaml")
	if err != nil {
		t.Fatal(err)
	}
	mine := filepath.Join(t.TempDir(), "prices.yaml")
	expensive := strings.Replace(strings.Replace(string(text), "date: 2026-11", "date: 2031-01", 1), "writeRequestUnits: 0.625", "writeRequestUnits: 625000", 1)
	if err := os.WriteFile(mine, []byte(expensive), 0o600); err != nil {
		t.Fatal(err)
	}
	_, out, _ := runStator(t, "model", "cost", "--prices", mine, goodModel)
	if !strings.Contains(out, "at the prices of 2031-01") {
		t.Errorf("the output is %s", out)
	}
	if code, _, _ := runStator(t, "model", "check", "--prices", mine, goodModel); code != 1 {
		t.Errorf("the budget is exceeded, but the exit code is %d", code)
	}
}

// --requests prints the requests.
func TestModelRequests(t *testing.T) {
	_, out, _ := runStator(t, "model", "check", "--requests", goodModel)
	for _, want := range []string{`"KeyConditionExpression": "#Status = :Status AND #StatusUpdatedAt <= :StatusUpdatedAt"`, `"S": "downloading"`, `"IndexName": "StatusIndex"`} {
		if !strings.Contains(out, want) {
			t.Errorf("the requests lack %s", want)
		}
	}
}
