package pipeline

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"gocloud.dev/blob"

	"github.com/stator-db/stator/apps/documents/export"
	"github.com/stator-db/stator/apps/documents/extract"
	"github.com/stator-db/stator/apps/documents/table"
)

// maxInline is the maximum size of a result on its item, in bytes. An item has at
// most 409,600, including keys and other attributes.
const maxInline = 350_000

// Results stores results: on the document's item, or, if a result is too large, in
// the bucket with the object's name on the item. An object that no item names is
// ignored.
type Results struct {
	Bucket *blob.Bucket
}

// Keep stores a result and sets it in the outcome.
func (r *Results) Keep(ctx context.Context, o *table.Outcome, result extract.Result) error {
	text, err := json.Marshal(result)
	if err != nil {
		return fmt.Errorf("encode a result: %w", err)
	}
	if len(text) <= maxInline {
		o.Result, o.ResultObject = string(text), ""
		return nil
	}
	// The name is derived from the content: a repetition writes the same
	// object, and objects that older items name are not overwritten.
	sum := sha256.Sum256(text)
	object := o.Document.Tenant.Result(o.Document.Batch, o.Document.ID, hex.EncodeToString(sum[:12])).String()
	if err := r.Bucket.Upload(ctx, object, bytes.NewReader(text), &blob.WriterOptions{ContentType: "application/json"}); err != nil {
		return fmt.Errorf("put a large result into the bucket: %w", err)
	}
	o.Result, o.ResultObject = "", object
	return nil
}

// Load reads a document's result from the item or the bucket.
func (r *Results) Load(ctx context.Context, d table.Document) (extract.Result, error) {
	var result extract.Result
	text := []byte(d.Result)
	switch {
	case d.ResultObject != "":
		object, err := d.Tenant.Own(d.ResultObject)
		if err != nil {
			return result, err
		}
		in, err := r.Bucket.NewReader(ctx, object.String(), nil)
		if err != nil {
			return result, fmt.Errorf("open a large result in the bucket: %w", err)
		}
		text, err = io.ReadAll(io.LimitReader(in, 2*extract.MaxResult))
		if err = errors.Join(err, in.Close()); err != nil {
			return result, fmt.Errorf("read a large result from the bucket: %w", err)
		}
	case d.Result == "":
		return result, ErrNoResult
	}
	if err := json.Unmarshal(text, &result); err != nil {
		return result, fmt.Errorf("the result of document %s is damaged: %w", d.ID, err)
	}
	return result, nil
}

// Entry returns a document with its result, for an export.
func (r *Results) Entry(ctx context.Context, d table.Document) (export.Entry, error) {
	result, err := r.Load(ctx, d)
	if err != nil && !errors.Is(err, ErrNoResult) {
		return export.Entry{}, err
	}
	if result.Fields == nil {
		result.Fields = []extract.Field{}
	}
	return export.Entry{ID: d.ID, Name: d.Name, Status: d.Status, Confidence: d.Confidence, Reason: d.Reason, ReviewedBy: d.ReviewedBy, Fields: result.Fields}, nil
}
