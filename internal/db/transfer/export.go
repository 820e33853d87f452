package transfer

import (
	"context"
	"crypto/md5"
	"crypto/sha256"
	"encoding/base32"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/klauspost/compress/gzip"

	"github.com/stator-db/stator/internal/blob"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db/history"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/timeid"
)

// CheckPrefix returns an error if the files of an export cannot be stored under a
// prefix.
func CheckPrefix(prefix string) error {
	// The data files have the longest names of its files.
	return checkPrefix(prefix, dataName(&Job{ID: timeid.New(time.Time{}), Prefix: prefix, Format: JSON, Export: new(Export)}, 0))
}

// CheckKeyPrefix returns an error if no name of a file can start with a prefix.
func CheckKeyPrefix(prefix string) error { return checkPrefix(prefix, prefix) }

func checkPrefix(given, prefix string) error {
	if blob.IsName(prefix + "x") {
		return nil
	}
	return fmt.Errorf("%q cannot start the name of a file: no part of it may be empty, start with a dot or contain a backslash, and it must be short enough for the rest of the name", given)
}

// Two servers may run the same export for a while, and the one that has lost
// leadership may continue at any later time. So that it never damages the files of
// the other, each attempt names its data files differently. When all of them are
// written, the job's record seals the export: it decides once which attempt is
// valid and what the manifests contain. From then on every server that writes a
// manifest writes the same bytes, and no server removes the data files that it
// names. An attempt that the record does not seal removes its own files only.

// export writes the files of an export. The summary is written last: without it the
// export is not complete.
func (s *Store) export(ctx context.Context, j *Job, log *slog.Logger) error {
	if err := CheckPrefix(j.Prefix); err != nil { // an older version may have accepted it
		return err
	}
	place, err := s.bucket(j)
	if err != nil {
		return err
	}
	if !j.sealed() {
		if err := s.exportData(ctx, place, j, log); err != nil {
			return err
		}
	}
	m := &manifestWriter{ctx: ctx, place: place, job: j, leads: s.leads}
	if err := m.write(); err != nil {
		return fmt.Errorf("export to %s: %w", place, err)
	}
	return nil
}

// exportData writes the data files of an export and seals it.
func (s *Store) exportData(ctx context.Context, place blob.Place, j *Job, log *slog.Logger) error {
	view, err := s.db.View(ctx)
	if err != nil {
		return err
	}
	defer view.Close()
	earliest := j.Export.End
	if j.Export.Incremental() {
		earliest = j.Export.From
	}
	t, err := view.Recoverable(ctx, j.Table, j.TableID, earliest, s.db.Now())
	switch {
	case errors.Is(err, history.ErrNoRecovery) || errors.Is(err, history.ErrNotRestorable):
		return &jobError{"PointInTimeRecoveryUnavailable", err}
	case err != nil && ctx.Err() == nil && !errors.Is(err, store.ErrUnavailable):
		return &jobError{"TableNotFound", err}
	case err != nil:
		return err
	}
	w := &exportWriter{ctx: ctx, place: place, job: j, leads: s.leads}
	if err := w.removeEarlier(); err != nil {
		return err
	}
	progress := progressTimer{now: s.db.Now}
	w.report = func() error {
		if !progress.due() {
			return nil
		}
		log.Info("exporting table", "items", w.items)
		_, err := s.updateJob(ctx, j.ID, j.Attempt, func(now *Job) { now.Items, now.Bytes = w.items, w.bytes })
		return err
	}
	err = w.write(t, view)
	if err == nil {
		err = s.leads(ctx) // writing the last file may have taken long
	}
	if err != nil {
		w.cancel()
		// The next attempt, if there is one, removes the files that are left.
		return errors.Join(fmt.Errorf("export to %s: %w", place, err), w.discard())
	}
	sealed, err := s.updateJob(ctx, j.ID, j.Attempt, func(now *Job) {
		now.Items, now.Bytes, now.Files, now.Ended = w.items, w.bytes, w.written, s.db.Now().Truncate(time.Millisecond)
	})
	switch {
	case err == nil:
		*j = sealed
	case errors.Is(err, errSuperseded): // after any other error it may be sealed
		err = errors.Join(err, w.discard())
	}
	return err
}

