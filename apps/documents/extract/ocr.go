package extract

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"image"
	_ "image/jpeg" // JPEG
	_ "image/png"  // PNG
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/stator-db/stator/apps/documents/extract/layout"
)

// The limits of OCR.
const (
	maxOCRPages   = 20
	maxOCRPixels  = 60_000_000
	ocrMemory     = 2 << 30
	ocrResolution = 200 // dots per inch of pages that are rendered
)

// OCR recognises the text of pictures with Tesseract, a few at a time. Pages of PDF
// files whose pictures cannot be extracted are rendered with pdftoppm. If Tesseract
// is not installed, pictures are unreadable, with a reason.
type OCR struct {
	program, renderer string
	languages         string
	timeout           time.Duration
	slots             slots
}

// NewOCR returns OCR by a program, usually "tesseract", with languages such as
// "eng+deu", for a number of pictures at a time.
func NewOCR(program, languages string, atOnce int, timeout time.Duration) *OCR {
	o := &OCR{languages: languages, timeout: timeout, slots: make(slots, atOnce)}
	o.program, _ = exec.LookPath(program)
	o.renderer, _ = exec.LookPath("pdftoppm")
	return o
}

// Missing returns why there is no OCR, or nothing if there is.
func (o *OCR) Missing() string {
	if o == nil || o.program == "" {
		return "there is no OCR program: install tesseract-ocr"
	}
	return ""
}

// isPicture reports whether data is a PNG, JPEG or TIFF picture.
func isPicture(data []byte) bool {
	for _, sign := range []string{"\x89PNG\r\n\x1a\n", "\xff\xd8\xff", "II*\x00", "MM\x00*"} {
		if bytes.HasPrefix(data, []byte(sign)) {
			return true
		}
	}
	return false
}

// Read recognises the pages of a picture.
func (o *OCR) Read(ctx context.Context, data []byte) (layout.Document, error) {
	if why := o.Missing(); why != "" {
		return layout.Document{}, unreadable("the file is a picture, and %s", why)
	}
	pages, err := o.recognise(ctx, data, 0)
	if err == nil && len(pages) == 0 {
		err = unreadable("the picture has no text that can be recognised")
	}
	if err == nil && len(pages) == 1 {
		pages[0].Picture = data
	}
	return layout.Document{Reader: "ocr", Pages: pages}, err
}

// checkPicture returns an error unless data is a PNG, JPEG or TIFF picture of a size
// that is recognised. The size of a TIFF picture is not known.
func checkPicture(data []byte) error {
	if !isPicture(data) {
		return unreadable("the data is not a PNG, JPEG or TIFF picture")
	}
	c, _, err := image.DecodeConfig(bytes.NewReader(data))
	switch {
	case errors.Is(err, image.ErrFormat): // TIFF
		return nil
	case err != nil:
		return unreadable("the picture is damaged: %v", err)
	case c.Height > 0 && c.Width > maxOCRPixels/c.Height:
		return unreadable("the picture has %d x %d points, but at most %d are recognised", c.Width, c.Height, maxOCRPixels)
	}
	return nil
}

// recognise returns the pages of a picture. A width of 0 means the width of a sheet
// of paper.
//
// Every picture passes here, also those that a PDF says it contains. Data that is no
// picture must not reach Tesseract, which takes it for a list of names of files.
func (o *OCR) recognise(ctx context.Context, data []byte, width float64) ([]layout.Page, error) {
	if err := checkPicture(data); err != nil {
		return nil, err
	}
	out, err := o.run(ctx, o.program, data, "stdin", "stdout", "-l", o.languages, "--dpi", strconv.Itoa(ocrResolution), "tsv")
	if err != nil {
		return nil, err
	}
	return parseTSV(string(out), width)
}

// run runs a program with limits of memory and time, on a file or on its input.
func (o *OCR) run(ctx context.Context, program string, data []byte, args ...string) ([]byte, error) {
	if err := o.slots.acquire(ctx); err != nil {
		return nil, err
	}
	defer o.slots.release()
	within, cancel := context.WithTimeout(ctx, o.timeout)
	defer cancel()
	limit := fmt.Sprintf("ulimit -v %d 2>/dev/null; exec \"$0\" \"$@\"", ocrMemory>>10)
	c := exec.CommandContext(within, "/bin/sh", append([]string{"-c", limit, program}, args...)...)
	c.Env = programEnvironment()
	var out, why limited
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(data), &out, &why
	c.WaitDelay = time.Second
	err := c.Run()
	var ended *exec.ExitError
	switch {
	case err == nil:
		return out.Bytes(), nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case within.Err() != nil:
		return nil, unreadable("the picture could not be recognised within %v", o.timeout)
	case errors.As(err, &ended):
		return nil, unreadable("the picture cannot be recognised: %.200s", lastLine(why.String()))
	}
	return nil, fmt.Errorf("start %s: %w", program, err)
}

