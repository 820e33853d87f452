// Package export writes the results of documents as CSV and JSON.
package export

import (
	"encoding/csv"
	"encoding/json"
	"io"
	"strconv"
	"strings"

	"github.com/stator-db/stator/apps/documents/extract"
	"github.com/stator-db/stator/apps/documents/keys"
	"github.com/stator-db/stator/apps/documents/table"
)

// Entry is a document with what was read of it.
type Entry struct {
	ID         keys.DocumentID `json:"documentId"`
	Name       string          `json:"name"`
	Status     table.Status    `json:"status"`
	Confidence float64         `json:"confidence"`
	Reason     string          `json:"reason,omitempty"`
	ReviewedBy string          `json:"reviewedBy,omitempty"`
	Fields     []extract.Field `json:"fields"`
}

// Writer writes entries in a format.
type Writer interface {
	Write(e Entry) error
	Close() error
}

// JSON returns a writer of a JSON array.
func JSON(w io.Writer) Writer { return &jsonWriter{w: w} }

type jsonWriter struct {
	w     io.Writer
	began bool
}

func (j *jsonWriter) Write(e Entry) error {
	text, err := json.Marshal(e)
	if err != nil {
		return err
	}
	before := ",\n"
	if !j.began {
		before, j.began = "[", true
	}
	_, err = j.w.Write(append([]byte(before), text...))
	return err
}

func (j *jsonWriter) Close() error {
	end := "]\n"
	if !j.began {
		end = "[]\n"
	}
	_, err := io.WriteString(j.w, end)
	return err
}

// CSV returns a writer of CSV with a column for each of the fields. A document with
// rows has a line for each of them.
func CSV(w io.Writer, fields []string) (Writer, error) {
	c := &csvWriter{csv.NewWriter(w), fields}
	header := []string{"documentId", "document", "status", "confidence", "reason"}
	for _, f := range fields {
		header = append(header, plain(f))
	}
	return c, c.w.Write(header)
}

type csvWriter struct {
	w      *csv.Writer
	fields []string
}

func (c *csvWriter) Write(e Entry) error {
	byName := make(map[string]*extract.Field, len(e.Fields))
	rows := 1
	for i := range e.Fields {
		byName[e.Fields[i].Name] = &e.Fields[i]
		rows = max(rows, len(e.Fields[i].Values))
	}
	for row := range rows {
		line := []string{e.ID.String(), plain(e.Name), string(e.Status), strconv.FormatFloat(e.Confidence, 'f', -1, 64), plain(e.Reason)}
		for _, name := range c.fields {
			value := ""
			switch f := byName[name]; {
			case f == nil:
			case row < len(f.Values):
				value = f.Values[row]
			case len(f.Values) == 0:
				value = f.Value
			}
			line = append(line, plain(value))
		}
		if err := c.w.Write(line); err != nil {
			return err
		}
	}
	return nil
}

func (c *csvWriter) Close() error {
	c.w.Flush()
	return c.w.Error()
}

// formula are the characters with which a formula begins.
const formula = "=+-@\t\r"

// plain returns a value that a spreadsheet does not take for a formula: an apostrophe
// is put before one. Numbers, also negative ones, are not changed. Some locales divide
// lines at semicolons, so what follows one could become a formula too.
func plain(value string) string {
	for _, c := range formula {
		value = strings.ReplaceAll(value, ";"+string(c), ";'"+string(c))
	}
	if value == "" || !strings.ContainsAny(value[:1], formula) {
		return value
	}
	if strings.Trim(value[1:], "0123456789.,' ") == "" && strings.ContainsAny(value[:1], "+-") {
		return value
	}
	return "'" + value
}
