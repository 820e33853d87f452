package extract

import (
	"bytes"
	"compress/zlib"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/go-pdf/fpdf"
)

func TestMain(m *testing.M) {
	ChildMain()
	os.Exit(m.Run())
}

func extraction(t testing.TB, text string) Extraction {
	t.Helper()
	e, err := ParseExtraction([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return e
}

const invoice = `{"fields":[
{"name":"number","labels":["Invoice number","Invoice no"],"pattern":"[A-Z]{2}-\\d{4,}","required":true},
{"name":"date","type":"date","labels":["Date"],"required":true},
{"name":"total","type":"amount","labels":["Total"],"required":true},
{"name":"contact","type":"email","labels":["Contact"]}]}`

// withText also has a field whose value is any text, so that a reader that does not
// divide lines and words is noticed.
var withText = strings.Replace(invoice, `{"fields":[`, `{"fields":[{"name":"customer","labels":["Bill to"]},`, 1)

const goodText = "Northwind\nInvoice number: NW-1001\nDate: 7.11.2026\nBill to: Example Traders, Hull\nSubtotal: 3.00\nTotal: EUR 1.234,50\nContact: Bill@Northwind.example\n"

func builtin() *Builtin { return &Builtin{PDF: NewPDFReader(2, 20*time.Second)} }

func values(r Result) map[string]string {
	all := make(map[string]string)
	for _, f := range r.Fields {
		all[f.Name] = f.Value
	}
	return all
}

// The same invoice is read alike from text, from a PDF, and from CSV.
func TestBuiltin(t *testing.T) {
	for _, f := range []File{
		{"a.txt", []byte(goodText)},
		{"a.pdf", pdfOf(goodText)},
		{"a.csv", []byte("Invoice No;Date;Total;Contact;Bill to\nNW-1001;2026-11-07;1.234,50;bill@northwind.example;Example Traders, Hull\n")},
	} {
		t.Run(f.Name, func(t *testing.T) {
			r, err := builtin().Extract(t.Context(), f, extraction(t, withText))
			if err != nil {
				t.Fatal(err)
			}
			want := map[string]string{"customer": "Example Traders, Hull", "number": "NW-1001", "date": "2026-11-07", "total": "1234.50", "contact": "bill@northwind.example"}
			for name, v := range want {
				if values(r)[name] != v {
					t.Errorf("%s is %q, want %q", name, values(r)[name], v)
				}
			}
			if r.Confidence < 0.9 {
				t.Errorf("confidence %v in %+v", r.Confidence, r.Fields)
			}
		})
	}
}

// The confidence depends on how a value was found.
func TestConfidence(t *testing.T) {
	spec := `{"fields":[{"name":"total","type":"amount","labels":["Total"],"required":true}]}`
	sure := func(text string) float64 {
		r, err := builtin().Extract(t.Context(), File{"a.txt", []byte(text)}, extraction(t, spec))
		if err != nil {
			t.Fatal(err)
		}
		return r.Confidence
	}
	order := []struct{ name, text string }{
		{"after its label", "Total: 12.00\n"},
		{"after its label, without a separator", "Total 12.00\n"},
		{"in the next line", "Total\n12.00\n"},
		{"of another type", "Total: twelve\n"},
		{"missing", "Dear all\n"},
	}
	for i := 1; i < len(order); i++ {
		if a, b := sure(order[i-1].text), sure(order[i].text); a <= b {
			t.Errorf("%s: %.2f is not above %s: %.2f", order[i-1].name, a, order[i].name, b)
		}
	}
	if one, two := sure("Total: 12.00\n"), sure("Total: 12.00\nTotal: 13.00\n"); one <= two {
		t.Errorf("two candidates (%.2f) are as good as one (%.2f)", two, one)
	}
	if got := sure("Subtotal: 9.00\n"); got != 0 {
		t.Errorf("a part of a word is accepted as a label: %.2f", got)
	}
}

func TestNumbers(t *testing.T) {
	for _, c := range []struct{ in, want string }{
		{"EUR 1.234,50", "1234.50"}, {"$1,234.50", "1234.50"}, {"1'234.5", "1234.5"}, {"12", "12"}, {"-3,5 %", "-3.5"},
		{"1,234", "1234"}, {"1.234.567", "1234567"}, {"0.125", "0.125"}, {"1234.567", "1234.567"},
		{"12EUR", "12"}, {"9O.5O", ""}, {"A4 paper for 3 euros", "4"}, {"7th of 9", "9"}, {"none", ""},
	} {
		if got, _ := number(c.in); got != c.want {
			t.Errorf("number(%q) = %q, want %q", c.in, got, c.want)
		}
	}
}

// A table of many rows gives lists.
func TestColumns(t *testing.T) {
	var csv strings.Builder
	csv.WriteString("number,total\n")
	for i := range 1000 {
		fmt.Fprintf(&csv, "NW-%04d,%d.00\n", i, i)
	}
	csv.WriteString("NW-9999,none\n")
	e := extraction(t, `{"fields":[{"name":"number","required":true},{"name":"total","type":"amount","required":true}]}`)
	r, err := builtin().Extract(t.Context(), File{"a.csv", []byte(csv.String())}, e)
	if err != nil || len(r.Fields[1].Values) != 1001 || r.Fields[1].Values[7] != "7.00" {
		t.Fatalf("%v, %d values", err, len(r.Fields[1].Values))
	}
	if a, b := r.Fields[0].Confidence, r.Fields[1].Confidence; a <= b {
		t.Errorf("a column with a wrong value has %.4f, one without %.4f", b, a)
	}
}

// An invalid extraction is an error.
func TestWrongExtractions(t *testing.T) {
	for name, text := range map[string]string{
		"no JSON":         `{`,
		"no fields":       `{"fields":[]}`,
		"unknown member":  `{"fields":[{"name":"a","label":"x"}]}`,
		"unknown type":    `{"fields":[{"name":"a","type":"colour"}]}`,
		"wrong pattern":   `{"fields":[{"name":"a","pattern":"("}]}`,
		"huge pattern":    `{"fields":[{"name":"a","pattern":"` + strings.Repeat("a", 400) + `"}]}`,
		"exploding":       `{"fields":[{"name":"a","pattern":"((a{100}){100}){100}"}]}`,
		"twice":           `{"fields":[{"name":"a"},{"name":"a"}]}`,
		"other extractor": `{"extractor":"http://10.0.0.1","fields":[{"name":"a"}]}`,
		"other verifier":  `{"verify":"colour","fields":[{"name":"a"}]}`,
		"the same twice":  `{"verify":"builtin","fields":[{"name":"a"}]}`,
		"something after": `{"fields":[{"name":"a"}]} {}`,
	} {
		if _, err := ParseExtraction([]byte(text)); err == nil {
			t.Errorf("%s: passes", name)
		}
	}
}

// Hostile files are unreadable, with a reason and within the time limit, and do not crash the reader.
func TestHostileFiles(t *testing.T) {
	e := extraction(t, strings.Replace(invoice, `{"fields":[`, `{"fields":[{"name":"note"},`, 1))
	x := &Builtin{PDF: NewPDFReader(2, time.Second)}
	for name, f := range map[string]File{
		"empty":                {"a.txt", nil},
		"binary":               {"a.txt", []byte{0xff, 0xfe, 0, 1}},
		"zip":                  {"a.pdf", []byte("PK\x03\x04\x00\x00")},
		"huge text":            {"a.txt", bytes.Repeat([]byte("Total: 1\n"), 1<<20)},
		"not a PDF":            {"a.pdf", []byte("%PDF-1.7 and nothing else")},
		"cut PDF":              {"a.pdf", pdfOf(goodText)[:700]},
		"PDF bomb":             {"a.pdf", bomb(1<<30, "", " ", "")},
		"PDF bomb of pieces":   {"a.pdf", bomb(48<<20, "", "(Total: 1) Tj ", "")},
		"PDF in circles":       {"a.pdf", circle()},
		"PDF with many pages":  {"a.pdf", manyPages()},
		"CSV with no heading":  {"a.csv", []byte("\n\n\n")},
		"CSV of commas":        {"a.csv", bytes.Repeat([]byte(","), 1<<20)},
		"CSV with many rows":   {"a.csv", append([]byte("note\n"), bytes.Repeat([]byte("1\n"), maxRows+1)...)},
		"CSV with wide values": {"a.csv", append([]byte("note\n"), bytes.Repeat(append(bytes.Repeat([]byte("x"), 100_000), '\n'), 120)...)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if r, err := x.Extract(t.Context(), f, e); !IsUnreadable(err) {
				t.Errorf("%+v, %v", r.Fields, err)
			} else {
				t.Log(err)
			}
		})
	}
}

// A reader that uses too much memory ends, however much time it has.
func TestMemoryIsBounded(t *testing.T) {
	x := &Builtin{PDF: NewPDFReader(1, 5*time.Minute)}
	_, err := x.Extract(t.Context(), File{"a.pdf", bomb(1<<30, "", "(A)Tj ", "")}, extraction(t, invoice))
	if !IsUnreadable(err) || !strings.Contains(err.Error(), "MB") {
		t.Errorf("%v", err)
	}
}

// The control: the same file with little content is read.
func TestNoBomb(t *testing.T) {
	if _, err := builtin().Extract(t.Context(), File{"a.pdf", bomb(1000, "(", "A", ") Tj ")}, extraction(t, invoice)); err != nil {
		t.Error(err)
	}
}

// Cancelling the context ends the child process, and the file is not unreadable.
func TestStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := builtin().Extract(ctx, File{"a.pdf", pdfOf(goodText)}, extraction(t, invoice)); err == nil || IsUnreadable(err) {
		t.Errorf("%v", err)
	}
}

