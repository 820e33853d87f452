package model

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Rate is the frequency of an event. The zero Rate is not given.
type Rate struct {
	PerSecond float64
	Text      string // as it was written
}

// Given reports whether the rate is given.
func (r Rate) Given() bool { return r.Text != "" }

// String returns the rate as it was written.
func (r Rate) String() string { return r.Text }

// maxRate is more than any table can serve.
const maxRate = 1e9

var perUnit = map[string]float64{
	"s": 1, "second": 1, "min": 60, "minute": 60, "h": 3600, "hour": 3600,
	"d": 86400, "day": 86400, "week": 7 * 86400, "month": monthSeconds, "y": yearSeconds, "year": yearSeconds,
}

// MonthHours is the hours of a month that a bill assumes.
const MonthHours = 730

const (
	monthSeconds = MonthHours * 3600
	yearSeconds  = 365 * 86400
)

func parseRate(text string) (Rate, error) {
	number, unit, ok := strings.Cut(text, "/")
	if !ok {
		return Rate{}, fmt.Errorf("%q is not a rate: write a number and a unit of time, such as 500/s, 10/min, 60/h, 33/day or 5/month", text)
	}
	per, ok := perUnit[strings.TrimSpace(unit)]
	if !ok {
		return Rate{}, fmt.Errorf("%q is not a unit of time%s", strings.TrimSpace(unit), suggest(strings.TrimSpace(unit), keysOf(perUnit)))
	}
	n, err := parseFloat(number)
	if err != nil {
		return Rate{}, err
	}
	if n < 0 {
		return Rate{}, fmt.Errorf("the rate %s is impossible: it is negative", text)
	}
	if n/per > maxRate {
		return Rate{}, fmt.Errorf("the rate %s is impossible: no table serves more than a billion requests a second", text)
	}
	return Rate{PerSecond: n / per, Text: text}, nil
}

// Bytes is a size.
type Bytes int

var byteUnits = []struct {
	suffix string
	bytes  float64
}{{"GB", 1 << 30}, {"MB", 1 << 20}, {"KB", 1 << 10}, {"B", 1}, {"", 1}}

const maxBytes = 1 << 40

// ParseBytes parses a size, such as 4 KB.
func ParseBytes(text string) (Bytes, error) {
	for _, u := range byteUnits {
		number, ok := strings.CutSuffix(text, u.suffix)
		if !ok {
			continue
		}
		n, err := parseFloat(number)
		if err != nil {
			return 0, fmt.Errorf("%q is not a size: write bytes, or a number with KB or MB", text)
		}
		if n *= u.bytes; n < 0 || n > maxBytes || n != math.Trunc(n) {
			return 0, fmt.Errorf("the size %s is impossible", text)
		}
		return Bytes(n), nil
	}
	return 0, fmt.Errorf("%q is not a size", text)
}

// String returns the size in the largest unit that fits.
func (b Bytes) String() string {
	for _, u := range byteUnits[:3] {
		if n := float64(b) / u.bytes; n >= 1 {
			return strings.TrimSuffix(strconv.FormatFloat(n, 'f', 1, 64), ".0") + " " + u.suffix
		}
	}
	return strconv.Itoa(int(b)) + " bytes"
}

// Duration is a span of time. The zero Duration is not given.
type Duration struct {
	time.Duration
	Text string
}

// Given reports whether the duration is given.
func (d Duration) Given() bool { return d.Text != "" }

var durationUnits = map[string]time.Duration{
	"s": time.Second, "min": time.Minute, "h": time.Hour, "d": 24 * time.Hour, "day": 24 * time.Hour, "days": 24 * time.Hour,
	"y": yearSeconds * time.Second, "year": yearSeconds * time.Second, "years": yearSeconds * time.Second,
}

func parseDuration(text string) (Duration, error) {
	at := strings.IndexFunc(text, func(r rune) bool { return (r < '0' || r > '9') && r != '.' && r != '_' })
	if at <= 0 {
		return Duration{}, fmt.Errorf("%q is not a duration: write 30d, 48h, 5min or 1y", text)
	}
	unit := strings.TrimSpace(text[at:])
	per, ok := durationUnits[unit]
	if !ok {
		return Duration{}, fmt.Errorf("%q is not a unit of time%s", unit, suggest(unit, keysOf(durationUnits)))
	}
	n, err := parseFloat(text[:at])
	if err != nil {
		return Duration{}, err
	}
	seconds := n * per.Seconds()
	if seconds < 0 || seconds > 100*yearSeconds {
		return Duration{}, fmt.Errorf("the duration %s is impossible: it is more than a hundred years", text)
	}
	return Duration{time.Duration(seconds * float64(time.Second)), text}, nil
}

// Count is a number of items or values.
type Count float64

const maxCount = 1e15

func parseCount(text string) (Count, error) {
	n, err := parseFloat(text)
	if err != nil {
		return 0, err
	}
	if n < 0 || n > maxCount || n != math.Trunc(n) {
		return 0, fmt.Errorf("the number %s is impossible", text)
	}
	return Count(n), nil
}

func parseFloat(text string) (float64, error) {
	text = strings.TrimSpace(text)
	n, err := strconv.ParseFloat(strings.ReplaceAll(text, "_", ""), 64)
	if err != nil || math.IsNaN(n) || math.IsInf(n, 0) {
		return 0, fmt.Errorf("%q is not a number", text)
	}
	return n, nil
}

// Names is one name or several.
type Names []string

// Projection is the set of attributes that an index copies.
type Projection struct {
	Kind  string // ALL, KEYS_ONLY or INCLUDE
	Names []string
}
