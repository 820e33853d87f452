package doc

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/model"
)

func parse(t *testing.T, file string, text []byte) *model.Model {
	t.Helper()
	m, err := model.Parse(file, text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func write(t *testing.T, m *model.Model) (html, markdown string) {
	t.Helper()
	page := New(m, model.DefaultPrices())
	var h, d bytes.Buffer
	if err := errors.Join(page.HTML(&h), page.Markdown(&d)); err != nil {
		t.Fatal(err)
	}
	return h.String(), d.String()
}

func models(t *testing.T) map[string]*model.Model {
	t.Helper()
	files, err := filepath.Glob("../../../apps/*/*.model.yaml")
	if err != nil || len(files) < 4 {
		t.Fatalf("found the models %v, %v", files, err)
	}
	all := make(map[string]*model.Model)
	for _, file := range append(files, "../testdata/shapes.model.yaml") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all[filepath.Base(file)] = parse(t, file, text)
	}
	return all
}

// Every table, index, pattern, entity and state of a model is shown, with
// example rows in every table, and in every index that serves a pattern.
func TestAllIsShown(t *testing.T) {
	for name, m := range models(t) {
		t.Run(name, func(t *testing.T) {
			page := New(m, model.DefaultPrices())
			html, markdown := write(t, m)
			var names []string
			for i, table := range m.Tables {
				names = append(names, table.Name)
				shown := page.Tables[i]
				if len(m.EntitiesOf(table)) > 0 && len(shown.Grid.Rows) == 0 {
					t.Errorf("%s has no rows", table.Name)
				}
				for n, x := range table.Indexes {
					names = append(names, x.Name)
					if len(shown.Indexes[n].Patterns) > 0 && len(shown.Indexes[n].Grid.Rows) == 0 {
						t.Errorf("%s has no rows", x.Name)
					}
				}
			}
			for _, e := range m.Entities {
				names = append(names, e.Name)
			}
			for _, p := range m.Patterns {
				names = append(names, p.Name)
			}
			for _, k := range page.Machines {
				names = append(names, k.States...)
			}
			for _, name := range names {
				if !strings.Contains(html, templateEscape(name)) {
					t.Errorf("the HTML does not show %s", name)
				}
				if !strings.Contains(markdown, prose(name)) {
					t.Errorf("the Markdown does not show %s", name)
				}
			}
		})
	}
}

func templateEscape(text string) string {
	return strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;", "'", "&#39;", `"`, "&#34;", "+", "&#43;").Replace(text)
}

// A page is deterministic and self-contained.
func TestSelfContained(t *testing.T) {
	for name, m := range models(t) {
		t.Run(name, func(t *testing.T) {
			html, markdown := write(t, m)
			html2, markdown2 := write(t, m)
			if html != html2 || markdown != markdown2 {
				t.Error("two pages of one model differ")
			}
			for _, bad := range []string{"http://", "https://", "src=", "@import", "<script", "<link", "<iframe"} {
				if strings.Contains(html, bad) {
					t.Errorf("the page has %s in it", bad)
				}
			}
			if refs := regexp.MustCompile(`url\(([^)]*)\)`).FindAllStringSubmatch(html, -1); slices.ContainsFunc(refs, func(r []string) bool { return !strings.HasPrefix(r[1], "#") }) {
				t.Errorf("the page refers to %v", refs)
			}
			elements(t, html)
		})
	}
}

// elements counts the elements of a page by name, as a browser would parse them,
// and checks that all are closed.
func elements(t *testing.T, html string) map[string]int {
	t.Helper()
	d := xml.NewDecoder(strings.NewReader(html))
	d.Strict, d.AutoClose, d.Entity = false, []string{"meta", "br"}, xml.HTMLEntity
	found, open := make(map[string]int), 0
	for {
		tok, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("the page cannot be read: %v", err)
		}
		switch x := tok.(type) {
		case xml.StartElement:
			found[x.Name.Local]++
			open++
			for _, a := range x.Attr {
				if strings.HasPrefix(strings.ToLower(a.Name.Local), "on") {
					t.Errorf("%s has the handler %s", x.Name.Local, a.Name.Local)
				}
				if a.Name.Local == "href" && !strings.HasPrefix(a.Value, "#") {
					t.Errorf("a link leads to %s", a.Value)
				}
			}
		case xml.EndElement:
			open--
		}
	}
	if open != 0 {
		t.Errorf("%d elements are left open", open)
	}
	return found
}

