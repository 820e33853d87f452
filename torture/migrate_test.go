package torture

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

var (
	migrateItems  = flag.Int("torture.migrate-items", 0, "items of a migration; defaults to 300, and to 20,000 in the long form")
	migrateWrites = flag.Int("torture.migrate-writes", 0, "writes a second during a migration; defaults to 40, and to 1,000 in the long form")
)

// migration is a design change: two models, and what becomes of an item.
type migration struct {
	old, new string
	tables   [2]string // that the application uses, before and after
	keys     [2][]string
	make     func(n, version int) (before, after object)
}

// migrations are the three cases: another partition key, two tables into one, and
// a new index that replaces a scan.
var migrations = map[string]migration{
	"another key": {
		old: `
model: 1
tables: {orders: {key: {partition: customer, sort: order}}}
entities:
  order: {attributes: {customer: S, order: S, region: S, version: N}}
patterns: [{name: get, get: order, given: [customer, order], rate: 1/s}]
`,
		new: `
model: 1
tables: {moved: {key: {partition: PK, sort: SK}}}
entities:
  order: {keys: {PK: "REGION#{region}", SK: "{customer}#{order}"}, attributes: {customer: S, order: S, region: S, version: N}}
patterns: [{name: get, get: order, given: [region, customer, order], rate: 1/s}]
`,
		tables: [2]string{"orders", "moved"}, keys: [2][]string{{"customer", "order"}, {"PK", "SK"}},
		make: func(n, version int) (object, object) {
			customer, order, region := fmt.Sprint("c", n%100), fmt.Sprint("o", n), fmt.Sprint("r", version%5)
			before := object{"customer": text(customer), "order": text(order), "region": text(region), "version": object{"N": fmt.Sprint(version)}}
			after := maps.Clone(before)
			after["PK"], after["SK"] = text("REGION#"+region), text(customer+"#"+order)
			return before, after
		},
	},
	"into one table": {
		old: `
model: 1
tables: {customers: {key: {partition: id}}, orders: {key: {partition: customer, sort: order}}}
entities:
  customer: {table: customers, attributes: {id: S}}
  order: {table: orders, attributes: {customer: S, order: S, version: N}}
patterns: [{name: get, get: order, given: [customer, order], rate: 1/s}]
`,
		new: `
model: 1
tables: {single: {key: {partition: PK, sort: SK}}}
entities:
  customer: {keys: {PK: "CUSTOMER#{id}", SK: PROFILE}, attributes: {id: {stored: false}}}
  order: {keys: {PK: "CUSTOMER#{customer}", SK: "ORDER#{order}"}, attributes: {customer: S, order: {stored: false}, version: N}}
patterns: [{name: get, get: order, given: [customer, order], rate: 1/s}]
`,
		tables: [2]string{"orders", "single"}, keys: [2][]string{{"customer", "order"}, {"PK", "SK"}},
		make: func(n, version int) (object, object) {
			customer, order := fmt.Sprint("c", n%100), fmt.Sprint("o", n)
			number := object{"N": fmt.Sprint(version)}
			return object{"customer": text(customer), "order": text(order), "version": number},
				object{"PK": text("CUSTOMER#" + customer), "SK": text("ORDER#" + order), "customer": text(customer), "version": number}
		},
	},
	"a new index": {
		old: `
model: 1
tables: {tasks: {key: {partition: id}}}
entities:
  task: {attributes: {id: S, day: S, version: N}}
patterns: [{name: tasks of a day, scan: task, where: {day: d1}, rate: 1/h}]
`,
		new: `
model: 1
tables: {tasks: {key: {partition: id}, indexes: {byDay: {partition: dayKey}}}}
entities:
  task: {keys: {dayKey: "DAY#{day}"}, attributes: {id: S, day: S, version: N}}
patterns: [{name: tasks of a day, query: task, given: [day], rate: 1/h}]
`,
		tables: [2]string{"tasks", "tasks"}, keys: [2][]string{{"id"}, {"id"}},
		make: func(n, version int) (object, object) {
			day := fmt.Sprint("d", version%7)
			before := object{"id": text(fmt.Sprint(n)), "day": text(day), "version": object{"N": fmt.Sprint(version)}}
			after := maps.Clone(before)
			after["dayKey"] = text("DAY#" + day)
			return before, after
		},
	},
}

// migrating is one migration with its server, its migrator and the application.
type migrating struct {
	*rig
	migration
	data, addr string
	files      [2]string
	server     *process
	side       int   // the side that the application uses
	versions   []int // of each item; -1 if it is deleted
	writers    int
	rate       int // writes a second of all writers
	writes     atomic.Int64
	working    time.Duration // the time of these writes
	reads      atomic.Int64
}

func pick(it object, keys []string) object {
	key := object{}
	for _, k := range keys {
		key[k] = it[k]
	}
	return key
}

