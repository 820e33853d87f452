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

// childVariable is set in the environment of a child process that reads a PDF.
const childVariable = "DOCUMENTS_READ_PDF"

// The limits of reading a PDF. Page content is compressed, and a small file can
// expand to terabytes, so the child process limits itself.
const (
	pdfMemory = 192 << 20
	pdfStack  = 32 << 20
	pdfPages  = 500
)

// Exit codes of the child process.
const (
	childUnreadable = 3
	childTooLarge   = 4
)

// PDFReader extracts the text of PDFs in child processes, a few at a time.
type PDFReader struct {
	timeout time.Duration
	turns   chan struct{}
}

// NewPDFReader returns a reader that runs a number of child processes at a time.
// The program must call ChildMain at the start of main.
func NewPDFReader(atOnce int, timeout time.Duration) *PDFReader {
	return &PDFReader{timeout: timeout, turns: make(chan struct{}, atOnce)}
}

// Text returns the text of a PDF, row by row.
func (p *PDFReader) Text(ctx context.Context, data []byte) (string, error) {
	select {
	case p.turns <- struct{}{}:
		defer func() { <-p.turns }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	self, err := os.Executable()
	if err != nil {
		return "", fmt.Errorf("start the PDF reader: %w", err)
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
		return "", unreadable("reading the PDF needs more than %d MB of memory", pdfMemory>>20)
	case errors.As(err, &ended):
		return "", unreadable("the PDF crashed its reader (%v)", ended)
	}
	return "", fmt.Errorf("start the PDF reader: %w", err)
}

// limited is a buffer with a maximum size.
type limited struct{ bytes.Buffer }

func (l *limited) Write(b []byte) (int, error) {
	if l.Len()+len(b) > maxText {
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
		err = writeText(os.Stdout, data)
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
				return fmt.Errorf("it has more than the limit of %d bytes of text", maxText)
			}
			if _, err := io.WriteString(w, line); err != nil {
				return err
			}
		}
	}
	return nil
}

// joined returns the text of a row. Single letters are joined, longer pieces are
// separate words.
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
