package torture

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const damageItems = 150 // in each table

var damageTables = []string{"Left", "Right"}

// Whatever bytes of a folder are flipped, zeroed or cut off, the damage is
// reported when the folder is opened or when they are read. No answer is
// wrong, nothing is missing silently, and the server continues to serve
// undamaged data.
func TestDamageIsReported(t *testing.T) {
	g := newRig(t)
	p := prepareDamage(g)
	for n := range g.rounds(len(damaged)) {
		kind := damaged[n%len(damaged)]
		folder := p.closed
		if kind.log {
			folder = p.killed
		}
		p.try(g, folder, kind, g.IntN(3))
	}
}

// damaged lists the kinds of files to damage.
var damaged = []struct {
	name string
	log  bool // exists after a kill only
}{
	{"*.sst", false}, {"*.log", true}, {"MANIFEST-*", false}, {"*.sst", true}, {"*.log", true}, {"MANIFEST-*", true}, {"OPTIONS-*", false}, {"marker.*", false}, {"stator.synced", true},
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
		what := mutate(t, g, largest(t, backups, kind), g.IntN(3))
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
		s := start(g, folder, "--log=error")
		for _, table := range damageTables {
			s.must(g, "CreateTable", object{"TableName": table, "BillingMode": "PAY_PER_REQUEST",
				"AttributeDefinitions": []object{{"AttributeName": "id", "AttributeType": "S"}},
				"KeySchema":            []object{{"AttributeName": "id", "KeyType": "HASH"}}}, nil)
		}
		fill := func(from, to int) {
			for _, table := range damageTables {
				for first := from; first < to; first += 25 {
					var puts []object
					for id := first; id < min(first+25, to); id++ {
						puts = append(puts, object{"PutRequest": object{"Item": object{"id": text(strconv.Itoa(id)), "text": text(p.text(table, id))}}})
					}
					s.must(g, "BatchWriteItem", object{"RequestItems": object{table: puts}}, nil)
				}
			}
		}
		if folder == p.killed {
			fill(0, 25)
			time.Sleep(time.Second) // for a flush, so that there are sstables
			fill(25, damageItems)
			s.kill()
			continue
		}
		fill(0, damageItems)
		var made struct {
			BackupDetails struct{ BackupArn, BackupStatus string }
		}
		s.must(g, "CreateBackup", object{"TableName": "Left", "BackupName": "copy"}, &made)
		p.backup = made.BackupDetails.BackupArn
		for made.BackupDetails.BackupStatus != "AVAILABLE" {
			time.Sleep(10 * time.Millisecond)
			var expected struct {
				BackupDescription struct{ BackupDetails struct{ BackupStatus string } }
			}
			s.must(g, "DescribeBackup", object{"BackupArn": p.backup}, &expected)
			made.BackupDetails.BackupStatus = expected.BackupDescription.BackupDetails.BackupStatus
		}
		s.cmd.Process.Signal(syscall.SIGTERM)
		<-s.ended
	}
	preparedOnce = p
	return p
}

// try damages a copy of a folder and checks how a server handles it.
func (p *prepared) try(g *rig, folder string, kind struct {
	name string
	log  bool
}, how int) {
	g.Helper()
	dir := g.TempDir()
	data := filepath.Join(dir, "data")
	copyFolder(g, folder, data)
	file := largest(g, data, kind.name)
	what := mutate(g, g, file, how)
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
	for id := range damageItems {
		switch got, err := getText(d, table, id); {
		case err != nil:
			failed++
		case got != p.text(table, id):
			faults = append(faults, fmt.Sprintf("%s %d is %.20q", table, id, got))
		}
	}
	ids, err := scan(d, table)
	switch {
	case err != nil:
		failed++
	case len(ids) != damageItems:
		faults = append(faults, fmt.Sprintf("a scan of %s has %d items", table, len(ids)))
	}
	return failed, faults
}

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

const (
	flipBit = iota
	zeroBytes
	cutOff
)

// mutate damages a file and describes how.
func mutate(t testing.TB, g *rig, file string, how int) (what string) {
	t.Helper()
	edit(t, file, func(b []byte) []byte {
		size := len(b)
		if strings.HasSuffix(file, ".log") {
			for size > 0 && b[size-1] == 0 { // preallocated space
				size--
			}
		}
		if size == 0 {
			what = filepath.Base(file) + " is empty"
			return nil
		}
		at := g.IntN(size)
		switch how {
		case flipBit:
			b[at] ^= 1 << g.IntN(8)
			what = fmt.Sprintf("a bit of byte %d of %d flipped in %s", at, len(b), filepath.Base(file))
		case zeroBytes:
			clear(b[at:min(at+64, size)])
			what = fmt.Sprintf("zeros at byte %d of %d in %s", at, len(b), filepath.Base(file))
		case cutOff:
			what = fmt.Sprintf("%s cut off at byte %d of %d", filepath.Base(file), at, len(b))
			b = b[:at]
		}
		return b
	})
	return what
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
