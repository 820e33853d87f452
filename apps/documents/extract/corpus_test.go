package extract

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	old "github.com/ledongthuc/pdf"

	"github.com/stator-db/stator/apps/documents/extract/layout"
)

// corpusExtraction has no patterns: a value is right only if it is read whole and
// nothing else with it.
const corpusExtraction = `{"fields":[
{"name":"number","labels":["Invoice number"],"required":true},
{"name":"date","type":"date","labels":["Date"],"required":true},
{"name":"customer","labels":["Bill to"],"required":true},
{"name":"address","type":"address","labels":["Deliver to","Delivery address"]},
{"name":"reference","labels":["Your reference"]},
{"name":"terms","labels":["Payment terms"]},
{"name":"contact","type":"email","labels":["Contact"]},
{"name":"total","type":"amount","labels":["Total due","Total","Amount due"],"required":true}]}`

// sample is what must be read from a file of the corpus.
type sample struct {
	Producer string
	Fields   map[string]string
	Rows     []string // of tables, which are one line each
	Prose    []string // texts that other columns do not interrupt
}

// score counts what was read right, and lists the rest.
type score struct {
	right, all int
	wrong      []string
}

func (s *score) count(ok bool, format string, args ...any) {
	s.all++
	if ok {
		s.right++
		return
	}
	s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
}

func (s *score) percent() float64 { return 100 * float64(s.right) / float64(max(1, s.all)) }

// read compares a document with what must be read from it.
func (s *score) read(t *testing.T, name string, doc *layout.Document, want sample) {
	fields, err := findFields(t.Context(), doc, extraction(t, corpusExtraction))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range fields {
		s.count(f.Value == want.Fields[f.Name], "%s: %s is %q, want %q", name, f.Name, f.Value, want.Fields[f.Name])
	}
	text := strings.ReplaceAll(doc.Text(), "\t", " ")
	lines := strings.Split(text, "\n")
	for _, row := range want.Rows {
		s.count(slices.Contains(lines, row), "%s: no row %q", name, row)
	}
	for _, prose := range want.Prose {
		s.count(strings.Contains(letters(text), letters(prose)), "%s: the text is interrupted: %.40q", name, prose)
	}
}

// letters removes spaces and hyphens, which the breaks of lines change.
func letters(text string) string {
	return strings.NewReplacer(" ", "", "\n", "", "-", "").Replace(text)
}

func corpus(t *testing.T, folder string) map[string]sample {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(folder, "expected.json"))
	if err != nil {
		t.Fatal(err)
	}
	var all map[string]sample
	if err := json.Unmarshal(data, &all); err != nil {
		t.Fatal(err)
	}
	return all
}

// At least 98 % of the fields of PDF files of many producers are read right.
func TestCorpus(t *testing.T) {
	producers, files, s := readCorpus(t, "testdata/corpus")
	if s.percent() < 98 || files < 50 || producers < 10 {
		t.Error("fewer than 98 % of the fields, or fewer than 50 files of 10 producers")
	}
}

// Layouts that were made after the reader was written are read almost as well. At
// the first try 128 of 132 were right.
func TestUnseen(t *testing.T) {
	if _, _, s := readCorpus(t, "testdata/unseen"); s.percent() < 90 {
		t.Error("fewer than 90 % of the fields")
	}
}

// readCorpus reads the files of a folder, and logs each field that is wrong.
func readCorpus(t *testing.T, folder string) (producers, files int, s score) {
	all := corpus(t, folder)
	by := map[string]bool{}
	x := builtin()
	for _, name := range slices.Sorted(maps.Keys(all)) {
		data, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			t.Fatal(err)
		}
		by[all[name].Producer] = true
		doc, err := x.Read(t.Context(), File{name, data})
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		s.read(t, name, &doc, all[name])
	}
	t.Logf("%d of %d fields and rows of %d files by %d producers are right: %.2f %%", s.right, s.all, len(all), len(by), s.percent())
	for _, w := range s.wrong {
		t.Log(w)
	}
	return len(by), len(all), s
}

// The control: the rows of a reader that does not look at positions are not enough.
func TestCorpusByRows(t *testing.T) {
	all := corpus(t, "testdata/corpus")
	var s score
	for _, name := range slices.Sorted(maps.Keys(all)) {
		data, err := os.ReadFile(filepath.Join("testdata/corpus", name))
		if err != nil {
			t.Fatal(err)
		}
		doc := layout.FromText(rowText(data))
		s.read(t, name, &doc, all[name])
	}
	t.Logf("%d of %d are right: %.2f %%", s.right, s.all, s.percent())
	if s.percent() > 90 {
		t.Error("the corpus does not show the difference")
	}
}

// rowText is the former reader.
func rowText(data []byte) (text string) {
	defer func() {
		if recover() != nil {
			text = "damaged\n"
		}
	}()
	r, err := old.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return ""
	}
	for n := 1; n <= r.NumPage(); n++ {
		rows, err := r.Page(n).GetTextByRow()
		if err != nil {
			return text
		}
		for _, row := range rows {
			before := 0
			for i, p := range row.Content {
				if i > 0 && (before > 1 || len([]rune(p.S)) > 1) {
					text += " "
				}
				text += p.S
				before = len([]rune(p.S))
			}
			text += "\n"
		}
	}
	return text
}
