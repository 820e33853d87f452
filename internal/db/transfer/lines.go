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

// fullLines append the line of an item in a full export, by format.
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

// recordLines append the line of an item in an incremental export, by format.
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
	// next returns the next item, which is valid until the next call. The error is
	// a *badItem if an item cannot be decoded and reading can continue, io.EOF at
	// the end of the file, and any other error if the file is damaged.
	next() (item.Item, error)

	// line returns the line of the file at which the last item was read.
	line() int
}

// badItem is the error for an item that cannot be decoded.
type badItem struct{ err error }

func (b *badItem) Error() string { return b.err.Error() }

// Unwrap returns the reason.
func (b *badItem) Unwrap() error { return b.err }

// maxTextBytes bounds the text of an item in a file. No item of valid size has a
// longer one.
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
		_, _ = l.from.Discard(3) // the byte order mark of UTF-8
	}
	return l
}

// nextRecord is next, and skips empty lines before the line that it returns.
func (l *lineReader) nextRecord() ([]byte, error) {
	empty, err := skipEmptyLines(l.from)
	l.number += empty
	if err != nil {
		l.number++
		return nil, err
	}
	return l.next()
}

var lineBreaks = bytes.Repeat([]byte{'\n'}, 64)

// skipEmptyLines skips line breaks, and returns how many there are. A file may
// have gigabytes of them. The error is io.EOF if nothing follows.
func skipEmptyLines(from *bufio.Reader) (lines int, err error) {
	for {
		if _, err := from.Peek(1); err != nil {
			return lines, err
		}
		text, _ := from.Peek(from.Buffered())
		skipped := 0
		for bytes.HasPrefix(text[skipped:], lineBreaks) {
			skipped += len(lineBreaks)
			lines += len(lineBreaks)
		}
		for skipped < len(text) {
			n := lineBreak(text[skipped:])
			if n == 0 {
				break
			}
			skipped += n
			lines++
		}
		_, _ = from.Discard(skipped)
		if skipped < len(text) {
			return lines, nil
		}
	}
}

// lineBreak returns the length of the line break with which text starts, or 0.
func lineBreak(text []byte) int {
	switch {
	case text[0] == '\n':
		return 1
	case text[0] == '\r' && len(text) > 1 && text[1] == '\n':
		return 2
	}
	return 0
}

// next returns the next line with its line break, which only the last line may
// lack.
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

// dropFinalEOF drops io.EOF if there is a last line without a line break: the next
// call reports it.
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
		line, err := r.nextRecord()
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
