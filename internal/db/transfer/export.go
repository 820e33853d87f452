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
)

// CheckPrefix tells whether an export can be kept under a prefix.
func CheckPrefix(prefix string) error { return checkPrefix(prefix, folderOf(prefix)) }

// CheckKeyPrefix tells whether the names of files can begin with a prefix.
func CheckKeyPrefix(prefix string) error { return checkPrefix(prefix, prefix) }

func checkPrefix(given, prefix string) error {
	if blob.IsName(prefix + "x") {
		return nil
	}
	return fmt.Errorf("%q cannot begin the name of a file: no part of it may be empty, begin with a dot or have a backslash", given)
}

// export writes the files of an export. The summary comes last: without it the
// export is not complete.
func (s *Store) export(ctx context.Context, j Job, log *slog.Logger) error {
	place, err := s.bucket(&j)
	if err != nil {
		return err
	}
	view, err := s.db.View(ctx)
	if err != nil {
		return err
	}
	defer view.Close()
	back := j.Export.End
	if j.Export.Incremental() {
		back = j.Export.From
	}
	t, err := view.Recoverable(ctx, j.Table, j.TableID, back, s.db.Now())
	switch {
	case errors.Is(err, db.ErrNoRecovery) || errors.Is(err, db.ErrNotRestorable):
		return &failure{"PointInTimeRecoveryUnavailable", err}
	case err != nil:
		return &failure{"TableNotFound", err}
	}
	f := &files{ctx: ctx, place: place, job: &j, folder: FolderOf(&j)}
	if err := f.clear(); err != nil {
		return err
	}
	tell := teller{now: s.db.Now}
	f.told = func() {
		s.note(j.ID, func(now *Job) { now.Items, now.Bytes = f.items, f.bytes })
		if tell.due() {
			log.Info("an export is being written", "items", f.items)
		}
	}
	err = f.write(s.db.Now, t, view)
	if err != nil {
		f.cancel()
		if ctx.Err() != nil {
			return err // the next attempt clears what is left
		}
		return errors.Join(fmt.Errorf("export to %s: %w", place, err), f.discard(ctx))
	}
	f.told()
	return nil
}

// FolderOf is the folder of the manifests of an export, with a slash at its end.
func FolderOf(j *Job) string { return folderOf(j.Prefix) + "AWSDynamoDB/" + j.ID + "/" }

// Manifest is the name of the summary of an export.
func Manifest(j *Job) string { return FolderOf(j) + "manifest-summary.json" }

// files are the files of an export that is being written.
type files struct {
	ctx    context.Context
	place  blob.Place
	job    *Job
	folder string
	told   func()

	items, bytes int64
	made         []string
	manifest     []byte // of the data files, a line for each

	// The data file that is being written.
	name  string
	file  blob.Writer
	sum   hash.Hash
	pack  *gzip.Writer
	room  int // bytes, without compression, until the next file
	count int64
	line  []byte
}

// dataBytes is how large a data file becomes, without compression, about.
const dataBytes = 64 << 20

// write writes all files.
func (f *files) write(now func() time.Time, t *schema.Table, view *db.View) error {
	if err := f.put(f.folder+"_started", nil); err != nil {
		return err
	}
	if err := f.writeData(t, view); err != nil {
		return err
	}
	if err := f.putSummed("manifest-files", f.manifest); err != nil {
		return err
	}
	return f.putSummed("manifest-summary", f.summary(now()))
}

