package infer

import (
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// textFormat is a format of the model that strings can have.
type textFormat struct {
	name string
	form func() *regexp.Regexp
	time func(text string) (time.Time, bool) // nil if the format is not a time
}

func form(text string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(text) })
}

func layout(text string) func(string) (time.Time, bool) {
	return func(value string) (time.Time, bool) {
		t, err := time.Parse(text, value)
		return t, err == nil
	}
}

// textFormats are tried in this order.
var textFormats = []textFormat{
	{"uuid", form(`^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$`), nil},
	{"iso8601", form(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$`), layout("2006-01-02T15:04:05Z")},
	{"iso8601-ms", form(`^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$`), layout("2006-01-02T15:04:05.000Z")},
	{"hour", form(`^\d{4}-\d\d-\d\dT\d\d$`), layout("2006-01-02T15")},
	{"date", form(`^\d{4}-\d\d-\d\d$`), layout("2006-01-02")},
	{"week", form(`^\d{4}-W\d\d$`), nil},
	{"month", form(`^\d{4}-(0\d|1[012])$`), layout("2006-01")},
	{"ulid", form(`^[0-7][0-9A-HJKMNP-TV-Z]{25}$`), ulidTime},
	{"ksuid", form(`^[0-3][0-9A-Za-z]{26}$`), ksuidTime},
}

// ulidTime is the time in a ULID: its first ten digits are milliseconds.
func ulidTime(text string) (time.Time, bool) {
	const alphabet = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
	millis := int64(0)
	for _, c := range text[:10] {
		millis = millis<<5 | int64(strings.IndexRune(alphabet, c))
	}
	return time.UnixMilli(millis).UTC(), true
}

// ksuidTime is the time in a KSUID: the seconds above 128 random bits.
func ksuidTime(text string) (time.Time, bool) {
	const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	n := new(big.Int)
	for _, c := range text {
		n.Add(n.Mul(n, big.NewInt(62)), big.NewInt(int64(strings.IndexRune(alphabet, c))))
	}
	n.Rsh(n, 128)
	return time.Unix(1_400_000_000+n.Int64(), 0).UTC(), n.IsInt64() && n.Int64() < 1<<32
}

// formatOf returns the format that nearly all texts have; "" for none.
func formatOf(texts []string) string {
	for _, f := range textFormats {
		if shareOf(texts, func(text string) bool { return f.form().MatchString(text) && validTime(f, text) }) >= nearlyAll {
			return f.name
		}
	}
	return ""
}

func validTime(f textFormat, text string) bool {
	if f.time == nil {
		return true
	}
	t, ok := f.time(text)
	return ok && t.Year() >= 1970 && t.Year() < 2300
}

func shareOf(texts []string, holds func(string) bool) float64 {
	n := 0
	for _, text := range texts {
		if holds(text) {
			n++
		}
	}
	return float64(n) / float64(max(1, len(texts)))
}

// sequenceWidth is the number of digits of numbers that are padded with zeros;
// 0 if the texts are not.
func sequenceWidth(texts []string) int {
	padded := false
	for _, text := range texts {
		if text == "" || len(text) != len(texts[0]) || strings.Trim(text, "0123456789") != "" {
			return 0
		}
		padded = padded || text[:1] == "0"
	}
	if !padded || len(texts[0]) < 2 {
		return 0
	}
	return len(texts[0])
}

// The numbers of seconds that are times from 2001 to 2106.
const (
	firstSecond = 1_000_000_000
	lastSecond  = 4_294_967_296
)

// epochFormat returns the format of numbers that are times; "" if they are not.
// Seconds may be any number, so the name of the attribute must agree.
func epochFormat(name string, texts []string) string {
	between := func(factor int64) bool {
		return shareOf(texts, func(text string) bool {
			n, err := strconv.ParseInt(text, 10, 64)
			return err == nil && n >= firstSecond*factor && n < lastSecond*factor
		}) >= nearlyAll
	}
	switch {
	case between(1) && timeName().MatchString(name):
		return "epoch-seconds"
	case between(1000):
		return "epoch-millis"
	}
	return ""
}

var timeName = form(`(?i)ttl|exp|time|date|at$|until|since|stamp|epoch|created|updated|^ts$|_ts$`)

// timeOf is the time of a value of a format.
func timeOf(format, text string) (time.Time, bool) {
	n, err := strconv.ParseInt(text, 10, 64)
	switch {
	case format == "epoch-seconds":
		return time.Unix(n, 0).UTC(), err == nil
	case format == "epoch-millis":
		return time.UnixMilli(n).UTC(), err == nil
	}
	for _, f := range textFormats {
		if f.name == format && f.time != nil && f.form().MatchString(text) {
			return f.time(text)
		}
	}
	return time.Time{}, false
}
