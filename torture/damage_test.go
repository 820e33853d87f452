package torture

import (
	"bytes"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/stator-db/stator/internal/store/pebble"
)

const damageItems = 150 // in each table

var damageTables = []string{"Left", "Right"}

// Whatever bytes of a folder are flipped, zeroed, doubled or cut off, and
// whichever file is removed, the damage is reported when the folder is opened
// or when the bytes are read. No answer is wrong, nothing is missing silently,
// and the server continues to serve undamaged data.
func TestDamageIsReported(t *testing.T) {
	g := newRig(t)
	p := prepareDamage(g)
	for n := range g.rounds(len(damaged)) {
		p.try(g, damaged[n%len(damaged)])
	}
}

// The same, in this process and in memory, which is faster.
func TestDamageIsReportedInMemory(t *testing.T) {
	g := newRig(t)
	p := prepareDamage(g)
	folders := map[bool]map[string][]byte{false: load(t, p.closed), true: load(t, p.killed)}
	for n := range g.rounds(4 * len(damaged)) {
		kind := damaged[n%len(damaged)]
		p.tryInMemory(g, folders[kind.killed], kind.name)
	}
}

// The control: the rig finds tables and items that are missing silently.
func TestDamageRigFindsSilentLoss(t *testing.T) {
	g := newRig(t)
	p := prepareDamage(g)
	for _, c := range []struct{ operation, key string }{{"DeleteTable", ""}, {"DeleteItem", "7"}} {
		h, err := open(inMemory(t, load(t, p.killed)), "d", pebble.Durable, quiet)
		if err != nil {
			t.Fatal(err)
		}
		if failed, faults := p.readSome(g, h.door); failed > 0 || len(faults) > 0 {
			t.Errorf("%d requests fail on an undamaged folder: %v", failed, faults)
		}
		request := object{"TableName": "Left"}
		if c.key != "" {
			request["Key"] = object{"id": text(c.key)}
		}
		h.must(t, c.operation, request, nil)
		if c.key == "" {
			waitFor(t, "the table is deleted", func() bool { return missing(h.call("DescribeTable", request, nil)) })
		}
		if _, faults := p.readSome(g, h.door); len(faults) == 0 {
			t.Errorf("%s is not noticed", c.operation)
		}
		if err := h.close(); err != nil {
			t.Error(err)
		}
	}
}

// damagedKind is a kind of file to damage, and the folder in which it is.
type damagedKind struct {
	name   string
	killed bool
}

var damaged = []damagedKind{
	{"*.sst", false}, {"*.log", true}, {"MANIFEST-*", false}, {"*.sst", true}, {"*.log", true}, {"MANIFEST-*", true},
	{"OPTIONS-*", false}, {"marker.manifest.*", false}, {"marker.format-version.*", true}, {"stator.synced", true},
	{"MANIFEST-*", false}, {"*.log", false}, {"stator.synced", false}, {"MANIFEST-*", true}, {"marker.*", true}, {"OPTIONS-*", true},
}

// A damaged block fails only the requests that need it; verify finds it.
func TestDamagedBlockFailsFewRequests(t *testing.T) {
	g := newRig(t)
	p := prepareDamage(g)
	for range g.rounds(1) {
		data := filepath.Join(t.TempDir(), "data")
		copyFolder(t, p.closed, data)
		file := largest(t, data, "*.sst")
		size := sizeOf(t, file)
		edit(t, file, func(b []byte) []byte { b[size/4+g.IntN(size/4)] ^= 1 << g.IntN(8); return b })
		s := start(t, data, "--log=error")
		bad := make(map[string]int)
		for _, table := range damageTables {
			for id := range damageItems {
				got, err := getText(s.door, table, id)
				switch {
				case err != nil:
					bad[table]++
				case got != p.text(table, id):
					t.Errorf("%s %d is %.20q", table, id, got)
				}
			}
		}
		failed := bad["Left"] + bad["Right"]
		if failed > damageItems/4 {
			t.Errorf("%v requests fail because of one bit", bad)
		}
		s.must(t, "PutItem", object{"TableName": "Right", "Item": object{"id": text("new"), "text": text("x")}}, nil)
		if !s.alive() {
			t.Errorf("the server has ended\n%s", s.log())
		}
		s.kill()
		out, err := verify(t, data)
		if failed > 0 && err == nil {
			t.Errorf("verify finds nothing, although %d requests fail:\n%s", failed, out)
		}
		g.count("bits", 1)
		g.count("requests failed", failed)
		g.count("answered", 2*damageItems-failed)
	}
}