// FolderOf returns the folder of the manifests of an export, with a slash at its
// end.
func FolderOf(j *Job) string { return prefixFolder(j.Prefix) + "AWSDynamoDB/" + j.ID + "/" }

// Manifest returns the name of the summary of an export.
func Manifest(j *Job) string { return FolderOf(j) + summaryManifest + ".json" }

// exportWriter writes the data files of an export.
type exportWriter struct {
	ctx    context.Context
	place  blob.Place
	job    *Job
	report func() error
	leads  func(context.Context) error

	items, bytes int64
	opened       int
	written      []DataFile

	// The current data file.
	file      blob.Writer
	digest    hash.Hash
	gz        *gzip.Writer
	remaining int // uncompressed bytes that still fit in the file
	count     int64
	line      []byte
}

// dataBytes is the approximate size of a data file, uncompressed.
const dataBytes = 64 << 20

// write writes all data files.
func (f *exportWriter) write(t *schema.Table, view *history.View) error {
	if err := writeSmallFile(f.ctx, f.place, FolderOf(f.job)+started, nil); err != nil {
		return err
	}
	return f.writeData(t, view)
}

// started is the name of the file that marks an export as started.
const started = "_started"

func (f *exportWriter) writeData(t *schema.Table, view *history.View) error {
	e := f.job.Export
	if err := f.open(); err != nil {
		return err
	}
	if !e.Incremental() {
		line := fullLines[f.job.Format]
		for it, err := range view.ItemsBefore(f.ctx, t, e.End) {
			if err != nil {
				return err
			}
			f.line = line(f.line[:0], it)
			if err := f.add(int64(it.Size())); err != nil {
				return err
			}
		}
		return f.close()
	}
	line := recordLines[f.job.Format]
	for a, err := range view.Changed(f.ctx, t, e.From, e.To) {
		if err != nil {
			return err
		}
		if a.Before == nil && a.After == nil {
			continue // it was created and deleted within the window
		}
		r := exportRecord{at: a.At, keys: t.Key.Of(firstOf(a.After, a.Before)), after: a.After}
		if e.View != NewImage {
			r.before = a.Before
		}
		f.line = line(f.line[:0], &r)
		if err := f.add(int64(a.Before.Size() + a.After.Size())); err != nil {
			return err
		}
	}
	return f.close()
}

// firstOf returns a, or b if a is nil.
func firstOf(a, b item.Item) item.Item {
	if a != nil {
		return a
	}
	return b
}

// exportRecord is the line of an item in an incremental export.
type exportRecord struct {
	at                  time.Time
	keys, before, after item.Item
}

// add writes f.line. size is the size of the item as DynamoDB counts it.
func (f *exportWriter) add(size int64) error {
	if f.remaining <= 0 {
		if err := f.close(); err != nil {
			return err
		}
		if err := f.open(); err != nil {
			return err
		}
	}
	f.remaining -= len(f.line)
	f.items, f.bytes, f.count = f.items+1, f.bytes+size, f.count+1
	if f.items%1000 == 0 {
		if err := errors.Join(f.leads(f.ctx), f.report()); err != nil {
			return err
		}
	}
	_, err := f.gz.Write(f.line)
	return err
}

// open creates the next data file.
func (f *exportWriter) open() error {
	name := dataName(f.job, f.opened)
	f.opened++
	file, err := f.place.Create(f.ctx, name)
	if err != nil {
		return err
	}
	f.file, f.digest, f.remaining, f.count = file, md5.New(), dataBytes, 0
	f.gz = gzip.NewWriter(io.MultiWriter(file, f.digest))
	return nil
}

