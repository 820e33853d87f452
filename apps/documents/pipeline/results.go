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

	"github.com/stator-db/stator/apps/documents/extract"
	"github.com/stator-db/stator/apps/documents/table"
)

// maxInline is how large a result may be on its item, in bytes. An item has at
// most 409,600, with its keys, its name and the rest.
const maxInline = 350_000

// Results keeps what was read: on the document's item, or in the bucket when it
// is too large, with its place on the item. The item is what counts: an object
// that no item names is nothing.
type Results struct {
	Bucket *blob.Bucket
}

// Keep puts a result where it belongs, and says so in the outcome.
func (r *Results) Keep(ctx context.Context, o *table.Outcome, result extract.Result) error {
	text, err := json.Marshal(result)
	if err != nil {
		return fmt.Errorf("write down a result: %w", err)
	}
	if len(text) <= maxInline {
		o.Result, o.ResultObject = string(text), ""
		return nil
	}
	// The name is made of the content: who does it again writes the same, and
	// what an item of last week names is still there.
	sum := sha256.Sum256(text)
	object := o.Document.Tenant.Result(o.Document.Batch, o.Document.ID, hex.EncodeToString(sum[:12])).String()
	if err := r.Bucket.Upload(ctx, object, bytes.NewReader(text), &blob.WriterOptions{ContentType: "application/json"}); err != nil {
		return fmt.Errorf("put a large result into the bucket: %w", err)
	}
	o.Result, o.ResultObject = "", object
	return nil
}

// Load reads a document's result from wherever it is.
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
