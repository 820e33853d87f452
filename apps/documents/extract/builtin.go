package extract

import (
	"bytes"
	"context"
	"path"
	"strings"
	"unicode/utf8"
)

// Builtin finds fields by their labels and patterns, in text, PDF and CSV.
type Builtin struct {
	PDF *PDFReader
}

// maxText is the maximum size of text that is searched, in bytes.
const maxText = 4 << 20

// Extract implements Extractor.
func (x *Builtin) Extract(ctx context.Context, f File, e Extraction) (Result, error) {
	var fields []Field
	var err error
	switch {
	case len(f.Data) == 0:
		return Result{}, unreadable("the file is empty")
	case bytes.HasPrefix(f.Data, []byte("%PDF-")):
		var text string
		if text, err = x.PDF.Text(ctx, f.Data); err == nil {
			fields, err = fromText(ctx, text, e)
		}
	case bytes.IndexByte(f.Data, 0) >= 0 || !utf8.Valid(f.Data):
		return Result{}, unreadable("the file is neither text nor CSV nor PDF")
	case strings.EqualFold(path.Ext(f.Name), ".csv"):
		fields, err = fromCSV(ctx, f.Data, e)
	default:
		fields, err = fromText(ctx, string(f.Data), e)
	}
	if err != nil {
		return Result{}, err
	}
	return Result{Extractor: "builtin", Confidence: Combined(e, fields), Fields: fields}, nil
}
