package api

import (
	"bytes"
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/stator-db/stator/apps/documents/extract"
	"github.com/stator-db/stator/apps/documents/pipeline"
	"github.com/stator-db/stator/apps/internal/web"
)

// getPreview sends a page of a document as a picture, with the found fields marked.
func (s *Server) getPreview(c *call) (any, error) {
	b, d, err := s.document(c)
	if err != nil {
		return nil, err
	}
	number, err := pageNumber(c)
	if err != nil {
		return nil, err
	}
	none := web.Refuse(http.StatusNotFound, "no_preview", "the document has no such page, or cannot be shown")
	ctx, cancel := context.WithTimeout(c.ctx(), time.Minute)
	defer cancel()
	leave, err := s.previews.enter(ctx, c.tenant())
	if err != nil {
		return nil, err
	}
	defer leave()
	f, err := pipeline.ReadFile(ctx, s.Bucket, d)
	if extract.IsUnreadable(err) {
		return nil, none
	}
	if err != nil {
		return nil, err
	}
	pages, err := s.Reader.Read(ctx, f)
	if err != nil {
		return nil, none
	}
	// A document without a result has no fields to mark.
	result, err := s.resultOf(c, b, d)
	if err != nil {
		result = extract.Result{}
	}
	var picture bytes.Buffer
	if err := extract.WritePreview(&picture, &pages, number, result.Fields); err != nil {
		return nil, none
	}
	c.w.Header().Set("Content-Type", "image/svg+xml")
	c.w.Header().Set("Cache-Control", "private, max-age=60")
	// Opened by itself, the picture runs nothing and loads nothing.
	c.w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'; img-src data:; sandbox")
	_, _ = c.w.Write(picture.Bytes()) // the client may have disconnected
	return answered{}, nil
}

// pageNumber returns the page that a request asks for, from 1. It defaults to the
// first one.
func pageNumber(c *call) (int, error) {
	text := c.query("page")
	if text == "" {
		return 1, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return 0, notFound
	}
	return n, nil
}
