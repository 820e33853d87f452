package walguard

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
	"github.com/cockroachdb/pebble/v2/wal"
)

// manifestMark records that a manifest is durable up to end, and the CRC-32C of these bytes.
// Pebble takes damage in a manifest for its end, and deletes the tables of the edits that
// follow.
type manifestMark struct {
	number uint64
	end    int64
	crc    uint32
	syncs  uint32 // zero if there is no mark
}

// manifestMarks are the marks of the current manifest and of the one that is to replace it.
//
// Pebble syncs a new manifest once before it becomes the current one, and again for each
// later edit. The marks are synced before each of these syncs returns: Pebble does not
// delete a WAL file or table because of an edit before the mark includes it.
type manifestMarks struct{ current, next manifestMark }

const (
	manifestMagic     = 0x314d5453 // "STM1"
	manifestMarkBytes = 24
	manifestBytes     = 4 + 2*manifestMarkBytes + 4
	// The marks of manifests follow the first ones of WAL files, in two copies that do not
	// share a sector.
	manifestOffset = firstSlots * markBytes
	copyBytes      = 512
	marksFileBytes = 2*copyBytes + MaxWALs*markBytes
)

func (k manifestMark) append(b []byte) []byte {
	b = binary.LittleEndian.AppendUint64(b, k.number)
	b = binary.LittleEndian.AppendUint64(b, uint64(k.end))
	b = binary.LittleEndian.AppendUint32(b, k.crc)
	return binary.LittleEndian.AppendUint32(b, k.syncs)
}

func decodeManifestMark(b []byte) manifestMark {
	return manifestMark{
		number: binary.LittleEndian.Uint64(b),
		end:    int64(binary.LittleEndian.Uint64(b[8:])),
		crc:    binary.LittleEndian.Uint32(b[16:]),
		syncs:  binary.LittleEndian.Uint32(b[20:]),
	}
}

// encode returns both copies.
func (k manifestMarks) encode() []byte {
	b := make([]byte, 2*copyBytes)
	one := k.next.append(k.current.append(binary.LittleEndian.AppendUint32(b[:0], manifestMagic)))
	binary.LittleEndian.AppendUint32(one, crc32.Checksum(one, castagnoli))
	copy(b[copyBytes:], b[:manifestBytes])
	return b
}

// decodeManifestMarks returns the newer one of the copies that are intact.
func decodeManifestMarks(b []byte) (newest manifestMarks) {
	for _, c := range [][]byte{b[:copyBytes], b[copyBytes:]} {
		sum := binary.LittleEndian.Uint32(c[manifestBytes-4:])
		if binary.LittleEndian.Uint32(c) != manifestMagic || sum != crc32.Checksum(c[:manifestBytes-4], castagnoli) {
			continue
		}
		k := manifestMarks{decodeManifestMark(c[4:]), decodeManifestMark(c[4+manifestMarkBytes:])}
		if k.newest().isAfter(newest.newest()) {
			newest = k
		}
	}
	return newest
}

// newest returns the mark of the manifest that is being written.
func (k manifestMarks) newest() manifestMark {
	if k.next.syncs > 0 {
		return k.next
	}
	return k.current
}

func (k manifestMark) isAfter(other manifestMark) bool {
	return k.number > other.number || k.number == other.number && k.syncs > other.syncs
}

// of returns the mark of a manifest, the zero mark if it has none.
func (k manifestMarks) of(number uint64) manifestMark {
	for _, m := range []manifestMark{k.next, k.current} {
		if m.syncs > 0 && m.number == number {
			return m
		}
	}
	return manifestMark{}
}

// beginManifest makes room for the mark of a new manifest. The one that was begun before is
// the current one by now: if it were not, Pebble would have ended the process.
func (m *SyncMarks) beginManifest(number uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.manifests.next; k.syncs > 0 && k.number != number {
		m.manifests.current = k
	}
	if m.manifests.current.number == number { // its creation is repeated after a crash
		m.manifests.current = manifestMark{}
	}
	m.manifests.next = manifestMark{number: number}
}

// manifestSynced records that a manifest is durable up to end, and makes that durable.
func (m *SyncMarks) manifestSynced(end int64, crc uint32) {
	m.mu.Lock()
	k := &m.manifests.next
	k.end, k.crc, k.syncs = end, m.checksum(k.number, end, crc), k.syncs+1
	m.writeManifests()
	file := m.file
	m.mu.Unlock()
	if file != nil {
		m.syncFile(file)
	}
}

