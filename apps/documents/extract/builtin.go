package extract

import (
	"bytes"
	"context"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/stator-db/stator/apps/documents/extract/layout"
)

// Builtin finds fields by their labels and patterns, in text, PDF, CSV and pictures.
type Builtin struct {
	PDF *PDFReader
	OCR *OCR // for pictures and scanned pages; nil means that there is none
}

// maxText is the maximum size of text that is searched, in bytes.
const maxText = 4 << 20

// Extract implements Extractor.
func (x *Builtin) Extract(ctx context.Context, f File, e Extraction) (Result, error) {
	if isCSV(f) {
		fields, err := fromCSV(ctx, f.Data, e)
		return Result{Extractor: "builtin", Confidence: Combined(e, fields), Fields: fields, Reader: "csv"}, err
	}
	doc, err := x.Read(ctx, f)
	if err != nil {
		return Result{}, err
	}
	fields, err := findFields(ctx, &doc, e)
	if err != nil {
		return Result{}, err
	}
	return Result{Extractor: "builtin", Confidence: Combined(e, fields), Fields: fields, Reader: doc.Reader, Pages: len(doc.Pages), Notes: doc.Notes}, nil
}

func isCSV(f File) bool {
	return strings.EqualFold(path.Ext(f.Name), ".csv") && isText(f.Data)
}

func isText(data []byte) bool {
	return len(data) > 0 && bytes.IndexByte(data, 0) < 0 && utf8.Valid(data) && !isPDF(data)
}

// isPDF reports whether data is a PDF. Some begin with other bytes.
func isPDF(data []byte) bool {
	return bytes.Contains(data[:min(len(data), 1024)], []byte("%PDF-"))
}

// Read implements Reader.
func (x *Builtin) Read(ctx context.Context, f File) (layout.Document, error) {
	if m, ok := ctx.Value(memoKey{}).(*Memo); ok {
		return m.read(ctx, f, x.read)
	}
	return x.read(ctx, f)
}

func (x *Builtin) read(ctx context.Context, f File) (layout.Document, error) {
	switch {
	case len(f.Data) == 0:
		return layout.Document{}, unreadable("the file is empty")
	case isPDF(f.Data):
		doc, err := x.PDF.Read(ctx, f.Data)
		if err != nil {
			return doc, err
		}
		return doc, x.OCR.addScans(ctx, f.Data, &doc)
	case isPicture(f.Data):
		return x.OCR.Read(ctx, f.Data)
	case !isText(f.Data):
		return layout.Document{}, unreadable("the file is neither text nor CSV nor PDF nor a PNG, JPEG or TIFF picture")
	case len(f.Data) > maxText:
		return layout.Document{}, unreadable("the text has %d bytes, but at most %d are read", len(f.Data), maxText)
	}
	return layout.FromText(string(f.Data)), nil
}
