package transfer

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stator-db/stator/internal/blob"
	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/lead/leadtest"
	"github.com/stator-db/stator/internal/logtest"
	"github.com/stator-db/stator/internal/store/pebble"
	"github.com/stator-db/stator/internal/virtualtime"
)

// transferServer is one of several servers that share a database.
type transferServer struct {
	*transferFixture
	*leadtest.Server
	*leadtest.Gate
}

// openServers opens two servers that share a database and a bucket. The first one
// leads.
func openServers(t *testing.T) (a, b *transferServer) {
	t.Helper()
	c := &manualClock{now: time.Unix(1_800_000_000, 0)}
	o := pebble.InMemory()
	o.Now = c.read
	engine, err := pebble.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	fleet, bucket := leadtest.New(engine), t.TempDir()
	join := func(leads bool) *transferServer {
		server := fleet.Join()
		server.Lead(leads)
		d, err := db.Open(t.Context(), server, db.Options{Clock: clock.Given(c.read)})
		if err != nil {
			t.Fatal(err)
		}
		place, err := blob.Open(t.Context(), bucket)
		if err != nil {
			t.Fatal(err)
		}
		m := &transferServer{&transferFixture{DB: d, manualClock: c, bucket: bucket, log: new(logtest.Log)}, server, &leadtest.Gate{Place: place}}
		m.Store, err = Open(t.Context(), d, map[string]blob.Place{"files": m.Gate}, m.transferFixture.log.Logger())
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	a, b = join(true), join(false)
	t.Cleanup(func() {
		a.Store.Close()
		b.Store.Close()
		if err := errors.Join(a.DB.Close(), b.DB.Close(), engine.Close()); err != nil {
			t.Error(err)
		}
	})
	return a, b
}

// exportRequest returns a request to export the table Things as it is now.
func (m *transferServer) exportRequest(t *testing.T, token string) Job {
	t.Helper()
	d, err := m.Describe("Things")
	if err != nil {
		t.Fatal(err)
	}
	now := m.exportNow()
	return Job{Table: "Things", TableID: d.ID, Bucket: "files", Format: JSON, Export: &now, Token: token, Digest: []byte{1}}
}

func (m *transferServer) startImport(t *testing.T, table string) Job {
	t.Helper()
	j, err := m.StartImport(t.Context(), Job{Table: table, Bucket: "files", Prefix: "in/", Format: JSON, Import: &Import{Parameters: json.RawMessage("{}")}}, thingsTable(table))
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// checkExport verifies that an export is complete, that its manifests match its
// data files, and that there are no other data files.
func (m *transferServer) checkExport(t *testing.T, j Job, want map[string]bool) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(m.bucket, FolderOf(&j)+"manifest-files.json"))
	if err != nil {
		t.Fatal(err)
	}
	sum, err := os.ReadFile(filepath.Join(m.bucket, FolderOf(&j)+"manifest-files.md5"))
	if err != nil || string(sum) != md5Base64(text) {
		t.Errorf("the checksum of the manifest is %s, %v, want %s", sum, err, md5Base64(text))
	}
	named, items := make(map[string]bool), 0
	for line := range strings.Lines(string(text)) {
		var file struct {
			ItemCount                  int
			MD5Checksum, DataFileS3Key string
		}
		if err := json.Unmarshal([]byte(line), &file); err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(filepath.Join(m.bucket, file.DataFileS3Key))
		if err != nil || md5Base64(data) != file.MD5Checksum {
			t.Errorf("%s does not have the checksum in the manifest: %v", file.DataFileS3Key, err)
		}
		named[file.DataFileS3Key] = true
		items += file.ItemCount
	}
	text, err = os.ReadFile(filepath.Join(m.bucket, Manifest(&j)))
	var summary struct {
		ItemCount int
		EndTime   time.Time
	}
	if err := errors.Join(err, json.Unmarshal(text, &summary)); err != nil || summary.ItemCount != items || !summary.EndTime.Equal(j.Ended) {
		t.Errorf("the summary is %s, %v, want %d items and the end %v", text, err, items, j.Ended)
	}
	found, err := m.Gate.Find(t.Context(), dataPrefix(&j))
	if err != nil || len(found) != len(named) {
		t.Errorf("the data files are %v, %v, the manifest names %v", found, err, named)
	}
	if items != len(want) || j.Items != int64(items) {
		t.Errorf("the manifest has %d items, the job %d, want %d", items, j.Items, len(want))
	}
	if again := m.importFiles(t, "Again", FolderOf(&j)+"data/", JSON, Import{Compression: GZIP}); again.Status != Completed || !maps.Equal(m.contents(t, "Again"), want) {
		t.Errorf("the import of the export is %+v", again)
	}
}