// checksum returns the checksum of a manifest in its mark, given that of its bytes.
func (m *SyncMarks) checksum(number uint64, end int64, crc uint32) uint32 {
	if m.Keyed == nil {
		return crc
	}
	return m.Keyed(number, end, crc)
}

// writeManifests writes the marks of manifests. The caller holds the mutex.
func (m *SyncMarks) writeManifests() {
	if m.file == nil {
		return
	}
	m.dirty = true
	if _, err := m.file.WriteAt(m.manifests.encode(), manifestOffset); err != nil {
		m.giveUp(err)
	}
}

// Manifest describes the current manifest of a folder.
type Manifest struct {
	Name string // empty if the folder has no database
	// Verified says that its bytes are those that were synced. Otherwise it has no mark:
	// it was written by a version without marks, or the marks are lost.
	Verified bool
	// Whole says that all of its bytes can be read.
	Whole bool

	firstWAL uint64 // the smallest number of a WAL file that is not obsolete
}

// CheckFolder compares the current manifest of a folder with its mark, before Pebble opens
// it. It returns an error if the manifest or a WAL file with a mark is damaged or missing, or
// if the marks can be neither used nor removed.
// The bytes of WAL files are checked when Pebble opens them.
func (m *SyncMarks) CheckFolder(disk vfs.FS, dir string) (Manifest, error) {
	found, err := m.checkFolder(disk, dir)
	if err != nil {
		return Manifest{}, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	return found, m.left
}

// CheckFiles is CheckFolder, and reads all WAL files that are not obsolete, too.
func (m *SyncMarks) CheckFiles(disk vfs.FS, dir string) error {
	found, err := m.CheckFolder(disk, dir)
	if err != nil {
		return err
	}
	names, err := disk.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		n, _, ok := wal.ParseLogFilename(name)
		if !ok || uint64(n) < found.firstWAL {
			continue
		}
		if err := m.check(disk, disk.PathJoin(dir, name), uint64(n)); err != nil {
			return err
		}
	}
	return nil
}