// The control: verify finds nothing in an undamaged folder, and its reads are
// right; and a change that checksums do not show is noticed.
func TestDamageRigFindsWrongAnswers(t *testing.T) {
	g := newRig(t)
	p := prepareDamage(g)
	if out, err := verify(t, p.closed); err != nil {
		t.Errorf("verify: %v\n%s", err, out)
	}
	data := filepath.Join(t.TempDir(), "data")
	copyFolder(t, p.killed, data)
	s := start(t, data, "--log=error")
	if failed, faults := p.read(s.door); failed > 0 || len(faults) > 0 {
		t.Errorf("%d requests fail on an undamaged folder: %v", failed, faults)
	}
	s.must(t, "PutItem", object{"TableName": "Left", "Item": object{"id": text("3"), "text": text("wrong")}}, nil)
	if _, faults := p.read(s.door); len(faults) == 0 {
		t.Error("a wrong item is not noticed")
	}
	s.must(t, "DeleteItem", object{"TableName": "Left", "Key": object{"id": text("3")}}, nil)
	if _, faults := p.read(s.door); len(faults) == 0 {
		t.Error("a missing item is not noticed")
	}
	s.kill()
}

// A damaged backup is rejected; a restore from it never creates a wrong
// table.
func TestDamagedBackupIsRefused(t *testing.T) {
	g := newRig(t)
	p := prepareDamage(g)
	for n := range g.rounds(2) {
		kind := []string{"*.items", "*.manifest"}[n%2]
		backups := filepath.Join(t.TempDir(), "backups")
		copyFolder(t, p.closed+"-backups", backups)
		what := mutate(g, largest(t, backups, kind))
		s := start(t, filepath.Join(t.TempDir(), "data"), "--log=error", "--backups", backups)
		err := s.call("RestoreTableFromBackup", object{"BackupArn": p.backup, "TargetTableName": "Left"}, nil)
		for err == nil {
			var table struct{ Table struct{ TableStatus string } }
			if err = s.call("DescribeTable", object{"TableName": "Left"}, &table); err != nil || table.Table.TableStatus == "ACTIVE" {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
		g.count("damaged", 1)
		if err != nil {
			g.count("refused", 1)
		} else if _, faults := p.readTable(s.door, "Left"); len(faults) > 0 {
			t.Errorf("%s: the backup is restored, and has %v", what, faults)
		} else {
			t.Errorf("%s: it is not noticed", what)
		}
		if !s.alive() || strings.Contains(s.log(), "panic") {
			t.Errorf("%s: %s", what, s.log())
		}
		s.kill()
	}
}

// prepared has folders to damage, and their content.
type prepared struct {
	closed string // left by a server that was stopped
	killed string // left by a server that was killed: its WAL is long
	backup string
	seed   uint64
}

// text is the content of an item. It does not compress.
func (p *prepared) text(table string, id int) string {
	var b strings.Builder
	x := p.seed ^ uint64(id)<<20 ^ uint64(len(table))
	for b.Len() < 900 {
		x = x*6364136223846793005 + 1442695040888963407
		b.WriteString(strconv.FormatUint(x>>8, 36))
	}
	return b.String()
}

var preparedOnce *prepared

// prepareDamage creates the folders, once for all tests.
func prepareDamage(g *rig) *prepared {
	g.Helper()
	if preparedOnce != nil {
		return preparedOnce
	}
	dir, err := os.MkdirTemp("", "stator-damage")
	if err != nil {
		g.Fatal(err)
	}
	leftovers = append(leftovers, dir)
	p := &prepared{closed: filepath.Join(dir, "closed"), killed: filepath.Join(dir, "killed"), seed: g.Uint64()}
	for _, folder := range []string{p.closed, p.killed} {
		p.age(g, folder)
		s := start(g, folder, "--log=error")
		p.fill(g, s.door, agedSpells*spellItems, damageItems, "")
		if folder == p.killed {
			s.kill()
			continue
		}
		p.backup = createBackup(g, s.door)
		s.cmd.Process.Signal(syscall.SIGTERM)
		<-s.ended
	}
	preparedOnce = p
	return p
}

const (
	agedSessions = 3
	agedSpells   = 14 // after each of which the memtable is flushed
	spellItems   = 10
)

// age creates the tables of a folder and writes most of their items, each
// twice, with many flushes in several sessions.
func (p *prepared) age(g *rig, folder string) {
	g.Helper()
	for session := range agedSessions {
		h, err := open(vfs.Default, folder, pebble.Durable, quiet)
		if err != nil {
			g.Fatal(err)
		}
		if session == 0 {
			for _, table := range damageTables {
				h.must(g, "CreateTable", object{"TableName": table, "BillingMode": "PAY_PER_REQUEST",
					"AttributeDefinitions": []object{{"AttributeName": "id", "AttributeType": "S"}},
					"KeySchema":            []object{{"AttributeName": "id", "KeyType": "HASH"}}}, nil)
			}
		}
		for spell := session; spell < agedSpells; spell += agedSessions {
			tables := glob(g, folder, "*.sst")
			first := spell * spellItems
			p.fill(g, h.door, first, first+spellItems, "")
			p.fill(g, h.door, agedSpells*spellItems, damageItems, "old")
			waitFor(g, "a flush", func() bool { return !slices.Equal(glob(g, folder, "*.sst"), tables) })
		}
		if err := h.close(); err != nil {
			g.Fatal(err)
		}
	}
}

// fill writes items to all tables.
func (p *prepared) fill(g *rig, d door, from, to int, before string) {
	g.Helper()
	for _, table := range damageTables {
		var puts []object
		for id := from; id < to; id++ {
			puts = append(puts, object{"PutRequest": object{"Item": object{"id": text(strconv.Itoa(id)), "text": text(before + p.text(table, id))}}})
		}
		for part := range slices.Chunk(puts, 25) {
			d.must(g, "BatchWriteItem", object{"RequestItems": object{table: part}}, nil)
		}
	}
}

// createBackup creates a backup of a table and waits until it is complete.
func createBackup(g *rig, d door) (arn string) {
	g.Helper()
	var made struct{ BackupDetails struct{ BackupArn string } }
	d.must(g, "CreateBackup", object{"TableName": "Left", "BackupName": "copy"}, &made)
	waitFor(g, "the backup", func() bool {
		var now struct {
			BackupDescription struct{ BackupDetails struct{ BackupStatus string } }
		}
		d.must(g, "DescribeBackup", object{"BackupArn": made.BackupDetails.BackupArn}, &now)
		return now.BackupDescription.BackupDetails.BackupStatus == "AVAILABLE"
	})
	return made.BackupDetails.BackupArn
}

// waitFor polls a condition.
func waitFor(t testing.TB, what string, holds func() bool) {
	t.Helper()
	for range 10_000 {
		if holds() {
			return
		}
		time.Sleep(2 * time.Millisecond)
	}
	t.Fatalf("never: %s", what)
}

// try damages a copy of a folder and checks how a server handles it.
func (p *prepared) try(g *rig, kind damagedKind) {
	g.Helper()
	dir := g.TempDir()
	data := filepath.Join(dir, "data")
	copyFolder(g, map[bool]string{false: p.closed, true: p.killed}[kind.killed], data)
	what := mutate(g, g.pick(glob(g, data, kind.name)))
	g.count("damaged", 1)
	defer os.RemoveAll(dir)
	s, err := tryStart(g, data, "--log=error")
	if err != nil {
		g.count("not opened", 1)
		if text := err.Error(); strings.Contains(text, "panic") || strings.Contains(text, "goroutine ") || !strings.Contains(text, "cannot open data") {
			g.Errorf("%s: %v", what, err)
		}
		return
	}
	failed, faults := p.read(s.door)
	switch {
	case failed > 0:
		g.count("reported when read", 1)
	case len(faults) == 0:
		g.count("without effect", 1)
	}
	if len(faults) > 0 {
		g.Errorf("%s: it is not reported: %d faults: %v", what, len(faults), faults[:min(3, len(faults))])
	}
	if !s.alive() || strings.Contains(s.log(), "panic") {
		g.Errorf("%s: the server has ended\n%s", what, s.log())
	}
	s.kill()
}

// tryInMemory does the same with a server in this process.
func (p *prepared) tryInMemory(g *rig, folder map[string][]byte, pattern string) {
	g.Helper()
	damaged := maps.Clone(folder)
	name := g.pick(matching(folder, pattern))
	b, what := g.damage(name, folder[name])
	if damaged[name] = b; b == nil {
		delete(damaged, name)
	}
	g.count("damaged", 1)
	g.count("damaged "+pattern, 1)
	h, err := open(inMemory(g, damaged), "d", pebble.Durable, quiet)
	if err != nil {
		g.count("not opened", 1)
		return
	}
	failed, faults := p.readSome(g, h.door)
	switch {
	case failed > 0:
		g.count("reported when read", 1)
	case len(faults) == 0:
		g.count("without effect", 1)
	}
	if len(faults) > 0 {
		g.Errorf("%s: it is not reported: %d faults: %v", what, len(faults), faults[:min(3, len(faults))])
	}
	if err := h.close(); err != nil && failed == 0 {
		g.Errorf("%s: close: %v", what, err)
	}
}

// readSome scans the tables, and reads some items one by one. If the scan
// fails, it reads all of them.
func (p *prepared) readSome(g *rig, d door) (failed int, faults []string) {
	for _, table := range damageTables {
		items, err := scan(d, table)
		if err != nil { // also if there is no such table
			n, wrong := p.readTable(d, table)
			failed, faults = failed+n+1, append(faults, wrong...)
			continue
		}
		for id := range damageItems {
			if items[id] != p.text(table, id) {
				faults = append(faults, fmt.Sprintf("%s %d is %.20q in a scan", table, id, items[id]))
			}
		}
		n, wrong := p.readItems(d, table, []int{g.IntN(damageItems), g.IntN(damageItems)})
		failed, faults = failed+n, append(faults, wrong...)
	}
	return failed, faults
}

// read reads all items in every way. A failed read reports the damage; a
// wrong answer is a fault.
func (p *prepared) read(d door) (failed int, faults []string) {
	for _, table := range damageTables {
		n, wrong := p.readTable(d, table)
		failed, faults = failed+n, append(faults, wrong...)
	}
	return failed, faults
}

func (p *prepared) readTable(d door, table string) (failed int, faults []string) {
	all := make([]int, damageItems)
	for id := range all {
		all[id] = id
	}
	failed, faults = p.readItems(d, table, all)
	ids, err := scan(d, table)
	switch {
	case missing(err):
		faults = append(faults, err.Error())
	case err != nil:
		failed++
	case len(ids) != damageItems:
		faults = append(faults, fmt.Sprintf("a scan of %s has %d items", table, len(ids)))
	}
	return failed, faults
}

func (p *prepared) readItems(d door, table string, ids []int) (failed int, faults []string) {
	for _, id := range ids {
		switch got, err := getText(d, table, id); {
		case missing(err):
			faults = append(faults, err.Error())
		case err != nil:
			failed++
		case got != p.text(table, id):
			faults = append(faults, fmt.Sprintf("%s %d is %.20q", table, id, got))
		}
	}
	return failed, faults
}

// missing reports whether a table is missing silently.
func missing(err error) bool { return rejected(err, "ResourceNotFoundException") }

func scan(d door, table string) (map[int]string, error) {
	found := make(map[int]string)
	ask := object{"TableName": table, "ConsistentRead": true}
	for {
		var page struct {
			Items            []image
			LastEvaluatedKey any
		}
		if err := d.call("Scan", ask, &page); err != nil {
			return nil, err
		}
		for _, it := range page.Items {
			id, err := strconv.Atoi(it["id"]["S"])
			if err != nil {
				return nil, err
			}
			found[id] = it["text"]["S"]
		}
		if page.LastEvaluatedKey == nil {
			return found, nil
		}
		ask["ExclusiveStartKey"] = page.LastEvaluatedKey
	}
}

func getText(d door, table string, id int) (string, error) {
	var reply struct{ Item image }
	err := d.call("GetItem", object{"TableName": table, "Key": object{"id": text(strconv.Itoa(id))}, "ConsistentRead": true}, &reply)
	return reply.Item["text"]["S"], err
}

// damage returns a damaged copy of the bytes of a file, nil if the file is to
// be removed, and describes the damage.
func (g *rig) damage(name string, b []byte) (damaged []byte, what string) {
	size := len(b)
	if strings.HasSuffix(name, ".log") {
		size = len(bytes.TrimRight(b, "\x00")) // without preallocated space
	}
	if size == 0 || g.IntN(8) == 0 {
		return nil, filepath.Base(name) + " is removed"
	}
	at := g.IntN(size)
	end := min(at+1+g.IntN(64), size)
	c := slices.Clone(b)
	switch g.IntN(5) {
	case 0:
		clear(c[at:end])
		what = "zeros"
	case 1:
		c = c[:at]
		what = "cut off"
	case 2:
		c = slices.Insert(c, at, b[at:end]...)
		what = fmt.Sprintf("%d bytes twice", end-at)
	case 3:
		for i := at; i < end; i++ {
			c[i] = byte(g.Uint32())
		}
		what = fmt.Sprintf("%d random bytes", end-at)
	}
	if what == "" || bytes.Equal(b, c) {
		c[at] ^= 1 << g.IntN(8)
		what = "a bit flipped"
	}
	return c, fmt.Sprintf("%s at byte %d of %d in %s", what, at, len(b), filepath.Base(name))
}

// mutate damages or removes a file and describes how.
func mutate(g *rig, file string) (what string) {
	g.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		g.Fatal(err)
	}
	if b, what = g.damage(file, b); b == nil {
		err = os.Remove(file)
	} else {
		err = os.WriteFile(file, b, 0o600)
	}
	if err != nil {
		g.Fatal(err)
	}
	return what
}

// pick returns one of the names of files, mostly the newest.
func (g *rig) pick(names []string) string {
	g.Helper()
	if len(names) == 0 {
		g.Fatal("no file to damage")
	}
	if g.IntN(2) == 0 {
		return names[len(names)-1]
	}
	return names[g.IntN(len(names))]
}

// load reads the files of a folder.
func load(t testing.TB, dir string) map[string][]byte {
	t.Helper()
	files := make(map[string][]byte)
	for _, name := range glob(t, dir, "*") {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(name, ".log") {
			b = bytes.TrimRight(b, "\x00") // preallocated space
		}
		files[filepath.Base(name)] = b
	}
	return files
}

// inMemory returns a disk with one folder, d, with these files.
func inMemory(t testing.TB, files map[string][]byte) vfs.FS {
	t.Helper()
	mem := vfs.NewMem()
	if err := mem.MkdirAll("d", 0o700); err != nil {
		t.Fatal(err)
	}
	for name, b := range files {
		f, err := mem.Create("d/"+name, vfs.WriteCategoryUnspecified)
		if err == nil {
			_, err = f.Write(slices.Clone(b)) // which Write may change
		}
		if err == nil {
			err = f.Close()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return mem
}

// matching returns the names that match a pattern, in order.
func matching(files map[string][]byte, pattern string) []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(files)), func(name string) bool {
		ok, _ := filepath.Match(pattern, name)
		return !ok
	})
}

func glob(t testing.TB, dir, pattern string) []string {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil {
		t.Fatal(err)
	}
	return names
}

func edit(t testing.TB, file string, how func([]byte) []byte) {
	t.Helper()
	b, err := os.ReadFile(file)
	if err == nil {
		err = os.WriteFile(file, how(b), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func copyFolder(t testing.TB, from, to string) {
	t.Helper()
	if err := os.CopyFS(to, os.DirFS(from)); err != nil {
		t.Fatal(err)
	}
}

// largest returns the largest file whose name matches a pattern.
func largest(t testing.TB, dir, pattern string) (file string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(files) == 0 {
		t.Fatalf("no %s in %s: %v", pattern, dir, err)
	}
	return slices.MaxFunc(files, func(a, b string) int { return sizeOf(t, a) - sizeOf(t, b) })
}

func sizeOf(t testing.TB, file string) int {
	t.Helper()
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	return int(info.Size())
}
