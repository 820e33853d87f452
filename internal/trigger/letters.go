package trigger

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"

	"github.com/stator-db/stator/internal/apierror"
)

// maxLetterLine is the longest line of a dead-letter file that is read; records are shorter.
const maxLetterLine = 16 << 20

// storedLetter is a line of a dead-letter file.
type storedLetter struct {
	deadLetter
	line []byte // without its end; valid until the next
	end  int64  // the offset after the line
	name string // its id, once it is known
}

// id identifies a letter by its text. Lines that repeat another have its id.
func (l *storedLetter) id() string {
	if l.name == "" {
		l.name = idOf(l.line)
	}
	return l.name
}

func idOf(line []byte) string {
	sum := sha256.Sum256(line)
	return hex.EncodeToString(sum[:12])
}

// decode reports whether the line is a letter of an owner, and decodes it.
func (l *storedLetter) decode(of letterOwner) bool {
	if ownerOf(l.line) != of {
		return false
	}
	l.deadLetter = deadLetter{}
	return json.Unmarshal(l.line, &l.deadLetter) == nil && l.Trigger == of.trigger && len(l.Record) > 0
}

// letterOwner is the trigger that has given up a record, and the table of the record. A trigger has the letters
// of its present table only: permissions for its letters are those for that table.
type letterOwner struct{ trigger, table string }

// ownerOf returns the owner of a letter; none of a line that is not one. Names need no escapes, and in
// a record no other string follows this name: those of items are in objects with their types.
func ownerOf(line []byte) letterOwner {
	const maxName, maxTable = 64, 255
	rest, ok := bytes.CutPrefix(line, []byte(`{"trigger":"`))
	if !ok {
		return letterOwner{}
	}
	name := upTo(rest, `"`, maxName)
	_, rest, ok = bytes.Cut(rest, []byte(`"eventSourceARN":"`))
	if !ok {
		return letterOwner{}
	}
	arn := upTo(rest, `"`, maxTable+256)
	_, resource, _ := strings.Cut(arn, ":table/")
	table, _, ok := strings.Cut(resource, "/stream/")
	if !ok {
		return letterOwner{}
	}
	return letterOwner{name, table}
}

// upTo returns the text before an end; nothing if that is longer than a limit.
func upTo(text []byte, end string, limit int) string {
	before, _, ok := bytes.Cut(text[:min(len(text), limit+len(end))], []byte(end))
	if !ok {
		return ""
	}
	return string(before)
}

// scan calls fn for the complete lines from an offset on, until it returns false or at least limit
// bytes were read. It returns the offset after the last line that fn was called for, and whether
// there are no more.
func (f *deadLetterFile) scan(from, limit int64, fn func(*storedLetter) (more bool)) (at int64, ended bool, err error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	at = from
	err = scanLines(io.NewSectionReader(f.file, from, math.MaxInt64-from), func(line []byte, size int64) bool {
		at += size
		return (line == nil || fn(&storedLetter{line: line, end: at})) && at-from < limit
	}, &ended)
	if err != nil {
		return 0, false, fmt.Errorf("read dead-letter file %s: %w", f.path, err)
	}
	return at, ended, nil
}

// scanLines calls fn for each complete line, without its end, and its size with it, until it
// returns false. A line that is too long is nil. It sets ended if there are no more lines.
func scanLines(r io.Reader, fn func(line []byte, size int64) (more bool), ended *bool) error {
	in := bufio.NewReaderSize(r, 64<<10)
	var long []byte
	size := int64(0)
	for {
		part, err := in.ReadSlice('\n')
		size += int64(len(part))
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			if size <= maxLetterLine {
				long = append(long, part...)
			}
			continue
		case errors.Is(err, io.EOF): // a line without its end is being written, or was truncated
			*ended = true
			return nil
		case err != nil:
			return err
		}
		line := part
		if size > int64(len(part)) {
			line = append(long, part...)
		}
		line = line[:len(line)-1]
		if size > maxLetterLine {
			line = nil
		}
		if !fn(line, size) {
			_, err := in.Peek(1)
			*ended = errors.Is(err, io.EOF)
			return nil
		}
		long, size = long[:0], 0
	}
}

// letterCount is how many letters there are of each owner in the part of a file that was counted.
type letterCount struct {
	generation int64
	to         int64 // the offset up to which letters were counted
	byOwner    map[letterOwner]int64
}

