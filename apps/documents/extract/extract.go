// Package extract reads the fields of a document from its file, and says of each
// how sure it is.
//
// Files come from strangers. What is read here is bounded in size, time and
// memory; the format that is dangerous to read, PDF, is read by a process of its
// own, which may die.
package extract

import (
	"context"
	"errors"
	"fmt"
)

// MaxFile is how large a file may be, in bytes.
const MaxFile = 16 << 20

// MaxResult is how large a result may be, in bytes of JSON.
const MaxResult = 8 << 20

// File is what a document is read from.
type File struct {
	Name string
	Data []byte
}

// Field is one thing that was read, or was not: then Value is empty and the
// confidence 0. A table has Values, one for each of its rows.
type Field struct {
	Name       string   `json:"name"`
	Value      string   `json:"value,omitempty"`
	Values     []string `json:"values,omitempty"`
	Confidence float64  `json:"confidence"`
	Source     string   `json:"source,omitempty"` // label, pattern, column, service or reviewer
}

// Result is what was read from a document.
type Result struct {
	Extractor  string  `json:"extractor"`
	Confidence float64 `json:"confidence"` // combined
	Fields     []Field `json:"fields"`
}

// Extractor reads documents. Its error is an *Unreadable when another try would
// end the same way; any other is worth another try.
type Extractor interface {
	Extract(ctx context.Context, f File, e Extraction) (Result, error)
}

// Unreadable is the error of a document from which nothing can be read, ever.
type Unreadable struct{ Reason string }

func (u *Unreadable) Error() string { return u.Reason }

func unreadable(format string, args ...any) error {
	return &Unreadable{fmt.Sprintf(format, args...)}
}

// IsUnreadable tells whether another try is in vain.
func IsUnreadable(err error) bool {
	var u *Unreadable
	return errors.As(err, &u)
}

// Combined is the confidence in a document: the mean of those in its required
// fields, and in the others that were found. A document in which nothing was
// found has none.
func Combined(e Extraction, fields []Field) float64 {
	required := make(map[string]bool, len(e.Fields))
	for _, spec := range e.Fields {
		required[spec.Name] = spec.Required
	}
	sum, n := 0.0, 0
	for _, f := range fields {
		if found := f.Value != "" || len(f.Values) > 0; found || required[f.Name] {
			sum += f.Confidence
			n++
		}
	}
	if n == 0 {
		return 0
	}
	return sum / float64(n)
}
