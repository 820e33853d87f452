package downloads

import (
	"context"
	"maps"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/stator-db/stator/apps/downloads/ledger"
)

// Counts are the files of all batches by status, and since when the file that has had a
// status longest has it.
type Counts struct {
	Files  map[ledger.Status]int       `json:"files"`
	Oldest map[ledger.Status]time.Time `json:"oldest,omitempty"` // of those that have not ended
}

// Count counts the files of all batches by StatusIndex: a query for each status, and one
// that reads a single item for each of the two that are not final.
func Count(ctx context.Context, jobs *ledger.Jobs) (Counts, error) {
	c := Counts{Files: make(map[ledger.Status]int), Oldest: make(map[ledger.Status]time.Time)}
	return c, c.read(ctx, jobs, ledger.JobStatuses)
}

func (c *Counts) read(ctx context.Context, jobs *ledger.Jobs, of []ledger.Status) error {
	for _, s := range of {
		n, err := jobs.Count(ctx, s)
		if err != nil {
			return err
		}
		c.Files[s] = n
		delete(c.Oldest, s)
		if n == 0 || s != ledger.Available && s != ledger.Downloading {
			continue
		}
		since, err := jobs.Oldest(ctx, s)
		if err != nil {
			return err
		}
		if !since.IsZero() {
			c.Oldest[s] = since
		}
	}
	return nil
}

// counts remembers the counts for the page and for /metrics, and is a collector of them.
// They are read again when somebody asks and something may have changed, so that an idle
// pipeline costs nothing however often it is asked. Files that have not ended may end by
// other processes: while there are some, they are counted again each minute.
type counts struct {
	jobs    *ledger.Jobs
	running func() bool
	now     func() time.Time

	stale atomic.Bool            // this process has changed something since they were read
	last  atomic.Pointer[Counts] // nil if they were never read

	reading   chan struct{} // holds a value while somebody reads; the rest belongs to the reader
	at        time.Time     // when the files that are not completed were counted
	completed tally
}

// How old counts may be while batches run or files have not ended, how often they are
// read after the last change, and how long one request counts.
const (
	countsRunning = time.Minute
	countsEnded   = 2 * time.Second
	countsBudget  = 3 * time.Second
)

func newCounts(jobs *ledger.Jobs, running func() bool) *counts {
	return &counts{jobs: jobs, running: running, now: time.Now, reading: make(chan struct{}, 1), completed: tally{due: true}}
}

func (c *counts) changed() { c.stale.Store(true) }

// get returns the counts. One caller at a time reads; others wait, at most as long as one
// request counts. The completed files are missing until they have been counted.
func (c *counts) get(ctx context.Context) (Counts, error) {
	ctx, cancel := context.WithTimeout(ctx, countsBudget)
	defer cancel()
	var err error
	select {
	case c.reading <- struct{}{}:
		err = c.refresh(ctx)
		<-c.reading
	case <-ctx.Done():
		err = ctx.Err()
	}
	if last := c.last.Load(); last != nil {
		return *last, nil // an error is no reason to hide what is known; the next request retries
	}
	return Counts{}, err
}

// refresh counts what may have changed. While batches run only the files that have not
// completed are counted again; the completed ones are many, and are counted after the end.
func (c *counts) refresh(ctx context.Context) error {
	running, last := c.running(), c.last.Load()
	if age := c.now().Sub(c.at); last == nil || (running || last.open() > 0) && age >= countsRunning || !running && c.stale.Load() && age >= countsEnded {
		stale := c.stale.Swap(running)
		fresh := Counts{Files: make(map[ledger.Status]int), Oldest: make(map[ledger.Status]time.Time)}
		if err := fresh.read(ctx, c.jobs, []ledger.Status{ledger.Available, ledger.Downloading, ledger.Failed, ledger.Error}); err != nil {
			c.stale.Store(true)
			return err
		}
		if last != nil {
			c.completed.due = c.completed.due || stale || fresh.open() != last.open()
			if n, ok := last.Files[ledger.Completed]; ok {
				fresh.Files[ledger.Completed] = n
			}
		}
		c.at = c.now()
		c.last.Store(&fresh)
	}
	if running && last != nil {
		return nil
	}
	if n, ok := c.completed.count(ctx, c.jobs, c.now); ok {
		with := *c.last.Load()
		with.Files = maps.Clone(with.Files)
		with.Files[ledger.Completed] = n
		c.last.Store(&with)
	}
	return nil
}

// open returns how many files have not ended.
func (c *Counts) open() int { return c.Files[ledger.Available] + c.Files[ledger.Downloading] }

// tally counts the completed files. Counting reads each of them, so a count may take
// longer than a request has: the next request continues it. A count that takes more than
// a second is repeated after a hundred times as long.
type tally struct {
	due   bool // some may have been added since the last count began
	next  ledger.Cursor
	sum   int
	spent time.Duration
	ended time.Time
}

// count returns the number of completed files, if it was due and could be determined.
func (t *tally) count(ctx context.Context, jobs *ledger.Jobs, now func() time.Time) (int, bool) {
	if t.next == nil {
		if !t.due || t.spent > time.Second && now().Sub(t.ended) < 100*t.spent {
			return 0, false
		}
		t.due, t.sum, t.spent = false, 0, 0
	}
	start := now()
	defer func() { t.spent += now().Sub(start) }()
	for {
		n, next, err := jobs.CountSome(ctx, ledger.Completed, t.next)
		if err != nil {
			t.due = t.due || t.next == nil // else it continues
			return 0, false
		}
		t.sum += n
		if t.next = next; next == nil {
			t.ended = now()
			return t.sum, true
		}
	}
}

var (
	filesDesc  = prometheus.NewDesc("downloads_files", "Files of all batches, by status.", []string{"status"}, nil)
	oldestDesc = prometheus.NewDesc("downloads_oldest_seconds", "How long the file that has had a status longest has it, by status.", []string{"status"}, nil)
	runsDesc   = prometheus.NewDesc("downloads_running", "Whether a batch runs, as far as this process knows.", nil, nil)
)

// Describe implements prometheus.Collector.
func (c *counts) Describe(to chan<- *prometheus.Desc) {
	to <- filesDesc
	to <- oldestDesc
	to <- runsDesc
}

// Collect implements prometheus.Collector.
func (c *counts) Collect(to chan<- prometheus.Metric) {
	runs := 0.0
	if c.running() {
		runs = 1
	}
	to <- prometheus.MustNewConstMetric(runsDesc, prometheus.GaugeValue, runs)
	now, err := c.get(context.Background())
	if err != nil {
		return // the other metrics are not affected, and an alert sees that these are absent
	}
	for s, n := range now.Files {
		to <- prometheus.MustNewConstMetric(filesDesc, prometheus.GaugeValue, float64(n), string(s))
	}
	for _, s := range []ledger.Status{ledger.Available, ledger.Downloading} {
		age := 0.0
		if since, ok := now.Oldest[s]; ok {
			age = max(0, c.jobs.Now().Sub(since).Seconds())
		}
		to <- prometheus.MustNewConstMetric(oldestDesc, prometheus.GaugeValue, age, string(s))
	}
}
