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
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/timeid"
)

// CheckPrefix tells whether an export can be kept under a prefix.
func CheckPrefix(prefix string) error {
	// Of all its files those with data have the longest names.
	return checkPrefix(prefix, dataName(&Job{ID: timeid.New(time.Time{}), Prefix: prefix, Format: JSON, Export: new(Export)}, 0))
}

// CheckKeyPrefix tells whether the names of files can begin with a prefix.
func CheckKeyPrefix(prefix string) error { return checkPrefix(prefix, prefix) }

func checkPrefix(given, prefix string) error {
	if blob.IsName(prefix + "x") {
		return nil
	}
	return fmt.Errorf("%q cannot begin the name of a file: no part of it may be empty, begin with a dot or have a backslash, and it must leave room for the rest of the name", given)
}

// Two servers may be at the same export for a moment, and the one that has lost
// the lead may be late by any time. So that it never spoils what the other has
// made, an attempt writes data files under names of its own. When all of them
// are there, the job's record seals it: which attempt counts, and what the
// manifests say, is decided once. From then on whoever writes a manifest writes
// the same bytes, and nobody removes the data files that it names. An attempt
// that the record does not seal removes its own files, and no others.

// export writes the files of an export. The summary comes last: without it the
// export is not complete.
func (s *Store) export(ctx context.Context, j *Job, log *slog.Logger) error {
	if err := CheckPrefix(j.Prefix); err != nil { // an older version may have taken it
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
	case errors.Is(err, db.ErrNoRecovery) || errors.Is(err, db.ErrNotRestorable):
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
		log.Info("an export is being written", "items", w.items)
		_, err := s.updateJob(ctx, j.ID, j.Attempt, func(now *Job) { now.Items, now.Bytes = w.items, w.bytes })
		return err
	}
	err = w.write(t, view)
	if err == nil {
		err = s.leads(ctx) // the last file may have been long in coming
	}
	if err != nil {
		w.cancel()
		// What cannot be removed is by the next attempt, if there is one.
		return errors.Join(fmt.Errorf("export to %s: %w", place, err), w.discard())
	}
	sealed, err := s.updateJob(ctx, j.ID, j.Attempt, func(now *Job) {
		now.Items, now.Bytes, now.Files, now.Ended = w.items, w.bytes, w.written, s.db.Now().Truncate(time.Millisecond)
	})
	switch {
	case err == nil:
		*j = sealed
	case errors.Is(err, errSuperseded): // with any other error it may be sealed all the same
		err = errors.Join(err, w.discard())
	}
	return err
}

// FolderOf is the folder of the manifests of an export, with a slash at its end.
func FolderOf(j *Job) string { return prefixFolder(j.Prefix) + "AWSDynamoDB/" + j.ID + "/" }

// Manifest is the name of the summary of an export.
func Manifest(j *Job) string { return FolderOf(j) + summaryManifest + ".json" }

// exportWriter are the data files of an export that are being written.
type exportWriter struct {
	ctx    context.Context
	place  blob.Place
	job    *Job
	report func() error
	leads  func(context.Context) error

	items, bytes int64
	opened       int
	written      []DataFile

	// The data file that is being written.
	file      blob.Writer
	digest    hash.Hash
	gz        *gzip.Writer
	remaining int // bytes, without compression, until the next file
	count     int64
	line      []byte
}

// dataBytes is how large a data file becomes, without compression, about.
const dataBytes = 64 << 20

// write writes all data files.
func (f *exportWriter) write(t *schema.Table, view *db.View) error {
	if err := writeSmallFile(f.ctx, f.place, FolderOf(f.job)+started, nil); err != nil {
		return err
	}
	return f.writeData(t, view)
}

// started is the file that tells of an export that has begun.
const started = "_started"