// close completes the current data file.
func (f *exportWriter) close() error {
	if err := errors.Join(f.gz.Close(), f.leads(f.ctx)); err != nil {
		return err
	}
	file := f.file
	f.file = nil
	if err := file.Commit(); err != nil {
		return err
	}
	f.written = append(f.written, DataFile{f.count, f.digest.Sum(nil)})
	return nil
}

// cancel discards the current data file.
func (f *exportWriter) cancel() {
	if f.file != nil {
		f.file.Cancel()
		f.file = nil
	}
}

// removeEarlier removes the files of earlier attempts. None of them is valid any
// more: the record has the number of this attempt.
func (f *exportWriter) removeEarlier() error {
	for _, prefix := range []string{FolderOf(f.job), dataPrefix(f.job)} {
		if err := removePrefix(f.ctx, f.place, prefix); err != nil {
			return err
		}
	}
	return nil
}

// removePrefix removes all files whose names start with a prefix.
func removePrefix(ctx context.Context, place blob.Place, prefix string) error {
	found, err := place.Find(ctx, prefix)
	if err != nil {
		return err
	}
	for _, file := range found {
		if err := place.Remove(ctx, file.Name); err != nil {
			return err
		}
	}
	return nil
}

// discard removes the data files of this attempt, which is not sealed.
func (f *exportWriter) discard() error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(f.ctx), discardTimeout)
	defer cancel()
	var failed error
	for n := range f.opened {
		failed = errors.Join(failed, f.place.Remove(ctx, dataName(f.job, n)))
	}
	return failed
}

// discardTimeout bounds how long a failed attempt removes its files.
const discardTimeout = 10 * time.Second

// discard removes the files of a failed export: those of its attempt and the
// manifests.
func (s *Store) discard(ctx context.Context, j *Job) error {
	place := s.buckets[j.Bucket]
	if place == nil || CheckPrefix(j.Prefix) != nil {
		return nil
	}
	var failed error
	for n := range j.Files {
		failed = errors.Join(failed, place.Remove(ctx, dataName(j, n)))
	}
	for _, name := range []string{started, filesManifest + ".json", filesManifest + ".md5", summaryManifest + ".json", summaryManifest + ".md5"} {
		failed = errors.Join(failed, place.Remove(ctx, FolderOf(j)+name))
	}
	return failed
}

// dataFolder returns the folder of the data files. All incremental exports share
// one.
func dataFolder(j *Job) string {
	if j.Export.Incremental() {
		return prefixFolder(j.Prefix) + "AWSDynamoDB/data/"
	}
	return FolderOf(j) + "data/"
}

// dataPrefix returns the prefix of the names of the data files of an export.
func dataPrefix(j *Job) string { return dataFolder(j) + shortHash(16, j.ID) }

// dataName returns the name of the n-th data file of the current attempt at a job.
func dataName(j *Job, n int) string {
	suffix := ".json.gz"
	if j.Format == Ion {
		suffix = ".ion.gz"
	}
	return dataPrefix(j) + shortHash(10, fmt.Sprint(j.ID, "/", j.Attempt, "/", n)) + suffix
}

// shortHash returns a hash of a text as n lower-case letters and digits.
func shortHash(n int, text string) string {
	sum := sha256.Sum256([]byte(text))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:n]
}

// writeSmallFile writes a file whose content is in memory.
func writeSmallFile(ctx context.Context, place blob.Place, name string, content []byte) error {
	w, err := place.Create(ctx, name)
	if err != nil {
		return err
	}
	if _, err := w.Write(content); err != nil {
		w.Cancel()
		return err
	}
	return w.Commit()
}

// manifestWriter writes the manifests of a sealed export. Their content depends on
// the job's record only.
type manifestWriter struct {
	ctx   context.Context
	place blob.Place
	job   *Job
	leads func(context.Context) error
}

