package pipeline

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"gocloud.dev/blob"
	"gocloud.dev/gcerrors"
)

// objects implements table.Bucket.
type objects struct{ bucket *blob.Bucket }

func (o objects) DeleteObjects(ctx context.Context, names ...string) error {
	for _, name := range names {
		if !strings.HasSuffix(name, "/") {
			if err := o.delete1(ctx, name); err != nil {
				return err
			}
			continue
		}
		all := o.bucket.List(&blob.ListOptions{Prefix: name})
		for {
			object, err := all.Next(ctx)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return fmt.Errorf("list the objects of %s: %w", name, err)
			}
			if err := o.delete1(ctx, object.Key); err != nil {
				return err
			}
		}
	}
	return nil
}

func (o objects) delete1(ctx context.Context, name string) error {
	if err := o.bucket.Delete(ctx, name); err != nil && gcerrors.Code(err) != gcerrors.NotFound {
		return fmt.Errorf("delete the object %s: %w", name, err)
	}
	return nil
}