func (f *files) writeData(t *schema.Table, view *db.View) error {
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
		r := record{at: a.At, keys: t.Key.Of(either(a.After, a.Before)), after: a.After}
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

func either(a, b item.Item) item.Item {
	if a != nil {
		return a
	}
	return b
}

// record is what an incremental export tells of an item.
type record struct {
	at                  time.Time
	keys, before, after item.Item
}

// add writes the line of an item, whose size is as DynamoDB counts it.
func (f *files) add(size int64) error {
	if f.room <= 0 {
		if err := f.close(); err != nil {
			return err
		}
		if err := f.open(); err != nil {
			return err
		}
	}
	f.room -= len(f.line)
	f.items, f.bytes, f.count = f.items+1, f.bytes+size, f.count+1
	if f.items%1000 == 0 {
		f.told()
		if err := f.ctx.Err(); err != nil {
			return err
		}
	}
	_, err := f.pack.Write(f.line)
	return err
}

// open begins the next data file.
func (f *files) open() error {
	f.name = f.dataName(len(f.made))
	f.made = append(f.made, f.name)
	file, err := f.place.Create(f.ctx, f.name)
	if err != nil {
		return err
	}
	f.file, f.sum, f.room, f.count = file, md5.New(), dataBytes, 0
	f.pack = gzip.NewWriter(io.MultiWriter(file, f.sum))
	return nil
}

// close ends the data file and notes it in the manifest.
func (f *files) close() error {
	if err := f.pack.Close(); err != nil {
		return err
	}
	file := f.file
	f.file = nil
	if err := file.Commit(); err != nil {
		return err
	}
	sum := f.sum.Sum(nil)
	line, err := json.Marshal(struct {
		ItemCount     int64  `json:"itemCount"`
		MD5Checksum   string `json:"md5Checksum"`
		ETag          string `json:"etag"`
		DataFileS3Key string `json:"dataFileS3Key"`
	}{f.count, base64.StdEncoding.EncodeToString(sum), hex.EncodeToString(sum), f.name})
	f.manifest = append(append(f.manifest, line...), '\n')
	return err
}

// cancel ends a file that did not become complete.
func (f *files) cancel() {
	if f.file != nil {
		f.file.Cancel()
		f.file = nil
	}
}

// dataFolder is where the data files lie: of incremental exports all in one.
func (f *files) dataFolder() string {
	if f.job.Export.Incremental() {
		return folderOf(f.job.Prefix) + "AWSDynamoDB/data/"
	}
	return f.folder + "data/"
}

// own begins the names of the data files of this export. A second attempt uses
// the same names.
func (f *files) own() string { return f.dataFolder() + letters(16, f.job.ID) }

func (f *files) dataName(n int) string {
	end := ".json.gz"
	if f.job.Format == Ion {
		end = ".ion.gz"
	}
	return f.own() + letters(10, fmt.Sprint(f.job.ID, "/", n)) + end
}

// letters are small letters and digits that stand for a text.
func letters(n int, text string) string {
	sum := sha256.Sum256([]byte(text))
	return strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))[:n]
}

// put writes a small file.
func (f *files) put(name string, content []byte) error {
	f.made = append(f.made, name)
	w, err := f.place.Create(f.ctx, name)
	if err != nil {
		return err
	}
	if _, err := w.Write(content); err != nil {
		w.Cancel()
		return err
	}
	return w.Commit()
}

// putSummed writes a manifest, after its checksum: who sees it can check it.
func (f *files) putSummed(name string, content []byte) error {
	sum := md5.Sum(content)
	if err := f.put(f.folder+name+".md5", []byte(base64.StdEncoding.EncodeToString(sum[:]))); err != nil {
		return err
	}
	return f.put(f.folder+name+".json", content)
}

// clear removes what an attempt before left.
func (f *files) clear() error {
	for _, prefix := range []string{f.folder, f.own()} {
		old, err := f.place.Find(f.ctx, prefix)
		if err != nil {
			return err
		}
		for _, file := range old {
			if err := f.place.Remove(f.ctx, file.Name); err != nil {
				return err
			}
		}
	}
	return nil
}

// discard removes what was made.
func (f *files) discard(ctx context.Context) error {
	var failed error
	for _, name := range f.made {
		failed = errors.Join(failed, f.place.Remove(ctx, name))
	}
	return failed
}

// summary is the content of manifest-summary.json.
func (f *files) summary(ended time.Time) []byte {
	j, e := f.job, f.job.Export
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
		version, j.TableARN + "/export/" + j.ID, text(j.Started), text(ended), j.TableARN, j.TableUUID,
		text(e.Time), text(e.From), text(e.To), j.Bucket, given(j.Prefix), given(e.Encryption), given(e.Key),
		f.folder + "manifest-files.json", f.bytes, f.items, j.Format, e.View, kind,
	})
	if err != nil {
		panic(fmt.Sprintf("the manifest of export %s cannot be written as JSON: %v", j.ID, err))
	}
	return b
}
