package code

import (
	"bytes"
	"flag"
	"os"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/model"
)

var rewrite = flag.Bool("rewrite", false, "write the golden files")

// The code of a small model is that of the golden files, in each language.
func TestGolden(t *testing.T) {
	for _, c := range []struct {
		file     string
		generate func(*model.Model, Options) ([]byte, error)
	}{
		{"library.go.golden", Go},
		{"library.ts.golden", TypeScript},
		{"library.py.golden", Python},
	} {
		t.Run(c.file, func(t *testing.T) {
			got, err := c.generate(parseModel(t, "testdata/library.model.yaml"), Options{Source: "library.model.yaml"})
			if err != nil {
				t.Fatal(err)
			}
			if *rewrite {
				if err := os.WriteFile("testdata/"+c.file, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile("testdata/" + c.file)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s differs: %s\nif it should, run go test -rewrite", c.file, difference(string(got), string(want)))
			}
		})
	}
}

func parseModel(t *testing.T, file string) *model.Model {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	m, err := model.Parse(file, text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// There is no code for a model with a pattern that is not served as it should be.
func TestFaultyPattern(t *testing.T) {
	m := parseModel(t, "../testdata/faults/scan.model.yaml")
	text, err := Go(m, Options{})
	if err == nil || text != nil || !strings.Contains(err.Error(), "it scans all of") {
		t.Errorf("got %d bytes, %v", len(text), err)
	}
}

// A name cannot end the comment that it is in.
func TestNamesInComments(t *testing.T) {
	for _, name := range []string{"a\nb", "a */ b", "a\u2028b"} {
		m := parseModel(t, "testdata/library.model.yaml")
		m.Patterns[0].Name = name
		text, err := TypeScript(m, Options{})
		if wrong := err == nil && strings.Contains(string(text), name); wrong {
			t.Errorf("the code has the name %q", name)
		}
	}
}

// Names become identifiers of each language, and no two are the same.
func TestNames(t *testing.T) {
	for _, c := range []struct{ name, exported, camel, snake string }{
		{"taskId", "TaskID", "taskId", "task_id"},
		{"PresignedURL", "PresignedURL", "presignedUrl", "presigned_url"},
		{"customer's batch view", "CustomersBatchView", "customersBatchView", "customers_batch_view"},
		{"order by id (inverted)", "OrderByIDInverted", "orderByIdInverted", "order_by_id_inverted"},
		{"2 words", "X2Words", "x2Words", "x_2_words"},
		{"…", "X", "x", "x"},
	} {
		if got := [3]string{exportedName(c.name), camelName(c.name), snakeName(c.name)}; got != [3]string{c.exported, c.camel, c.snake} {
			t.Errorf("%q becomes %v", c.name, got)
		}
	}
	names := newNameSet("Key")
	if got := [3]string{names.take("Key", "Item"), names.take("Key", "Item"), names.take("Other", "Item")}; got != [3]string{"KeyItem", "KeyItem2", "Other"} {
		t.Errorf("the names are %v", got)
	}
}

// A pattern whose request would be wrong has no code, whatever check finds it.
func TestFaultyPatternsHaveNoCode(t *testing.T) {
	const head = `
model: 1
tables: {tab: {key: {partition: PK}}}
entities:
  job: {keys: {PK: "JOB#{id}"}, attributes: {id: {format: uuid}, state: {values: [a, b, c]}, n: N}, count: 10}
machines:
  job: {entity: job, attribute: state, initial: a, transitions: [{from: a, to: b}, {from: b, to: c}]}
patterns:
`
	for pattern, fails := range map[string]bool{
		`{name: x, update: job, given: [id], set: {state: b}, rate: 1/s}`:                                              true,
		`{name: x, update: job, given: [id], set: {state: b}, condition: "#state = :a", values: {":a": a}, rate: 1/s}`: false,
		`{name: x, transact: [{update: job, given: [id], add: {n: 1}, times: 2}], rate: 1/s}`:                          true,
		`{name: x, put: job, rate: 1/s}`:                                   true,
		`{name: x, get: job, given: [id], budget: {read: 0.1}, rate: 1/s}`: false,
	} {
		m, err := model.Parse("x", []byte(head+"  - "+pattern))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := newSpec(m, Options{}); (err != nil) != fails {
			t.Errorf("%s: %v", pattern, err)
		}
	}
}