func (m *SyncMarks) checkFolder(disk vfs.FS, dir string) (Manifest, error) {
	names, err := disk.List(dir)
	if err != nil {
		return Manifest{}, err
	}
	name, err := atomicfs.ReadMarker(disk, dir, manifestMarker)
	if err != nil {
		return Manifest{}, err
	}
	if name == "" {
		if err := checkNew(dir, names); err != nil {
			return Manifest{}, err
		}
		m.dropAll()
		return Manifest{}, nil
	}
	number, ok := manifestNumber(name)
	if !ok || !slices.Contains(names, name) {
		return Manifest{}, damaged("the folder %s has no file %s, which is its current manifest", dir, name)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if k := m.manifests.newest(); k.number > number && k.syncs > 1 {
		return Manifest{}, damaged("%s is marked as the current manifest of %s, but MANIFEST-%06d has replaced it", name, dir, k.number)
	}
	mark := m.manifests.of(number)
	found, err := m.readManifest(disk, disk.PathJoin(dir, name), mark)
	if err != nil {
		return Manifest{}, err
	}
	if err := m.checkNames(names, found.firstWAL); err != nil {
		return Manifest{}, err
	}
	m.dropNext(mark)
	found.Name, found.Verified = name, mark.syncs > 0
	return found, nil
}

// checkNames returns an error if a WAL file that has a mark and is not obsolete is missing.
func (m *SyncMarks) checkNames(names []string, firstWAL uint64) error {
	exists := make(map[uint64]bool)
	for _, name := range names {
		if n, _, ok := wal.ParseLogFilename(name); ok {
			exists[uint64(n)] = true
		}
	}
	for _, k := range m.slots {
		if k.end > 0 && k.wal >= firstWAL && !exists[k.wal] {
			return damaged("the WAL file %06d.log is missing, of which %d bytes were synced", k.wal, k.end)
		}
	}
	return nil
}

// dropNext drops the mark of a manifest that a crash kept from becoming the current one.
// Its number may be used again.
func (m *SyncMarks) dropNext(current manifestMark) {
	stale := m.manifests != manifestMarks{current: current} && m.manifests != manifestMarks{next: current}
	m.manifests = manifestMarks{current: current}
	if stale {
		m.writeManifests()
	}
}

// dropAll drops all marks. In a folder without a database they are those of an earlier one,
// which had the same numbers.
func (m *SyncMarks) dropAll() {
	m.mu.Lock()
	none := m.slots == [MaxWALs]syncMark{} && m.manifests == manifestMarks{}
	m.slots, m.manifests = [MaxWALs]syncMark{}, manifestMarks{}
	if !none && m.file != nil {
		if _, err := m.file.WriteAt(make([]byte, marksFileBytes), 0); err != nil {
			m.giveUp(err)
		}
	}
	file := m.file
	m.mu.Unlock()
	if !none && file != nil {
		m.syncFile(file)
	}
}

// checkNew returns an error if a folder without a current manifest has files that Pebble
// creates only after it has one.
func checkNew(dir string, names []string) error {
	for _, name := range names {
		_, isTable := TableNumber(name)
		_, _, isWAL := wal.ParseLogFilename(name)
		if isTable || isWAL || strings.HasPrefix(name, "OPTIONS-") {
			return damaged("the folder %s has the file %s, but none that says which manifest is the current one (marker.%s.*)", dir, name, manifestMarker)
		}
	}
	return nil
}

// readManifest compares a manifest with its mark, and reads it.
func (m *SyncMarks) readManifest(disk vfs.FS, path string, mark manifestMark) (found Manifest, err error) {
	f, err := disk.Open(path, vfs.SequentialReadsOption)
	if err != nil {
		return Manifest{}, err
	}
	defer func() { _ = f.Close() }()
	b, err := io.ReadAll(f)
	switch {
	case err != nil:
		return Manifest{}, err
	case int64(len(b)) < mark.end:
		return Manifest{}, damaged("the manifest %s has %d bytes, but %d bytes of it were synced", path, len(b), mark.end)
	case mark.syncs > 0 && m.checksum(mark.number, mark.end, crc32.Checksum(b[:mark.end], castagnoli)) != mark.crc:
		return Manifest{}, damaged("the manifest %s is not as it was written: its first %d bytes have another checksum than when they were synced", path, mark.end)
	}
	r := newReader(record.NewReader, bytes.NewReader(b), 0)
	for {
		rec, err := r.Next()
		var edit []byte
		if err == nil {
			edit, err = io.ReadAll(rec)
		}
		switch {
		case errors.Is(err, io.EOF):
			found.Whole = true
			return found, nil
		case record.IsInvalidRecord(err):
			return found, nil
		case err != nil:
			return Manifest{}, err
		}
		if n := firstWAL(edit); n > 0 {
			found.firstWAL = n
		}
	}
}

// The tags of the fields with which Pebble begins an edit.
const (
	tagComparer = 1
	tagFirstWAL = 2
)

// firstWAL returns the smallest number of a WAL file that is not obsolete after an edit, zero
// if the edit does not change it.
func firstWAL(edit []byte) uint64 {
	for {
		tag, n := binary.Uvarint(edit)
		if n <= 0 || tag != tagComparer && tag != tagFirstWAL {
			return 0
		}
		value, m := binary.Uvarint(edit[n:])
		if m <= 0 {
			return 0
		}
		if edit = edit[n+m:]; tag == tagFirstWAL {
			return value
		}
		if uint64(len(edit)) < value {
			return 0
		}
		edit = edit[value:]
	}
}

// damaged returns an error that says what is damaged, and what to do.
func damaged(format string, args ...any) error {
	return fmt.Errorf(format+": the folder was not changed; repair the disk and restore the folder from a copy or its tables from backups: %w",
		append(args, pebble.ErrCorruption)...)
}

const (
	manifestMarker = "manifest" // of Pebble
	manifestPrefix = "MANIFEST-"
)

// manifestNumber returns the number of a manifest; not ok for other files.
func manifestNumber(base string) (number uint64, ok bool) {
	digits, ok := strings.CutPrefix(base, manifestPrefix)
	if !ok {
		return 0, false
	}
	number, err := strconv.ParseUint(digits, 10, 64)
	return number, err == nil
}

// TableNumber returns the number of a table; not ok for other files.
func TableNumber(base string) (number uint64, ok bool) {
	digits, ok := strings.CutSuffix(base, ".sst")
	if !ok {
		return 0, false
	}
	number, err := strconv.ParseUint(digits, 10, 64)
	return number, err == nil
}
