package transfer

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
)

// csvReader reads items from CSV. Values are strings, except for attributes that
// the table defines with another type.
type csvReader struct {
	*lineReader
	delimiter byte
	header    []string
	types     []item.Type
	table     *schema.Table

	fields [][]byte
	joined []byte
	build  item.Builder
	out    []byte
	value  []byte
}

func newCSVReader(from io.Reader, o *CSVOptions, t *schema.Table) *csvReader {
	r := &csvReader{lineReader: newLineReader(from), delimiter: ',', table: t}
	if o != nil && o.Delimiter != "" {
		r.delimiter = o.Delimiter[0]
	}
	if o != nil && len(o.Header) > 0 {
		r.setHeader(o.Header)
	}
	return r
}

func (r *csvReader) line() int { return r.number }

func (r *csvReader) setHeader(names []string) {
	r.header = names
	r.types = make([]item.Type, len(names))
	for i, name := range names {
		r.types[i] = item.S
		if at := slices.IndexFunc(r.table.Attributes, func(a schema.Attribute) bool { return a.Name == name }); at >= 0 {
			r.types[i] = r.table.Attributes[at].Type
		}
	}
}

func (r *csvReader) next() (item.Item, error) {
	if r.header == nil {
		if err := r.readHeader(); err != nil {
			return nil, err
		}
	}
	if err := r.readRecord(); err != nil {
		return nil, err
	}
	if len(r.fields) != len(r.header) {
		return nil, &badItem{fmt.Errorf("there are %d values for %d names in the header", len(r.fields), len(r.header))}
	}
	r.build.Reset()
	for i, field := range r.fields {
		v, err := r.appendTyped(r.value[:0], r.types[i], field)
		if err != nil {
			return nil, &badItem{fmt.Errorf("the value of %s: %w", r.header[i], err)}
		}
		r.value = v
		r.build.Add([]byte(r.header[i]), v)
	}
	r.out = r.build.AppendItem(r.out[:0])
	return r.out, nil
}

// readHeader reads the attribute names from the first record. An invalid header
// makes the whole file invalid.
func (r *csvReader) readHeader() error {
	err := r.readRecord()
	if errors.As(err, new(*badItem)) {
		return fmt.Errorf("invalid header: %s", err.Error())
	}
	if err != nil {
		return err
	}
	names := make([]string, len(r.fields))
	for i, f := range r.fields {
		names[i] = string(f)
		if names[i] == "" || slices.Contains(names[:i], names[i]) {
			return fmt.Errorf("the header has the name %q, which is empty or repeated", names[i])
		}
	}
	r.setHeader(names)
	return nil
}

// appendTyped appends a field as a value of type t.
func (r *csvReader) appendTyped(dst []byte, t item.Type, text []byte) ([]byte, error) {
	switch t {
	case item.N:
		n, err := item.ParseNumber(text)
		return item.AppendNumber(dst, n), err
	case item.B:
		b, err := base64.StdEncoding.AppendDecode(nil, text)
		return item.AppendText(dst, item.B, b), err
	}
	return item.AppendText(dst, item.S, text), nil
}

// readRecord reads the fields of the next record. A quoted field may span several
// lines.
func (r *csvReader) readRecord() error {
	for {
		line, err := r.nextRecord()
		if err != nil {
			return err
		}
		text := line
		if bytes.Count(line, []byte{'"'})%2 == 1 {
			if text, err = r.joinLines(line); err != nil {
				return err
			}
		}
		if text = bytes.TrimSuffix(bytes.TrimSuffix(text, []byte("\n")), []byte("\r")); len(text) > 0 {
			return r.split(text)
		}
	}
}

// joinLines appends lines until the quotes are balanced.
func (r *csvReader) joinLines(line []byte) ([]byte, error) {
	r.joined = append(r.joined[:0], line...)
	for {
		line, err := r.lineReader.next()
		if errors.Is(err, io.EOF) {
			return nil, errTruncated
		}
		if err != nil {
			return nil, err
		}
		r.joined = append(r.joined, line...)
		if len(r.joined) > maxTextBytes {
			return nil, errTooLong
		}
		if bytes.Count(line, []byte{'"'})%2 == 1 {
			return r.joined, nil
		}
	}
}

var errQuote = &badItem{errors.New("a value contains a double quote; the value must be in quotes, and the double quote doubled")}

// split splits a record into fields.
func (r *csvReader) split(text []byte) error {
	if !utf8.Valid(text) {
		return &badItem{errors.New("the text is not UTF-8")}
	}
	r.fields = r.fields[:0]
	for {
		var field []byte
		if len(text) > 0 && text[0] == '"' {
			var err error
			if field, text, err = quoted(text[1:]); err != nil {
				return err
			}
		} else {
			end := bytes.IndexByte(text, r.delimiter)
			if end < 0 {
				end = len(text)
			}
			if field, text = text[:end], text[end:]; bytes.IndexByte(field, '"') >= 0 {
				return errQuote
			}
		}
		r.fields = append(r.fields, field)
		if len(text) == 0 {
			return nil
		}
		if text[0] != r.delimiter {
			return errQuote
		}
		text = text[1:]
	}
}

// quoted reads the rest of a quoted field, after its opening quote.
func quoted(text []byte) (field, rest []byte, err error) {
	for {
		end := bytes.IndexByte(text, '"')
		if end < 0 {
			return nil, nil, errQuote
		}
		if end+1 < len(text) && text[end+1] == '"' {
			field, text = append(field, text[:end+1]...), text[end+2:]
			continue
		}
		return append(field, text[:end]...), text[end+1:], nil
	}
}
