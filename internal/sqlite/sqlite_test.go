package sqlite

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"
)

// image builds database files for tests: a schema page, and pages of tables.
type image struct {
	pageSize int
	pages    [][]byte
}

func (m *image) bytes() []byte { return bytes.Join(m.pages, nil) }

func appendVarint(b []byte, v uint64) []byte {
	var groups []byte
	for groups = append(groups, byte(v&0x7f)); v > 0x7f; {
		v >>= 7
		groups = append(groups, byte(v&0x7f)|0x80)
	}
	slices.Reverse(groups)
	return append(b, groups...)
}

// encodeRow encodes a record of strings, byte slices, small integers and nil.
func encodeRow(values ...any) []byte {
	var types, body []byte
	for _, v := range values {
		switch v := v.(type) {
		case nil:
			types = append(types, 0)
		case int:
			types, body = append(types, 4), binary.BigEndian.AppendUint32(body, uint32(v))
		case string:
			types, body = appendVarint(types, uint64(13+2*len(v))), append(body, v...)
		case []byte:
			types, body = appendVarint(types, uint64(12+2*len(v))), append(body, v...)
		}
	}
	head := appendVarint(nil, uint64(len(types)+1))
	if len(types)+1 > 127 {
		head = appendVarint(nil, uint64(len(types)+2))
	}
	return slices.Concat(head, types, body)
}

// leaf adds a page of rows, whose payload may overflow, and returns its number.
func (m *image) leaf(rows ...[]byte) uint32 {
	number := len(m.pages)
	m.pages = append(m.pages, nil)
	page := make([]byte, m.pageSize)
	head := page
	if number == 0 {
		copy(page, "SQLite format 3\x00")
		binary.BigEndian.PutUint16(page[16:], uint16(m.pageSize))
		binary.BigEndian.PutUint32(page[56:], 1)
		head = page[headerSize:]
	}
	head[0] = leafTable
	binary.BigEndian.PutUint16(head[3:], uint16(len(rows)))
	end := m.pageSize
	for i, row := range rows {
		cell := appendVarint(appendVarint(nil, uint64(len(row))), uint64(i+1))
		if most := m.pageSize - 35; len(row) <= most {
			cell = append(cell, row...)
		} else {
			least := (m.pageSize-12)*32/255 - 23
			local := least + (len(row)-least)%(m.pageSize-4)
			if local > most {
				local = least
			}
			cell = append(cell, row[:local]...)
			cell = binary.BigEndian.AppendUint32(cell, uint32(len(m.pages)+1))
			for rest := row[local:]; len(rest) > 0; {
				overflow := make([]byte, 4, m.pageSize)
				n := min(len(rest), m.pageSize-4)
				overflow, rest = append(overflow, rest[:n]...), rest[n:]
				if len(rest) > 0 {
					binary.BigEndian.PutUint32(overflow, uint32(len(m.pages)+2))
				}
				m.pages = append(m.pages, overflow[:m.pageSize])
			}
		}
		end -= len(cell)
		copy(page[end:], cell)
		binary.BigEndian.PutUint16(head[8+2*i:], uint16(end))
	}
	m.pages[number] = page
	return uint32(number + 1)
}

// interior adds a page of children.
func (m *image) interior(children ...uint32) uint32 {
	page := make([]byte, m.pageSize)
	page[0] = interiorTable
	last := len(children) - 1
	binary.BigEndian.PutUint16(page[3:], uint16(last))
	binary.BigEndian.PutUint32(page[8:], children[last])
	end := m.pageSize
	for i, child := range children[:last] {
		cell := appendVarint(binary.BigEndian.AppendUint32(nil, child), uint64(i+1))
		end -= len(cell)
		copy(page[end:], cell)
		binary.BigEndian.PutUint16(page[12+2*i:], uint16(end))
	}
	m.pages = append(m.pages, page)
	return uint32(len(m.pages))
}

const sqlOfTest = `CREATE TABLE "T (x), y" (a TEXT DEFAULT 'x,y', "b" BLOB NOT NULL, c DECIMAL(10, 2), added INTEGER, PRIMARY KEY(a, b))`

// testImage has a table of three rows on two levels, one of which overflows its page.
func testImage() *image {
	m := &image{pageSize: 512}
	m.pages = append(m.pages, nil) // the schema, whose page is written last
	long := bytes.Repeat([]byte{7}, 3000)
	root := m.interior(m.leaf(encodeRow("one", []byte{1}, -2), encodeRow("two", long, nil)), m.leaf(encodeRow("three", []byte{}, 3)))
	later := m.pages[1:]
	m.pages = nil
	m.leaf(encodeRow("index", "i", "T", 2, nil), encodeRow("table", "T (x), y", "T (x), y", int(root), sqlOfTest))
	m.pages = append(m.pages[:1], later...)
	return m
}

func read(b []byte) (rows [][]Value, tables []Table, err error) {
	f, err := Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, nil, err
	}
	if tables, err = f.Tables(); err != nil {
		return nil, nil, err
	}
	for i := range tables {
		for row, err := range tables[i].Rows() {
			if err != nil {
				return nil, nil, err
			}
			rows = append(rows, row)
		}
	}
	return rows, tables, nil
}

// Rows on several levels and on overflow pages are read, in order.
func TestRows(t *testing.T) {
	rows, tables, err := read(testImage().bytes())
	if err != nil {
		t.Fatal(err)
	}
	if len(tables) != 1 || tables[0].Name != "T (x), y" || strings.Join(tables[0].Columns, " ") != "a b c added" || tables[0].Column("B") != 1 || tables[0].Column("x") != -1 {
		t.Errorf("tables: %+v", tables)
	}
	if len(rows) != 3 || rows[0][0] != "one" || rows[0][2] != int64(-2) || rows[2][0] != "three" || rows[0][3] != nil {
		t.Fatalf("rows: %v", rows)
	}
	if long, _ := rows[1][1].([]byte); len(long) != 3000 || bytes.Count(long, []byte{7}) != 3000 || rows[1][2] != nil {
		t.Errorf("the row with overflow pages has %d bytes", len(long))
	}
}

// A reader may stop early.
func TestRowsEndEarly(t *testing.T) {
	b := testImage().bytes()
	f, err := Open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	tables, err := f.Tables()
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, err := range tables[0].Rows() {
		if n++; err != nil || n == 2 {
			break
		}
	}
	if n != 2 {
		t.Errorf("%d rows, want 2", n)
	}
}

func TestNotADatabase(t *testing.T) {
	for _, text := range []string{"", "text", strings.Repeat("x", 4096)} {
		if _, _, err := read([]byte(text)); !errors.Is(err, ErrNotSQLite) {
			t.Errorf("%.10q: %v", text, err)
		}
	}
}

// Damage is an error or changes values; it never panics, and a circle of pages ends.
func FuzzRead(f *testing.F) {
	whole := testImage().bytes()
	f.Add(whole)
	circle := bytes.Clone(whole)
	root := 512 * (len(whole)/512 - 1)
	binary.BigEndian.PutUint32(circle[root+8:], uint32(root/512+1))
	f.Add(circle)
	f.Add(whole[:1000])
	f.Fuzz(func(t *testing.T, b []byte) { _, _, _ = read(b) })
}

// A circle of pages is damage.
func TestCircle(t *testing.T) {
	b := testImage().bytes()
	root := len(b) - 512
	binary.BigEndian.PutUint32(b[root+8:], uint32(len(b)/512))
	if _, _, err := read(b); !errors.Is(err, ErrCorrupt) {
		t.Errorf("%v, want damage", err)
	}
}
