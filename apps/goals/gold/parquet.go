package gold

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
	"gocloud.dev/blob"
)

const (
	maxFooter  = 16 << 20
	rowsAtOnce = 64
	readBuffer = 128 << 10
)

// readParquet first copies the file into the scratch folder: a Parquet file is read
// from its end, which would take many requests to an object store.
func readParquet[T any](ctx context.Context, bucket *blob.Bucket, name, scratch string, take func(*T, *BadRow) error) error {
	file, size, err := fetch(ctx, bucket, name, scratch)
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(file.Name()) }()
	defer func() { _ = file.Close() }()
	return parquetRows(ctx, file, size, take)
}

func fetch(ctx context.Context, bucket *blob.Bucket, name, scratch string) (*os.File, int64, error) {
	r, err := bucket.NewReader(ctx, name, nil)
	if err != nil {
		return nil, 0, fmt.Errorf("open: %w", err)
	}
	defer func() { _ = r.Close() }()
	file, err := os.CreateTemp(scratch, "gold-*.parquet")
	if err != nil {
		return nil, 0, fmt.Errorf("create a temporary file: %w", err)
	}
	size, err := io.Copy(file, r)
	if err != nil {
		return nil, 0, errors.Join(fmt.Errorf("copy: %w", err), file.Close(), os.Remove(file.Name()))
	}
	return file, size, nil
}

// parquetRows yields the rows of a file that has been checked. If the decoder panics
// all the same, the file is reported as broken.
func parquetRows[T any](ctx context.Context, file io.ReaderAt, size int64, take func(*T, *BadRow) error) (err error) {
	taking := false
	defer func() {
		if p := recover(); p != nil {
			if taking {
				panic(p)
			}
			err = fmt.Errorf("the Parquet is broken: %v", p)
		}
	}()
	opened, err := openParquet(file, size)
	if err != nil {
		return fmt.Errorf("the Parquet is broken: %w", err)
	}
	if err := sameColumns[T](opened.Schema()); err != nil {
		return err
	}
	if err := checkPages(file, opened, parquet.SchemaOf(new(T))); err != nil {
		return fmt.Errorf("the Parquet file is rejected: %w", err)
	}
	rows := parquet.NewGenericReader[T](opened)
	defer func() { _ = rows.Close() }()
	some := make([]T, rowsAtOnce)
	for {
		clear(some)
		n, err := rows.Read(some)
		taking = true
		for i := range some[:n] {
			if err := take(&some[i], nil); err != nil {
				return err
			}
		}
		taking = false
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("the Parquet is broken: %w", err)
		case n == 0:
			return errors.New("the Parquet is broken: it has fewer rows than its footer says")
		case ctx.Err() != nil:
			return ctx.Err()
		}
	}
}

func openParquet(file io.ReaderAt, size int64) (*parquet.File, error) {
	var end [8]byte
	if size < 12 {
		return nil, fmt.Errorf("it has %d bytes", size)
	}
	if _, err := file.ReadAt(end[:], size-8); err != nil {
		return nil, err
	}
	if footer := int64(binary.LittleEndian.Uint32(end[:])); footer > maxFooter || footer > size-12 {
		return nil, fmt.Errorf("its footer claims to have %d bytes", footer)
	}
	return parquet.OpenFile(file, size, parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true), parquet.ReadBufferSize(readBuffer))
}

// sameColumns checks that a file has our columns with our types. It may have other
// columns too.
func sameColumns[T any](have *parquet.Schema) error {
	want := parquet.SchemaOf(new(T))
	for _, path := range want.Columns() {
		w, _ := want.Lookup(path...)
		h, ok := have.Lookup(path...)
		if !ok {
			return fmt.Errorf("it has no column %s", path[0])
		}
		if h.Node.Repeated() || w.Node.Required() && !h.Node.Required() && !h.Node.Optional() {
			return fmt.Errorf("column %s is repeated", path[0])
		}
		if h.Node.Type().Kind() != w.Node.Type().Kind() || meaning(h.Node) != meaning(w.Node) {
			return fmt.Errorf("column %s is %s, but must be %s", path[0], h.Node.Type(), w.Node.Type())
		}
	}
	return nil
}

// meaning returns the part of a column's logical type that changes the meaning of its
// values.
func meaning(n parquet.Node) string {
	t := n.Type().LogicalType()
	if t == nil {
		return ""
	}
	switch t := t.Value.(type) {
	case *format.DecimalType:
		return fmt.Sprint("decimal ", t.Scale)
	case *format.TimestampType:
		return "timestamp " + t.Unit.String()
	}
	return ""
}