// The names of the manifests, without suffixes.
const (
	filesManifest   = "manifest-files"
	summaryManifest = "manifest-summary"
)

func (m *manifestWriter) write() error {
	if err := m.put(filesManifest, m.dataFiles()); err != nil {
		return err
	}
	return m.put(summaryManifest, m.summary())
}

// put writes a manifest, after its checksum, so that a reader that finds the
// manifest can verify it.
func (m *manifestWriter) put(name string, content []byte) error {
	if err := m.leads(m.ctx); err != nil {
		return err
	}
	sum := md5.Sum(content)
	if err := writeSmallFile(m.ctx, m.place, FolderOf(m.job)+name+".md5", []byte(base64.StdEncoding.EncodeToString(sum[:]))); err != nil {
		return err
	}
	return writeSmallFile(m.ctx, m.place, FolderOf(m.job)+name+".json", content)
}

// dataFiles returns the content of manifest-files.json: a line for each data file.
func (m *manifestWriter) dataFiles() (content []byte) {
	for n, file := range m.job.Files {
		line, err := json.Marshal(struct {
			ItemCount     int64  `json:"itemCount"`
			MD5Checksum   string `json:"md5Checksum"`
			ETag          string `json:"etag"`
			DataFileS3Key string `json:"dataFileS3Key"`
		}{file.Items, base64.StdEncoding.EncodeToString(file.MD5), hex.EncodeToString(file.MD5), dataName(m.job, n)})
		if err != nil {
			panic(fmt.Sprintf("the manifest of export %s cannot be encoded as JSON: %v", m.job.ID, err))
		}
		content = append(append(content, line...), '\n')
	}
	return content
}

// summary returns the content of manifest-summary.json.
func (m *manifestWriter) summary() []byte {
	j, e := m.job, m.job.Export
	text := func(t time.Time) *string {
		if t.IsZero() {
			return nil
		}
		s := t.UTC().Format("2006-01-02T15:04:05.000Z")
		return &s
	}
	optional := func(s string) *string {
		if s == "" {
			return nil
		}
		return &s
	}
	kind, version := "FULL_EXPORT", "2020-06-30"
	if e.Incremental() {
		kind, version = "INCREMENTAL_EXPORT", "2023-08-01"
	}
	b, err := json.Marshal(struct {
		Version            string  `json:"version"`
		ExportArn          string  `json:"exportArn"`
		StartTime          *string `json:"startTime"`
		EndTime            *string `json:"endTime"`
		TableArn           string  `json:"tableArn"`
		TableID            string  `json:"tableId"`
		ExportTime         *string `json:"exportTime,omitempty"`
		ExportFromTime     *string `json:"exportFromTime,omitempty"`
		ExportToTime       *string `json:"exportToTime,omitempty"`
		S3Bucket           string  `json:"s3Bucket"`
		S3Prefix           *string `json:"s3Prefix"`
		S3SseAlgorithm     *string `json:"s3SseAlgorithm"`
		S3SseKmsKeyID      *string `json:"s3SseKmsKeyId"`
		ManifestFilesS3Key string  `json:"manifestFilesS3Key"`
		BilledSizeBytes    int64   `json:"billedSizeBytes"`
		ItemCount          int64   `json:"itemCount"`
		OutputFormat       string  `json:"outputFormat"`
		OutputView         string  `json:"outputView,omitempty"`
		ExportType         string  `json:"exportType"`
	}{
		version, j.TableARN + "/export/" + j.ID, text(j.Started), text(j.Ended), j.TableARN, j.TableUUID,
		text(e.Time), text(e.From), text(e.To), j.Bucket, optional(j.Prefix), optional(e.Encryption), optional(e.Key),
		FolderOf(j) + filesManifest + ".json", j.Bytes, j.Items, j.Format, e.View, kind,
	})
	if err != nil {
		panic(fmt.Sprintf("the manifest of export %s cannot be encoded as JSON: %v", j.ID, err))
	}
	return b
}
