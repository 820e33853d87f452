package pdf

import (
	"bytes"
	"compress/zlib"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// objects returns a PDF of objects, the first of which is its catalog.
func objects(all ...string) []byte {
	var out bytes.Buffer
	out.WriteString("%PDF-1.7\n")
	for i, o := range all {
		fmt.Fprintf(&out, "%d 0 obj\n%s\nendobj\n", i+1, o)
	}
	fmt.Fprintf(&out, "trailer\n<</Size %d/Root 1 0 R>>\n", len(all)+1)
	return out.Bytes()
}

func packed(text []byte) string {
	var out bytes.Buffer
	z := zlib.NewWriter(&out)
	z.Write(text)
	z.Close()
	return out.String()
}

func streamOf(d string, data string) string {
	return fmt.Sprintf("<<%s/Length %d>>\nstream\n%s\nendstream", d, len(data), data)
}

// page returns a PDF with one page of content, and more objects from number 6 on.
func page(content string, more ...string) []byte {
	return objects(append([]string{"<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[3 0 R]/Count 1>>",
		"<</Type/Page/Parent 2 0 R/Contents 4 0 R/MediaBox[0 0 200 200]/Resources<</Font<</F1 5 0 R>>/XObject<</X 6 0 R>>>>>>",
		streamOf("", content), "<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>"}, more...)...)
}

func textOf(d *Document) string {
	out := ""
	for _, p := range d.Pages {
		for _, g := range p.Glyphs {
			out += g.Text
		}
	}
	return out
}

// Files are read in spite of damage that other readers forgive, too.
func TestDamage(t *testing.T) {
	good := page("BT /F1 12 Tf 10 10 Td (Total 12) Tj ET")
	for name, data := range map[string][]byte{
		"no table":          good,
		"wrong table":       append(bytes.Clone(good), "startxref\n7\n%%EOF"...),
		"wrong length":      bytes.Replace(good, []byte("/Length 3"), []byte("/Length 9"), 1),
		"bytes before":      append([]byte("some bytes\n"), good...),
		"no end of objects": bytes.ReplaceAll(good, []byte("endobj"), nil),
		"unknown operators": page("BT /F1 12 Tf (Tot) Tj ] >> 3 nothing (al 12) Tj ET"),
		"filters":           objects("<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[3 0 R]/Count 1>>", "<</Type/Page/Contents 4 0 R>>", streamOf("/Filter[/AHx/Fl]", fmt.Sprintf("%x>", packed([]byte("BT /F1 9 Tf (Total 12) Tj ET"))))),
		"content in parts":  objects("<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[3 0 R]/Count 1>>", "<</Type/Page/Contents[4 0 R 5 0 R]>>", streamOf("", "BT /F1 9 Tf (Tot) Tj"), streamOf("", "(al 12) Tj ET")),
		"cut flate":         objects("<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[3 0 R]/Count 1>>", "<</Type/Page/Contents 4 0 R>>", streamOf("/Filter/FlateDecode", strings.TrimSuffix(packed([]byte("BT /F1 9 Tf (Total 12) Tj ET")), packed(nil)[2:]))),
	} {
		d, err := Read(t.Context(), data, Limits{})
		if err != nil || textOf(d) != "Total 12" {
			t.Errorf("%s: %v, %v", name, d, err)
		}
	}
}

// Hostile files end with an error or without text, by their limits and in little memory.
func TestHostile(t *testing.T) {
	bomb := packed(bytes.Repeat([]byte{' '}, 100<<20))
	twice := packed([]byte(packed(bytes.Repeat([]byte{' '}, 100<<20))))
	deep := strings.Repeat("[", 1<<20)
	for name, data := range map[string][]byte{
		"bomb":               page("", streamOf("/Subtype/Form/Filter/FlateDecode", bomb)),
		"bomb in a form":     page("/X Do", streamOf("/Subtype/Form/Filter/FlateDecode", bomb)),
		"bomb in a bomb":     page("/X Do", streamOf("/Subtype/Form/Filter[/FlateDecode/FlateDecode]", twice)),
		"form in itself":     page("/X Do /X Do", streamOf("/Subtype/Form/Resources<</XObject<</X 6 0 R>>>>", "/X Do /X Do /X Do /X Do /X Do /X Do /X Do /X Do")),
		"deep arrays":        page(deep),
		"deep dictionaries":  page(strings.Repeat("<</A ", 1<<18)),
		"deep object":        objects("<</Type/Catalog/Pages " + deep),
		"length of itself":   objects("<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[3 0 R]/Count 1>>", "<</Type/Page/Contents 4 0 R>>", "<</Length 4 0 R>>\nstream\nBT ET\nendstream"),
		"reference circle":   objects("2 0 R", "3 0 R", "1 0 R"),
		"pages in a circle":  objects("<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[2 0 R 2 0 R 3 0 R]>>", "<</Kids[2 0 R]>>"),
		"tables in a circle": append(objects("<</Type/Catalog>>"), "xref\n0 1\n0000000000 65535 f \ntrailer\n<</Prev 5/Size 99999999>>\nstartxref\n60\n%%EOF"...),
		"huge table":         []byte("%PDF-1.5\nxref\n0 999999999\n" + strings.Repeat("0000000010 00000 n \n", 1000) + "startxref\n9\n%%EOF"),
		"huge object stream": objects("<</Type/Catalog/Pages 9 0 R>>", streamOf("/Type/ObjStm/N 99999999/First 10", "9 0")),
		"predictor":          page("/X Do", streamOf("/Subtype/Form/Filter/FlateDecode/DecodeParms<</Predictor 15/Columns 1000000/Colors 32/BitsPerComponent 16>>", packed(bytes.Repeat([]byte{4}, 1<<20)))),
		"many saves":         page(strings.Repeat("q ", 1<<20)),
		"open string":        page("(" + strings.Repeat("((", 1<<20)),
		"inline picture":     page("BI /W 1 ID " + strings.Repeat("EI", 1<<20)),
		"empty":              nil,
	} {
		t.Run(name, func(t *testing.T) {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			// The limits end it, and not this time, which is long enough for the race detector.
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
			defer cancel()
			d, err := Read(ctx, data, Limits{Decoded: 32 << 20})
			runtime.ReadMemStats(&after)
			if err == nil && textOf(d) != "" {
				t.Errorf("text %.40q", textOf(d))
			}
			if ctx.Err() != nil {
				t.Error("no limit ends it")
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 600<<20 {
				t.Errorf("it allocates %d MB", used>>20)
			}
			t.Log(err)
		})
	}
}

// The control: content below the limits is read.
func TestNoBomb(t *testing.T) {
	d, err := Read(t.Context(), page("/X Do", streamOf("/Subtype/Form/Filter/FlateDecode", packed([]byte("BT /F1 12 Tf (Total) Tj ET")))), Limits{Decoded: 1000})
	if err != nil || textOf(d) != "Total" {
		t.Errorf("%v, %v", d, err)
	}
}

// Encodings give the text of codes without a ToUnicode map.
func TestEncodings(t *testing.T) {
	for _, c := range []struct{ name, font, codes, want string }{
		{"standard", "", "\\256\\341'", "fiÆ’"},
		{"WinAnsi", "/Encoding/WinAnsiEncoding", "\\200\\344'", "€ä'"},
		{"MacRoman", "/Encoding/MacRomanEncoding", "\\212\\333", "ä€"},
		{"differences", "/Encoding<</Differences[1/T/o/t/a/l/Euro/adieresis/Zcaron/f_f_i/uni20AC/u1F4C4/one.alt]>>", "\\001\\002\\003\\004\\005\\006\\007\\010\\011\\012\\013\\014", "Total€äŽffi€📄1"},
		{"unknown names", "/Encoding<</Differences[1/g17/ ]>>", "\\001\\002", "\ufffd\ufffd"},
		{"numbers of their codes", "/Encoding<</Differences[27/a27 84/c84]>>", "\\033T", "ffT"},
	} {
		data := page("BT /F1 12 Tf ("+c.codes+") Tj ET", "null")
		data = bytes.Replace(data, []byte("/BaseFont/Helvetica"), []byte("/BaseFont/Own"+c.font), 1)
		if d, err := Read(t.Context(), data, Limits{}); err != nil || textOf(d) != c.want {
			t.Errorf("%s: %q, %v, want %q", c.name, textOf(d), err, c.want)
		}
	}
}

// No file causes a panic, an endless loop or much memory.
func FuzzRead(f *testing.F) {
	f.Add(page("BT /F1 12 Tf 10 10 Td [(Tot) -20 (al)] TJ ET"))
	f.Add(objects("<</Type/Catalog/Pages 2 0 R>>", "<</Type/Pages/Kids[2 0 R 2 0 R]/Count 3/Parent 2 0 R>>"))
	all, err := filepath.Glob("../testdata/corpus/*.pdf")
	if err != nil || len(all) == 0 {
		f.Fatal("no corpus", err)
	}
	for _, name := range all {
		if data, err := os.ReadFile(name); err == nil && len(data) < 13_000 {
			f.Add(data)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		d, err := Read(ctx, data, Limits{Pages: 20, Decoded: 8 << 20, Tokens: 500_000, Glyphs: 50_000})
		if err == nil && len(d.Pages) == 0 {
			t.Error("no pages and no error")
		}
		if ctx.Err() != nil {
			t.Error("it takes more than 10 s")
		}
	})
}
