package extract

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

func withOCR(t *testing.T) *Builtin {
	t.Helper()
	x := builtin()
	x.OCR = NewOCR("tesseract", "eng", 2, time.Minute)
	if why := x.OCR.Missing(); why != "" {
		t.Skip(why)
	}
	return x
}

// Most fields of pictures and scanned PDF files are read right, and their
// confidence is below the one of text.
func TestScans(t *testing.T) {
	x := withOCR(t)
	all := corpus(t, "testdata/scans")
	var s score
	for _, name := range slices.Sorted(maps.Keys(all)) {
		data, err := os.ReadFile(filepath.Join("testdata/scans", name))
		if err != nil {
			t.Fatal(err)
		}
		doc, err := x.Read(t.Context(), File{name, data})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if doc.Reader != "ocr" || len(doc.Pages) != 1 || len(doc.Pages[0].Picture) == 0 {
			t.Errorf("%s: read by %q, %d pages", name, doc.Reader, len(doc.Pages))
		}
		s.read(t, name, &doc, all[name])
	}
	t.Logf("%d of %d fields of %d scans are right: %.1f %%", s.right, s.all, len(all), s.percent())
	for _, w := range s.wrong {
		t.Log(w)
	}
	if s.percent() < 90 {
		t.Error("fewer than 90 % of the fields")
	}
}

