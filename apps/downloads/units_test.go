package downloads_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/smithy-go/middleware"

	"github.com/stator-db/stator/apps/downloads"
	"github.com/stator-db/stator/apps/downloads/ledger"
	"github.com/stator-db/stator/apps/downloads/upstream/stand"
)

// bill sums what the server charges for the requests of a client.
type bill struct {
	mutex                 sync.Mutex
	requests              map[string]int // by operation and table
	read, table, indexing float64        // read units; write units of tables, and of indexes
}

func (b *bill) add(operation string, of *types.ConsumedCapacity, write bool) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.requests[operation+" "+*of.TableName]++
	if !write {
		b.read += *of.CapacityUnits
		return
	}
	if of.Table != nil {
		b.table += *of.Table.CapacityUnits
	}
	for _, x := range of.GlobalSecondaryIndexes {
		b.indexing += *x.CapacityUnits
	}
}

// failed counts a request whose condition failed: it costs units too, which the reply
// does not have.
func (b *bill) failed(in any) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	b.requests[fmt.Sprintf("failed %T", in)]++
}

func (b *bill) String() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return fmt.Sprintf("%v read, %v + %v write units, requests %v", b.read, b.table, b.indexing, b.requests)
}

// row returns the bill as the README's table has it.
func (b *bill) row() string {
	return fmt.Sprintf("| %v | %v | %v |", b.read, b.table, b.indexing)
}

func (b *bill) soFar() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.row()
}

func (b *bill) count(request string) int {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.requests[request]
}

// reset returns the bill so far and begins another.
func (b *bill) reset() *bill {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	before := &bill{requests: maps.Clone(b.requests), read: b.read, table: b.table, indexing: b.indexing}
	b.requests, b.read, b.table, b.indexing = map[string]int{}, 0, 0, 0
	return before
}

// billed makes a pipeline's requests ask for their units.
func billed(r *rig) *bill {
	b := &bill{requests: map[string]int{}}
	db := dynamodb.New(r.Home.DB.Options(), func(o *dynamodb.Options) {
		o.APIOptions = append(slices.Clone(o.APIOptions), func(s *middleware.Stack) error {
			return s.Initialize.Add(middleware.InitializeMiddlewareFunc("bill", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
				switch in := in.Parameters.(type) {
				case *dynamodb.GetItemInput:
					in.ReturnConsumedCapacity = types.ReturnConsumedCapacityIndexes
				case *dynamodb.QueryInput:
					in.ReturnConsumedCapacity = types.ReturnConsumedCapacityIndexes
				case *dynamodb.PutItemInput:
					in.ReturnConsumedCapacity = types.ReturnConsumedCapacityIndexes
				case *dynamodb.UpdateItemInput:
					in.ReturnConsumedCapacity = types.ReturnConsumedCapacityIndexes
				case *dynamodb.DescribeTableInput: // has no units
				default:
					panic(fmt.Sprintf("the pipeline sends %T", in))
				}
				out, m, err := next.HandleInitialize(ctx, in)
				if err != nil {
					b.failed(in.Parameters)
					return out, m, err
				}
				switch out := out.Result.(type) {
				case *dynamodb.GetItemOutput:
					b.add("GetItem", out.ConsumedCapacity, false)
				case *dynamodb.QueryOutput:
					b.add("Query", out.ConsumedCapacity, false)
				case *dynamodb.PutItemOutput:
					b.add("PutItem", out.ConsumedCapacity, true)
				case *dynamodb.UpdateItemOutput:
					b.add("UpdateItem", out.ConsumedCapacity, true)
				}
				return out, m, nil
			}), middleware.Before)
		})
	})
	r.Jobs.DB, r.Batches.DB = db, db
	return b
}

const polls = 6 // of the design's day

// The design's day: ten files, six polls. The units are those that the server charges,
// the README has the same figures, and without a batch nothing is charged.
func TestUnitsOfDay(t *testing.T) {
	readme := readmeUnits(t)
	// The files must be complete between the fifth and the sixth poll. On a busy machine that
	// takes longer polls.
	for every := 300 * time.Millisecond; ; every *= 3 {
		rows, day := unitsOfDay(t, every, readme["a start"])
		if day.requests["GetItem "+ledger.JobsTable] > 10*polls && every < 30*time.Second {
			t.Logf("with a poll every %s there were more than %d", every, polls)
			continue
		}
		want := map[string]int{"PutItem " + ledger.BatchesTable: 1, "PutItem " + ledger.JobsTable: 10, "UpdateItem " + ledger.JobsTable: 20,
			"GetItem " + ledger.JobsTable: 60, "UpdateItem " + ledger.BatchesTable: 2}
		if !maps.Equal(day.requests, want) {
			t.Errorf("the day's requests are %v, want %v", day.requests, want)
		}
		if day.read != 60 || day.table != 33 {
			t.Errorf("the day costs %s, and 60 and 33 in the design", day)
		}
		for what, row := range rows {
			if readme[what] != row {
				t.Errorf("the README's row of %q ends with %q, and was measured as %q", what, readme[what], row)
			}
		}
		return
	}
}

