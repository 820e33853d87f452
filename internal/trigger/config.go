package trigger

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// Config configures a trigger. Zero values have defaults.
type Config struct {
	Name  string `yaml:"name"`  // its positions are stored under this name
	Table string `yaml:"table"` // need not exist yet

	URL     string            `yaml:"url"`
	Headers map[string]string `yaml:"headers"`
	Timeout time.Duration     `yaml:"timeout"` // of one request; defaults to 30 s
	Region  string            `yaml:"region"`  // of the ARNs in records; defaults to us-east-1

	// StartingPosition is where a trigger starts that has never run: LATEST
	// (the default) or TRIM_HORIZON.
	StartingPosition string `yaml:"starting-position"`

	BatchSize   int           `yaml:"batch-size"`   // defaults to 100
	BatchWindow time.Duration `yaml:"batch-window"` // how long to wait for a full batch
	Parallelism int           `yaml:"parallelism"`  // concurrent batches for each shard; defaults to 1

	// A record is delivered if one of the Filters matches it, or if there are none.
	Filters []Pattern `yaml:"filters"`

	Bisect             bool `yaml:"bisect-on-error"`
	ReportItemFailures bool `yaml:"report-batch-item-failures"`

	// A record that has failed after MaxRetries retries, or is older than MaxAge,
	// is written to the dead-letter file. Without these limits it is retried
	// until it is delivered.
	MaxRetries *int          `yaml:"maximum-retry-attempts"`
	MaxAge     time.Duration `yaml:"maximum-record-age"`
	DeadLetter string        `yaml:"dead-letter"`
}

// Pattern is the text of a filter, JSON.
type Pattern string

// The starting positions.
const (
	Latest      = "LATEST"
	TrimHorizon = "TRIM_HORIZON"
)

// Fault is the error of an invalid member of a Config.
type Fault struct {
	Member string
	Err    error
}

func (f *Fault) Error() string { return f.Member + " " + f.Err.Error() }

func (f *Fault) Unwrap() error { return f.Err }

func (c *Config) setDefaults() {
	c.Timeout = cmp.Or(c.Timeout, 30*time.Second)
	c.Region = cmp.Or(c.Region, "us-east-1")
	c.StartingPosition = cmp.Or(c.StartingPosition, Latest)
	c.BatchSize = cmp.Or(c.BatchSize, 100)
	c.Parallelism = cmp.Or(c.Parallelism, 1)
}

// The bounds are Lambda's.
const (
	maxBatchSize   = 10_000
	maxBatchWindow = 5 * time.Minute
	maxParallelism = 10
	maxTimeout     = 15 * time.Minute
	mostRetries    = 10_000
	maxAge         = 7 * 24 * time.Hour
	maxFilters     = 10
)

// These are compiled when the first trigger is checked: most servers have no trigger.
var (
	nameText   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z0-9_.-]{1,64}$`) })
	tableText  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-zA-Z0-9_.-]{3,255}$`) })
	regionText = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[a-z0-9-]{1,32}$`) })
	headerText = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("^[a-zA-Z0-9!#$%&'*+.^_`|~-]+$") })
)

// Check returns the first invalid member as a *Fault, whose text contains no
// secrets.
func (c Config) Check() error {
	c.setDefaults()
	checks := []struct {
		member string
		ok     bool
		must   string
	}{
		{"name", nameText().MatchString(c.Name), "must be 1 to 64 letters, digits, dots, dashes and underscores"},
		{"table", tableText().MatchString(c.Table), "must be the name of a table"},
		{"url", isEndpoint(c.URL), "must be an http or https URL"},
		{"headers", areHeaders(c.Headers), "must be names and values of HTTP headers"},
		{"timeout", c.Timeout > 0 && c.Timeout <= maxTimeout, "must be more than 0s and at most 15m"},
		{"region", regionText().MatchString(c.Region), "must be the name of a region"},
		{"starting-position", c.StartingPosition == Latest || c.StartingPosition == TrimHorizon, "must be LATEST or TRIM_HORIZON"},
		{"batch-size", c.BatchSize >= 1 && c.BatchSize <= maxBatchSize, "must be from 1 to 10000"},
		{"batch-window", c.BatchWindow >= 0 && c.BatchWindow <= maxBatchWindow, "must be from 0s to 5m"},
		{"parallelism", c.Parallelism >= 1 && c.Parallelism <= maxParallelism, "must be from 1 to 10"},
		{"filters", len(c.Filters) <= maxFilters, "must be at most 10"},
		{"maximum-retry-attempts", c.MaxRetries == nil || *c.MaxRetries >= 0 && *c.MaxRetries <= mostRetries, "must be from 0 to 10000; omit it to retry without limit"},
		{"maximum-record-age", c.MaxAge == 0 || c.MaxAge >= time.Second && c.MaxAge <= maxAge, "must be from 1s to 168h; omit it for no limit"},
		{"dead-letter", c.DeadLetter != "" || c.MaxRetries == nil && c.MaxAge == 0, "must name a file for the records that exceed maximum-retry-attempts or maximum-record-age"},
	}
	for _, check := range checks {
		if !check.ok {
			return &Fault{check.member, errors.New(check.must)}
		}
	}
	for i, text := range c.Filters {
		if _, err := parsePattern(string(text)); err != nil {
			return &Fault{fmt.Sprintf("filters[%d]", i), err}
		}
	}
	return nil
}

func isEndpoint(text string) bool {
	u, err := url.Parse(text)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != ""
}

func areHeaders(headers map[string]string) bool {
	for name, value := range headers {
		if !headerText().MatchString(name) || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
			return false
		}
	}
	return true
}

// String is the config as JSON for logs, without possible secrets: only the host of
// the URL and the names of the headers.
func (c Config) String() string {
	c.setDefaults()
	text, err := json.Marshal(struct {
		Name             string    `json:"name"`
		Table            string    `json:"table"`
		Endpoint         string    `json:"endpoint"`
		Headers          []string  `json:"headers,omitempty"`
		Timeout          string    `json:"timeout"`
		Region           string    `json:"region"`
		StartingPosition string    `json:"starting-position"`
		BatchSize        int       `json:"batch-size"`
		BatchWindow      string    `json:"batch-window"`
		Parallelism      int       `json:"parallelism"`
		Filters          []Pattern `json:"filters,omitempty"`
		Bisect           bool      `json:"bisect-on-error"`
		ReportFailures   bool      `json:"report-batch-item-failures"`
		MaxRetries       *int      `json:"maximum-retry-attempts,omitempty"`
		MaxAge           string    `json:"maximum-record-age,omitempty"`
		DeadLetter       string    `json:"dead-letter,omitempty"`
	}{
		c.Name, c.Table, c.endpoint(), slices.Sorted(maps.Keys(c.Headers)), c.Timeout.String(), c.Region,
		c.StartingPosition, c.BatchSize, c.BatchWindow.String(), c.Parallelism, c.Filters,
		c.Bisect, c.ReportItemFailures, c.MaxRetries, durationOrNone(c.MaxAge), c.DeadLetter,
	})
	if err != nil {
		panic(err)
	}
	return string(text)
}

// endpoint is the part of the URL that is not secret: a path can be one, too.
func (c *Config) endpoint() string {
	u, err := url.Parse(c.URL)
	if err != nil {
		return ""
	}
	return u.Scheme + "://" + u.Host
}

func durationOrNone(d time.Duration) string {
	if d == 0 {
		return ""
	}
	return d.String()
}