// The places of fields of a scan are where its words are, and the confidence is not
// above the one of OCR.
func TestScanPlaces(t *testing.T) {
	x := withOCR(t)
	read := func(file string) Result {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		r, err := x.Extract(t.Context(), File{file, data}, extraction(t, corpusExtraction))
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	scan, text := read("testdata/scans/fax.pdf"), read("testdata/corpus/gs-helvetica.pdf")
	for i, f := range scan.Fields {
		if len(f.Places) == 0 || len(text.Fields[i].Places) != len(f.Places) {
			t.Errorf("%s: places %v and %v", f.Name, f.Places, text.Fields[i].Places)
			continue
		}
		a, b := f.Places[0].Box, text.Fields[i].Places[0].Box
		if a.X < b.X-8 || a.X+a.W > b.X+b.W+8 || a.Y < b.Y-8 || a.Y+a.H > b.Y+b.H+8 {
			t.Errorf("%s is at %+v in the scan and at %+v in the text", f.Name, a, b)
		}
		if f.Confidence > text.Fields[i].Confidence {
			t.Errorf("%s: confidence %.3f of the scan, %.3f of the text", f.Name, f.Confidence, text.Fields[i].Confidence)
		}
	}
}

// Without an OCR program the reason says what to install.
func TestNoOCR(t *testing.T) {
	for _, ocr := range []*OCR{nil, NewOCR("no-such-program", "eng", 1, time.Second)} {
		x := builtin()
		x.OCR = ocr
		for _, name := range []string{"plain.png", "photo.jpg", "scan.tif", "jpeg.pdf", "flate.pdf", "fax.pdf"} {
			data, err := os.ReadFile(filepath.Join("testdata/scans", name))
			if err != nil {
				t.Fatal(err)
			}
			_, err = x.Extract(t.Context(), File{name, data}, extraction(t, invoice))
			if !IsUnreadable(err) || !strings.Contains(err.Error(), "install tesseract-ocr") {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

// Hostile pictures are unreadable.
func TestHostilePictures(t *testing.T) {
	x := withOCR(t)
	header := []byte("\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x01\x00\x00\x00\x01\x00\x00\x08\x02\x00\x00\x00\x30\x6f\x65\xc1")
	for name, data := range map[string][]byte{
		"huge PNG":    header,
		"broken PNG":  append([]byte("\x89PNG\r\n\x1a\n"), bytes.Repeat([]byte("x"), 1000)...),
		"broken JPEG": append([]byte("\xff\xd8\xff"), bytes.Repeat([]byte("x"), 1000)...),
		"broken TIFF": append([]byte("II*\x00\xff\xff\xff\x7f"), bytes.Repeat([]byte("x"), 1000)...),
		// A TIFF file may name another file in its text; Tesseract reads lists of files
		// from input that is no picture.
		"list of files": []byte("II*\x00\n/etc/passwd\n"),
	} {
		if r, err := x.Extract(t.Context(), File{"a", data}, extraction(t, invoice)); !IsUnreadable(err) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

// scanned returns a PDF of one page that is covered by a picture with a filter.
func scanned(filter, data string) []byte {
	var b bytes.Buffer
	objects := 0
	add := func(format string, args ...any) {
		objects++
		fmt.Fprintf(&b, "%d 0 obj\n%s\nendobj\n", objects, fmt.Sprintf(format, args...))
	}
	content := "q 595 0 0 842 0 0 cm /I Do Q"
	b.WriteString("%PDF-1.4\n")
	add("<</Type/Catalog/Pages 2 0 R>>")
	add("<</Type/Pages/Kids[3 0 R]/Count 1>>")
	add("<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Resources<</XObject<</I 4 0 R>>>>/Contents 5 0 R>>")
	add("<</Type/XObject/Subtype/Image/Width 100/Height 100/ColorSpace/DeviceRGB/BitsPerComponent 8/Filter/%s/Length %d>>\nstream\n%s\nendstream", filter, len(data), data)
	add("<</Length %d>>\nstream\n%s\nendstream", len(content), content)
	fmt.Fprintf(&b, "trailer<</Size %d/Root 1 0 R>>\n%%%%EOF\n", objects+1)
	return b.Bytes()
}

// Data that is no picture does not reach Tesseract, which would take it for a list
// of names of files, and read these.
func TestListOfFiles(t *testing.T) {
	x := withOCR(t)
	other, err := filepath.Abs("testdata/scans/plain.png")
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string]string{
		"names":            other + "\n",
		"after a line":     "\n" + other + "\n",
		"after JPEG bytes": "\xff\xd8\n" + other + "\n",
		"after a sign":     "\xff\xd8\xff\n" + other + "\n",
		"empty":            "\n",
	} {
		doc, err := x.Read(t.Context(), File{"a.pdf", scanned("DCTDecode", data)})
		if !IsUnreadable(err) {
			t.Errorf("%s: %d pages, %q, %v", name, len(doc.Pages), doc.Text(), err)
		}
		if pages, err := x.OCR.recognise(t.Context(), []byte(data), 0); !IsUnreadable(err) {
			t.Errorf("%s: %d pages, %v", name, len(pages), err)
		}
	}
	photo, err := os.ReadFile("testdata/scans/photo.jpg")
	if err != nil {
		t.Fatal(err)
	}
	if doc, err := x.Read(t.Context(), File{"a.pdf", scanned("DCTDecode", string(photo))}); err != nil || doc.Reader != "ocr" {
		t.Errorf("a JPEG: read by %q, %v", doc.Reader, err)
	}
}

// The programs that parse pictures and PDF files do not get the secrets of the
// environment.
func TestEnvironmentOfPrograms(t *testing.T) {
	t.Setenv("DOCUMENTS_OIDC_SECRET", "secret")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("TESSDATA_PREFIX", "/models")
	t.Setenv("LANG", "C.UTF-8")
	t.Setenv("TMPDIR", t.TempDir())
	env, err := exec.LookPath("env")
	if err != nil {
		t.Skip(err)
	}
	out, err := NewOCR("tesseract", "eng", 1, time.Minute).run(t.Context(), env, nil)
	if err != nil {
		t.Fatal(err)
	}
	got := make(map[string]string)
	for line := range strings.Lines(string(out)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		got[name] = value
	}
	want := map[string]string{"PATH": os.Getenv("PATH"), "LANG": "C.UTF-8", "TESSDATA_PREFIX": "/models", "OMP_THREAD_LIMIT": "1", "TMPDIR": os.Getenv("TMPDIR")}
	for name, value := range want {
		if got[name] != value {
			t.Errorf("%s is %q, not %q", name, got[name], value)
		}
	}
	for name := range got {
		// The shell sets these.
		if _, ok := want[name]; !ok && !slices.Contains([]string{"PWD", "OLDPWD", "SHLVL", "_"}, name) {
			t.Errorf("the program gets %s", name)
		}
	}
}
