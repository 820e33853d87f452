package infer

import (
	"bufio"
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/stator-db/stator/internal/data/item"
)

// maxDocument is the largest document of a file that is read as a whole.
const maxDocument = 256 << 20

// ReadJSON adds the items of a file in DynamoDB JSON: lines of an export, which
// are {"Item": …} or {"NewImage": …}, or the reply of a scan. name is the file's
// name in messages.
func (s *Reservoir) ReadJSON(name string, r io.Reader) error {
	limit := &documentLimit{r: r}
	decoder := json.NewDecoder(bufio.NewReaderSize(limit, 1<<20))
	for n := 1; ; n++ {
		limit.end = decoder.InputOffset() + s.maxDocument
		var entry struct {
			Item, NewImage json.RawMessage
			Items          []json.RawMessage
			Keys           json.RawMessage
		}
		if err := decoder.Decode(&entry); err != nil {
			if errors.Is(err, io.EOF) {
				return nil
			}
			if _, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
				return fmt.Errorf("%s: document %d is not DynamoDB JSON: it must be an object with an Item, a NewImage or Items", name, n)
			}
			return fmt.Errorf("%s: document %d: %w", name, n, err)
		}
		all := entry.Items
		switch {
		case entry.Item != nil:
			all = append(all, entry.Item)
		case entry.NewImage != nil:
			all = append(all, entry.NewImage)
		case entry.Items == nil && entry.Keys == nil:
			return fmt.Errorf("%s: document %d has no Item, NewImage or Items: it is not DynamoDB JSON", name, n)
		}
		for _, text := range all {
			if _, err := s.addText(text); err != nil {
				return fmt.Errorf("%s: document %d: %w", name, n, err)
			}
		}
	}
}

// documentLimit is a reader that fails when a document is too large to be decoded.
type documentLimit struct {
	r         io.Reader
	read, end int64 // how much was read, and where the document must have ended
}

func (l *documentLimit) Read(p []byte) (int, error) {
	if l.read > l.end {
		return 0, fmt.Errorf("it is larger than %d MB", maxDocument>>20)
	}
	n, err := l.r.Read(p)
	l.read += int64(n)
	return n, err
}

// ReadCSV adds the rows of a file whose first row names the attributes. A
// column whose values are all numbers is of type N; an empty field is an
// attribute that the item does not have.
func (s *Reservoir) ReadCSV(name string, r io.Reader) error {
	text, err := io.ReadAll(io.LimitReader(r, maxDocument+1))
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	if len(text) > maxDocument {
		return fmt.Errorf("%s is larger than %d MB", name, maxDocument>>20)
	}
	reader := csv.NewReader(bytes.NewReader(bytes.TrimPrefix(text, []byte("\xef\xbb\xbf"))))
	rows, err := reader.ReadAll()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if len(rows) < 2 {
		return fmt.Errorf("%s has no rows below its header", name)
	}
	header := rows[0]
	numbers := make([]bool, len(header))
	for i := range header {
		numbers[i] = isNumberColumn(rows[1:], i)
	}
	for _, row := range rows[1:] {
		attributes := make(map[string]item.Value)
		for i, field := range row {
			if field == "" || header[i] == "" {
				continue
			}
			attributes[header[i]] = item.String(field)
			if numbers[i] {
				n, _ := item.ParseNumber(field)
				attributes[header[i]] = item.Num(n)
			}
		}
		s.Add(item.Make(attributes))
	}
	return nil
}

// isNumberColumn reports whether all values of a column are numbers. Numbers
// with leading zeros are text.
func isNumberColumn(rows [][]string, column int) bool {
	some := false
	for _, row := range rows {
		text := row[column]
		if text == "" {
			continue
		}
		if _, err := item.ParseNumber(text); err != nil || len(text) > 1 && text[0] == '0' && text[1] != '.' || strings.HasPrefix(text, "+") {
			return false
		}
		some = true
	}
	return some
}
