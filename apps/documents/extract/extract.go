// Package extract extracts the fields of a document from its file, with a
// confidence for each.
//
// Files are not trusted. Size, time and memory of an extraction are limited; PDF,
// the format that is dangerous to parse, is parsed by a child process, which may
// crash.
package extract

import (
	"context"
	"errors"
	"fmt"

	"github.com/stator-db/stator/apps/documents/extract/layout"
)

// MaxFile is the maximum size of a file, in bytes.
const MaxFile = 16 << 20

// MaxResult is the maximum size of a result, in bytes of JSON.
const MaxResult = 8 << 20

// File is the file of a document.
type File struct {
	Name string
	Data []byte
}

// Field is an extracted field. If it was not found, Value is empty and the
// confidence 0. A table has Values, one for each of its rows.
type Field struct {
	Name       string   `json:"name"`
	Value      string   `json:"value,omitempty"`
	Values     []string `json:"values,omitempty"`
	Confidence float64  `json:"confidence"`
	Source     string   `json:"source,omitempty"` // label, pattern, column, service, model or reviewer

	// Problem says why the value is not valid by the rules of the field.
	Problem string `json:"problem,omitempty"`

	// Places are where the value is: one for each of its lines. It is empty if the
	// extractor does not know, or for a table.
	Places []Place `json:"places,omitempty"`

	// Check is what a second extractor found, if there was one.
	Check *Check `json:"check,omitempty"`
}

// Place is a rectangle of a page.
type Place struct {
	Page int        `json:"page"` // from 1
	Box  layout.Box `json:"box"`  // in points, from the top left corner of the page
}

// Check is the value of a field by a second extractor.
type Check struct {
	Value      string  `json:"value,omitempty"`
	Confidence float64 `json:"confidence"`
	Agrees     bool    `json:"agrees"`
}

// Result holds the fields of a document.
type Result struct {
	Extractor  string  `json:"extractor"`
	Confidence float64 `json:"confidence"` // combined
	Fields     []Field `json:"fields"`

	// Reader is what read the text: text, pdf or ocr. Notes say what it could not
	// read, such as a scanned page without an OCR program.
	Reader string   `json:"reader,omitempty"`
	Pages  int      `json:"pages,omitempty"` // 0 is unknown
	Notes  []string `json:"notes,omitempty"`

	// Verifier is the second extractor, if there was one.
	Verifier string `json:"verifier,omitempty"`
}

// Extractor extracts fields. It returns an *Unreadable if a retry would fail in
// the same way; other errors are worth a retry.
type Extractor interface {
	Extract(ctx context.Context, f File, e Extraction) (Result, error)
}

// Reader reads a file as positioned text, for the preview of its pages.
type Reader interface {
	Read(ctx context.Context, f File) (layout.Document, error)
}

// Unreadable is the error of a document that can never be read.
type Unreadable struct{ Reason string }

func (u *Unreadable) Error() string { return u.Reason }

func unreadable(format string, args ...any) error {
	return &Unreadable{fmt.Sprintf(format, args...)}
}

// Unavailable is returned if an extractor cannot be used now. Its text is for tenants
// too; Err can have addresses and accounts of the operator.
type Unavailable struct {
	What string
	Err  error
}

func (u *Unavailable) Error() string { return u.What }

func (u *Unavailable) Unwrap() error { return u.Err }

// Detail returns what only the operator may see of an error.
func Detail(err error) string {
	var u *Unavailable
	if errors.As(err, &u) {
		return u.Err.Error()
	}
	return ""
}

// IsUnreadable reports whether a retry is useless.
func IsUnreadable(err error) bool {
	var u *Unreadable
	return errors.As(err, &u)
}

// Combined returns the confidence of a document: the mean over its required fields
// and the optional ones that were found. It is 0 if no field was found.
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