// Only the requested fields of the service's reply are used; its failures are worth
// a retry, its rejections are not.
func TestService(t *testing.T) {
	var status int
	var body string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var q question
		if err := json.NewDecoder(r.Body).Decode(&q); err != nil || string(q.Content) != goodText || len(q.Fields) != 4 {
			t.Errorf("the request is %+v, %v", q, err)
		}
		w.WriteHeader(status)
		w.Write([]byte(body))
	}))
	defer server.Close()
	s := &Service{URL: server.URL, Client: server.Client()}
	e := extraction(t, invoice)
	ask := func(code int, answer string) (Result, error) {
		status, body = code, answer
		return s.Extract(t.Context(), File{"a.txt", []byte(goodText)}, e)
	}
	r, err := ask(200, `{"fields":[{"name":"total","value":"5","confidence":7},{"name":"number","value":"","confidence":1},{"name":"date","value":"x","confidence":-1},{"name":"evil","value":"x","confidence":1}]}`)
	if err != nil || len(r.Fields) != 4 || r.Fields[2].Value != "5" || r.Fields[2].Confidence != 1 || r.Fields[0].Confidence != 0 || r.Fields[1].Confidence != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if math.Abs(r.Confidence-1.0/3) > 1e-9 {
		t.Errorf("combined %v", r.Confidence)
	}
	for _, c := range []struct {
		code   int
		answer string
		final  bool
	}{{500, "", false}, {503, "", false}, {429, "", false}, {200, "no JSON", false}, {400, "no", true}, {415, "", true}, {200, `"` + strings.Repeat("x", MaxResult) + `"`, true}} {
		if _, err := ask(c.code, c.answer); err == nil || IsUnreadable(err) != c.final {
			t.Errorf("%d: %v", c.code, err)
		}
	}
}

