package walguard

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	iofs "io/fs"
	"log/slog"
	"sync"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// SyncMarks records how far each WAL file and manifest has been synced, in a small file of
// the same folder. Pebble takes damage in these files for their end, unless in a WAL file
// the blocks that follow prove otherwise; a file that cannot be read up to its mark is
// damaged.
//
// A mark is written after the sync that it records. That of a WAL file is itself not synced
// before the write is acknowledged: it may lag, but is never ahead. That of a manifest is
// synced at once. The zero SyncMarks records nothing.
type SyncMarks struct {
	// Keyed, if set, replaces the checksum of a manifest by one that says nothing about an
	// encrypted manifest. It is set before the marks are used.
	Keyed func(number uint64, end int64, crc uint32) uint32

	log  *slog.Logger
	fs   vfs.FS
	path string

	mu        sync.Mutex
	file      vfs.File // nil if it cannot be used
	left      error    // why a file that cannot be used could not be removed
	slots     [MaxWALs]syncMark
	manifests manifestMarks
	dirty     bool // written since the last sync
}

// syncMark records that the WAL file with this number is durable up to end, which is the
// end of a chunk.
type syncMark struct {
	wal uint64
	end int64
}

const (
	// MarksName is the name of the file of marks.
	MarksName = "stator.synced"
	// MaxWALs is how many WAL files have marks. Fewer wait for a flush at any time.
	MaxWALs   = 64
	markBytes = 32
	// The first marks of WAL files are in front of the marks of manifests, the rest follows
	// these. No mark is in two sectors.
	firstSlots = 16
	// marksInterval is how far marks may lag after a power failure.
	marksInterval = time.Second
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// OpenMarks reads the marks of a folder. If that fails, the marks record nothing: they
// guard against a second fault only, so the folder can be opened without them.
func OpenMarks(fs vfs.FS, dir string, log *slog.Logger) *SyncMarks {
	m := &SyncMarks{log: log, fs: fs, path: fs.PathJoin(dir, MarksName)}
	f, err := fs.OpenReadWrite(m.path, vfs.WriteCategoryUnspecified)
	if err != nil {
		m.giveUp(err)
		return m
	}
	m.file = f
	var b [marksFileBytes]byte
	n, err := f.ReadAt(b[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		m.giveUp(err)
		return m
	}
	if n < manifestOffset { // it is new, or a crash interrupted its creation
		n = 0
	}
	clear(b[n:])
	if n < len(b) { // an older version has fewer marks
		if _, err := f.WriteAt(b[n:], int64(n)); err != nil {
			m.giveUp(err)
			return m
		}
	}
	for i := range m.slots {
		m.slots[i] = decodeMark(b[slotOffset(i):])
	}
	m.manifests = decodeManifestMarks(b[manifestOffset:])
	return m
}

// giveUp stops recording and removes the file. Its marks would become wrong: that of a
// manifest which a crash removed would apply to a later one with the same number, and tables
// that a manifest names after its mark would be deleted if it is damaged there.
func (m *SyncMarks) giveUp(err error) {
	m.log.Warn("cannot record how far the WAL and the manifest are synced: damage at their end may not be detected", "error", err)
	if m.file != nil {
		_ = m.file.Close()
		m.file = nil
	}
	if err := m.remove(); err != nil {
		m.left = fmt.Errorf("the file %s can be neither used nor removed: remove it; damage at the end of the WAL or the manifest may not be detected then: %w", m.path, err)
		m.log.Error("cannot remove sync marks", "error", m.left)
	}
}

// remove removes the file of marks, durably.
func (m *SyncMarks) remove() error {
	if err := m.fs.Remove(m.path); err != nil && !errors.Is(err, iofs.ErrNotExist) {
		return err
	}
	dir, err := m.fs.OpenDir(m.fs.PathDir(m.path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}

func (k syncMark) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, k.wal)
	b = binary.LittleEndian.AppendUint64(b, uint64(k.end))
	return binary.LittleEndian.AppendUint32(b, crc32.Checksum(b, castagnoli))
}

// decodeMark returns the zero mark if there is none, or it is damaged.
func decodeMark(b []byte) syncMark {
	if binary.LittleEndian.Uint32(b[16:]) != crc32.Checksum(b[:16], castagnoli) {
		return syncMark{}
	}
	return syncMark{binary.LittleEndian.Uint64(b), int64(binary.LittleEndian.Uint64(b[8:]))}
}

// slotOffset returns where a slot is in the file.
func slotOffset(slot int) int64 {
	if slot >= firstSlots {
		return int64(manifestOffset + 2*copyBytes + (slot-firstSlots)*markBytes)
	}
	return int64(slot * markBytes)
}

// slot returns the slot for the marks of a new WAL file: that of the oldest, which was
// removed long ago.
func (m *SyncMarks) slot(number uint64) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	oldest := 0
	for i, k := range m.slots {
		if k.wal < m.slots[oldest].wal {
			oldest = i
		}
	}
	m.slots[oldest] = syncMark{wal: number}
	return oldest
}

// synced records that the WAL file of a slot is durable up to end.
func (m *SyncMarks) synced(slot int, end int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	k := &m.slots[slot]
	if m.file == nil || k.end == end {
		return
	}
	k.end = end
	m.dirty = true
	var buf [markBytes]byte
	if _, err := m.file.WriteAt(k.append(buf[:0]), slotOffset(slot)); err != nil {
		m.giveUp(err)
	}
}

// Run syncs the marks at intervals, until the context ends, so that they do not lag far
// after a power failure.
func (m *SyncMarks) Run(ctx context.Context) {
	t := time.NewTicker(marksInterval)
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

func (m *SyncMarks) sync() {
	m.mu.Lock()
	file, dirty := m.file, m.dirty
	m.dirty = false
	m.mu.Unlock()
	if file == nil || !dirty {
		return
	}
	m.syncFile(file)
}

// syncFile syncs the file of marks. The caller does not hold the mutex, as writes would wait
// for it.
func (m *SyncMarks) syncFile(file vfs.File) {
	if err := file.SyncData(); err != nil {
		m.mu.Lock()
		defer m.mu.Unlock()
		m.giveUp(err)
	}
}

// Close closes the file of marks.
func (m *SyncMarks) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.file == nil {
		return nil
	}
	err := m.file.Close()
	m.file = nil
	return err
}

// check returns an error if a WAL file cannot be read up to its mark.
func (m *SyncMarks) check(fs vfs.FS, name string, number uint64) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range m.slots {
		if k.wal != number {
			continue
		}
		f, err := fs.Open(name, vfs.SequentialReadsOption)
		if err != nil {
			return err
		}
		end, err := readableEnd(newReader(record.NewReader, f, number))
		_ = f.Close()
		if err != nil {
			return err
		}
		if end < k.end {
			return fmt.Errorf("WAL file %s can be read up to byte %d, but was synced up to byte %d: the writes in between are lost, restore them from a backup: %w",
				name, end, k.end, pebble.ErrCorruption)
		}
	}
	return nil
}

// newReader infers the type of a WAL number, which is internal to Pebble.
func newReader[N ~uint64](newReader func(io.Reader, N) *record.Reader, f io.Reader, number uint64) *record.Reader {
	return newReader(f, N(number))
}

const (
	blockBytes = 32 << 10
	// headerBytes is the size of a chunk's header. Up to that many bytes at the end of
	// a block are left empty, and that many follow the last record when a file is
	// closed. Every record is larger.
	headerBytes = 19
)

// readableEnd returns where the last readable chunk ends, or a little more.
func readableEnd(r *record.Reader) (end int64, err error) {
	buf := make([]byte, blockBytes)
	for {
		rec, err := r.Next()
		for err == nil {
			end = r.Offset()
			_, err = rec.Read(buf)
		}
		switch {
		case errors.Is(err, io.EOF) && rec != nil: // the end of a record
		case errors.Is(err, io.EOF), errors.Is(err, record.ErrUnexpectedEOF), errors.Is(err, record.ErrInvalidChunk), errors.Is(err, record.ErrZeroedChunk):
			if end%blockBytes > blockBytes-headerBytes {
				end += blockBytes - end%blockBytes
			}
			return end + headerBytes, nil
		default:
			return 0, err
		}
	}
}
