package extract

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"time"
	"unicode"

	"github.com/stator-db/stator/apps/documents/extract/layout"
	"github.com/stator-db/stator/apps/documents/extract/pdf"
)

// childVariable is set in the environment of a child process that reads a PDF.
const childVariable = "DOCUMENTS_READ_PDF"

// The limits of reading a PDF. Page content is compressed, and a small file can
// expand to terabytes, so the child process limits itself.
const (
	pdfMemory = 192 << 20
	pdfStack  = 32 << 20
	pdfPages  = 500
	maxOutput = 64 << 20
)

// Exit codes of the child process.
const (
	childUnreadable = 3
	childTooLarge   = 4
)

// PDFReader reads the text of PDFs in child processes, a few at a time.
type PDFReader struct {
	timeout time.Duration
	slots   slots
}

// NewPDFReader returns a reader that runs a number of child processes at a time.
// The program must call ChildMain at the start of main.
func NewPDFReader(atOnce int, timeout time.Duration) *PDFReader {
	return &PDFReader{timeout: timeout, slots: make(slots, atOnce)}
}

// Read returns the positioned text of a PDF.
func (p *PDFReader) Read(ctx context.Context, data []byte) (layout.Document, error) {
	var doc layout.Document
	out, err := p.run(ctx, data)
	if err == nil {
		if err = json.Unmarshal(out, &doc); err != nil {
			err = fmt.Errorf("decode what the PDF reader wrote: %w", err)
		}
	}
	return doc, err
}

// run runs a child process, and returns what it writes.
func (p *PDFReader) run(ctx context.Context, data []byte) ([]byte, error) {
	if err := p.slots.acquire(ctx); err != nil {
		return nil, err
	}
	defer p.slots.release()
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("start the PDF reader: %w", err)
	}
	within, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	var text, why limited
	child := exec.CommandContext(within, self)
	child.Env = []string{childVariable + "=1", "GOMAXPROCS=1"}
	child.Stdin, child.Stdout, child.Stderr = bytes.NewReader(data), &text, &why
	child.WaitDelay = time.Second
	err = child.Run()
	var ended *exec.ExitError
	switch {
	case err == nil:
		return text.Bytes(), nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case within.Err() != nil:
		return nil, unreadable("the PDF could not be read within %v", p.timeout)
	case errors.As(err, &ended) && ended.ExitCode() == childUnreadable:
		return nil, unreadable("the PDF cannot be read: %.300s", strings.TrimSpace(why.String()))
	case errors.As(err, &ended) && ended.ExitCode() == childTooLarge:
		return nil, unreadable("reading the PDF needs more than %d MB of memory", pdfMemory>>20)
	case errors.As(err, &ended):
		return nil, unreadable("the PDF crashed its reader (%v)", ended)
	}
	return nil, fmt.Errorf("start the PDF reader: %w", err)
}

// limited is a buffer with a maximum size.
type limited struct{ bytes.Buffer }

func (l *limited) Write(b []byte) (int, error) {
	if l.Len()+len(b) > maxOutput {
		return 0, errors.New("the PDF reader writes too much")
	}
	return l.Buffer.Write(b)
}

// ChildMain reads a PDF from stdin and exits, if the process was started for that;
// otherwise it returns at once.
func ChildMain() {
	if os.Getenv(childVariable) == "" {
		return
	}
	debug.SetMaxStack(pdfStack)
	debug.SetMemoryLimit(pdfMemory)
	go watch()
	data, err := io.ReadAll(io.LimitReader(os.Stdin, MaxFile+1))
	if err == nil {
		err = readPDF(os.Stdout, data)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(childUnreadable)
	}
	os.Exit(0)
}

// watch exits the process if it uses too much memory.
func watch() {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	for {
		metrics.Read(sample)
		if sample[0].Value.Uint64() > pdfMemory {
			os.Exit(childTooLarge)
		}
		time.Sleep(2 * time.Millisecond)
	}
}

// readPDF reads a PDF and writes it as JSON.
func readPDF(w io.Writer, data []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it is damaged: %v", p)
		}
	}()
	d, err := pdf.Read(context.Background(), data, pdf.Limits{Pages: pdfPages})
	if err != nil {
		return err
	}
	doc := layout.Document{Reader: "pdf"}
	size, pictures := 0, 0
	for i := range d.Pages {
		page := layout.FromPDF(&d.Pages[i])
		for i := range page.Rows {
			size += len(page.Rows[i].Text()) + 1
		}
		if size > maxText {
			return fmt.Errorf("it has more than the limit of %d bytes of text", maxText)
		}
		if page.Scan = d.Pages[i].Scanned() && !readable(&page); page.Scan && pictures < maxPictures {
			if page.Picture, err = d.Picture(i); err != nil {
				return err
			}
			pictures += len(page.Picture)
		}
		doc.Pages = append(doc.Pages, page)
	}
	return json.NewEncoder(w).Encode(doc)
}

// maxPictures is the size of pictures after which no more are extracted.
const maxPictures = 24 << 20

// readable reports whether a page has text. A few characters, or many that are not
// known, are none.
func readable(p *layout.Page) bool {
	known, unknown := 0, 0
	for _, r := range p.Rows {
		for _, c := range r.Text() {
			switch {
			case c == unicode.ReplacementChar:
				unknown++
			case unicode.IsLetter(c) || unicode.IsDigit(c):
				known++
			}
		}
	}
	return known >= 10 && known > unknown
}