// count returns how many letters an owner has. It continues with the part that was not counted
// yet; all reports whether it has reached the end.
func (f *deadLetterFile) count(of letterOwner) (n int64, all bool, err error) {
	f.counting.Lock()
	defer f.counting.Unlock()
	f.mu.RLock()
	generation := f.generation
	info, err := f.file.Stat()
	f.mu.RUnlock()
	if err != nil {
		return 0, false, err
	}
	c := &f.counted
	if c.byOwner == nil || c.generation != generation || info.Size() < c.to {
		*c = letterCount{generation: generation, byOwner: make(map[letterOwner]int64)}
	}
	at, all, err := f.scan(c.to, letterScan, func(l *storedLetter) bool {
		if of := ownerOf(l.line); of != (letterOwner{}) {
			c.byOwner[of]++
		}
		return true
	})
	if err != nil {
		return 0, false, err
	}
	c.to = at
	return c.byOwner[of], all, nil
}

// token returns the token of the page of letters that begins at an offset.
func (f *deadLetterFile) token(at int64) string {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return fmt.Sprintf("%d-%d", f.generation, at)
}

// offset returns the offset of a token. It is 0 for none.
func (f *deadLetterFile) offset(token string) (at int64, err error) {
	if token == "" {
		return 0, nil
	}
	f.mu.RLock()
	defer f.mu.RUnlock()
	var generation int64
	if _, err := fmt.Sscanf(token, "%d-%d", &generation, &at); err != nil || at < 0 {
		return 0, apierror.Validation("NextToken is not valid")
	}
	before := []byte{'\n'}
	if at > 0 {
		_, err = f.file.ReadAt(before, at-1)
	}
	if err != nil || generation != f.generation || before[0] != '\n' {
		return 0, apierror.Validation("NextToken is not valid any more, because dead letters were removed from the file. Begin with the first page")
	}
	return at, nil
}

// checkPlace returns a fault if the file at the path is not the one that is open.
func (f *deadLetterFile) checkPlace() error {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return f.checkPlaceLocked()
}

func (f *deadLetterFile) checkPlaceLocked() error {
	replaced, err := f.isReplaced()
	if replaced {
		return apierror.InUse("The dead-letter file %s was moved or replaced since the server opened it. Restart the server, or move the file back", f.path)
	}
	return err
}

// isReplaced reports whether the file at the path is not the one that is open. The caller holds mu.
func (f *deadLetterFile) isReplaced() (bool, error) {
	is, err := f.file.Stat()
	if err != nil {
		return false, err
	}
	at, err := os.Stat(f.path)
	return err != nil || !os.SameFile(is, at), nil
}

// remove removes the letters with some ids: it replaces the file by one without them. It returns
// where what was at an offset is then.
func (f *deadLetterFile) remove(ids map[string]bool, before int64) (at int64, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.checkPlaceLocked(); err != nil {
		return 0, err
	}
	path, err := filepath.EvalSymlinks(f.path)
	if err != nil {
		return 0, err
	}
	info, err := f.file.Stat()
	if err != nil {
		return 0, err
	}
	temporary := path + ".replay"
	if err := os.Remove(temporary); err != nil && !errors.Is(err, os.ErrNotExist) { // left by a crash
		return 0, err
	}
	next, err := os.OpenFile(temporary, os.O_CREATE|os.O_EXCL|os.O_RDWR|os.O_APPEND, info.Mode().Perm())
	if err != nil {
		return 0, err
	}
	at, err = f.copyWithout(next, ids, before)
	if err == nil {
		err = next.Sync()
	}
	if err == nil {
		err = os.Rename(temporary, path)
	}
	if err != nil {
		return 0, errors.Join(err, next.Close(), os.Remove(temporary))
	}
	old := f.file
	f.file = next
	f.generation++
	return at, errors.Join(old.Close(), syncFolder(filepath.Dir(path)))
}

// copyWithout copies the file without the letters of some ids.
func (f *deadLetterFile) copyWithout(to io.Writer, ids map[string]bool, before int64) (at int64, err error) {
	out := bufio.NewWriterSize(to, 256<<10)
	var read, copied int64 // offsets in both files
	in := io.NewSectionReader(f.file, 0, math.MaxInt64)
	var ended bool
	var failed error
	keep := func(from, size int64) {
		n, err := io.Copy(out, io.NewSectionReader(f.file, from, size))
		copied += n
		failed = err
	}
	err = scanLines(in, func(line []byte, size int64) bool {
		if line == nil {
			keep(read, size)
		} else if !ids[idOf(line)] {
			_, failed = out.Write(line)
			if failed == nil {
				failed = out.WriteByte('\n')
			}
			copied += size
		}
		read += size
		if read <= before {
			at = copied
		}
		return failed == nil
	}, &ended)
	if err = errors.Join(err, failed); err != nil {
		return 0, err
	}
	keep(read, math.MaxInt64-read) // a line without its end
	return at, errors.Join(failed, out.Flush())
}