// attempts returns the number of attempts at a job by all servers.
func attempts(t *testing.T, m *transferServer, id string) int {
	t.Helper()
	record, err := m.Job(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	j, err := decodeJob(record)
	if err != nil {
		t.Fatal(err)
	}
	return j.Attempt
}

// Any server accepts a job, the leader runs it once, and all servers report it.
func TestFollowerAcceptsJobs(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		a, b := openServers(t)
		a.create(t, "Things")
		a.put(t, "Things", itemsOfAllTypes(t)...)
		want := a.contents(t, "Things")
		a.write(t, "in/a.json", []byte(`{"Item":{"id":{"S":"a"},"n":{"N":"1"}}}`+"\n"))
		export, err := b.StartExport(t.Context(), b.exportRequest(t, ""))
		if err != nil {
			t.Fatal(err)
		}
		load := b.startImport(t, "Loaded")
		for _, m := range []*transferServer{a, b} {
			if j := m.waitEnded(t, export.ID, false); j.Status != Completed {
				t.Errorf("the export is %+v", j)
			}
			if j := m.waitEnded(t, load.ID, true); j.Status != Completed || j.Items != 1 || j.TableUUID == "" {
				t.Errorf("the import is %+v", j)
			}
			if exports, imports := m.list(t, false), m.list(t, true); len(exports) != 1 || exports[0].ID != export.ID || len(imports) != 1 || imports[0].ID != load.ID {
				t.Errorf("the lists are %v and %v", exports, imports)
			}
			if n := len(m.contents(t, "Loaded")); n != 1 {
				t.Errorf("the table has %d items", n)
			}
		}
		time.Sleep(time.Minute) // time for an unwanted second attempt
		if exports, imports := attempts(t, a, export.ID), attempts(t, a, load.ID); exports != 1 || imports != 1 {
			t.Errorf("the export was attempted %d times, the import %d times, want once", exports, imports)
		}
		if strings.Contains(b.transferFixture.log.String(), "complete") {
			t.Errorf("a server that does not lead ran a job:\n%s", b.transferFixture.log)
		}
		j := a.waitEnded(t, export.ID, false)
		a.checkExport(t, j, want)
	})
}

// When the leader changes during an export, the new leader starts it again, and the
// old one does not damage it, whenever it continues and whether or not it has
// noticed the change.
func TestLeaderChangeDuringExport(t *testing.T) {
	for _, at := range []string{"/data/", "_started", "manifest-files.json", "manifest-summary.md5", "manifest-summary.json"} {
		for _, noticed := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, noticed %v", strings.Trim(at, "/"), noticed), func(t *testing.T) {
				virtualtime.Test(t, func(t *testing.T) {
					a, b := openServers(t)
					a.create(t, "Things")
					a.put(t, "Things", itemsOfAllTypes(t)...)
					want := a.contents(t, "Things")
					held := a.Hold(t, at)
					export, err := b.StartExport(t.Context(), b.exportRequest(t, ""))
					if err != nil {
						t.Fatal(err)
					}
					held()
					if j, err := b.Store.Get(t.Context(), export.ID, false); err != nil || j.Status != InProgress {
						t.Errorf("on the other server the export is %+v, %v, want %s", j, err, InProgress)
					}
					a.Lead(!noticed)
					b.Lead(true)
					a.manualClock.pass(time.Hour)
					a.put(t, "Things", parse(t, `{"id":{"S":"too late"},"n":{"N":"1"}}`))
					done := b.waitEnded(t, export.ID, false)
					if done.Status != Completed {
						t.Fatalf("the export is %+v\n%s", done, b.transferFixture.log)
					}
					a.Release()
					time.Sleep(time.Minute)
					b.checkExport(t, done, want)
					if j := a.waitEnded(t, export.ID, false); j.Status != Completed || !j.Ended.Equal(done.Ended) {
						t.Errorf("afterwards the export is %+v, want the end %v", j, done.Ended)
					}
				})
			})
		}
	}
}