// No text causes a panic, and values stay within their limits.
func FuzzText(f *testing.F) {
	f.Add("Total: 12\n")
	f.Add("İnvoice no\nTotal")
	e := extraction(f, invoice)
	f.Fuzz(func(t *testing.T, text string) {
		for _, name := range []string{"a.txt", "a.csv"} {
			r, err := builtin().Extract(t.Context(), File{name, []byte(text)}, e)
			if err != nil && !IsUnreadable(err) {
				t.Error(err)
			}
			if r.Confidence < 0 || r.Confidence > 1 {
				t.Errorf("confidence %v", r.Confidence)
			}
		}
	})
}

func pdfOf(text string) []byte {
	p := fpdf.New("P", "mm", "A4", "")
	p.AddPage()
	p.SetFont("Helvetica", "", 11)
	for line := range strings.Lines(text) {
		p.CellFormat(0, 7, strings.TrimSpace(line), "", 1, "", false, 0, "")
	}
	var out bytes.Buffer
	if err := p.Output(&out); err != nil {
		panic(err)
	}
	return out.Bytes()
}

// objects returns a PDF of objects, the first of which is its catalog.
func objects(all ...string) []byte {
	var out bytes.Buffer
	out.WriteString("%PDF-1.4\n")
	var at []int
	for i, o := range all {
		at = append(at, out.Len())
		fmt.Fprintf(&out, "%d 0 obj\n%s\nendobj\n", i+1, o)
	}
	start := out.Len()
	fmt.Fprintf(&out, "xref\n0 %d\n0000000000 65535 f \n", len(all)+1)
	for _, a := range at {
		fmt.Fprintf(&out, "%010d 00000 n \n", a)
	}
	fmt.Fprintf(&out, "trailer\n<</Size %d/Root 1 0 R>>\nstartxref\n%d\n%%%%EOF\n", len(all)+1, start)
	return out.Bytes()
}

// bomb returns a small PDF whose page expands to about a number of bytes, by
// repetition. Only the first blocks are compressed: the others repeat the bytes of
// the second one, and the end of the stream is missing.
func bomb(unfolded int, before, again, after string) []byte {
	var packed bytes.Buffer
	z := zlib.NewWriter(&packed)
	io.WriteString(z, "BT /F1 12 Tf "+before)
	block := []byte(strings.Repeat(again, max(1, min(1<<20, unfolded)/len(again))))
	z.Write(block)
	z.Flush()
	if unfolded > len(block) {
		z.Write(block)
		z.Flush()
		first := packed.Len()
		z.Write(block)
		z.Flush()
		more := bytes.Clone(packed.Bytes()[first:])
		for n := 3 * len(block); n < unfolded; n += len(block) {
			packed.Write(more)
		}
	}
	io.WriteString(z, after+" ET ")
	z.Close()
	return objects("<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[3 0 R]/Count 1>>",
		"<</Type/Page/Parent 2 0 R/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>",
		fmt.Sprintf("<</Length %d/Filter/FlateDecode>>\nstream\n%s\nendstream", packed.Len(), packed.Bytes()),
		"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>")
}

// circle returns a PDF whose page tree has a cycle.
func circle() []byte {
	return objects("<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[2 0 R 2 0 R]/Count 3/Parent 2 0 R>>")
}

// manyPages returns a small PDF that claims to have many pages.
func manyPages() []byte {
	return objects("<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[3 0 R]/Count 99999999>>", "<</Type/Page/Parent 2 0 R>>")
}
