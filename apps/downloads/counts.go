package downloads

import (
	"context"
	"sync"
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
// pipeline costs nothing however often it is asked.
type counts struct {
	jobs    *ledger.Jobs
	running func() bool

	mutex sync.Mutex
	stale bool // something has changed since they were read
	last  Counts
	at    time.Time // when they were read; zero if never
}

// How old counts may be while batches run, and how often they are read after the last.
const (
	countsRunning = time.Minute
	countsEnded   = 2 * time.Second
)

func (c *counts) changed() {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	c.stale = true
}

// get returns the counts. While batches run only the files that have not completed are
// counted again; the completed ones are many, and are counted after the end.
func (c *counts) get(ctx context.Context) (Counts, error) {
	running := c.running()
	c.mutex.Lock()
	defer c.mutex.Unlock()
	age := time.Since(c.at)
	switch {
	case c.at.IsZero():
	case running && age >= countsRunning:
	case !running && c.stale && age >= countsEnded:
	default:
		return c.last, nil
	}
	c.stale = running
	if c.at.IsZero() || !running {
		fresh, err := Count(ctx, c.jobs)
		if err != nil {
			c.stale = true
			return c.last, err
		}
		c.last = fresh
	} else {
		fresh := Counts{Files: map[ledger.Status]int{ledger.Completed: c.last.Files[ledger.Completed]}, Oldest: make(map[ledger.Status]time.Time)}
		if err := fresh.read(ctx, c.jobs, []ledger.Status{ledger.Available, ledger.Downloading, ledger.Failed, ledger.Error}); err != nil {
			return c.last, err
		}
		c.last = fresh
	}
	c.at = time.Now()
	return c.last, nil
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
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	now, err := c.get(ctx)
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
