package transfer

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/blob"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/logtest"
)

// emptyLines is a file of n line breaks.
func emptyLines(n int) io.Reader { return io.LimitReader(onlyLineBreaks{}, int64(n)) }

type onlyLineBreaks struct{}

func (onlyLineBreaks) Read(b []byte) (int, error) {
	for n := 0; n < len(b); {
		n += copy(b[n:], lineBreaks)
	}
	return len(b), nil
}

// readers make the reader of each format, and texts have an item in it.
var (
	readers = map[string]func(io.Reader) itemReader{
		JSON: func(from io.Reader) itemReader { return &jsonItemReader{lineReader: newLineReader(from)} },
		Ion:  func(from io.Reader) itemReader { return newIonReader(from) },
		CSV: func(from io.Reader) itemReader {
			things := thingsTable("Things")
			return newCSVReader(from, &CSVOptions{Header: []string{"id"}}, &things)
		},
	}
	texts = map[string]string{JSON: `{"Item":{"id":{"S":"a"}}}`, Ion: `{Item:{id:"a"}}`, CSV: "a"}
)

// Empty lines are skipped and counted, with both line breaks and wherever the
// buffer ends.
func TestEmptyLines(t *testing.T) {
	for format, open := range readers {
		for _, empty := range []string{"\n", "\r\n", "\n\r\n"} {
			for _, n := range []int{0, 1, 63, 64, 65, 256 << 10} {
				for _, offset := range []string{"", "\n"} {
					gap := offset + strings.Repeat(empty, n)
					r := open(strings.NewReader(gap + texts[format] + "\n" + gap + texts[format] + gap))
					lines := strings.Count(gap, "\n")
					for i, want := range []int{lines + 1, 2*lines + 2} {
						it, err := r.next()
						if v, _ := it.Get("id"); err != nil || !item.Equal(v, item.String("a")) || r.line() != want {
							t.Fatalf("%s, %d of %q: item %d is %v at line %d, %v; want line %d", format, n, empty, i, it, r.line(), err, want)
						}
					}
					if _, err := r.next(); !errors.Is(err, io.EOF) {
						t.Fatalf("%s, %d of %q: at the end: %v", format, n, empty, err)
					}
				}
			}
		}
	}
}

// An error that is not the end of the file is returned, also after empty lines.
func TestErrorAfterEmptyLines(t *testing.T) {
	broken := errors.New("broken")
	for format, open := range readers {
		r := open(io.MultiReader(emptyLines(1000), &failingOnce{broken}))
		if _, err := r.next(); !errors.Is(err, broken) {
			t.Errorf("%s: the error is %v", format, err)
		}
	}
}

// failingOnce returns an error once, and then the end of the file.
type failingOnce struct{ err error }

func (f *failingOnce) Read([]byte) (int, error) {
	if err := f.err; err != nil {
		f.err = nil
		return 0, err
	}
	return 0, io.EOF
}

// Empty lines are skipped many at a time. The control reads them one at a time,
// and takes far longer.
func TestEmptyLinesAreSkippedTogether(t *testing.T) {
	const n = 4 << 20
	fastest := func(read func()) time.Duration {
		best := time.Duration(1<<63 - 1)
		for range 5 {
			began := time.Now()
			read()
			best = min(best, time.Since(began))
		}
		return best
	}
	control := fastest(func() {
		from := bufio.NewReaderSize(emptyLines(n), 256<<10)
		for {
			if _, err := from.ReadSlice('\n'); err != nil {
				return
			}
		}
	})
	for format, open := range readers {
		took := fastest(func() {
			if _, err := open(emptyLines(n)).next(); !errors.Is(err, io.EOF) {
				t.Errorf("%s: %v", format, err)
			}
		})
		if took > control/3 {
			t.Errorf("%s: %d empty lines take %v, and %v when read one at a time", format, n, took, control)
		}
	}
}

// emptyLinesBucket has one file, of that many empty lines.
type emptyLinesBucket struct {
	blob.Place
	lines int
}

func (b emptyLinesBucket) Open(context.Context, string) (io.ReadCloser, error) {
	return io.NopCloser(emptyLines(b.lines)), nil
}

// The progress of an import is reported by bytes where there are no items.
func TestProgressWithoutItems(t *testing.T) {
	for _, chunks := range []int{1, 16} {
		reports, last := 0, int64(-1)
		in := &importReader{
			ctx: t.Context(), place: emptyLinesBucket{lines: chunks * progressBytes}, job: &Job{Format: JSON, Import: &Import{}},
			files: []blob.File{{Name: "empty.json"}}, log: new(logtest.Log).Logger(),
		}
		in.report = func() error {
			reports++
			if in.bytes.Load() <= last {
				return fmt.Errorf("the bytes were %d and are %d", last, in.bytes.Load())
			}
			last = in.bytes.Load()
			return nil
		}
		for _, err := range in.items() {
			t.Fatal(err)
		}
		if reports != chunks || in.bytes.Load() != int64(chunks*progressBytes) {
			t.Errorf("%d reports and %d bytes for a file of %d bytes", reports, in.bytes.Load(), chunks*progressBytes)
		}
	}
}

// An import whose report fails stops within a file without items, and the file
// is not blamed.
func TestImportStopsWithoutItems(t *testing.T) {
	in := &importReader{
		ctx: t.Context(), place: emptyLinesBucket{lines: 1 << 50}, job: &Job{Format: JSON, Import: &Import{}},
		files: []blob.File{{Name: "empty.json"}}, log: new(logtest.Log).Logger(),
	}
	fail := errSuperseded
	in.report = func() (err error) {
		err, fail = fail, nil // only the first report fails
		return err
	}
	for _, err := range in.items() {
		if !errors.Is(err, errSuperseded) || errors.As(err, new(*jobError)) {
			t.Errorf("the import ends with %v", err)
		}
	}
}