// programEnvironment returns what programs need of the environment. The rest has
// secrets, and the programs parse files that are not trusted.
func programEnvironment() []string {
	env := []string{"OMP_THREAD_LIMIT=1"}
	for _, name := range []string{"PATH", "LANG", "TESSDATA_PREFIX", "TMPDIR"} {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

func lastLine(text string) string {
	text = strings.TrimSpace(text)
	return text[strings.LastIndexByte(text, '\n')+1:]
}

// parseTSV parses Tesseract's table of pages, blocks, lines and words.
func parseTSV(text string, width float64) ([]layout.Page, error) {
	var pages []layout.Page
	var words []layout.Recognised
	var w, h float64
	flush := func() {
		if w <= 0 || h <= 0 {
			return
		}
		wide := width
		if wide == 0 {
			wide = 595
			if w > h {
				wide = 842
			}
		}
		pages = append(pages, layout.FromWords(wide, h*wide/w, wide/w, words))
		words = nil
	}
	for row := range strings.Lines(text) {
		c := strings.Split(strings.TrimRight(row, "\r\n"), "\t")
		if len(c) < 12 || c[0] == "level" {
			continue
		}
		n := make([]float64, 11)
		for i := range n {
			n[i], _ = strconv.ParseFloat(c[i], 64)
		}
		switch {
		case c[0] == "1":
			flush()
			if len(pages) >= maxOCRPages {
				return pages, nil
			}
			w, h = n[8], n[9]
		case c[0] == "5" && strings.TrimSpace(c[11]) != "":
			box := layout.Box{X: n[6], Y: n[7], W: n[8], H: n[9]}
			line := int(n[2])*1_000_000 + int(n[3])*1000 + int(n[4])
			words = append(words, layout.Recognised{Word: layout.Word{Text: strings.TrimSpace(c[11]), Box: box, Sure: max(0.01, min(1, n[10]/100))}, Line: line})
		}
	}
	flush()
	return pages, nil
}

// addScans recognises the pages of a PDF that have no text.
func (o *OCR) addScans(ctx context.Context, data []byte, doc *layout.Document) error {
	done, text := 0, 0
	for i := range doc.Pages {
		p := &doc.Pages[i]
		if !p.Scan {
			text++
			continue
		}
		if why := o.Missing(); why != "" {
			doc.Notes = append(doc.Notes, fmt.Sprintf("page %d is a picture, and %s", i+1, why))
			continue
		}
		if done++; done > maxOCRPages {
			doc.Notes = append(doc.Notes, fmt.Sprintf("only %d of the scanned pages were recognised", maxOCRPages))
			break
		}
		if err := o.addScan(ctx, data, doc, i); err != nil {
			if !IsUnreadable(err) {
				return err
			}
			doc.Notes = append(doc.Notes, fmt.Sprintf("page %d: %v", i+1, err))
			continue
		}
		text++
		doc.Reader = "ocr"
	}
	if text == 0 && len(doc.Notes) > 0 {
		return unreadable("the PDF has no text: %s", doc.Notes[0])
	}
	return nil
}

// addScan recognises one page.
func (o *OCR) addScan(ctx context.Context, data []byte, doc *layout.Document, i int) error {
	p := &doc.Pages[i]
	picture := p.Picture
	if len(picture) == 0 {
		if o.renderer == "" {
			return unreadable("its picture cannot be extracted, and pdftoppm is not installed")
		}
		n := strconv.Itoa(i + 1)
		var err error
		if picture, err = o.run(ctx, o.renderer, data, "-r", strconv.Itoa(ocrResolution), "-gray", "-png", "-f", n, "-l", n, "-"); err != nil {
			return err
		}
	}
	pages, err := o.recognise(ctx, picture, p.Width)
	if err != nil {
		return err
	}
	if len(pages) == 0 {
		return unreadable("it has no text that can be recognised")
	}
	pages[0].Picture, pages[0].Scan = picture, true
	pages[0].Height = p.Height
	doc.Pages[i] = pages[0]
	return nil
}

// Render returns a page of a PDF as PNG, or an error if pdftoppm is not installed.
func (o *OCR) Render(ctx context.Context, w io.Writer, data []byte, page int) error {
	if o == nil || o.renderer == "" {
		return errors.New("pdftoppm is not installed")
	}
	n := strconv.Itoa(page)
	out, err := o.run(ctx, o.renderer, data, "-r", "100", "-png", "-f", n, "-l", n, "-")
	if err != nil {
		return err
	}
	_, err = w.Write(out)
	return err
}
