package transfer

import (
	"bytes"
	"compress/gzip"
	"crypto/md5"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/stator-db/stator/internal/blob"
	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/logtest"
	"github.com/stator-db/stator/internal/protocol/wire"
	"github.com/stator-db/stator/internal/store/pebble"
)

// manualClock is a clock that a test moves.
type manualClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *manualClock) read() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *manualClock) pass(d time.Duration) time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
	return c.now
}

// transferFixture is a database and one bucket, "files".
type transferFixture struct {
	*db.DB
	*Store
	*manualClock
	bucket string // the folder of the bucket
	log    *logtest.Log
	close  func()
}

func open(t testing.TB, dir, bucket string, c *manualClock) *transferFixture {
	t.Helper()
	return openOn(t, pebble.Options{Dir: dir, Durability: pebble.Relaxed, Now: c.read}, bucket, c)
}

func openOn(t testing.TB, o pebble.Options, bucket string, c *manualClock) *transferFixture {
	t.Helper()
	e, err := pebble.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	d, err := db.Open(t.Context(), e, db.Options{Clock: clock.Given(c.read)})
	if err != nil {
		t.Fatal(err)
	}
	place, err := blob.Open(t.Context(), bucket)
	if err != nil {
		t.Fatal(err)
	}
	h := &transferFixture{DB: d, manualClock: c, bucket: bucket, log: new(logtest.Log)}
	h.Store, err = Open(t.Context(), d, map[string]blob.Place{"files": place}, h.log.Logger())
	if err != nil {
		t.Fatal(err)
	}
	closed := false
	h.close = func() {
		if closed {
			return
		}
		closed = true
		h.Store.Close()
		if err := errors.Join(d.Close(), e.Close()); err != nil {
			t.Error(err)
		}
	}
	t.Cleanup(h.close)
	return h
}

func start(t testing.TB) *transferFixture {
	return open(t, t.TempDir(), t.TempDir(), &manualClock{now: time.Unix(1_800_000_000, 0)})
}

// thingsTable defines a table with a partition and sort key, and a global index.
func thingsTable(name string) schema.Table {
	id, n, b := schema.Attribute{Name: "id", Type: item.S}, schema.Attribute{Name: "n", Type: item.N}, schema.Attribute{Name: "b", Type: item.B}
	t := schema.Table{
		Name: name, Key: schema.Key{Partition: []schema.Attribute{id}, Sort: []schema.Attribute{n}}, Attributes: []schema.Attribute{id, n, b},
	}
	t.AddIndex(schema.Index{Name: "by-b", Global: true, Key: schema.Key{Partition: []schema.Attribute{b}}, Projection: schema.Projection{Kind: schema.ProjectAll}})
	return t
}