func (f *exportWriter) writeData(t *schema.Table, view *db.View) error {
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
	for a, err := range view.Affected(f.ctx, t, e.From, e.To) {
		if err != nil {
			return err
		}
		if a.Before == nil && a.After == nil {
			continue // it came and went
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

func firstOf(a, b item.Item) item.Item {
	if a != nil {
		return a
	}
	return b
}

// exportRecord is what an incremental export tells of an item.
type exportRecord struct {
	at                  time.Time
	keys, before, after item.Item
}

// add writes the line of an item, whose size is as DynamoDB counts it.
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

// open begins the next data file.
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

// close ends the data file.
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

// cancel ends a file that did not become complete.
func (f *exportWriter) cancel() {
	if f.file != nil {
		f.file.Cancel()
		f.file = nil
	}
}

// removeEarlier removes what attempts before have left. None of them counts any more:
// the record has the number of this one.
func (f *exportWriter) removeEarlier() error {
	for _, prefix := range []string{FolderOf(f.job), dataPrefix(f.job)} {
		if err := removePrefix(f.ctx, f.place, prefix); err != nil {
			return err
		}
	}
	return nil
}

// removePrefix removes all files whose names begin with a prefix.
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

// discardTimeout is how long an attempt that has ended may remove its files.
const discardTimeout = 10 * time.Second

// discard removes the files of an export that failed: those of its attempt and
// the manifests.
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

// dataFolder is where the data files lie: of incremental exports all in one.
func dataFolder(j *Job) string {
	if j.Export.Incremental() {
		return prefixFolder(j.Prefix) + "AWSDynamoDB/data/"
	}
	return FolderOf(j) + "data/"
}

// dataPrefix begins the names of the data files of an export.
func dataPrefix(j *Job) string { return dataFolder(j) + shortHash(16, j.ID) }

// dataName is the name of a data file of the attempt that a job is at.
func dataName(j *Job, n int) string {
	end := ".json.gz"
	if j.Format == Ion {
		end = ".ion.gz"
	}
	return dataPrefix(j) + shortHash(10, fmt.Sprint(j.ID, "/", j.Attempt, "/", n)) + end
}

// shortHash are small letters and digits that stand for a text.
func shortHash(n int, text string) string {
	sum := sha256.Sum256([]byte(text))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:n]
}

// writeSmallFile writes a small file.
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

// manifestWriter are the manifests of an export that is sealed. All that they say
// comes from the record.
type manifestWriter struct {
	ctx   context.Context
	place blob.Place
	job   *Job
	leads func(context.Context) error
}

// The manifests, without the ends of their names.
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

// put writes a manifest, after its checksum: who sees it can check it.
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

// dataFiles is the content of manifest-files.json: a line for each data file.
func (m *manifestWriter) dataFiles() (content []byte) {
	for n, file := range m.job.Files {
		line, err := json.Marshal(struct {
			ItemCount     int64  `json:"itemCount"`
			MD5Checksum   string `json:"md5Checksum"`
			ETag          string `json:"etag"`
			DataFileS3Key string `json:"dataFileS3Key"`
		}{file.Items, base64.StdEncoding.EncodeToString(file.MD5), hex.EncodeToString(file.MD5), dataName(m.job, n)})
		if err != nil {
			panic(fmt.Sprintf("the manifest of export %s cannot be written as JSON: %v", m.job.ID, err))
		}
		content = append(append(content, line...), '\n')
	}
	return content
}

// summary is the content of manifest-summary.json.
func (m *manifestWriter) summary() []byte {
	j, e := m.job, m.job.Export
	text := func(t time.Time) *string {
		if t.IsZero() {
			return nil
		}
		s := t.UTC().Format("2006-01-02T15:04:05.000Z")
		return &s
	}
	given := func(s string) *string {
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
		text(e.Time), text(e.From), text(e.To), j.Bucket, given(j.Prefix), given(e.Encryption), given(e.Key),
		FolderOf(j) + filesManifest + ".json", j.Bytes, j.Items, j.Format, e.View, kind,
	})
	if err != nil {
		panic(fmt.Sprintf("the manifest of export %s cannot be written as JSON: %v", j.ID, err))
	}
	return b
}
