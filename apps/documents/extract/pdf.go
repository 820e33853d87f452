package extract

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"time"

	"github.com/ledongthuc/pdf"
)

// childVariable is in the environment of a process that reads one PDF.
const childVariable = "DOCUMENTS_READ_PDF"

// The bounds of reading a PDF. A page's content is compressed, and a small file
// can unfold to terabytes; so the reader is watched, and ends.
const (
	pdfMemory = 192 << 20
	pdfStack  = 32 << 20
	pdfPages  = 500
)

// How a child ends.
const (
	childUnreadable = 3
	childTooLarge   = 4
)

// PDFReader has the text of PDFs read by processes of their own, a few at a time.
type PDFReader struct {
	timeout time.Duration
	turns   chan struct{}
}

// NewPDFReader makes a reader of so many at a time. Who uses it must call
// ChildMain first of all in main.
func NewPDFReader(atOnce int, timeout time.Duration) *PDFReader {
	return &PDFReader{timeout: timeout, turns: make(chan struct{}, atOnce)}
}

// Text is the text of a PDF, row by row.
func (p *PDFReader) Text(ctx context.Context, data []byte) (string, error) {
	select {
	case p.turns <- struct{}{}:
		defer func() { <-p.turns }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("start the reader of PDFs: %w", err)
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
		return strings.ToValidUTF8(text.String(), " "), nil
	case ctx.Err() != nil:
		return "", ctx.Err()
	case within.Err() != nil:
		return "", unreadable("the PDF could not be read within %v", p.timeout)
	case errors.As(err, &ended) && ended.ExitCode() == childUnreadable:
		return "", unreadable("the PDF cannot be read: %.300s", strings.TrimSpace(why.String()))
	case errors.As(err, &ended) && ended.ExitCode() == childTooLarge:
		return "", unreadable("the PDF needs more than the %d MB that reading one may take", pdfMemory>>20)
	case errors.As(err, &ended):
		return "", unreadable("the PDF broke its reader (%v)", ended)
	}
	return "", fmt.Errorf("start the reader of PDFs: %w", err)
}

// limited keeps what a child says, up to a bound.
type limited struct{ bytes.Buffer }

func (l *limited) Write(b []byte) (int, error) {
	if l.Len()+len(b) > maxText {
		return 0, errors.New("the reader of PDFs says too much")
	}
	return l.Buffer.Write(b)
}

// ChildMain reads a PDF from stdin and ends the process, if it was started for
// that; otherwise it does nothing.
func ChildMain() {
	if os.Getenv(childVariable) == "" {
		return
	}
	debug.SetMaxStack(pdfStack)
	debug.SetMemoryLimit(pdfMemory)
	go watch()
	data, err := io.ReadAll(io.LimitReader(os.Stdin, MaxFile+1))
	if err == nil {
		err = writeText(os.Stdout, data)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(childUnreadable)
	}
	os.Exit(0)
}

// watch ends the process when it has taken too much memory.
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

// writeText writes the text of all pages.
func writeText(w io.Writer, data []byte) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("it is damaged: %v", p)
		}
	}()
	r, err := pdf.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return err
	}
	pages := r.NumPage()
	if pages > pdfPages {
		return fmt.Errorf("it has %d pages, but at most %d are read", pages, pdfPages)
	}
	written := 0
	for n := 1; n <= pages; n++ {
		page := r.Page(n)
		if page.V.IsNull() {
			continue
		}
		rows, err := page.GetTextByRow()
		if err != nil {
			return fmt.Errorf("page %d: %w", n, err)
		}
		for _, row := range rows {
			line := joined(row.Content) + "\n"
			if written += len(line); written > maxText {
				return fmt.Errorf("it has more text than the %d bytes that are read", maxText)
			}
			if _, err := io.WriteString(w, line); err != nil {
				return err
			}
		}
	}
	return nil
}

// joined is the text of a row. Single letters belong together, longer pieces are
// words of their own.
func joined(pieces pdf.TextHorizontal) string {
	var line strings.Builder
	before := 0
	for _, p := range pieces {
		if line.Len() > 0 && (before > 1 || len([]rune(p.S)) > 1) {
			line.WriteByte(' ')
		}
		line.WriteString(p.S)
		before = len([]rune(p.S))
	}
	return line.String()
}
