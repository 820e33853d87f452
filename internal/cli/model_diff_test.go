package cli

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// changedModel writes a model with other text in all places, and returns its path.
func changedModel(t *testing.T, path, from, to string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(text), from) {
		t.Fatalf("%s does not contain %q", path, from)
	}
	file := filepath.Join(t.TempDir(), "new.model.yaml")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(text), from, to)), 0o644); err != nil {
		t.Fatal(err)
	}
	return file
}

// diff fails on new faults and on wrong usage, and prints each format.
func TestModelDiff(t *testing.T) {
	fixed := changedModel(t, faulty, "sort: SK}", "sort: SK}\n    indexes: {GSI1: {partition: status}}")
	for _, c := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"the same model", []string{goodModel, goodModel}, 0, "no migration is needed"},
		{"a new fault", []string{fixed, faulty}, 1, `fault    ` + faulty + `:22:12: "orders by status": no key or index serves it`},
		{"a fault that is gone", []string{faulty, fixed}, 0, `gone     ` + faulty + `:22:12: "orders by status"`},
		{"the index of the fixed model", []string{faulty, fixed}, 0, "UpdateTable: add the index"},
		{"as JSON", []string{faulty, fixed, "--json"}, 0, `"kind": "request"`},
		{"as Markdown", []string{fixed, faulty, "--format", "markdown"}, 1, "- `missing` "},
		{"other tables", []string{goodModel, otherModel, "--format", "markdown"}, 0, "tables must be changed"},
		{"one file", []string{goodModel}, 2, "needs two files"},
		{"an unknown format", []string{goodModel, goodModel, "--format", "xml"}, 2, `--format is "xml", but must be one of text, json, markdown`},
		{"two formats", []string{goodModel, goodModel, "--format", "markdown", "--json"}, 2, "exclude each other"},
		{"an invalid file", []string{goodModel, invalid}, 2, "did you mean partition?"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, errs := runStator(t, append([]string{"model", "diff"}, c.args...)...)
			if code != c.code || !strings.Contains(out+errs, c.want) {
				t.Errorf("exit code %d, want %d; the output is\n%s%s\nwithout %q", code, c.code, out, errs, c.want)
			}
		})
	}
}

// A higher rate changes cost and heat, in every format.
func TestModelDiffOfARate(t *testing.T) {
	tasks := "../../apps/taskqueue/taskqueue.model.yaml"
	changed := changedModel(t, tasks, "rate: 500/s", "rate: 600/s")
	_, out, _ := runStator(t, "model", "diff", tasks, changed, "--json")
	var got struct {
		Cost struct {
			Changes []struct {
				What          string
				Before, After struct{ Dollars float64 }
			}
		}
		Heat      []struct{ Before, After float64 }
		Migration []any
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	total := got.Cost.Changes[len(got.Cost.Changes)-1]
	if total.What != "total" || total.After.Dollars <= total.Before.Dollars || len(got.Heat) == 0 || got.Heat[0].After <= got.Heat[0].Before || got.Migration == nil || len(got.Migration) > 0 {
		t.Errorf("the difference is %+v", got)
	}
	_, markdown, _ := runStator(t, "model", "diff", tasks, changed, "--format", "markdown")
	for _, want := range []string{"### Model ", "**Cost**", "**Heat**", "no migration is needed", " -> ", "(+"} {
		if !strings.Contains(markdown, want) {
			t.Errorf("the Markdown is\n%s\nwithout %q", markdown, want)
		}
	}
	if strings.Contains(markdown, "**Migration**") {
		t.Errorf("the Markdown has an empty migration:\n%s", markdown)
	}
}
