package pebble

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// marks tell how far each log has been synced, in a small file beside them.
// Pebble takes damage for the end of a log unless what follows proves it
// wrong; a log that can be read only up to a point before its mark is damaged.
//
// A mark is written after the sync that it tells of, and is not synced itself
// before the write is acknowledged: it may lag behind, and never runs ahead.
type marks struct {
	log *slog.Logger

	mu    sync.Mutex
	file  vfs.File // nil if it cannot be used
	slots [markSlots]mark
	dirty bool // since it was synced
}

// mark tells that a log is durable up to end, which is the end of a chunk.
type mark struct {
	log uint64
	end int64
}

const (
	marksName = "stator.synced"
	// All marks lie in one sector. Pebble keeps fewer logs than this.
	markSlots = 16
	markBytes = 32
	// marksEvery is how far marks may lag behind after a power cut.
	marksEvery = time.Second
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// openMarks reads the marks of a folder. Without them it is opened as well, as
// they guard against a second fault.
func openMarks(fs vfs.FS, dir string, log *slog.Logger) *marks {
	m := &marks{log: log}
	name := fs.PathJoin(dir, marksName)
	f, err := fs.OpenReadWrite(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		m.giveUp(err)
		return m
	}
	m.file = f
	var b [markSlots * markBytes]byte
	n, err := f.ReadAt(b[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		m.giveUp(err)
		return m
	}
	if n < len(b) { // it is new, or was made in the moment of a crash
		if _, err := f.WriteAt(b[:], 0); err != nil {
			m.giveUp(err)
		}
		return m
	}
	for i := range m.slots {
		m.slots[i] = decodeMark(b[i*markBytes:])
	}
	return m
}

// giveUp goes on without marks. Those that are written stay true.
func (m *marks) giveUp(err error) {
	m.log.Warn("it cannot be noted how far the log is synced: damage at its end may not be noticed", "error", err)
	if m.file != nil {
		_ = m.file.Close()
		m.file = nil
	}
}

func (k mark) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, k.log)
	b = binary.LittleEndian.AppendUint64(b, uint64(k.end))
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// decodeMark is the zero mark if there is none, or it is damaged.
func decodeMark(b []byte) mark {
	if binary.LittleEndian.Uint32(b[16:]) != crc32.Checksum(b[:16], castagnoli) {
		return mark{}
	}
	return mark{binary.LittleEndian.Uint64(b), int64(binary.LittleEndian.Uint64(b[8:]))}
}

// slot is a place for the marks of a new log: that of the oldest, which is
// long gone.
func (m *marks) slot(log uint64) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	oldest := 0
	for i, k := range m.slots {
		if k.log < m.slots[oldest].log {
			oldest = i
		}
	}
	m.slots[oldest] = mark{log: log}
	return oldest
}

// synced notes that a log is durable up to end.
func (m *marks) synced(slot int, end int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := &m.slots[slot]
	if m.file == nil || k.end == end {
		return
	}
	k.end = end
	m.dirty = true
	var room [markBytes]byte
	if _, err := m.file.WriteAt(k.append(room[:0]), int64(slot*markBytes)); err != nil {
		m.giveUp(err)
	}
}

// run syncs the marks from time to time, so that they do not lag far behind
// when the power is cut.
func (m *marks) run(ctx context.Context) {
	t := time.NewTicker(marksEvery)
	defer t.Stop()
	for {
		select {
		case <-t.C:
			m.sync()
		case <-ctx.Done():
			return
		}
	}
}

func (m *marks) sync() {
	m.mu.Lock()
	file, dirty := m.file, m.dirty
	m.dirty = false
	m.mu.Unlock()
	if file == nil || !dirty {
		return
	}
	// Not under the mutex: writes would wait for it.
	if err := file.SyncData(); err != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.giveUp(err)
	}
}

func (m *marks) close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.file == nil {
		return nil
	}
	err := m.file.Close()
	m.file = nil
	return err
}

// check tells whether a log can be read as far as its mark says.
func (m *marks) check(fs vfs.FS, name string, log uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.slots {
		if k.log != log {
			continue
		}
		f, err := fs.Open(name, vfs.SequentialReadsOption)
		if err != nil {
			return err
		}
		end, err := readableEnd(newLogReader(record.NewReader, f, log))
		_ = f.Close()
		if err != nil {
			return err
		}
		if end < k.end {
			return fmt.Errorf("the log %s can be read up to byte %d, but was written up to byte %d: what lies between is lost, restore it from a backup: %w",
				name, end, k.end, pebble.ErrCorruption)
		}
	}
	return nil
}

// newLogReader names the type of a log's number, which Pebble keeps internal.
func newLogReader[N ~uint64](make func(io.Reader, N) *record.Reader, f io.Reader, log uint64) *record.Reader {
	return make(f, N(log))
}

const (
	logBlock = 32 << 10
	// logHead is the head of a chunk. So much at the end of a block stays
	// empty, and so much follows the last record when a log is closed. No
	// record is as small.
	logHead = 19
)

// readableEnd is where the last chunk ends that can be read, or a little more.
func readableEnd(r *record.Reader) (end int64, err error) {
	piece := make([]byte, logBlock)
	for {
		rec, err := r.Next()
		for err == nil {
			end = r.Offset()
			_, err = rec.Read(piece)
		}
		switch {
		case errors.Is(err, io.EOF) && rec != nil: // of a record
		case errors.Is(err, io.EOF), errors.Is(err, record.ErrUnexpectedEOF), errors.Is(err, record.ErrInvalidChunk), errors.Is(err, record.ErrZeroedChunk):
			if end%logBlock > logBlock-logHead {
				end += logBlock - end%logBlock
			}
			return end + logHead, nil
		default:
			return 0, err
		}
	}
}
