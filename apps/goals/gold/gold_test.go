package gold

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"path"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/snappy"
	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/format"
	"gocloud.dev/blob"
	"gocloud.dev/blob/memblob"
)

var asOf = time.Date(2026, 5, 15, 3, 0, 0, 0, time.UTC)

func generate(t *testing.T, format string) (*blob.Bucket, *Manifest) {
	t.Helper()
	bucket := memblob.OpenBucket(nil)
	t.Cleanup(func() { bucket.Close() })
	_, err := Generate(t.Context(), bucket, Plan{Day: "2026-05-15", AsOf: asOf, Customers: 1000, Seed: 7, Format: format, PartRows: 300})
	if err != nil {
		t.Fatal(err)
	}
	m, err := ReadManifest(t.Context(), bucket, "2026-05-15", asOf.Add(time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	return bucket, m
}

func readBack[T Customer | Contribution](t *testing.T, bucket *blob.Bucket, files []File) []T {
	t.Helper()
	var rows []T
	for _, f := range files {
		err := Read(t.Context(), bucket, "2026-05-15", f, t.TempDir(), func(n int64, row *T, bad *BadRow) error {
			if bad != nil {
				t.Errorf("%s row %d: %v", f.Name, n, bad)
				return nil
			}
			rows = append(rows, *row)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return rows
}

func TestBothFormatsSayTheSame(t *testing.T) {
	columns, columnsDay := generate(t, "parquet")
	lines, linesDay := generate(t, "jsonl")
	a, b := readBack[Customer](t, columns, columnsDay.Customers), readBack[Customer](t, lines, linesDay.Customers)
	if len(a) != 1000 || !reflect.DeepEqual(a, b) {
		t.Errorf("customers differ: %d in Parquet, %d in JSON", len(a), len(b))
	}
	c, d := readBack[Contribution](t, columns, columnsDay.Contributions), readBack[Contribution](t, lines, linesDay.Contributions)
	if len(c) == 0 || len(c) != len(d) {
		t.Fatalf("%d contributions in Parquet, %d in JSON", len(c), len(d))
	}
	for i := range c {
		if c[i].PersonID != d[i].PersonID || c[i].Amount != d[i].Amount || !c[i].ContributedAt.Equal(d[i].ContributedAt) || c[i].Product != d[i].Product {
			t.Fatalf("contribution %d: %+v in Parquet, %+v in JSON", i, c[i], d[i])
		}
	}
}

func TestManifestIsChecked(t *testing.T) {
	good := Manifest{Day: "2026-05-15", AsOf: asOf, Customers: []File{{"customers.jsonl", 1}}}
	for _, c := range []struct {
		name   string
		change func(*Manifest)
		want   string
	}{
		{"valid", func(*Manifest) {}, ""},
		{"of another day", func(m *Manifest) { m.Day = "2026-05-14" }, "it has the day"},
		{"without a time", func(m *Manifest) { m.AsOf = time.Time{} }, "asOf is missing"},
		{"of the future", func(m *Manifest) { m.AsOf = asOf.AddDate(1, 0, 0) }, "in the future"},
		{"without customers", func(m *Manifest) { m.Customers = nil }, "no files of customers"},
		{"outside of the day", func(m *Manifest) { m.Customers[0].Name = "../../secret.jsonl" }, "not the name"},
		{"another kind of file", func(m *Manifest) { m.Customers[0].Name = "customers.csv" }, "not the name"},
		{"a file twice", func(m *Manifest) { m.Contributions = m.Customers }, "twice"},
		{"negative rows", func(m *Manifest) { m.Customers[0].Rows = -1 }, "cannot have"},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := good
			m.Customers = append([]File(nil), good.Customers...)
			c.change(&m)
			err := m.check("2026-05-15", asOf.Add(time.Hour))
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
	bucket := memblob.OpenBucket(nil)
	defer bucket.Close()
	if _, err := ReadManifest(t.Context(), bucket, "2026-05-15", asOf); err == nil || !strings.Contains(err.Error(), "is incomplete") {
		t.Errorf("a missing day: %v", err)
	}
	if _, err := ReadManifest(t.Context(), bucket, "../x", asOf); err == nil || !strings.Contains(err.Error(), "must be like") {
		t.Errorf("an invalid day: %v", err)
	}
}

// file writes bytes to a bucket as a file of customers and reads it.
func file(t *testing.T, name string, content []byte, rows int64) error {
	t.Helper()
	bucket := memblob.OpenBucket(nil)
	defer bucket.Close()
	if err := bucket.WriteAll(context.Background(), path.Join(Folder("2026-05-15"), name), content, nil); err != nil {
		t.Fatal(err)
	}
	return Read(t.Context(), bucket, "2026-05-15", File{name, rows}, t.TempDir(), func(int64, *Customer, *BadRow) error { return nil })
}

func customersParquet(t testing.TB, o ...parquet.WriterOption) []byte {
	t.Helper()
	var b bytes.Buffer
	w := parquet.NewGenericWriter[Customer](&b, o...)
	p := Plan{AsOf: asOf, Seed: 1}
	for i := range 500 {
		c, _ := p.Made(i)
		if _, err := w.Write([]Customer{c}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestBrokenFilesAreRefused(t *testing.T) {
	good := customersParquet(t, parquet.Compression(&parquet.Snappy))
	if err := file(t, "good.parquet", good, 500); err != nil {
		t.Fatalf("the valid file: %v", err)
	}
	var other bytes.Buffer
	w := parquet.NewGenericWriter[struct {
		PersonID string `parquet:"personId"`
		Name     int64  `parquet:"name"`
	}](&other)
	w.Close()
	footer := append([]byte(nil), good...)
	copy(footer[len(footer)-8:], "\xff\xff\xff\x7f")
	for _, c := range []struct {
		name, file string
		content    []byte
		want       string
	}{
		{"empty", "a.parquet", nil, "broken"},
		{"text", "a.parquet", bytes.Repeat([]byte("hello "), 100), "broken"},
		{"truncated", "a.parquet", good[:len(good)/2], "broken"},
		{"a footer of two gigabytes", "a.parquet", footer, "footer"},
		{"other columns", "a.parquet", other.Bytes(), "column"},
		{"an unsupported compression", "a.parquet", customersParquet(t, parquet.Compression(&parquet.Brotli)), "compressed with BROTLI"},
		{"fewer rows than promised", "a.jsonl", []byte("{}\n"), "truncated"},
		{"more rows than promised", "a.jsonl", bytes.Repeat([]byte("{}\n"), 501), "more than the 500 rows"},
		{"a line without end", "a.jsonl", bytes.Repeat([]byte("x"), 1<<20), "a line has more"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if err := file(t, c.file, c.content, 500); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

// Damage anywhere gives rows or an error, never a panic.
func TestDamagedParquet(t *testing.T) {
	const seed = 20260515
	r := rand.New(rand.NewPCG(seed, 0))
	refused := 0
	files := [][]byte{customersParquet(t, parquet.Compression(&parquet.Snappy)), customersParquet(t, parquet.Compression(&parquet.Gzip)), customersParquet(t, parquet.Compression(&parquet.Zstd))}
	for i := range 600 {
		good := files[i%3]
		damaged := append([]byte(nil), good...)
		for range 1 + r.IntN(4) {
			damaged[r.IntN(len(damaged))] = byte(r.UintN(256))
		}
		if err := file(t, fmt.Sprintf("%d.parquet", i), damaged, 500); err != nil {
			refused++
		}
	}
	if refused == 0 {
		t.Errorf("seed %d: no damage was detected", seed)
	}
}

func TestBadLinesAreReported(t *testing.T) {
	bucket := memblob.OpenBucket(nil)
	defer bucket.Close()
	lines := []string{`{"personId":"x","product":"SAV","amount":"12.345"}`, `{"personId":"x","amount":1e9}`, `[]`, `{"amount":-1}`, `{"personId":"x","amount":12.50,"contributedAt":"2026-05-01T00:00:00Z"}`}
	if err := bucket.WriteAll(t.Context(), "day=2026-05-15/a.jsonl", []byte(strings.Join(lines, "\n")), nil); err != nil {
		t.Fatal(err)
	}
	var bads, goods int
	err := Read(t.Context(), bucket, "2026-05-15", File{"a.jsonl", int64(len(lines))}, t.TempDir(), func(n int64, row *Contribution, bad *BadRow) error {
		if bad != nil {
			bads++
			return nil
		}
		goods++
		if row.Amount != 1250 {
			t.Errorf("row %d has %v", n, row.Amount)
		}
		return nil
	})
	if err != nil || bads != 4 || goods != 1 {
		t.Errorf("%d invalid, %d valid, %v; want 4 and 1", bads, goods, err)
	}
}

// A few compressed bytes that become more than the limit are rejected, before they are
// in memory.
func TestBombs(t *testing.T) {
	zeros := make([]byte, 64<<20)
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	if _, err := w.Write(zeros); err != nil || w.Close() != nil {
		t.Fatal(err)
	}
	encoder, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer encoder.Close()
	for codec, b := range map[format.CompressionCodec][]byte{format.Gzip: packed.Bytes(), format.Zstd: encoder.EncodeAll(zeros, nil), format.Snappy: snappy.Encode(nil, zeros)} {
		c := &pageCheck{codec: codec}
		defer c.close()
		if _, err := c.unpack(b, maxPage); err == nil || !strings.Contains(err.Error(), "limit") && !strings.Contains(err.Error(), "window") {
			t.Errorf("%s: %d bytes that become %d: %v", codec, len(b), len(zeros), err)
		}
		if cap(c.plain) > 4*maxPage {
			t.Errorf("%s: %d bytes are in memory", codec, cap(c.plain))
		}
	}
}

// A few bytes that claim to be more than a million values are rejected.
func TestRunsAreCounted(t *testing.T) {
	for _, c := range []struct {
		name  string
		runs  []byte
		width int
		ok    bool
	}{
		{"nothing", nil, 1, true},
		{"a run of 500", binary.AppendUvarint(nil, 500<<1), 0, true},
		{"the limit", append(binary.AppendUvarint(nil, maxPageValues<<1), 1), 1, true},
		{"two billion", append(binary.AppendUvarint(nil, math.MaxInt32<<1), 1), 1, false},
		{"groups of no bits", binary.AppendUvarint(nil, (1<<40)<<1|1), 0, false},
		{"many runs", bytes.Repeat(append(binary.AppendUvarint(nil, (1<<18)<<1), 1), 5), 1, false},
		{"an unterminated number", bytes.Repeat([]byte{0xff}, 20), 1, false},
		{"values of 200 bits", []byte{2, 0}, 200, false},
	} {
		if err := checkRuns(c.runs, c.width); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// All supported forms of files: both versions of pages, with and without dictionaries
// and compression, and with additional columns.
func TestShapesOfParquet(t *testing.T) {
	type wide struct {
		PersonID      string     `parquet:"personId,dict"`
		Name          string     `parquet:"name,dict"`
		Segment       string     `parquet:"segment,dict"`
		Language      string     `parquet:"language,plain"`
		Notifications bool       `parquet:"notifications"`
		ChosenGoal    *string    `parquet:"chosenGoal,optional,dict"`
		ChosenAt      *time.Time `parquet:"chosenAt,optional,timestamp(microsecond)"`
		Tags          []string   `parquet:"tags,dict"`
		Score         int64      `parquet:"score"`
	}
	goal, at := "SAVINGS_ACCOUNT", asOf
	for _, version := range []int{1, 2} {
		for _, codec := range []compress.Codec{&parquet.Uncompressed, &parquet.Snappy, &parquet.Gzip, &parquet.Zstd} {
			var b bytes.Buffer
			w := parquet.NewGenericWriter[wide](&b, parquet.DataPageVersion(version), parquet.Compression(codec), parquet.PageBufferSize(2000))
			for i := range 700 {
				row := wide{PersonID: Person(1, i).String(), Name: "Ana", Segment: "CLASSIC", Language: "en", Notifications: i%2 == 0, Tags: []string{"a", "b"}[:i%3%2]}
				if i%5 == 0 {
					row.ChosenGoal, row.ChosenAt = &goal, &at
				}
				if _, err := w.Write([]wide{row}); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			rows, chosen := 0, 0
			err := parquetRows(t.Context(), bytes.NewReader(b.Bytes()), int64(b.Len()), func(c *Customer, _ *BadRow) error {
				if c.PersonID != Person(1, rows).String() || c.Name != "Ana" || c.Notifications != (rows%2 == 0) {
					t.Fatalf("row %d is %+v", rows, c)
				}
				rows++
				if c.ChosenGoal != nil && *c.ChosenGoal == goal && c.ChosenAt.Equal(at) {
					chosen++
				}
				return nil
			})
			if err != nil || rows != 700 || chosen != 140 {
				t.Errorf("version %d, %s: %d rows, %d chosen, %v", version, codec, rows, chosen, err)
			}
		}
	}
}

// A long text in a dictionary takes a few bytes in each row of a file, and its length in
// memory. It is rejected before a row is read, in all columns that are read.
func TestLongTexts(t *testing.T) {
	type row struct {
		PersonID      string     `parquet:"personId,dict"`
		Name          string     `parquet:"name,dict"`
		Segment       string     `parquet:"segment,plain"`
		Language      string     `parquet:"language,dict"`
		Notifications bool       `parquet:"notifications"`
		ChosenGoal    *string    `parquet:"chosenGoal,optional,dict"`
		ChosenAt      *time.Time `parquet:"chosenAt,optional,timestamp(microsecond)"`
		Notes         string     `parquet:"notes,dict"` // not read
	}
	text := func(n int) string { return strings.Repeat("x", n) }
	long := text(maxText + 1)
	for _, c := range []struct {
		name string
		row  row
		ok   bool
	}{
		{"the limit", row{Name: text(maxText), Segment: text(maxText)}, true},
		{"in a dictionary", row{Name: long}, false},
		{"in an optional column", row{ChosenGoal: &long}, false},
		{"without a dictionary", row{Segment: long}, false},
		{"in a column that is not read", row{Notes: text(1 << 20)}, true},
		{"two megabytes in each column", row{PersonID: text(2<<20 - 16), Name: text(2<<20 - 16), Language: text(2<<20 - 16)}, false},
	} {
		for _, version := range []int{1, 2} {
			var b bytes.Buffer
			w := parquet.NewGenericWriter[row](&b, parquet.DataPageVersion(version), parquet.Compression(&parquet.Snappy),
				parquet.SkipPageBounds("personId"), parquet.SkipPageBounds("name"), parquet.SkipPageBounds("language"), parquet.SkipPageBounds("notes"))
			for range rowsAtOnce {
				if _, err := w.Write([]row{c.row}); err != nil {
					t.Fatal(err)
				}
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			rows := 0
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err := parquetRows(t.Context(), bytes.NewReader(b.Bytes()), int64(b.Len()), func(*Customer, *BadRow) error { rows++; return nil })
			runtime.ReadMemStats(&after)
			if (err == nil) != c.ok || err != nil && (rows > 0 || !strings.Contains(err.Error(), "a text has")) {
				t.Errorf("%s, version %d: %d rows, %v", c.name, version, rows, err)
			}
			if used := after.TotalAlloc - before.TotalAlloc; used > 64<<20 {
				t.Errorf("%s, version %d: allocates %d MiB", c.name, version, used>>20)
			}
		}
	}
}
