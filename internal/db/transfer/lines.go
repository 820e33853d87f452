package transfer

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/protocol/wire"
)

// fullLines append the line of an item in an export, by format.
var fullLines = map[string]func([]byte, item.Item) []byte{
	JSON: func(dst []byte, it item.Item) []byte {
		dst = append(dst, `{"Item":`...)
		return append(wire.AppendItem(dst, it), "}\n"...)
	},
	Ion: func(dst []byte, it item.Item) []byte {
		dst = append(dst, "$ion_1_0 {Item:"...)
		return append(appendIonStruct(dst, it), "}\n"...)
	},
}

// recordLines append the line of a changed item in an export, by format.
var recordLines = map[string]func([]byte, *exportRecord) []byte{
	JSON: func(dst []byte, r *exportRecord) []byte {
		dst = append(dst, `{"Metadata":{"WriteTimestampMicros":{"N":"`...)
		dst = strconv.AppendInt(dst, r.at.UnixMicro(), 10)
		dst = append(dst, `"}},"Keys":`...)
		dst = wire.AppendItem(dst, r.keys)
		if r.before != nil {
			dst = wire.AppendItem(append(dst, `,"OldImage":`...), r.before)
		}
		if r.after != nil {
			dst = wire.AppendItem(append(dst, `,"NewImage":`...), r.after)
		}
		return append(dst, "}\n"...)
	},
	Ion: func(dst []byte, r *exportRecord) []byte {
		dst = append(dst, "$ion_1_0 {Record:{Metadata:{WriteTimestampMicros:"...)
		dst = strconv.AppendInt(dst, r.at.UnixMicro(), 10)
		dst = append(dst, ".},Keys:"...)
		dst = appendIonStruct(dst, r.keys)
		if r.before != nil {
			dst = appendIonStruct(append(dst, ",OldImage:"...), r.before)
		}
		if r.after != nil {
			dst = appendIonStruct(append(dst, ",NewImage:"...), r.after)
		}
		return append(dst, "}}\n"...)
	},
}

// itemReader reads the items of one file.
type itemReader interface {
	// next is the next item, valid until the one after. A *badItem tells that
	// one could not be read, and others follow; io.EOF that there are no more;
	// another error that the file is damaged.
	next() (item.Item, error)

	// line is where in the file the item before stood.
	line() int
}

// badItem is one that cannot be read.
type badItem struct{ err error }

func (b *badItem) Error() string { return b.err.Error() }

// Unwrap is the reason.
func (b *badItem) Unwrap() error { return b.err }

// maxTextBytes is how long the text of an item may be. No item that fits a table has
// a longer one.
const maxTextBytes = 8 << 20

var (
	errTooLong   = &badItem{fmt.Errorf("the text of the item is longer than %d bytes", maxTextBytes)}
	errTruncated = errors.New("the file ends within an item")
)

// lineReader reads lines of bounded length.
type lineReader struct {
	from   *bufio.Reader
	joined []byte
	number int
}

func newLineReader(from io.Reader) *lineReader {
	l := &lineReader{from: bufio.NewReaderSize(from, 256<<10)}
	if mark, err := l.from.Peek(3); err == nil && string(mark) == "\xef\xbb\xbf" {
		_, _ = l.from.Discard(3) // it says that the text is UTF-8, which it is anyway
	}
	return l
}

// next is the next line with its end, which only the last may lack.
func (l *lineReader) next() ([]byte, error) {
	l.number++
	line, err := l.from.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return dropFinalEOF(line, err)
	}
	l.joined = append(l.joined[:0], line...)
	for errors.Is(err, bufio.ErrBufferFull) {
		line, err = l.from.ReadSlice('\n')
		if len(l.joined) <= maxTextBytes {
			l.joined = append(l.joined, line...)
		}
	}
	if err == nil || errors.Is(err, io.EOF) {
		if len(l.joined) > maxTextBytes {
			return nil, errTooLong
		}
	}
	return dropFinalEOF(l.joined, err)
}

// dropFinalEOF lets the end of the file come after the last line.
func dropFinalEOF(line []byte, err error) ([]byte, error) {
	if errors.Is(err, io.EOF) && len(line) > 0 {
		return line, nil
	}
	return line, err
}

// jsonItemReader reads lines of {"Item":{…}}.
type jsonItemReader struct {
	*lineReader
	items wire.ItemReader
}

func (r *jsonItemReader) line() int { return r.number }

func (r *jsonItemReader) next() (item.Item, error) {
	for {
		line, err := r.lineReader.next()
		if err != nil {
			return nil, err
		}
		text := bytes.TrimSpace(line)
		if len(text) == 0 {
			continue
		}
		it, err := r.items.Member(text, "Item")
		switch {
		case err == nil:
			return it, nil
		case errors.Is(err, wire.ErrNotJSON) && line[len(line)-1] != '\n':
			return nil, errTruncated
		}
		return nil, &badItem{err}
	}
}