const hostile = `"><img src=x onerror=alert(1)><script>alert(2)</script>'</style> |[x](javascript:alert(3)) ` + "`` ```"

// hostileModel has hostile text wherever a model accepts text.
func hostileModel(t *testing.T) *model.Model {
	t.Helper()
	q := fmt.Sprintf("%q", hostile)
	text := strings.ReplaceAll(`
model: 1
name: HOSTILE
description: HOSTILE
tables:
  tab:
    description: HOSTILE
    key: {partition: HOSTILE, sort: sk}
    indexes: {index: {partition: HOSTILE, sort: status, description: HOSTILE, projection: [HOSTILE, b]}}
    ttl: HOSTILE
entities:
  HOSTILE:
    description: HOSTILE
    attributes:
      HOSTILE: {values: [HOSTILE]}
      status: {values: [HOSTILE, b]}
      sk: {example: HOSTILE}
      free: {example: HOSTILE}
      tags: {type: SS, example: [HOSTILE, x]}
      map: {type: M, example: {HOSTILE: HOSTILE}}
    count: 3
machines:
  HOSTILE:
    description: HOSTILE
    entity: HOSTILE
    attribute: status
    initial: HOSTILE
    transitions: [{from: HOSTILE, to: b}, {from: b, to: HOSTILE}]
patterns:
  - {name: HOSTILE, description: HOSTILE, group: HOSTILE, query: HOSTILE, given: [HOSTILE], rate: 5000/s, consistent: true}
  - {name: scan, scan: HOSTILE, where: {free: HOSTILE}, rate: 1/s}
  - {name: set, update: HOSTILE, given: [HOSTILE, sk], from: {status: HOSTILE}, set: {status: b}, rate: 5000/s}
rules: [{name: HOSTILE, every: item, contains: HOSTILE, because: HOSTILE}]
`, "HOSTILE", q)
	return parse(t, "hostile", []byte(text))
}

// No text of a model becomes markup of the page.
func TestHostileHTML(t *testing.T) {
	m := hostileModel(t)
	html, _ := write(t, m)
	if !strings.Contains(html, "&lt;img src=x onerror=alert(1)&gt;") {
		t.Error("the text is not shown")
	}
	found := elements(t, html)
	for _, name := range []string{"img", "script", "iframe", "link"} {
		if found[name] > 0 {
			t.Errorf("there are %d elements %s", found[name], name)
		}
	}
	if found["style"] != 1 || found["html"] != 1 {
		t.Errorf("the page has the elements %v", found)
	}
}

var (
	fenced = regexp.MustCompile("(?ms)^(`{3,})[a-z]*\n.*?^`{3,}$")
)

// No text of a model becomes markup of the Markdown outside of code.
func TestHostileMarkdown(t *testing.T) {
	_, markdown := write(t, hostileModel(t))
	rest := fenced.ReplaceAllString(markdown, "")
	for line := range strings.Lines(rest) {
		line = withoutCode(line)
		line = regexp.MustCompile(`</?(details|summary)>`).ReplaceAllString(line, "")
		if strings.Contains(line, "<") {
			t.Errorf("there is HTML in %q", line)
		}
		if at := strings.Index(line, "]("); at >= 0 && (at == 0 || line[at-1] != '\\') {
			t.Errorf("there is a link in %q", line)
		}
	}
	for _, block := range fenced.FindAllString(markdown, -1) {
		if strings.Contains(block, "stateDiagram") && strings.ContainsAny(block, "<(") {
			t.Errorf("the diagram contains markup:\n%s", block)
		}
	}
	columns := -1
	for line := range strings.Lines(rest) {
		if !strings.HasPrefix(line, "|") {
			columns = -1
			continue
		}
		n := strings.Count(strings.ReplaceAll(line, `\|`, ""), "|")
		if columns >= 0 && n != columns {
			t.Errorf("a row has %d marks in a table of %d: %s", n, columns, line)
		}
		columns = n
	}
}

