package transfer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"sync/atomic"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/stator-db/stator/internal/blob"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db"
)

const (
	maxFiles        = 50_000 // in one import, as on AWS
	maxLoggedErrors = 100    // rejected items of one import that are logged
	maxZstdWindow   = 128 << 20
	progressEvery   = 1000    // items between two checks of leadership and progress
	progressBytes   = 8 << 20 // and bytes
)

// importFiles fills the table of an import.
func (s *Store) importFiles(ctx context.Context, j Job, log *slog.Logger) error {
	t, err := s.db.Describe(j.Table)
	switch {
	case err != nil:
		return err
	case t.Restored.Import != j.ID:
		return fmt.Errorf("table %s was deleted and created again", j.Table)
	case !t.Restored.Running:
		return nil // an earlier attempt completed, but its end was not recorded
	}
	place, err := s.bucket(&j)
	if err != nil {
		return err
	}
	found, err := place.Find(ctx, j.Prefix)
	switch {
	case err != nil:
		return fmt.Errorf("list files in %s: %w", place, err)
	case len(found) == 0:
		return &jobError{"S3NoSuchKey", fmt.Errorf("bucket %s has no file whose name starts with %q", j.Bucket, j.Prefix)}
	case len(found) > maxFiles:
		return &jobError{"TooManyFiles", fmt.Errorf("the names of more than %d files start with %q", maxFiles, j.Prefix)}
	}
	in := &importReader{ctx: ctx, place: place, job: &j, table: t.Table, files: found, log: log}
	progress := progressTimer{now: s.db.Now}
	var stored atomic.Int64
	save := func() error {
		_, err := s.updateJob(ctx, j.ID, j.Attempt, func(now *Job) {
			now.Processed, now.Errors, now.Bytes, now.Items = in.processed, in.errors, in.bytes.Load(), stored.Load()
		})
		return err
	}
	in.report = func() error {
		if err := s.leads(ctx); err != nil || !progress.due() {
			return err
		}
		log.Info("importing table", "file", in.file, "items", in.processed, "errors", in.errors, "bytes", in.bytes.Load())
		return save()
	}
	if err := s.db.Import(ctx, j.Table, j.ID, in.items(), in.reject, func(n int) { stored.Add(int64(n)) }); err != nil {
		if errors.Is(err, db.ErrFilled) {
			return nil // as above
		}
		return errors.Join(err, save())
	}
	stored.Store(in.processed - in.errors)
	// The counts are saved before the table becomes usable: after a stop in
	// between the import is complete. Saving them also checks that this is still
	// the valid attempt.
	if err := save(); err != nil {
		return err
	}
	if in.errors > 0 && in.errors == in.processed {
		return &jobError{"ItemValidationError", errors.New("Some of the items failed validation checks. Please check the log of the server for more details.")} //nolint:staticcheck // AWS defines the text
	}
	return s.db.EndImport(ctx, j.Table, j.ID)
}

// importReader reads the items of the files of an import.
type importReader struct {
	ctx    context.Context
	place  blob.Place
	job    *Job
	table  *schema.Table
	files  []blob.File
	log    *slog.Logger
	report func() error

	file              string // the current file
	reader            itemReader
	processed, errors int64
	bytes             atomic.Int64
	stopped           error // why reading stopped early, if not because of a file
}

// items iterates over the items of all files. It skips those that cannot be
// decoded.
func (in *importReader) items() iter.Seq2[item.Item, error] {
	return func(yield func(item.Item, error) bool) {
		for _, f := range in.files {
			in.file = f.Name
			more, err := in.readFile(yield)
			if err != nil {
				if in.ctx.Err() == nil && in.stopped == nil {
					err = &jobError{"InvalidFile", fmt.Errorf("cannot read file %s: %w", f.Name, err)}
				}
				yield(nil, err)
				return
			}
			if !more {
				return
			}
		}
	}
}

// readFile passes the items of the current file to yield. more is false if yield
// returned false.
func (in *importReader) readFile(yield func(item.Item, error) bool) (more bool, err error) {
	file, err := in.place.Open(in.ctx, in.file)
	if err != nil {
		return false, err
	}
	defer file.Close()
	unpacked, err := decompress(file, in.job.Import.Compression)
	if err != nil {
		return false, err
	}
	defer unpacked.Close()
	in.reader = in.open(&countingReader{in: in, from: unpacked})
	for {
		it, err := in.reader.next()
		if errors.Is(err, io.EOF) {
			return true, nil
		}
		if in.stopped != nil {
			return false, in.stopped
		}
		if in.processed%progressEvery == 0 {
			if in.stopped = in.report(); in.stopped != nil {
				return false, in.stopped
			}
		}
		switch {
		case errors.As(err, new(*badItem)):
			in.processed++
			in.reject(err)
		case err != nil:
			return false, err
		default:
			in.processed++
			if !yield(it, nil) {
				return false, nil
			}
		}
	}
}

func (in *importReader) open(from io.Reader) itemReader {
	switch in.job.Format {
	case Ion:
		return newIonReader(from)
	case CSV:
		return newCSVReader(from, in.job.Import.CSV, in.table)
	}
	return &jsonItemReader{lineReader: newLineReader(from)}
}

// reject counts and logs an item that is not imported.
func (in *importReader) reject(err error) {
	in.errors++
	switch {
	case in.errors <= maxLoggedErrors:
		in.log.Warn("item rejected", "file", in.file, "line", in.reader.line(), "error", err)
	case in.errors == maxLoggedErrors+1:
		in.log.Warn("too many rejected items; the rest is only counted")
	}
}

// countingReader counts the bytes that an import reads. It stops when the context
// ends, and reports progress: there may be much to read before the next item.
type countingReader struct {
	in         *importReader
	from       io.Reader
	unreported int
}

func (c *countingReader) Read(b []byte) (int, error) {
	if err := c.in.ctx.Err(); err != nil {
		return 0, err
	}
	if c.unreported >= progressBytes {
		c.unreported = 0
		if c.in.stopped = c.in.report(); c.in.stopped != nil {
			return 0, c.in.stopped
		}
	}
	n, err := c.from.Read(b)
	c.in.bytes.Add(int64(n))
	c.unreported += n
	// The end of a truncated file must not look like the end of a complete one.
	if errors.Is(err, io.ErrUnexpectedEOF) {
		err = errTruncatedFile
	}
	return n, err
}

var errTruncatedFile = errors.New("the file is truncated")

// decompress returns a reader of the uncompressed content of a file.
func decompress(file io.Reader, compression string) (io.ReadCloser, error) {
	switch compression {
	case GZIP:
		r, err := gzip.NewReader(file)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			err = errTruncatedFile
		}
		if err != nil {
			return nil, err
		}
		return r, nil
	case ZSTD:
		r, err := zstd.NewReader(file, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(maxZstdWindow))
		if err != nil {
			return nil, err
		}
		return r.IOReadCloser(), nil
	}
	return io.NopCloser(file), nil
}
