package extract

import (
	"bytes"
	"context"
	"errors"
	"image"
	"image/png"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// recogniser returns OCR with one slot, by a program that always recognises "Total".
func recogniser(t *testing.T) *OCR {
	t.Helper()
	program := filepath.Join(t.TempDir(), "ocr")
	script := "#!/bin/sh\ncat >/dev/null\n" +
		`printf '1\t1\t0\t0\t0\t0\t0\t0\t100\t100\t-1\t\n5\t1\t1\t1\t1\t1\t10\t10\t30\t10\t90\tTotal\n'` + "\n"
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return NewOCR(program, "eng", 1, time.Minute)
}

// The time in which a document waits for a slot does not count against its limit.
func TestWaitingIsNotCounted(t *testing.T) {
	var picture bytes.Buffer
	if err := png.Encode(&picture, image.NewGray(image.Rect(0, 0, 100, 100))); err != nil {
		t.Fatal(err)
	}
	x := &Builtin{PDF: NewPDFReader(1, time.Minute), OCR: recogniser(t)}
	for name, of := range map[string]struct {
		slots slots
		data  []byte
	}{
		"picture": {x.OCR.slots, picture.Bytes()},
		"PDF":     {x.PDF.slots, pdfOf(goodText)},
	} {
		ctx, cancel := Limit(t.Context(), 2*time.Second)
		of.slots <- struct{}{} // another document is read
		go func() {
			time.Sleep(3 * time.Second)
			of.slots.release()
		}()
		if doc, err := x.Read(ctx, File{"a", of.data}); err != nil || len(doc.Pages) != 1 {
			t.Errorf("%s: %d pages, %v", name, len(doc.Pages), err)
		}
		// What runs counts, also after a wait.
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Second):
		}
		if cause := context.Cause(ctx); !errors.Is(cause, ErrLimit) {
			t.Errorf("%s: the limit does not end the context: %v", name, cause)
		}
		cancel()
	}
}

// A document that waits for a slot ends with the context of the limit, and with the
// one that was limited.
func TestWaitingEnds(t *testing.T) {
	s := make(slots, 1)
	s <- struct{}{}
	outer, stop := context.WithCancel(t.Context())
	ctx, cancel := Limit(outer, time.Hour)
	defer cancel()
	time.AfterFunc(10*time.Millisecond, stop)
	if err := s.acquire(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	ctx, cancel = Limit(t.Context(), time.Hour)
	time.AfterFunc(10*time.Millisecond, cancel)
	if err := s.acquire(ctx); err == nil {
		t.Error("a slot that is not free")
	}
}