// withoutCode removes inline code from a line, as CommonMark delimits it: from a
// run of backticks to the next of the same length.
func withoutCode(line string) string {
	var b strings.Builder
	for i := 0; i < len(line); {
		n := 0
		for i+n < len(line) && line[i+n] == '`' {
			n++
		}
		if n == 0 || i > 0 && line[i-1] == '\\' {
			b.WriteByte(line[i])
			i++
			continue
		}
		end := i + n
		for end < len(line) {
			run := 0
			for end+run < len(line) && line[end+run] == '`' {
				run++
			}
			if run == n {
				break
			}
			end += max(1, run)
		}
		if end >= len(line) {
			b.WriteString(line[i : i+n])
			i += n
			continue
		}
		i = end + n
	}
	return b.String()
}

// The examples that a model gives are in its document, also those of attributes
// with a format or in keys.
func TestExamplesAreShown(t *testing.T) {
	m := parse(t, "a", []byte(`
model: 1
tables: {shop: {key: {partition: id}, indexes: {byMonth: {partition: month}}}}
entities:
  order:
    attributes: {id: {format: uuid, example: order-of-ada}, month: {size: 7, example: "2026-11"}, name: {size: 20, example: Ada Lovelace}}
    count: 10
patterns: [{name: orders of a month, query: order, given: [month], matches: 2, rate: 1/s}]
`))
	html, markdown := write(t, m)
	for _, text := range []string{html, markdown} {
		for _, example := range []string{"order-of-ada", "2026-11", "Ada Lovelace"} {
			if strings.Count(text, example) < 2 {
				t.Errorf("the table and the index do not both show %s", example)
			}
		}
	}
}

// A model that has only tables can be documented.
func TestTablesAlone(t *testing.T) {
	m := parse(t, "a", []byte("{model: 1, tables: {abc: {key: {partition: id}, indexes: {byY: {partition: y}}}}, entities: {}, patterns: []}"))
	html, markdown := write(t, m)
	for _, text := range []string{html, markdown} {
		if !strings.Contains(text, "No access pattern is declared yet.") {
			t.Error("the page does not say that there are no patterns")
		}
	}
}

// In the diagram of any machine boxes do not overlap, and everything is within
// its bounds.
func TestDiagrams(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		var states []string
		for i := range 1 + r.IntN(12) {
			states = append(states, strings.Repeat("x", r.IntN(30))+fmt.Sprint(i))
		}
		var transitions []Transition
		for i := range r.IntN(25) {
			transitions = append(transitions, Transition{Number: i + 1, From: states[r.IntN(len(states))], To: states[r.IntN(len(states))]})
		}
		d := draw(states, states[:1], transitions)
		if len(d.Nodes) != len(states) || len(d.Edges) != len(transitions) {
			t.Fatalf("seed %d: %d boxes of %d, %d arrows of %d", seed, len(d.Nodes), len(states), len(d.Edges), len(transitions))
		}
		for i, a := range d.Nodes {
			if a.X < 0 || a.Y < 0 || a.X+a.Width > d.Width || a.Y+a.Height > d.Height {
				t.Errorf("seed %d: the box %+v is outside of %d by %d", seed, a, d.Width, d.Height)
			}
			for _, b := range d.Nodes[:i] {
				if a.X < b.X+b.Width && b.X < a.X+a.Width && a.Y < b.Y+b.Height && b.Y < a.Y+a.Height {
					t.Errorf("seed %d: %+v and %+v overlap", seed, a, b)
				}
			}
		}
		for _, e := range d.Edges {
			if e.X < 9 || e.Y < 9 || e.X+9 > d.Width || e.Y+9 > d.Height {
				t.Errorf("seed %d: the number of %+v is outside of %d by %d", seed, e, d.Width, d.Height)
			}
		}
	}
}

// States are one row below the first state that leads to them.
func TestRows(t *testing.T) {
	d := draw([]string{"a", "b", "c", "d"}, []string{"a"}, []Transition{{1, "a", "b", "", nil}, {2, "b", "c", "", nil}, {3, "a", "c", "", nil}, {4, "c", "d", "", nil}, {5, "d", "a", "", nil}})
	var rows []int
	for _, n := range d.Nodes {
		rows = append(rows, (n.Y-margin-startHeight)/rowHeight)
	}
	if want := []int{0, 1, 1, 2}; !slices.Equal(rows, want) {
		t.Errorf("the rows are %v, want %v", rows, want)
	}
	var final []string
	for _, n := range draw([]string{"a", "b"}, []string{"a"}, []Transition{{1, "a", "b", "", nil}}).Nodes {
		if n.Final {
			final = append(final, n.Name)
		}
	}
	if !slices.Equal(final, []string{"b"}) {
		t.Errorf("the final states are %v", final)
	}
}