// readmeUnits returns the measured units in the README's table, by row.
func readmeUnits(t *testing.T) map[string]string {
	t.Helper()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := make(map[string]string)
	for line := range strings.Lines(string(readme)) {
		if cells := strings.Split(strings.TrimSpace(line), " | "); len(cells) >= 4 && strings.HasPrefix(cells[0], "| ") {
			rows[strings.TrimPrefix(cells[0], "| ")] = "| " + strings.Join(cells[len(cells)-3:], " | ")
		}
	}
	return rows
}

// unitsOfDay measures a start, an idle time and a day, with a poll every so often.
func unitsOfDay(t *testing.T, every time.Duration, start string) (rows map[string]string, day *bill) {
	t.Helper()
	today := time.Now().UTC().Truncate(24 * time.Hour)
	var passed atomic.Int64
	now := func() time.Time { return today.Add(6*time.Hour + time.Duration(passed.Load())) }
	release := make(chan struct{})
	r := open(t, func(o *downloads.Options, u *stand.Options) {
		o.Schedule, o.Every, o.Now, o.Lease, o.Stall, o.Parallel = "06:30", every, now, time.Minute, time.Minute, 10
		u.Hold = release
	})
	r.Keeper.Check = 20 * time.Millisecond
	quiet := &ledger.Batches{DB: r.Home.DB, Now: now}
	b := billed(r)
	// Yesterday's batch is over.
	yesterday := today.AddDate(0, 0, -1).Format(time.DateOnly)
	id := ledger.ScheduledID(yesterday)
	for _, do := range []func() error{
		func() error { _, err := quiet.Create(t.Context(), id, yesterday); return err },
		func() error { _, err := quiet.Expect(t.Context(), id, []string{"a"}, ""); return err },
		func() error {
			_, err := quiet.Finish(t.Context(), id, ledger.Completed, []string{"a"}, nil, "")
			return err
		},
	} {
		if err := do(); err != nil {
			t.Fatal(err)
		}
	}
	rows = make(map[string]string)

	runFor(t, r)
	for end := time.Now().Add(time.Minute); b.soFar() != start && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(100 * time.Millisecond) // in which a start that costs more goes on
	rows["a start"] = b.reset().row()

	// Idle, while the clock is compared with the schedule, and metrics and health are read.
	h := r.Handler()
	get(t, h, "GET", "/metrics")
	b.reset()
	for range 20 {
		for _, target := range []string{"/metrics", "/healthz"} {
			if code, text := get(t, h, "GET", target); code != 200 {
				t.Errorf("%s: %d %s", target, code, text)
			}
		}
		time.Sleep(50 * time.Millisecond)
	}
	idle := b.reset()
	rows["idle, a day"] = idle.row()

	// The day. Files are served after the fifth poll.
	passed.Store(int64(time.Hour))
	for n := 0; n < 10*(polls-1); {
		time.Sleep(time.Millisecond)
		n = b.count("GetItem " + ledger.JobsTable)
	}
	close(release)
	for {
		got, err := quiet.Get(t.Context(), ledger.ScheduledID(r.date))
		if err != nil {
			t.Fatal(err)
		}
		if got.Status == ledger.Completed && len(got.CompletedFiles) == 10 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	time.Sleep(100 * time.Millisecond) // in which a day that costs more goes on
	day = b.reset()
	rows["a day of ten files and six polls"] = day.row()
	get(t, h, "GET", "/metrics")
	rows["the first scrape of /metrics after it"] = b.reset().row()
	return rows, day
}

// A poller that starts finds unfinished batches with few queries: those of the last days,
// and those of any day with unfinished files. Any other is continued when the page of its day is opened.
func TestStartFindsUnfinished(t *testing.T) {
	r := open(t, func(_ *downloads.Options, u *stand.Options) { u.Files = 2 })
	b := billed(r)
	// A batch of the millisecond in which the poller starts would not be of an earlier process.
	quiet := &ledger.Batches{DB: r.Home.DB, Now: func() time.Time { return time.Now().Add(-time.Second) }}
	create := func(back int) string {
		t.Helper()
		date := time.Now().UTC().AddDate(0, 0, -back).Format(time.DateOnly)
		if _, err := quiet.Create(t.Context(), ledger.ScheduledID(date), date); err != nil {
			t.Fatal(err)
		}
		return date
	}
	recent, queued, old := create(7), create(60), create(80)
	// The poller of the second was killed after it had written jobs.
	jobs := &ledger.Jobs{DB: r.Home.DB, Now: time.Now}
	f := ledger.Job{FileID: ledger.FileID("accounts", queued), BatchID: ledger.ScheduledID(queued), Entity: "accounts", DownloadDate: queued}
	if _, err := jobs.Queue(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	runFor(t, r)
	for _, date := range []string{recent, queued} {
		if got := r.end(ledger.ScheduledID(date)); got.Status != ledger.Completed {
			t.Errorf("the batch is %+v", got)
		}
	}
	if n := b.count("Query " + ledger.BatchesTable); n != 9 {
		t.Errorf("a start sends %d queries of batches", n)
	}
	if got, err := quiet.Get(t.Context(), ledger.ScheduledID(old)); err != nil || got.Status != ledger.Initiated {
		t.Errorf("the batch is %+v, %v", got, err)
	}
	if code, text := get(t, r.Handler(), "GET", "/?date="+old); code != 200 {
		t.Errorf("the page of its day: %d %s", code, text)
	}
	if got := r.end(ledger.ScheduledID(old)); got.Status != ledger.Completed {
		t.Errorf("the batch is %+v", got)
	}
}
