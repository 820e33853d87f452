// Package sqlite reads the tables of SQLite database files. It writes nothing, and knows no SQL
// but the names of columns.
package sqlite

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"strings"
)

// ErrCorrupt is returned when a file is damaged.
var ErrCorrupt = errors.New("the file is damaged")

// ErrNotSQLite is returned when a file is no SQLite database.
var ErrNotSQLite = errors.New("the file is no SQLite database")

// File is an SQLite database file. It must not change while it is read.
type File struct {
	r        io.ReaderAt
	pageSize int
	usable   int    // bytes of a page without the reserved ones at its end
	pages    uint32 // in the file
}

const (
	headerSize = 100
	// maxPayload is more than a row needs; larger ones are damage.
	maxPayload = 64 << 20
	// maxDepth is more than the levels of any tree.
	maxDepth = 32
)

// Open reads the header of a file of this size.
func Open(r io.ReaderAt, size int64) (*File, error) {
	var header [headerSize]byte
	if _, err := r.ReadAt(header[:], 0); err != nil && err != io.EOF {
		return nil, err
	}
	if !bytes.HasPrefix(header[:], []byte("SQLite format 3\x00")) {
		return nil, ErrNotSQLite
	}
	f := &File{r: r, pageSize: int(binary.BigEndian.Uint16(header[16:]))}
	if f.pageSize == 1 {
		f.pageSize = 65536
	}
	f.usable = f.pageSize - int(header[20])
	if f.pageSize < 512 || f.pageSize&(f.pageSize-1) != 0 || f.usable < 480 {
		return nil, fmt.Errorf("%w: a page has %d bytes", ErrCorrupt, f.pageSize)
	}
	if encoding := binary.BigEndian.Uint32(header[56:]); encoding > 1 {
		return nil, errors.New("its text is in UTF-16, which is not supported")
	}
	pages := size / int64(f.pageSize)
	if pages < 1 || pages > math.MaxUint32 {
		return nil, fmt.Errorf("%w: it has %d bytes", ErrCorrupt, size)
	}
	f.pages = uint32(pages)
	return f, nil
}

// Table is a table of a file.
type Table struct {
	Name    string
	Columns []string

	file *File
	root uint32
}

// Value is the value of a column: nil, int64, float64, string or []byte.
type Value any

// Tables returns the tables of a file.
func (f *File) Tables() ([]Table, error) {
	schema := Table{file: f, root: 1, Columns: []string{"type", "name", "tbl_name", "rootpage", "sql"}}
	var tables []Table
	for row, err := range schema.Rows() {
		if err != nil {
			return nil, fmt.Errorf("read the schema: %w", err)
		}
		kind, _ := row[0].(string)
		name, _ := row[1].(string)
		root, _ := row[3].(int64)
		sql, _ := row[4].(string)
		if kind != "table" || root < 1 || root > int64(f.pages) {
			continue
		}
		tables = append(tables, Table{Name: name, Columns: columns(sql), file: f, root: uint32(root)})
	}
	return tables, nil
}

// Column returns the position of a column; -1 if there is none of that name.
func (t *Table) Column(name string) int {
	for i, c := range t.Columns {
		if strings.EqualFold(c, name) {
			return i
		}
	}
	return -1
}

// Rows returns the rows of a table. A row has a value for each column.
func (t *Table) Rows() iter.Seq2[[]Value, error] {
	return func(yield func([]Value, error) bool) {
		w := walk{table: t, left: int64(t.file.pages) + 1, yield: yield}
		if err := w.page(t.root, 0); err != nil && !w.ended {
			yield(nil, err)
		}
	}
}

// walk visits the pages of a tree.
type walk struct {
	table *Table
	left  int64 // pages that it may still read: each belongs to one tree, once
	yield func([]Value, error) bool
	ended bool // yield has returned false
}

var errEnded = errors.New("the rows are not needed any more")

// Types of pages.
const (
	interiorTable = 0x05
	leafTable     = 0x0d
)

func (w *walk) page(number uint32, depth int) error {
	f := w.table.file
	if w.left--; w.left < 0 || depth > maxDepth {
		return fmt.Errorf("%w: the pages of table %s form a circle", ErrCorrupt, w.table.Name)
	}
	page, err := f.page(number)
	if err != nil {
		return err
	}
	head := page
	if number == 1 {
		head = page[headerSize:]
	}
	kind, cells := head[0], int(binary.BigEndian.Uint16(head[3:]))
	pointers := head[8:]
	if kind == interiorTable {
		pointers = head[12:]
	}
	if kind != interiorTable && kind != leafTable || 2*cells > len(pointers) {
		return fmt.Errorf("%w: page %d is no page of table %s", ErrCorrupt, number, w.table.Name)
	}
	for i := range cells {
		at := int(binary.BigEndian.Uint16(pointers[2*i:]))
		if at+4 > f.usable {
			return fmt.Errorf("%w: a cell of page %d is outside of it", ErrCorrupt, number)
		}
		if kind == interiorTable {
			err = w.page(binary.BigEndian.Uint32(page[at:]), depth+1)
		} else {
			err = w.row(number, page[at:f.usable])
		}
		if err != nil {
			return err
		}
	}
	if kind == interiorTable {
		return w.page(binary.BigEndian.Uint32(head[8:]), depth+1)
	}
	return nil
}