// A transition lists the patterns that set its status.
func TestTransitionPatterns(t *testing.T) {
	page := New(models(t)["taskqueue.model.yaml"], model.DefaultPrices())
	got := make(map[string]string)
	for _, x := range page.Machines[0].Transitions {
		var names []string
		for _, p := range x.Patterns {
			names = append(names, p.Name)
		}
		got[x.From+" "+x.To] = strings.Join(names, ", ")
	}
	for move, want := range map[string]string{"PENDING PROCESSING": "claim task", "PROCESSING COMPLETED": "complete task", "PROCESSING PENDING": "release task"} {
		if got[move] != want {
			t.Errorf("%s is done by %q, want %q", move, got[move], want)
		}
	}
}

func TestShorten(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"short text stays", "TASK#1", "TASK#1"},
		{"a key keeps both ends of its parts", "TENANT#0123456789abcdef#PROJECT#fedcba9876543210", "TENANT#01234567…cdef#PROJECT#fedcba98…3210"},
		{"long text keeps both ends", strings.Repeat("a", 30) + strings.Repeat("b", 30), "aaaaaaaaaaaaaaaaaa…bbbbbbbbbbbb"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := shorten(c.in); got != c.want {
				t.Errorf("shorten(%q) = %q, want %q", c.in, got, c.want)
			}
		})
	}
}

func TestCode(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"plain", "a", "`a`"},
		{"nothing", "", ""},
		{"backticks within", "a`b", "``a`b``"},
		{"backticks at the end", "a`", "`` a` ``"},
		{"a mark of a table", "a|b", "`a\\|b`"},
		{"two lines", "a\nb", "`a b`"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := code(c.in); got != c.want {
				t.Errorf("code(%q) = %q, want %q", c.in, got, c.want)
			}
		})
	}
}

// Models with a fault or a note are documented too, with it.
func TestFaultsAreShown(t *testing.T) {
	files, err := filepath.Glob("../testdata/*/*.model.yaml")
	if err != nil {
		t.Fatal(err)
	}
	shown := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		m, err := model.Parse(file, text)
		if err != nil {
			continue // not a valid model
		}
		html, markdown := write(t, m)
		page := New(m, model.DefaultPrices())
		for _, f := range append(page.Faults, page.Notes...) {
			shown++
			if !strings.Contains(html, templateEscape(f.Message)) || !strings.Contains(markdown, prose(f.Message)) {
				t.Errorf("%s: the page does not show %q", file, f.Message)
			}
		}
	}
	if shown < 20 {
		t.Errorf("only %d faults were found in %d models", shown, len(files))
	}
}

// The entries of an index that a query reads together with another entity have the names of
// their entities.
func TestEntitiesOfAnIndex(t *testing.T) {
	m := parse(t, "x", []byte(`
model: 1
tables: {shop: {key: {partition: PK, sort: SK}, indexes: {GSI1: {partition: GSI1PK, sort: SK}}}}
entities:
  order:
    keys: {PK: "O#{orderId}", SK: "O#{orderId}", GSI1PK: "C#{customerId}"}
    attributes: {orderId: {format: uuid}, customerId: {size: 8, distinct: 50}}
    count: 100
  line:
    keys: {PK: "O#{orderId}", SK: "L#{lineId}", GSI1PK: "C#{customerId}"}
    attributes: {orderId: {format: uuid}, lineId: {format: uuid}, customerId: {size: 8, distinct: 50}}
    count: 300
patterns:
  - {name: orders with lines, query: order, given: [customerId], index: GSI1, with: {line: 2}, matches: 2, rate: 1/s}
`))
	var names []string
	for _, row := range New(m, model.DefaultPrices()).Tables[0].Indexes[0].Grid.Rows {
		names = append(names, row.Entity)
	}
	slices.Sort(names)
	if want := []string{"line", "line", "order", "order"}; !slices.Equal(names, want) {
		t.Errorf("the entries are of %q, want %q", names, want)
	}
}
