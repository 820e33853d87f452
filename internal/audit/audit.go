// Package audit records requests and their senders: one line of JSON for each request,
// with the field names of AWS CloudTrail.
//
// A request waits for the log only while its queue is full, and not for longer than a
// bound. What does not get into the queue by then, or cannot be written, is dropped,
// counted, and written down when that is possible again.
package audit

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stator-db/stator/internal/metrics"
)

// Options configure a Log.
type Options struct {
	Path     string
	MaxBytes int64 // of the file, before it is rotated; 0 is DefaultBytes
	Keep     int   // rotated files that are kept; 0 is DefaultKeep
	Log      *slog.Logger

	queue int           // records; 0 is maxQueued
	wait  time.Duration // of a request for room in the queue; 0 is maxWait
	open  func(path string) (file, error)
}

// What is kept unless an operator says otherwise.
const (
	DefaultBytes = 100 << 20
	DefaultKeep  = 10
)

const (
	maxQueued = 8192
	maxWait   = 100 * time.Millisecond
	// syncInterval is how often what was written is made durable, and how long the log
	// waits before it opens a file again that could not be written.
	syncInterval = time.Second
	maxRecord    = 64 << 10 // bytes
)

// file is what the log needs of a file.
type file interface {
	io.Writer
	Sync() error
	Close() error
}

// Log writes records. Its methods are safe for concurrent use.
type Log struct {
	o       Options
	queue   chan []byte
	closing chan struct{}
	close   sync.Once
	ended   chan struct{}

	written, dropped atomic.Int64 // records
	rotated          atomic.Int64 // files

	// Used by run only.
	file     file
	out      *bufio.Writer
	size     int64 // of the file
	pending  int64 // records that are not in the file yet
	unsynced bool
	reported int64     // how many of dropped have a record
	failed   time.Time // when the file could not be written last; zero once it is open again
	failing  bool      // that it cannot be written was logged
}

// Open opens a log. Records are appended to a file that exists.
func Open(o Options) (*Log, error) {
	if o.MaxBytes == 0 {
		o.MaxBytes = DefaultBytes
	}
	if o.Keep == 0 {
		o.Keep = DefaultKeep
	}
	if o.queue == 0 {
		o.queue = maxQueued
	}
	if o.wait == 0 {
		o.wait = maxWait
	}
	if o.open == nil {
		o.open = openFile
	}
	l := &Log{o: o, queue: make(chan []byte, o.queue), closing: make(chan struct{}), ended: make(chan struct{})}
	if err := l.reopen(); err != nil {
		return nil, fmt.Errorf("audit log: %w", err)
	}
	go l.run()
	return l, nil
}