// item returns an item as the application sees it.
func (m *migrating) item(n, version int) object {
	before, after := m.make(n, version)
	if m.side == 1 {
		return after
	}
	return before
}

// until repeats a request until the server answers it.
func (m *migrating) until(operation string, body, reply any) {
	for {
		err := door((&process{addr: m.addr}).send).call(operation, body, reply)
		if err == nil {
			return
		}
		if rejected(err, "ValidationException") || rejected(err, "ResourceNotFoundException") {
			m.Errorf("%s: %v", operation, err)
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// write changes the items of one writer. Each write replaces an item under its
// key, or deletes it; the first items are never deleted. A write is due at its time,
// whether or not the one before was answered in time: one after the other, a writer
// would send as many as the latency of the server allows. After a kill of the server
// it does not catch up.
func (m *migrating) write(r *rand.Rand, first, step int, stop <-chan struct{}) {
	every := time.Second * time.Duration(m.writers) / time.Duration(m.rate)
	due := time.Now().Add(time.Duration(r.Int64N(int64(every))))
	for n := first; ; n = first + step*r.IntN((len(m.versions)-first)/step) {
		if late := time.Since(due); late > time.Second {
			due = time.Now()
		}
		select {
		case <-stop:
			return
		case <-time.After(time.Until(due)):
			due = due.Add(every)
		}
		table := m.tables[m.side]
		old := m.versions[n]
		version := max(0, old) + 1
		if m.side == 1 && slices.Contains(m.keys[1], "PK") {
			version = max(0, old) + 5 // the region is in the key, and stays
		}
		if n >= len(m.versions)/10 && r.IntN(5) == 0 {
			if old >= 0 {
				m.until("DeleteItem", object{"TableName": table, "Key": pick(m.item(n, old), m.keys[m.side])}, nil)
			}
			m.versions[n] = -1
		} else {
			m.until("PutItem", object{"TableName": table, "Item": m.item(n, version)}, nil)
			m.versions[n] = version
		}
		m.writes.Add(1)
	}
}

// read checks that items that are never deleted are always found, on the side
// that the application uses.
func (m *migrating) read(r *rand.Rand, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		default:
		}
		// Items 0 to 9 are not written to.
		key := pick(m.item(r.IntN(10), 0), m.keys[m.side])
		var reply struct{ Item object }
		m.until("GetItem", object{"TableName": m.tables[m.side], "Key": key, "ConsistentRead": true}, &reply)
		if reply.Item == nil {
			m.Errorf("a reader does not find %v on side %d", key, m.side)
			return
		}
		m.reads.Add(1)
		time.Sleep(time.Millisecond)
	}
}

// work runs the application while fn runs.
func (m *migrating) work(fn func()) {
	stop := make(chan struct{})
	began := time.Now()
	var group sync.WaitGroup
	for i := range m.writers {
		r := rand.New(rand.NewPCG(m.seed, m.Uint64()))
		group.Go(func() { m.write(r, 10+i, m.writers, stop) })
	}
	r := rand.New(rand.NewPCG(m.seed, m.Uint64()))
	group.Go(func() { m.read(r, stop) })
	fn()
	close(stop)
	group.Wait()
	m.working += time.Since(began)
}

// restart kills the server and starts it again at the same address.
func (m *migrating) restart() {
	m.server.kill()
	m.count("kills of the server", 1)
	m.serve()
}

func (m *migrating) serve() {
	for range 50 {
		p, err := run(m.TB, command(m.TB, "serve", "--addr", m.addr, "--data", m.data, "--log=error"))
		if err == nil {
			m.server = p
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	m.Fatal("the server does not start again")
}

// migrator returns a command of the migration.
func (m *migrating) migrator(name string, flags ...string) (*exec.Cmd, *bytes.Buffer) {
	args := append([]string{"model", "migrate", name, m.files[0], m.files[1], "--endpoint", "http://" + m.addr}, flags...)
	cmd := command(m.TB, args...)
	out := new(bytes.Buffer)
	cmd.Stdout, cmd.Stderr = out, out
	return cmd, out
}

// must runs a command that has to succeed.
func (m *migrating) must(name string, flags ...string) {
	m.Helper()
	cmd, out := m.migrator(name, flags...)
	if err := cmd.Run(); err != nil {
		m.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// runKilled runs the migrator, and kills it or the server after a random time.
// It reports whether the migrator ended by itself.
func (m *migrating) runKilled(longest time.Duration, flags ...string) bool {
	m.Helper()
	cmd, out := m.migrator("run", append(flags, "--lease", "1s")...)
	if err := cmd.Start(); err != nil {
		m.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	for {
		select {
		case err := <-ended:
			switch {
			case err == nil:
				return true
			case !strings.Contains(out.String(), "another process") && !strings.Contains(out.String(), "lease"):
				m.Fatalf("the migrator failed: %v\n%s", err, out)
			}
			time.Sleep(300 * time.Millisecond) // the lease of its predecessor
			return false
		case <-time.After(m.within(longest)):
		}
		if m.IntN(2) == 0 {
			m.restart()
			continue
		}
		_ = cmd.Process.Kill()
		<-ended
		m.count("kills of the migrator", 1)
		return false
	}
}

func (m *migrating) within(d time.Duration) time.Duration {
	return time.Duration(m.Int64N(int64(d)))
}

// check compares a table with what the application wrote.
func (m *migrating) check(side int) {
	m.Helper()
	m.side = side
	want := make(map[string]bool)
	for n, version := range m.versions {
		if version >= 0 {
			it, _ := json.Marshal(m.item(n, version))
			want[string(it)] = true
		}
	}
	body := object{"TableName": m.tables[side], "ConsistentRead": true}
	found := 0
	for {
		var reply struct {
			Items            []object
			LastEvaluatedKey object
		}
		m.until("Scan", body, &reply)
		for _, it := range reply.Items {
			encoded, _ := json.Marshal(it)
			if !want[string(encoded)] {
				m.Errorf("table %s has %s, which is not expected", m.tables[side], encoded)
			}
			found++
		}
		if reply.LastEvaluatedKey == nil {
			break
		}
		body["ExclusiveStartKey"] = reply.LastEvaluatedKey
	}
	if found != len(want) {
		m.Errorf("table %s has %d items, want %d", m.tables[side], found, len(want))
	}
	m.count("items compared", found)
}

// fill stores the items before the migration.
func (m *migrating) fill(items int) {
	m.versions = make([]int, items)
	const batch, fillers = 25, 8
	var group sync.WaitGroup
	for i := range fillers {
		group.Go(func() {
			for from := i * batch; from < items; from += fillers * batch {
				var puts []object
				for n := from; n < min(items, from+batch); n++ {
					puts = append(puts, object{"PutRequest": object{"Item": m.item(n, 0)}})
				}
				m.until("BatchWriteItem", object{"RequestItems": object{m.tables[0]: puts}}, nil)
			}
		})
	}
	group.Wait()
}

func newMigrating(g *rig, c migration) *migrating {
	m := &migrating{rig: g, migration: c, data: filepath.Join(g.TempDir(), "data")}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		g.Fatal(err)
	}
	m.addr = listener.Addr().String()
	_ = listener.Close()
	for i, model := range []string{c.old, c.new} {
		m.files[i] = filepath.Join(g.TempDir(), fmt.Sprintf("%d.model.yaml", i))
		if err := os.WriteFile(m.files[i], []byte(model), 0o600); err != nil {
			g.Fatal(err)
		}
	}
	m.serve()
	apply := command(g.TB, "model", "apply", m.files[0], "--endpoint", "http://"+m.addr, "--yes")
	if out, err := apply.CombinedOutput(); err != nil {
		g.Fatalf("apply: %v\n%s", err, out)
	}
	return m
}

// Migrations of each kind lose nothing and no reader misses an item, although the
// migrator and the server are killed at random while the application writes.
func TestKilledMigrationsLoseNothing(t *testing.T) {
	g := newRig(t)
	names := slices.Sorted(maps.Keys(migrations))
	first := g.IntN(len(names)) // the short form has one case
	// The migrator has to be faster than the writes, also with the race detector on a busy machine.
	items, between, writers, rate := 300, 3*time.Second, 2, 40
	if *long {
		items, between, writers, rate = 20_000, 10*time.Second, 32, 1000
	}
	if *migrateItems > 0 {
		items = *migrateItems
	}
	if *migrateWrites > 0 {
		rate = *migrateWrites
	}
	for n := range g.rounds(1) {
		name := names[(first+n)%len(names)]
		g.Logf("%s, %d items", name, items)
		m := newMigrating(g, migrations[name])
		m.writers, m.rate = writers, rate
		m.fill(items)
		m.work(func() {
			// Each process may run longer than the last one, so that one ends.
			for longest := between; !m.runKilled(longest, "--until-ready"); longest += longest / 2 {
			}
		})
		m.must("switch", "--confirm", "--quiet", "500ms")
		if m.tables[0] != m.tables[1] {
			m.check(0) // the old table still has all items
			m.check(1)
			m.work(func() { m.runKilled(between); m.runKilled(between) })
			time.Sleep(1100 * time.Millisecond) // the lease
			m.must("rollback", "--confirm", "--quiet", "500ms")
			m.check(0)
			m.must("run", "--until-ready")
			m.must("switch", "--confirm", "--quiet", "500ms")
			m.check(1)
		}
		m.must("drop", "--yes", "--window", "0s")
		m.check(1)
		g.Logf("%d writes in %s, %.0f a second", m.writes.Load(), m.working.Round(time.Second), float64(m.writes.Load())/m.working.Seconds())
		g.count("migrations", 1)
		g.count("writes", int(m.writes.Load()))
		g.count("reads", int(m.reads.Load()))
		m.server.kill()
	}
}