// create creates a table with point-in-time recovery, so that it can be exported.
func (h *transferFixture) create(t testing.TB, name string) db.Description {
	t.Helper()
	if _, err := h.CreateTable(t.Context(), thingsTable(name)); err != nil {
		t.Fatal(err)
	}
	d, err := h.SetRecovery(t.Context(), name, 35)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func parse(t testing.TB, text string) item.Item {
	t.Helper()
	var r wire.ItemReader
	it, err := r.Member([]byte(`{"Item":`+text+`}`), "Item")
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return bytes.Clone(it)
}

func (h *transferFixture) put(t testing.TB, table string, items ...item.Item) {
	t.Helper()
	for _, it := range items {
		if _, err := h.Write(t.Context(), db.Write{Table: table, Key: it, Fit: (*schema.Table).CheckItem, Effect: db.Replace(it)}); err != nil {
			t.Fatal(err)
		}
	}
}

func (h *transferFixture) remove(t testing.TB, table string, it item.Item) {
	t.Helper()
	if _, err := h.Write(t.Context(), db.Write{Table: table, Key: thingsTable("").Key.Of(it), Effect: db.Remove}); err != nil {
		t.Fatal(err)
	}
}

// contents returns the items of a table as text.
func (h *transferFixture) contents(t testing.TB, table string) map[string]bool {
	t.Helper()
	view, err := h.View(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer view.Close()
	def, err := view.Table(t.Context(), table)
	if err != nil {
		t.Fatal(err)
	}
	found := make(map[string]bool)
	for it, err := range view.Items(t.Context(), def.ID) {
		if err != nil {
			t.Fatal(err)
		}
		found[item.Map(it).String()] = true
	}
	return found
}

func (h *transferFixture) list(t testing.TB, imports bool) []Job {
	t.Helper()
	all, err := h.Store.List(t.Context(), imports)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// waitEnded waits until a job has ended, and returns it.
func (h *transferFixture) waitEnded(t testing.TB, id string, isImport bool) Job {
	t.Helper()
	for {
		j, err := h.Store.Get(t.Context(), id, isImport)
		if err != nil {
			t.Fatal(err)
		}
		if j.Status != InProgress && (j.Status != Failed || !h.importTableExists(j)) {
			return j
		}
		time.Sleep(time.Millisecond)
	}
}

// importTableExists reports whether the table of a failed import still exists.
func (h *transferFixture) importTableExists(j Job) bool {
	d, err := h.Describe(j.Table)
	return j.Import != nil && err == nil && d.Restored.Import == j.ID
}

func (h *transferFixture) export(t testing.TB, table, format string, export Export) Job {
	t.Helper()
	d, err := h.Describe(table)
	if err != nil {
		t.Fatal(err)
	}
	j, err := h.StartExport(t.Context(), Job{
		Table: table, TableID: d.ID, TableUUID: d.UUID, TableARN: "arn:aws:dynamodb:us-east-1:000000000000:table/" + table,
		Bucket: "files", Prefix: "some/where", Format: format, Export: &export,
	})
	if err != nil {
		t.Fatal(err)
	}
	return h.waitEnded(t, j.ID, false)
}

func (h *transferFixture) exportNow() Export {
	now := h.Now()
	return Export{Time: now, End: now.Add(time.Millisecond)}
}

func (h *transferFixture) importFiles(t testing.TB, table, prefix, format string, options Import) Job {
	t.Helper()
	options.Parameters = json.RawMessage("{}")
	j, err := h.StartImport(t.Context(), Job{Table: table, Bucket: "files", Prefix: prefix, Format: format, Import: &options}, thingsTable(table))
	if err != nil {
		t.Fatal(err)
	}
	return h.waitEnded(t, j.ID, true)
}

func (h *transferFixture) checkSound(t testing.TB) {
	t.Helper()
	reports, err := h.DB.Verify(t.Context(), func(string, int64) {})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range reports {
		if r.Faults > 0 {
			t.Errorf("table %s: %v", r.Table, r.First)
		}
	}
}

// itemsOfAllTypes returns items with values of all types, and with texts that need
// escapes.
func itemsOfAllTypes(t testing.TB) (items []item.Item) {
	for _, text := range []string{
		`{"id":{"S":"all"},"n":{"N":"1"},"b":{"B":"AP//Lw=="},"s":{"S":"a \"quote\" \\ 'x' \n\r\t\u0000\u007f ü 😀 // {{ }} ]"},"e":{"S":""},
		 "num":{"N":"-123456789012345678901234567890.12345678"},"small":{"N":"1E-130"},"large":{"N":"9.9E+125"},"zero":{"N":"0"},
		 "t":{"BOOL":true},"f":{"BOOL":false},"null":{"NULL":true},"true":{"S":"name"},"$ion_1_0":{"S":"x"},"$7":{"N":"7"},"7":{"S":"seven"},
		 "a b":{"S":"space"},"it's":{"S":"quote"},"ünï":{"S":"letters"},
		 "ss":{"SS":["a","","ü\"'"]},"ns":{"NS":["1","-2.5","1E+20"]},"bs":{"BS":["AA==","//8=",""]},
		 "l":{"L":[{"S":"x"},{"N":"1.50"},{"NULL":true},{"L":[]},{"M":{}},{"B":""},{"SS":["q"]}]},
		 "m":{"M":{"x":{"M":{"y":{"L":[{"BOOL":true}]}}},"-":{"S":"no letter"}}}}`,
		`{"id":{"S":"bare"},"n":{"N":"-0.001"}}`,
		`{"id":{"S":"bare"},"n":{"N":"2"}}`,
		`{"id":{"S":"deep"},"n":{"N":"3"},"d":` + strings.Repeat(`{"L":[`, 30) + `{"S":"x"}` + strings.Repeat(`]}`, 30) + `}`,
	} {
		items = append(items, parse(t, text))
	}
	return items
}

// A table that is exported and imported again has the same items, in every format
// and compression.
func TestRoundTrip(t *testing.T) {
	h := start(t)
	h.create(t, "Things")
	h.put(t, "Things", itemsOfAllTypes(t)...)
	for i := range 500 {
		h.put(t, "Things", item.Make(map[string]item.Value{"id": item.String(fmt.Sprint(i % 40)), "n": item.Num(number(t, fmt.Sprint(i))), "text": item.String(strings.Repeat("x", i))}))
	}
	want := h.contents(t, "Things")
	for _, format := range []string{JSON, Ion} {
		j := h.export(t, "Things", format, h.exportNow())
		if j.Status != Completed || j.Items != int64(len(want)) {
			t.Fatalf("the export is %+v", j)
		}
		data := FolderOf(&j) + "data/"
		for _, compression := range []string{GZIP, ZSTD, None} {
			t.Run(format+" "+compression, func(t *testing.T) {
				from := h.repack(t, data, compression)
				name := fmt.Sprintf("Again-%s-%s", format, compression)
				got := h.importFiles(t, name, from, format, Import{Compression: compression})
				if got.Status != Completed || got.Items != int64(len(want)) || got.Errors != 0 || got.Processed != got.Items || got.Bytes == 0 {
					t.Fatalf("the import is %+v\n%s", got, h.log)
				}
				if found := h.contents(t, name); !maps.Equal(found, want) {
					for text := range want {
						if !found[text] {
							t.Errorf("missing %.300s", text)
						}
					}
					t.Errorf("the table has %d items, want %d", len(found), len(want))
				}
				if d, err := h.Describe(name); err != nil || d.Status != schema.Active || d.Counts[0].Items != int64(len(want)) {
					t.Errorf("the table is %+v, %v", d, err)
				}
			})
		}
	}
	h.checkSound(t)
}

func number(t testing.TB, text string) item.Number {
	t.Helper()
	n, err := item.ParseNumber(text)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// repack copies data files with another compression, and returns their folder.
func (h *transferFixture) repack(t testing.TB, data, compression string) string {
	t.Helper()
	if compression == GZIP {
		return data
	}
	to := filepath.Join("repacked", filepath.Base(filepath.Dir(filepath.Dir(data))), compression)
	if err := os.MkdirAll(filepath.Join(h.bucket, to), 0o700); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(h.bucket, data, "*"))
	if err != nil || len(files) == 0 {
		t.Fatal("no files", err)
	}
	for _, name := range files {
		content := unzip(t, name)
		if compression == ZSTD {
			w, err := zstd.NewWriter(nil)
			if err != nil {
				t.Fatal(err)
			}
			content = w.EncodeAll(content, nil)
		}
		h.write(t, filepath.Join(to, filepath.Base(name)), content)
	}
	return to + "/"
}

func (h *transferFixture) write(t testing.TB, name string, content []byte) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(filepath.Join(h.bucket, name)), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(h.bucket, name), content, 0o600); err != nil {
		t.Fatal(err)
	}
}

func unzip(t testing.TB, name string) []byte {
	t.Helper()
	packed, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	content, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

func zip(t testing.TB, content []byte) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(content); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// The files have the names and contents of AWS, and the manifests describe them.
func TestManifests(t *testing.T) {
	h := start(t)
	d := h.create(t, "Things")
	h.put(t, "Things", itemsOfAllTypes(t)...)
	j := h.export(t, "Things", JSON, h.exportNow())
	read := func(name string) []byte {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(h.bucket, name))
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	folder := "some/where/AWSDynamoDB/" + j.ID + "/"
	if content := read(folder + "_started"); len(content) > 0 {
		t.Errorf("_started contains %q, want nothing", content)
	}
	var summary map[string]any
	if err := json.Unmarshal(read(folder+"manifest-summary.json"), &summary); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]any{
		"version": "2020-06-30", "exportArn": j.TableARN + "/export/" + j.ID, "tableId": d.UUID, "s3Bucket": "files", "s3Prefix": "some/where",
		"startTime": "2027-01-15T08:00:00.000Z", "exportTime": "2027-01-15T08:00:00.000Z", "s3SseAlgorithm": nil,
		"manifestFilesS3Key": folder + "manifest-files.json", "itemCount": 4.0, "outputFormat": JSON, "exportType": "FULL_EXPORT",
	} {
		if got, ok := summary[name]; !ok || got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	for _, name := range []string{"manifest-summary", "manifest-files"} {
		if got, want := string(read(folder+name+".md5")), md5Base64(read(folder+name+".json")); got != want {
			t.Errorf("the checksum of %s is %s, want %s", name, got, want)
		}
	}
	var line struct {
		ItemCount         int
		MD5Checksum, ETag string
		DataFileS3Key     string
	}
	if err := json.Unmarshal(read(folder+"manifest-files.json"), &line); err != nil {
		t.Fatal(err)
	}
	if line.ItemCount != 4 || !strings.HasPrefix(line.DataFileS3Key, folder+"data/") || !strings.HasSuffix(line.DataFileS3Key, ".json.gz") ||
		line.MD5Checksum != md5Base64(read(line.DataFileS3Key)) {
		t.Errorf("manifest-files.json has %+v", line)
	}
	if content := unzip(t, filepath.Join(h.bucket, line.DataFileS3Key)); bytes.Count(content, []byte(`{"Item":{`)) != 4 {
		t.Errorf("the data file has %s, want 4 items", content)
	}
}

// A full export has the items as they were at its time, and an incremental one the
// images of each item that was changed in its window.
func TestExportOfEarlierTime(t *testing.T) {
	h := start(t)
	h.create(t, "Things")
	it := func(id, text string) item.Item {
		return parse(t, fmt.Sprintf(`{"id":{"S":%q},"n":{"N":"1"},"text":{"S":%q}}`, id, text))
	}
	var kept []item.Item
	for i := range 50 {
		kept = append(kept, it(fmt.Sprint("kept", i), "x"))
	}
	h.put(t, "Things", kept...)
	h.put(t, "Things", it("changed", "1"), it("deleted", "1"), it("back", "1"))
	h.pass(10 * time.Second)
	first := h.Now()
	before := h.contents(t, "Things")
	h.pass(time.Second)
	from := h.Now()
	h.put(t, "Things", it("changed", "2"), it("new", "1"), it("brief", "1"))
	h.pass(time.Second)
	h.put(t, "Things", it("changed", "3"))
	h.remove(t, "Things", it("deleted", ""))
	h.remove(t, "Things", it("brief", ""))
	last := h.Now()
	h.pass(time.Second)
	to := h.Now()
	h.put(t, "Things", it("changed", "4"), it("late", "1"), it("deleted", "2"))
	h.remove(t, "Things", it("kept3", ""))
	h.pass(time.Hour)

	j := h.export(t, "Things", JSON, Export{Time: first, End: first.Add(time.Second)})
	got := h.importFiles(t, "Then", FolderOf(&j)+"data/", JSON, Import{Compression: GZIP})
	if got.Status != Completed || !maps.Equal(h.contents(t, "Then"), before) {
		t.Errorf("the export of an earlier time has %v", h.contents(t, "Then"))
	}

	stamp := func(at time.Time) string {
		return fmt.Sprintf(`{"Metadata":{"WriteTimestampMicros":{"N":"%d"}},`, at.UnixMicro())
	}
	image := func(id, text string) string { return string(wire.AppendItem(nil, it(id, text))) }
	keys := func(id string) string { return fmt.Sprintf(`"Keys":{"id":{"S":%q},"n":{"N":"1"}}`, id) }
	for view, want := range map[string][]string{
		NewAndOldImages: {
			stamp(last) + keys("changed") + `,"OldImage":` + image("changed", "1") + `,"NewImage":` + image("changed", "3") + "}",
			stamp(last) + keys("deleted") + `,"OldImage":` + image("deleted", "1") + "}",
			stamp(from) + keys("new") + `,"NewImage":` + image("new", "1") + "}",
		},
		NewImage: {
			stamp(last) + keys("changed") + `,"NewImage":` + image("changed", "3") + "}",
			stamp(last) + keys("deleted") + "}",
			stamp(from) + keys("new") + `,"NewImage":` + image("new", "1") + "}",
		},
	} {
		j := h.export(t, "Things", JSON, Export{From: from, To: to, View: view})
		if j.Status != Completed || j.Items != 3 {
			t.Fatalf("the export is %+v", j)
		}
		if got := h.dataLines(t, j); !slices.Equal(got, want) {
			t.Errorf("%s has\n%s\nwant\n%s", view, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	j = h.export(t, "Things", Ion, Export{From: from, To: to, View: NewImage})
	want := fmt.Sprintf(`$ion_1_0 {Record:{Metadata:{WriteTimestampMicros:%d.},Keys:{id:"new",n:1.},NewImage:{id:"new",n:1.,text:"1"}}}`, from.UnixMicro())
	if got := h.dataLines(t, j); !slices.Contains(got, want) {
		t.Errorf("the Ion export has\n%s\nwithout\n%s", strings.Join(got, "\n"), want)
	}
	if j := h.export(t, "Things", JSON, Export{From: to.Add(time.Minute), To: to.Add(time.Hour), View: NewImage}); j.Status != Completed || j.Items != 0 {
		t.Errorf("the export of a window without changes is %+v", j)
	}
}

// dataLines returns the lines of an export, sorted by key.
func (h *transferFixture) dataLines(t testing.TB, j Job) (lines []string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(h.bucket, dataPrefix(&j)+"*"))
	if err != nil || len(names) == 0 {
		t.Fatal("no files", err)
	}
	for _, name := range names {
		lines = append(lines, strings.Split(strings.TrimSpace(string(unzip(t, name))), "\n")...)
	}
	slices.SortFunc(lines, func(a, b string) int {
		return strings.Compare(a[strings.Index(a, "Keys"):], b[strings.Index(b, "Keys"):])
	})
	return lines
}

// Items that cannot be decoded or do not fit the table are counted and logged, and
// the others are imported. Of two items with the same key the later wins.
func TestInvalidItemsAreCounted(t *testing.T) {
	large := strings.Repeat("x", item.MaxSize)
	for _, c := range []struct {
		format, text              string
		options                   Import
		processed, errors, stored int64
		last                      string
	}{
		{JSON, "\ufeff" + `{"Item":{"id":{"S":"a"},"n":{"N":"1"},"v":{"S":"first"}}}` + "\n\n" +
			`{"Item":{"id":{"S":"a"},"n":{"N":"1"},"v":{"S":"last"}}}` + "\r\n" +
			`not JSON` + "\n" + `{"Other":{}}` + "\n" + `{"Item":{"id":{"S":"b"}}}` + "\n" +
			`{"Item":{"id":{"N":"1"},"n":{"N":"1"}}}` + "\n" + `{"Item":{"id":{"S":""},"n":{"N":"1"}}}` + "\n" +
			`{"Item":{"id":{"S":"c"},"n":{"N":"x"}}}` + "\n" + `{"Item":{"id":{"S":"c"},"n":{"N":"1"},"b":{"S":"no binary"}}}` + "\n" +
			`{"Item":{"id":{"S":"c"},"n":{"N":"1"},"v":{"S":"` + large + `"}}}` + "\n" +
			strings.Repeat("y", maxTextBytes+5) + "\n" +
			`{"Item":{"id":{"S":"d"},"n":{"N":"1"}}}`, Import{}, 12, 9, 2, `last`},
		{Ion, `$ion_1_0 // a comment
			{Item:{id:"a",n:1,v:"first"}} {Item:{id:'''a''',n:1_0d-1, 'v' : "la\x73t", bl: {{ AA== }}}} /* more */
			{Item:{id:"b"}} {Item:{id:"b",n:nan}} {Item:{id:"b",n:1,s:$dynamodb_SS::[]}} {Item:2} {Item:{id:"c",n:1.,t:2020-01-01T}}
			{Item:{id:"d",n:1.5e0}}`, Import{}, 8, 5, 2, `last`},
		{CSV, "id,n,v\na,1,first\na,1,\"la\"\"s\"\"t\"\nb,x,v\nb,1\nc,1,\"two\nlines\"\nd,2,un\"quoted\"\ne,3,\n", Import{}, 7, 3, 3, `la"s"t`},
		{CSV, "a;1;first\r\na;1;last\r\n", Import{CSV: &CSVOptions{Delimiter: ";", Header: []string{"id", "n", "v"}}}, 2, 0, 1, "last"},
		{CSV, "id\tn\tb\na\t1\tAAE=\n", Import{CSV: &CSVOptions{Delimiter: "\t"}}, 1, 0, 1, "b={B:"},
	} {
		t.Run(c.format, func(t *testing.T) {
			h := start(t)
			h.write(t, "in/a.txt", []byte(c.text))
			j := h.importFiles(t, "Again", "in/", c.format, c.options)
			if j.Status != Completed || j.Processed != c.processed || j.Errors != c.errors || j.Items != c.processed-c.errors || j.Bytes == 0 {
				t.Errorf("the import is %+v\n%s", j, h.log)
			}
			found := h.contents(t, "Again")
			if int64(len(found)) != c.stored || !strings.Contains(fmt.Sprint(found), c.last) || strings.Contains(fmt.Sprint(found), "first") {
				t.Errorf("the items are %.500v, want %d with %q", found, c.stored, c.last)
			}
			if c.errors > 0 && (!strings.Contains(h.log.String(), "in/a.txt") || !strings.Contains(h.log.String(), "line=")) {
				t.Errorf("the log names no file and line of a rejected item:\n%s", h.log)
			}
			h.checkSound(t)
		})
	}
}

// Of two items with the same key the later wins, however far apart they are, and
// the indexes and counts match the stored items.
func TestLaterDuplicateWins(t *testing.T) {
	h := start(t)
	const keys = 20_000
	for round := range 3 {
		var text bytes.Buffer
		for i := range keys {
			fmt.Fprintf(&text, `{"Item":{"id":{"S":"%d"},"n":{"N":"1"},"b":{"B":"%s"}}}`+"\n", i, base64.StdEncoding.EncodeToString([]byte{byte(i % 7), byte(round)}))
		}
		h.write(t, fmt.Sprintf("in/%d.json", round), text.Bytes())
	}
	j := h.importFiles(t, "Again", "in/", JSON, Import{Compression: None})
	if j.Status != Completed || j.Processed != 3*keys || j.Items != 3*keys {
		t.Errorf("the import is %+v", j)
	}
	d, err := h.Describe("Again")
	if err != nil || d.Counts[0].Items != keys || d.Counts[1].Items != keys {
		t.Errorf("the counts are %v, %v, want %d items", d.Counts, err, keys)
	}
	found := h.contents(t, "Again")
	for text := range found {
		if !strings.Contains(text, "\x02") {
			t.Fatalf("the table has an earlier duplicate: %q", text)
		}
	}
	if len(found) != keys {
		t.Errorf("the table has %d items, want %d", len(found), keys)
	}
	h.checkSound(t)
}

// A damaged or truncated file fails an import with its name, and no table is left.
func TestDamagedFiles(t *testing.T) {
	var text bytes.Buffer
	for i := range 5000 {
		fmt.Fprintf(&text, `{"Item":{"id":{"S":"%d"},"n":{"N":"1"},"v":{"S":"%x"}}}`+"\n", i, md5Base64([]byte(fmt.Sprint(i))))
	}
	sound := zip(t, text.Bytes())
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	packed := w.EncodeAll(text.Bytes(), nil)
	flipped := bytes.Clone(sound)
	flipped[len(flipped)/2] ^= 4
	for name, c := range map[string]struct {
		content             []byte
		format, compression string
	}{
		"truncated gzip":      {sound[:len(sound)-20], JSON, GZIP},
		"gzip without end":    {sound[:len(sound)-1], JSON, GZIP},
		"flipped gzip":        {flipped, JSON, GZIP},
		"data after the gzip": {append(bytes.Clone(sound), "more"...), JSON, GZIP},
		"empty gzip":          {nil, JSON, GZIP},
		"gzip that is plain":  {text.Bytes(), JSON, GZIP},
		"truncated zstd":      {packed[:len(packed)-10], JSON, ZSTD},
		"zstd that is plain":  {text.Bytes(), JSON, ZSTD},
		"truncated JSON":      {text.Bytes()[:text.Len()-10], JSON, None},
		"truncated Ion":       {[]byte(`$ion_1_0 {Item:{id:"a",n:1.}} {Item:{id:"b`), Ion, None},
		"binary Ion":          {[]byte("\xe0\x01\x00\xea"), Ion, None},
		"truncated CSV":       {[]byte("id,n\na,1\n\"b,1\n"), CSV, None},
		"CSV without names":   {[]byte("id,,n\na,1\n"), CSV, None},
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t)
			if c.compression == GZIP {
				h.write(t, "in/a.gz", sound) // its items are imported first, and must be removed
			}
			h.write(t, "in/b.bad", c.content)
			j := h.importFiles(t, "Again", "in/", c.format, Import{Compression: c.compression})
			if j.Status != Failed || !strings.Contains(j.Message, "in/b.bad") || j.Code != "InvalidFile" {
				t.Errorf("the import is %+v", j)
			}
			if d, err := h.Describe("Again"); err == nil {
				t.Errorf("the failed import leaves the table %+v", d)
			}
			if _, err := h.CreateTable(t.Context(), thingsTable("Again")); err != nil || len(h.contents(t, "Again")) > 0 {
				t.Errorf("a new table of that name is not empty, or not created: %v", err)
			}
		})
	}
}

// A job that a shutdown interrupts is started again, and its results are not
// visible before.
func TestRestart(t *testing.T) {
	c, dir, bucket := &manualClock{now: time.Unix(1_800_000_000, 0)}, t.TempDir(), t.TempDir()
	h := open(t, dir, bucket, c)
	d := h.create(t, "Things")
	h.put(t, "Things", itemsOfAllTypes(t)...)
	want := h.contents(t, "Things")
	h.write(t, "in/a.json", []byte(`{"Item":{"id":{"S":"a"},"n":{"N":"1"}}}`+"\n"))
	h.Store.Close() // so that the jobs are not run
	now := h.exportNow()
	export, err := h.StartExport(t.Context(), Job{Table: "Things", TableID: d.ID, Bucket: "files", Format: JSON, Export: &now})
	if err != nil {
		t.Fatal(err)
	}
	load, err := h.StartImport(t.Context(), Job{Table: "Again", Bucket: "files", Prefix: "in/", Format: JSON, Import: &Import{Parameters: json.RawMessage("{}")}}, thingsTable("Again"))
	if err != nil {
		t.Fatal(err)
	}
	// Each job is half done.
	h.write(t, dataName(&export, 7), []byte("half"))
	if err := h.Import(t.Context(), "Again", load.ID, func(yield func(item.Item, error) bool) {
		yield(itemsOfAllTypes(t)[0], nil)
	}, func(err error) { t.Error(err) }, func(int) {}); err != nil {
		t.Fatal(err)
	}
	if _, err := h.Table("Again"); err == nil {
		t.Error("a table is usable during its import")
	}
	// A third job has ended, but its record does not say so. Of a fourth there is
	// only the record, of a fifth only the table.
	third, err := h.StartImport(t.Context(), Job{Table: "Third", Bucket: "files", Format: JSON, Import: &Import{Parameters: json.RawMessage("{}")}}, thingsTable("Third"))
	if err != nil || h.EndImport(t.Context(), "Third", third.ID) != nil {
		t.Fatal(err)
	}
	fourth, _, err := h.createJob(t.Context(), Job{Table: "Fourth", Bucket: "files", Format: JSON, Import: &Import{Parameters: json.RawMessage("{}")}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.BeginImport(t.Context(), thingsTable("Fifth"), "00000000000000-00000000"); err != nil {
		t.Fatal(err)
	}
	c.pass(time.Minute)
	h.put(t, "Things", parse(t, `{"id":{"S":"too late"},"n":{"N":"1"}}`))
	h.close()

	h = open(t, dir, bucket, c)
	if j := h.waitEnded(t, load.ID, true); j.Status != Completed || j.Items != 1 || len(h.contents(t, "Again")) != 1 {
		t.Errorf("the import is %+v with %v", j, h.contents(t, "Again"))
	}
	j := h.waitEnded(t, export.ID, false)
	if got := h.importFiles(t, "Back", FolderOf(&j)+"data/", JSON, Import{Compression: GZIP}); got.Status != Completed || !maps.Equal(h.contents(t, "Back"), want) {
		t.Errorf("the export is %+v, the import of it %+v", j, got)
	}
	if j := h.waitEnded(t, third.ID, true); j.Status != Completed {
		t.Errorf("the third job is %+v, want %s", j, Completed)
	}
	if j := h.waitEnded(t, fourth.ID, true); j.Status != Failed {
		t.Errorf("the fourth job is %+v, want %s", j, Failed)
	}
	if _, err := h.Describe("Fifth"); err == nil {
		t.Error("the table without an import still exists")
	}
	h.checkSound(t)
}

// An export fails with a specific code if, when it starts, its table, the changes of
// the table or the bucket do not exist any more.
func TestExportOfDeletedTable(t *testing.T) {
	h := start(t)
	d := h.create(t, "Things")
	now := h.exportNow()
	request := Job{Table: "Things", TableID: d.ID, Bucket: "files", Format: JSON, Export: &now}
	if _, err := h.SetRecovery(t.Context(), "Things", 0); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"PointInTimeRecoveryUnavailable", "TableNotFound", "S3NoSuchBucket"} {
		j, err := h.StartExport(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		if j := h.waitEnded(t, j.ID, false); j.Status != Failed || j.Code != want {
			t.Errorf("the export is %+v, want %s", j, want)
		}
		if _, err := h.Describe("Things"); err == nil {
			if _, err := h.DeleteTable(t.Context(), "Things"); err != nil {
				t.Fatal(err)
			}
		} else {
			request.Bucket = "missing" // not configured on this server
		}
	}
}

// An export to a bucket that cannot be written fails, and leaves no files.
func TestUnwritableBucket(t *testing.T) {
	h := start(t)
	h.create(t, "Things")
	h.put(t, "Things", itemsOfAllTypes(t)...)
	// A file has the name of a folder that the export needs.
	h.write(t, "some", []byte("in the way"))
	j := h.export(t, "Things", JSON, h.exportNow())
	if j.Status != Failed || j.Message == "" {
		t.Errorf("the export is %+v", j)
	}
	if found, _ := h.buckets["files"].Find(t.Context(), ""); len(found) != 1 {
		t.Errorf("after the failed export the files are %v, want one", found)
	}
}

// Names that lead out of a bucket are rejected, and symbolic links are not followed.
func TestNothingEscapesTheBucket(t *testing.T) {
	for _, prefix := range []string{"../x", "a/../../x", "/etc", "a//b", `..\x`, ".hidden", "a/.git/", "a\x00b"} {
		if prefix != "/etc" && CheckPrefix(prefix) == nil || CheckKeyPrefix(prefix) == nil {
			t.Errorf("the prefix %q is accepted", prefix)
		}
	}
	for _, prefix := range []string{"", "a", "a/b", "a/b/"} {
		if err := errors.Join(CheckPrefix(prefix), CheckKeyPrefix(prefix)); err != nil {
			t.Error(err)
		}
	}
	h := start(t)
	outside := t.TempDir()
	if err := os.WriteFile(filepath.Join(outside, "secret.json"), []byte(`{"Item":{"id":{"S":"secret"},"n":{"N":"1"}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, to := range map[string]string{"link.json": filepath.Join(outside, "secret.json"), "folder": outside, "some": outside} {
		if err := os.Symlink(to, filepath.Join(h.bucket, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, prefix := range []string{"", "link", "folder/", "../" + filepath.Base(outside)} {
		if j := h.importFiles(t, "Again", prefix, JSON, Import{}); j.Status != Failed {
			t.Errorf("with prefix %q the import is %+v, want %s", prefix, j, Failed)
		}
	}
	h.create(t, "Things")
	if j := h.export(t, "Things", JSON, h.exportNow()); j.Status != Failed { // its prefix starts with the link
		t.Errorf("the export is %+v", j)
	}
	if entries, _ := os.ReadDir(outside); len(entries) != 1 {
		t.Errorf("files were written outside the bucket: %v", entries)
	}
}

// A token identifies its job for tokenLife, and jobs are deleted after
// jobRetention.
func TestTokens(t *testing.T) {
	h := start(t)
	d := h.create(t, "Things")
	now := h.exportNow()
	request := Job{Table: "Things", TableID: d.ID, Bucket: "files", Format: JSON, Export: &now, Token: "t", Digest: []byte{1}}
	first, err := h.StartExport(t.Context(), request)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := h.StartExport(t.Context(), request); err != nil || again.ID != first.ID {
		t.Errorf("the same request again starts job %s, %v, want %s", again.ID, err, first.ID)
	}
	other := request
	other.Digest = []byte{2}
	if _, err := h.StartExport(t.Context(), other); !errors.Is(err, ErrConflict) {
		t.Errorf("a different request with the same token: %v, want %v", err, ErrConflict)
	}
	h.waitEnded(t, first.ID, false)
	h.pass(tokenLife)
	second, err := h.StartExport(t.Context(), request)
	if err != nil || second.ID == first.ID {
		t.Errorf("after tokenLife the request returns job %s, %v, want a new one", second.ID, err)
	}
	h.waitEnded(t, second.ID, false)
	if all := h.list(t, false); len(all) != 2 || all[0].ID != second.ID || len(h.list(t, true)) != 0 {
		t.Errorf("List = %v, want both exports, the newest first", all)
	}
	h.pass(jobRetention + time.Second)
	if _, err := h.Store.Get(t.Context(), second.ID, false); !errors.Is(err, ErrNotFound) || len(h.list(t, false)) > 0 {
		t.Errorf("after jobRetention: %v, want %v", err, ErrNotFound)
	}
	if _, _, err := h.createJob(t.Context(), Job{Import: &Import{}}); err != nil {
		t.Fatal(err)
	}
	if records, err := h.Jobs(t.Context()); err != nil || len(records) != 1 {
		t.Errorf("there are %d records, %v, want only the new one", len(records), err)
	}
}

// md5Base64 returns the MD5 checksum of some bytes as the manifests have it.
func md5Base64(b []byte) string {
	sum := md5.Sum(b)
	return base64.StdEncoding.EncodeToString(sum[:])
}

// A stored export whose prefix is too long fails. It does not crash the process.
func TestStoredExportWithALongPrefix(t *testing.T) {
	h := start(t)
	d := h.create(t, "Things")
	now := Export{Time: h.Now(), End: h.Now().Add(time.Millisecond)}
	j, err := h.StartExport(t.Context(), Job{Table: "Things", TableID: d.ID, Bucket: "files", Prefix: strings.Repeat("abcdefghi/", 100), Format: JSON, Export: &now})
	for err == nil && j.Status == InProgress {
		time.Sleep(time.Millisecond)
		j, err = h.Store.Get(t.Context(), j.ID, false)
	}
	if err != nil || j.Status != Failed {
		t.Errorf("the export is %s, %v, want %s", j.Status, err, Failed)
	}
}

// Closing a server does not wait until a file is read to its end, even if the file
// has no items.
func TestCloseWhileAFileHasNoItems(t *testing.T) {
	h := start(t)
	name := filepath.Join(h.bucket, "in.json")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(name, 1<<40); err != nil { // zeros, without a line break
		t.Fatal(err)
	}
	if _, err := h.StartImport(t.Context(), Job{Table: "Made", Bucket: "files", Prefix: "in", Format: JSON, Import: &Import{Parameters: json.RawMessage("{}")}}, thingsTable("Made")); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond) // so that the import has started
	closed := make(chan struct{})
	go func() { h.close(); close(closed) }()
	select {
	case <-closed:
	case <-time.After(time.Minute):
		t.Error("Close does not return within a minute")
	}
}