// openFile opens a file of a log for its owner only. A line that a crash has cut is ended,
// so that the next record has a line of its own.
func openFile(path string) (file, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		return f, nil // a pipe or a device has no end
	}
	if err == nil && info.Size() > 0 {
		last := make([]byte, 1)
		if _, err = f.ReadAt(last, info.Size()-1); err == nil && last[0] != '\n' {
			_, err = f.Write([]byte("\n"))
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Record writes a record down, unless the queue stays full.
func (l *Log) Record(r *Record) {
	line, err := json.Marshal(r)
	if err != nil || len(line) > maxRecord {
		line, err = json.Marshal(r.cut())
	}
	if err != nil {
		l.dropped.Add(1)
		return
	}
	line = append(line, '\n')
	select {
	case l.queue <- line:
		return
	default:
	}
	timer := time.NewTimer(l.o.wait)
	defer timer.Stop()
	select {
	case l.queue <- line:
	case <-timer.C:
		l.dropped.Add(1)
	case <-l.closing:
		l.dropped.Add(1)
	}
}

// Close writes what is in the queue, and closes the file. It is called after the last
// Record.
func (l *Log) Close() error {
	l.close.Do(func() { close(l.closing) })
	<-l.ended
	if l.file == nil {
		return nil
	}
	return errors.Join(l.flush(), l.file.Close())
}

// Metrics returns how many records were written and dropped.
func (l *Log) Metrics() []metrics.Metric {
	return []metrics.Metric{
		{Name: "stator_audit_records_total", Help: "Records that were written to the audit log.", Type: metrics.Counter, Samples: metrics.Value(float64(l.written.Load()))},
		{Name: "stator_audit_dropped_total", Help: "Records that the audit log had no room for, or that could not be written.", Type: metrics.Counter, Samples: metrics.Value(float64(l.dropped.Load()))},
		{Name: "stator_audit_rotations_total", Help: "How often the file of the audit log was replaced.", Type: metrics.Counter, Samples: metrics.Value(float64(l.rotated.Load()))},
	}
}

// run writes records until the log is closed.
func (l *Log) run() {
	defer close(l.ended)
	tick := time.NewTicker(syncInterval)
	defer tick.Stop()
	for {
		select {
		case line := <-l.queue:
			l.write(line)
			if len(l.queue) == 0 {
				l.check(l.deliver())
			}
		case <-tick.C:
			l.reportDropped()
			if l.unsynced {
				l.check(l.flush())
			}
		case <-l.closing:
			for {
				select {
				case line := <-l.queue:
					l.write(line)
				default:
					l.reportDropped()
					return
				}
			}
		}
	}
}

// write writes a line, in a new file if this one is full.
func (l *Log) write(line []byte) {
	if !l.failed.IsZero() && time.Since(l.failed) < syncInterval {
		l.dropped.Add(1)
		return
	}
	if l.file == nil {
		if err := l.reopen(); err != nil {
			l.dropped.Add(1)
			l.check(err)
			return
		}
	}
	if l.size > 0 && l.size+int64(len(line)) > l.o.MaxBytes {
		if err := l.rotate(); err != nil {
			l.dropped.Add(1)
			l.check(err)
			return
		}
	}
	if _, err := l.out.Write(line); err != nil {
		l.pending++
		l.check(err)
		return
	}
	l.size += int64(len(line))
	l.unsynced = true
	l.pending++
}

// deliver hands the records that were written to the file.
func (l *Log) deliver() error {
	if l.file == nil {
		return nil
	}
	if err := l.out.Flush(); err != nil {
		return err
	}
	if l.failing && l.pending > 0 {
		l.failing = false
		l.o.Log.Info("the audit log is written again", "file", l.o.Path, "dropped", l.dropped.Load()-l.reported)
	}
	l.written.Add(l.pending)
	l.pending = 0
	return nil
}

// check closes a file that could not be written: it is opened again after a while.
func (l *Log) check(err error) {
	if err == nil {
		return
	}
	if !l.failing {
		l.failing = true
		l.o.Log.Error("the audit log cannot be written; records are dropped and counted", "file", l.o.Path, "error", err)
	}
	l.failed = time.Now()
	l.dropped.Add(l.pending)
	l.pending = 0
	if l.file != nil {
		_ = l.file.Close()
		l.file, l.out, l.unsynced = nil, bufio.NewWriter(io.Discard), false
	}
}

func (l *Log) flush() error {
	if l.file == nil {
		return nil
	}
	l.unsynced = false
	if err := l.deliver(); err != nil {
		return err
	}
	return l.file.Sync()
}

// reopen opens the file.
func (l *Log) reopen() error {
	f, err := l.o.open(l.o.Path)
	if err != nil {
		return err
	}
	l.file, l.out, l.size, l.failed = f, bufio.NewWriterSize(f, 64<<10), 0, time.Time{}
	if info, err := os.Stat(l.o.Path); err == nil && info.Mode().IsRegular() {
		l.size = info.Size()
	}
	return nil
}

// rotate renames the files, so that the newest is followed by .1, and removes the oldest.
func (l *Log) rotate() error {
	err := errors.Join(l.flush(), l.file.Close())
	l.file, l.out = nil, bufio.NewWriter(io.Discard)
	if err != nil {
		return err
	}
	name := func(i int) string { return fmt.Sprintf("%s.%d", l.o.Path, i) }
	if err := os.Remove(name(l.o.Keep)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for i := l.o.Keep - 1; i > 0; i-- {
		if err := os.Rename(name(i), name(i+1)); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	if err := os.Rename(l.o.Path, name(1)); err != nil {
		return err
	}
	if err := l.reopen(); err != nil {
		return err
	}
	l.o.Log.Info("the audit log was rotated", "file", l.o.Path)
	l.rotated.Add(1)
	return syncFolder(filepath.Dir(l.o.Path))
}

func syncFolder(path string) error {
	d, err := os.Open(path) //nolint:gosec // the folder of a file that the operator has named
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// reportDropped records how many records were dropped since it did so last.
func (l *Log) reportDropped() {
	dropped := l.dropped.Load()
	if dropped == l.reported || !l.failed.IsZero() && time.Since(l.failed) < syncInterval {
		return
	}
	line, err := json.Marshal(&Record{
		EventVersion: Version, EventTime: time.Now().UTC().Format(time.RFC3339), EventSource: "stator", EventName: "RecordsDropped",
		EventType: "AuditGap", AdditionalEventData: map[string]any{"dropped": dropped - l.reported},
	})
	if err != nil {
		return
	}
	l.write(append(line, '\n'))
	if l.check(l.deliver()); l.file == nil {
		l.dropped.Add(-1) // the line itself is no record
		return
	}
	l.written.Add(-1)
	l.reported = dropped
}
