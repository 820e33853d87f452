package trigger

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"
)

// The reasons why records become dead letters, in Lambda's words.
const (
	exhausted = "RetryAttemptsExhausted"
	tooOld    = "RecordAgeExceeded"
)

// deadLetters are the open dead-letter files by path. Triggers may share a file.
type deadLetters map[string]*deadLetterFile

// deadLetterFile is a dead-letter file: JSON lines, one for each record.
type deadLetterFile struct {
	path      string
	replaying sync.Mutex // held while letters are replayed

	mu         sync.RWMutex // held for reading, and exclusively for appending and removing
	file       *os.File
	generation int64 // how often letters were removed, or the file was opened again

	counting sync.Mutex
	counted  letterCount
}

func (d deadLetters) open(path string) (*deadLetterFile, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if open := d[path]; open != nil {
		return open, nil
	}
	file, err := openLetters(path)
	if err != nil {
		return nil, err
	}
	is, err := file.Stat()
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	for _, open := range d { // by a link: a replay through one path would replace the file of the other
		if other, err := open.file.Stat(); err == nil && os.SameFile(is, other) {
			return open, file.Close()
		}
	}
	d[path] = &deadLetterFile{path: path, file: file}
	return d[path], nil
}

// openLetters opens the file at a path for appending, and creates it if there is none.
func openLetters(path string) (*os.File, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	if err := errors.Join(endLine(file), syncFolder(filepath.Dir(path))); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

func (d deadLetters) close() (err error) {
	for _, file := range d {
		err = errors.Join(err, file.file.Close())
	}
	return err
}

// reopenLocked opens the file at the path again if it is not the one that is open. The caller holds mu.
func (f *deadLetterFile) reopenLocked() error {
	if replaced, err := f.isReplaced(); err != nil || !replaced {
		return err
	}
	next, err := openLetters(f.path)
	if err != nil {
		return err
	}
	old := f.file
	f.file = next
	f.generation++
	return old.Close()
}

// endLine ends a line that a crash or a full disk has truncated.
func endLine(file *os.File) error {
	end, err := file.Seek(0, io.SeekEnd)
	if err != nil || end == 0 {
		return err
	}
	last := make([]byte, 1)
	if _, err := file.ReadAt(last, end-1); err != nil || last[0] == '\n' {
		return err
	}
	_, err = file.Write([]byte{'\n'})
	return err
}

// syncFolder makes the entries of a folder durable.
func syncFolder(path string) error {
	folder, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(folder.Sync(), folder.Close())
}

// deadLetter is one line of a dead-letter file.
type deadLetter struct {
	Trigger  string          `json:"trigger"`
	Time     time.Time       `json:"time"`
	Reason   string          `json:"condition"`
	Attempts int             `json:"attempts"`
	Error    string          `json:"error,omitempty"`
	Record   json.RawMessage `json:"record"`
}

// append appends records to the file at the path, also if it was moved or replaced. They are durable when it returns without an error; after
// an error some may be, and are appended again.
func (f *deadLetterFile) append(trigger string, now time.Time, reason string, attempts int, failure error, batch []*pendingRecord) error {
	var lines []byte
	for _, r := range batch {
		l := deadLetter{Trigger: trigger, Time: now.UTC(), Reason: reason, Attempts: attempts, Record: r.text}
		if failure != nil {
			l.Error = failure.Error()
		}
		line, err := json.Marshal(l)
		if err != nil {
			return err
		}
		lines = append(append(lines, line...), '\n')
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.reopenLocked(); err != nil {
		return err
	}
	if err := endLine(f.file); err != nil {
		return err
	}
	if _, err := f.file.Write(lines); err != nil {
		return err
	}
	return f.file.Sync()
}