// When the leader changes during an import, the old leader does not overwrite
// items that are written once the table is usable.
func TestLeaderChangeDuringImport(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		a, b := openServers(t)
		for i := range 3 {
			a.write(t, fmt.Sprintf("in/%d.json", i), fmt.Appendf(nil, `{"Item":{"id":{"S":"same"},"n":{"N":"1"},"v":{"S":"%d"}}}`+"\n"+`{"Item":{"id":{"S":"%d"},"n":{"N":"1"}}}`+"\n", i, i))
		}
		held := a.Hold(t, "in/1.json")
		load := b.startImport(t, "Loaded")
		held()
		a.Lead(false)
		b.Lead(true)
		if j := b.waitEnded(t, load.ID, true); j.Status != Completed || j.Items != 6 {
			t.Fatalf("the import is %+v", j)
		}
		b.put(t, "Loaded", parse(t, `{"id":{"S":"same"},"n":{"N":"1"},"v":{"S":"new"}}`), parse(t, `{"id":{"S":"1"},"n":{"N":"1"},"v":{"S":"new"}}`))
		want := b.contents(t, "Loaded")
		a.Release()
		time.Sleep(time.Minute)
		if got := a.contents(t, "Loaded"); !maps.Equal(got, want) || len(got) != 4 {
			t.Errorf("the items are %v, want %v", got, want)
		}
		if n := attempts(t, a, load.ID); n != 2 {
			t.Errorf("there were %d attempts, want 2", n)
		}
		b.checkSound(t)
	})
}

// A server that may have missed messages stops its work before it acknowledges
// that, and starts again if it leads.
func TestRestartAfterMissedMessages(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		a, _ := openServers(t)
		a.create(t, "Things")
		held := a.Hold(t, "/data/")
		export, err := a.StartExport(t.Context(), a.exportRequest(t, ""))
		if err != nil {
			t.Fatal(err)
		}
		held()
		missed := make(chan error, 1)
		go func() { missed <- a.Miss(t.Context()) }()
		synctest.Wait()
		if len(missed) > 0 {
			t.Error("it is acknowledged while the attempt still runs")
		}
		a.Release()
		if err := <-missed; err != nil {
			t.Error(err)
		}
		if j := a.waitEnded(t, export.ID, false); j.Status != Completed {
			t.Errorf("the export is %+v", j)
		}
		if n := attempts(t, a, export.ID); n != 2 {
			t.Errorf("there were %d attempts, want 2", n)
		}
	})
}

// A token identifies one job, even if several servers receive it at once.
func TestTokenIsSharedByAllServers(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		a, b := openServers(t)
		a.create(t, "Things")
		request := a.exportRequest(t, "t")
		ids := make([]string, 20)
		var all sync.WaitGroup
		for i := range ids {
			all.Go(func() {
				j, err := []*transferServer{a, b}[i%2].StartExport(t.Context(), request)
				if err != nil {
					t.Error(err)
				}
				ids[i] = j.ID
			})
		}
		all.Wait()
		for _, id := range ids {
			if id == "" || id != ids[0] {
				t.Fatalf("the ids are %v, want the same for all", ids)
			}
		}
		other := request
		other.Digest = []byte{2}
		for _, m := range []*transferServer{a, b} {
			if _, err := m.StartExport(t.Context(), other); !errors.Is(err, ErrConflict) {
				t.Errorf("a different request with the same token: %v, want %v", err, ErrConflict)
			}
		}
		a.waitEnded(t, ids[0], false)
		if again, err := b.StartExport(t.Context(), request); err != nil || again.ID != ids[0] || again.Status != Completed {
			t.Errorf("the same request after the end of the job: %+v, %v", again, err)
		}
	})
}

// An import whose server stops before it has created the table fails, but not while
// the server may still be creating it.
func TestImportWithoutTable(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		a, b := openServers(t)
		j, _, err := b.createJob(t.Context(), Job{Table: "Never", Bucket: "files", Format: JSON, Import: &Import{Parameters: json.RawMessage("{}")}})
		if err != nil {
			t.Fatal(err)
		}
		half, _, err := b.createJob(t.Context(), Job{Table: "Half", Bucket: "files", Format: JSON, Import: &Import{Parameters: json.RawMessage("{}")}})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.BeginImport(t.Context(), thingsTable("Half"), half.ID); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * scanInterval)
		for _, id := range []string{j.ID, half.ID} {
			if j, err := a.Store.Get(t.Context(), id, true); err != nil || j.Status != InProgress {
				t.Errorf("before orphanAge the import is %+v, %v, want %s", j, err, InProgress)
			}
		}
		a.manualClock.pass(orphanAge)
		time.Sleep(2 * scanInterval)
		for _, id := range []string{j.ID, half.ID} {
			if j := b.waitEnded(t, id, true); j.Status != Failed {
				t.Errorf("after orphanAge the import is %+v, want %s", j, Failed)
			}
		}
		if _, err := b.updateJob(t.Context(), half.ID, 0, func(j *Job) { j.TableID = 1 }); !errors.Is(err, errSuperseded) {
			t.Errorf("updateJob by the late server: %v, want %v", err, errSuperseded)
		}
	})
}
