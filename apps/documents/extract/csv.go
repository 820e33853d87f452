package extract

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"io"
	"strings"
)

// The limits of a CSV file.
const (
	maxRows    = 200_000
	maxColumns = 1_000
)

// fromCSV reads columns whose headings are the labels of fields. A file with one
// row gives values, a file with more rows gives lists.
func fromCSV(ctx context.Context, data []byte, e Extraction) ([]Field, error) {
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	in := csv.NewReader(bytes.NewReader(data))
	in.Comma = delimiter(data)
	in.FieldsPerRecord = -1
	in.LazyQuotes = true
	in.ReuseRecord = true
	head, err := in.Read()
	if err != nil {
		return nil, unreadable("the file has no row of headings: %v", err)
	}
	if len(head) > maxColumns {
		return nil, unreadable("the file has %d columns, but at most %d are read", len(head), maxColumns)
	}
	fields := make([]Field, len(e.Fields))
	columns := make([]int, len(e.Fields))
	good := make([]int, len(e.Fields))
	for i := range e.Fields {
		fields[i].Name = e.Fields[i].Name
		columns[i] = e.Fields[i].column(head)
	}
	rows, size := 0, 0
	for ; ; rows++ {
		record, err := in.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, unreadable("row %d cannot be read: %v", rows+2, err)
		}
		if rows == maxRows {
			return nil, unreadable("the file has more than the %d rows that are read", maxRows)
		}
		if err := inTime(ctx); err != nil {
			return nil, err
		}
		for i, c := range columns {
			if c < 0 {
				continue
			}
			v, ok := "", false
			if c < len(record) {
				v, ok = e.Fields[i].cell(ctx, record[c])
			}
			if ok {
				good[i]++
			}
			if size += len(v) + 4; size > MaxResult {
				return nil, unreadable("the result is larger than %d bytes", MaxResult)
			}
			// A copy: the record is a part of the row's text.
			fields[i].Values = append(fields[i].Values, strings.Clone(v))
		}
	}
	if err := inTime(ctx); err != nil {
		return nil, err // the search for a pattern has ended early
	}
	for i := range fields {
		f := &fields[i]
		if columns[i] < 0 || rows == 0 {
			continue
		}
		f.Source = "column"
		f.Confidence = 0.97 * float64(good[i]) / float64(rows)
		if rows == 1 {
			f.Value, f.Values = f.Values[0], nil
		}
	}
	return fields, nil
}

// cell returns a value of a column, and whether it has the right type.
func (s *Spec) cell(ctx context.Context, text string) (string, bool) {
	if s.pattern != nil {
		if v, m := s.matched(ctx, text); m != nil {
			return v, true
		}
		return text, false
	}
	if v, ok := types[s.Type](text); ok {
		return v, true
	}
	return text, false
}

// column returns the index of a field's column, or -1.
func (s *Spec) column(head []string) int {
	for i, h := range head {
		h = plainHeading(h)
		if h == plainHeading(s.Name) {
			return i
		}
		for _, l := range s.Labels {
			if h == plainHeading(l) {
				return i
			}
		}
	}
	return -1
}

func plainHeading(h string) string {
	return strings.ToLower(strings.NewReplacer(" ", "", "_", "", "-", "").Replace(h))
}

// delimiter returns the most frequent delimiter of the first line.
func delimiter(data []byte) rune {
	line, _, _ := bytes.Cut(data, []byte("\n"))
	best, most := ',', 0
	for _, d := range []rune{',', ';', '\t'} {
		if n := bytes.Count(line, []byte(string(d))); n > most {
			best, most = d, n
		}
	}
	return best
}