// row yields the row of a cell of a leaf.
func (w *walk) row(page uint32, cell []byte) error {
	size, n := varint(cell)
	_, m := varint(cell[n:]) // the id of the row
	if n == 0 || m == 0 || size > maxPayload {
		return fmt.Errorf("%w: a row of page %d has %d bytes", ErrCorrupt, page, size)
	}
	payload, err := w.payload(cell[n+m:], int(size))
	if err != nil {
		return fmt.Errorf("read a row of page %d: %w", page, err)
	}
	row, err := record(payload, len(w.table.Columns))
	if err != nil {
		return fmt.Errorf("read a row of page %d: %w", page, err)
	}
	if !w.yield(row, nil) {
		w.ended = true
		return errEnded
	}
	return nil
}

// payload returns the payload of a cell, of which a part may be on overflow pages.
func (w *walk) payload(cell []byte, size int) ([]byte, error) {
	f := w.table.file
	local := size
	if most := f.usable - 35; size > most {
		least := (f.usable-12)*32/255 - 23
		local = least + (size-least)%(f.usable-4)
		if local > most {
			local = least
		}
	}
	if local > len(cell) || local < size && local+4 > len(cell) {
		return nil, fmt.Errorf("%w: it does not fit its page", ErrCorrupt)
	}
	if local == size {
		return cell[:size], nil
	}
	payload := append(make([]byte, 0, min(size, 1<<20)), cell[:local]...)
	next := binary.BigEndian.Uint32(cell[local:])
	for len(payload) < size {
		if w.left--; w.left < 0 {
			return nil, fmt.Errorf("%w: its overflow pages form a circle", ErrCorrupt)
		}
		page, err := f.page(next)
		if err != nil {
			return nil, err
		}
		next = binary.BigEndian.Uint32(page)
		payload = append(payload, page[4:min(f.usable, 4+size-len(payload))]...)
	}
	return payload, nil
}

// page reads a page.
func (f *File) page(number uint32) ([]byte, error) {
	if number < 1 || number > f.pages {
		return nil, fmt.Errorf("%w: there is no page %d", ErrCorrupt, number)
	}
	page := make([]byte, f.pageSize)
	if _, err := f.r.ReadAt(page, int64(number-1)*int64(f.pageSize)); err != nil {
		return nil, fmt.Errorf("read page %d: %w", number, err)
	}
	return page, nil
}

// record decodes a row. Columns that were added after it was written are nil.
func record(payload []byte, columns int) ([]Value, error) {
	size, n := varint(payload)
	if n == 0 || size > uint64(len(payload)) || size < uint64(n) {
		return nil, fmt.Errorf("%w: its header has %d bytes", ErrCorrupt, size)
	}
	types, body := payload[n:size], payload[size:]
	row := make([]Value, columns)
	for i := 0; len(types) > 0; i++ {
		kind, n := varint(types)
		if n == 0 {
			return nil, fmt.Errorf("%w: its header ends early", ErrCorrupt)
		}
		types = types[n:]
		length := lengthOf(kind)
		if length > uint64(len(body)) {
			return nil, fmt.Errorf("%w: a value has %d bytes", ErrCorrupt, length)
		}
		if i < columns {
			row[i] = value(kind, body[:length])
		}
		body = body[length:]
	}
	return row, nil
}

// lengthOf returns the length of a value of a type.
func lengthOf(kind uint64) uint64 {
	switch {
	case kind <= 4:
		return kind
	case kind == 5:
		return 6
	case kind == 6, kind == 7:
		return 8
	case kind < 12:
		return 0
	}
	return (kind - 12) / 2
}

// value decodes a value of a type.
func value(kind uint64, b []byte) Value {
	switch {
	case kind == 0:
		return nil
	case kind <= 6:
		n := int64(int8(b[0]))
		for _, c := range b[1:] {
			n = n<<8 | int64(c)
		}
		return n
	case kind == 7:
		return math.Float64frombits(binary.BigEndian.Uint64(b))
	case kind == 8, kind == 9:
		return int64(kind - 8)
	case kind < 12:
		return nil
	case kind%2 == 0:
		return bytes.Clone(b)
	}
	return string(b)
}

// varint decodes an integer of up to nine bytes; n is 0 if b ends early.
func varint(b []byte) (v uint64, n int) {
	for i := range min(len(b), 9) {
		if i == 8 {
			return v<<8 | uint64(b[i]), 9
		}
		v = v<<7 | uint64(b[i]&0x7f)
		if b[i] < 0x80 {
			return v, i + 1
		}
	}
	return 0, 0
}

// columns returns the names of the columns in a CREATE TABLE statement.
func columns(sql string) (names []string) {
	_, list, ok := cutOutside(sql, '(')
	for ok && list != "" {
		var part string
		part, list, ok = cutOutside(list, ',')
		name := identifier(strings.TrimSpace(part))
		switch strings.ToUpper(name) {
		case "", "CONSTRAINT", "PRIMARY", "UNIQUE", "CHECK", "FOREIGN": // of the table
			return names
		}
		names = append(names, name)
	}
	return names
}

// cutOutside cuts a text at the first c that is neither in quotes nor in parentheses.
func cutOutside(text string, c byte) (before, after string, found bool) {
	depth, quote := 0, byte(0)
	for i := range len(text) {
		switch b := text[i]; {
		case quote != 0:
			if b == quote {
				quote = 0
			}
		case b == c && depth == 0:
			return text[:i], text[i+1:], true
		case b == '"' || b == '\'' || b == '`':
			quote = b
		case b == '(':
			depth++
		case b == ')':
			depth--
		}
	}
	return text, "", strings.TrimSpace(text) != ""
}

// identifier returns the first word of a text, without its quotes.
func identifier(text string) string {
	if text == "" {
		return ""
	}
	if q := text[0]; q == '"' || q == '`' {
		name, _, _ := strings.Cut(text[1:], string(q))
		return name
	}
	end := strings.IndexAny(text, " \t\r\n)")
	if end < 0 {
		end = len(text)
	}
	return text[:end]
}
