package model

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"math/big"
	"strconv"
	"time"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
)

// format is a form that the values of an attribute have.
type format struct {
	types []item.Type

	// value returns a value; larger ordinals sort later.
	value func(f *Field, ordinal int) item.Value

	// period returns how long the current time has the same value, in seconds; nil if
	// the format is not a time.
	period func(a *Attribute) float64

	// most is how many values there are until the year 9999; 0 if they are enough for any run.
	most int
}

var formats = map[string]format{
	"uuid":          {types: []item.Type{item.S}, value: uuidValue},
	"sequence":      {types: []item.Type{item.S, item.N}, value: sequenceValue},
	"iso8601":       timeFormat("2006-01-02T15:04:05Z", 1, everySecond),
	"iso8601-ms":    timeFormat("2006-01-02T15:04:05.000Z", 1e-3, everySecond),
	"hour":          timeFormat("2006-01-02T15", 3600, func(n int) time.Time { return epoch.AddDate(0, 0, n/24).Add(time.Duration(n%24) * time.Hour) }).upTo(24 * mostDays),
	"date":          timeFormat("2006-01-02", day, func(n int) time.Time { return epoch.AddDate(0, 0, n) }).upTo(mostDays),
	"week":          format{types: []item.Type{item.S}, value: weekValue, period: constant(7 * day)}.upTo(mostDays / 7),
	"month":         timeFormat("2006-01", 30*day, func(n int) time.Time { return epoch.AddDate(0, n, 0) }).upTo(12 * mostYears),
	"year":          timeFormat("2006", 365*day, func(n int) time.Time { return epoch.AddDate(n, 0, 0) }).upTo(mostYears),
	"epoch-seconds": {types: []item.Type{item.N}, value: epochSeconds, period: constant(1)},
	"epoch-millis":  {types: []item.Type{item.N}, value: epochMillis, period: constant(1e-3)},
	"ulid":          {types: []item.Type{item.S}, value: ulid.value, period: ulid.period},
	"ksuid":         {types: []item.Type{item.S}, value: ksuid.value, period: ksuid.period},
}

const day = 24 * 3600.0

func constant(seconds float64) func(*Attribute) float64 {
	return func(*Attribute) float64 { return seconds }
}

func timeFormat(layout string, seconds float64, at func(int) time.Time) format {
	value := func(_ *Field, ordinal int) item.Value { return item.String(at(ordinal).Format(layout)) }
	return format{types: []item.Type{item.S}, value: value, period: constant(seconds)}
}

// The years and days from the epoch of generated times to the year 9999, which is
// the last that sorts as text.
const (
	mostYears = 7_900
	mostDays  = 365 * mostYears
)

// upTo limits a format to a number of values, after which they repeat.
func (f format) upTo(most int) format {
	value := f.value
	f.most = most
	f.value = func(of *Field, ordinal int) item.Value { return value(of, ordinal%most) }
	return f
}

func everySecond(n int) time.Time { return epoch.Add(time.Duration(n) * time.Second) }

func weekValue(_ *Field, ordinal int) item.Value {
	year, week := epoch.AddDate(0, 0, 7*ordinal).ISOWeek()
	return item.String(fmt.Sprintf("%d-W%02d", year, week))
}

func epochSeconds(_ *Field, ordinal int) item.Value {
	return number(strconv.FormatInt(epoch.Unix()+int64(withoutZero(ordinal)), 10))
}

func epochMillis(_ *Field, ordinal int) item.Value {
	return number(strconv.FormatInt(epoch.UnixMilli()+int64(withoutZero(ordinal)), 10))
}

// withoutZero is the ordinal-th positive integer that does not end in a zero:
// trailing zeros do not count, so the sizes of items would vary.
func withoutZero(ordinal int) int { return ordinal/9*10 + ordinal%9 + 1 }

func uuidValue(f *Field, ordinal int) item.Value {
	h := fnv.New128a()
	_, _ = fmt.Fprint(h, f.Name)
	sum := h.Sum(nil)
	return item.String(fmt.Sprintf("%x-%x-4%03x-8%03x-%012x", sum[:4], sum[4:6], ordinal>>36&0xfff, ordinal>>48&0xfff, ordinal&0xfff_ffff_ffff))
}

func sequenceValue(f *Field, ordinal int) item.Value {
	if f.Type == item.N {
		return digits(cmp.Or(f.Attribute.Digits, 4), ordinal)
	}
	return item.String(fmt.Sprintf("%0*d", min(cmp.Or(int(f.Attribute.Size), 4), schema.MaxSortBytes), ordinal+1))
}

// sortableID is an identifier that begins with a time: a number of length digits in an alphabet,
// which is a count of ticks, followed by random bits.
type sortableID struct {
	alphabet string
	length   int
	random   uint          // bits after the time
	tick     time.Duration // of the time
	since    time.Time     // when the time is 0
}

var (
	ulid  = sortableID{"0123456789ABCDEFGHJKMNPQRSTVWXYZ", 26, 80, time.Millisecond, time.UnixMilli(0)}
	ksuid = sortableID{"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz", 27, 128, time.Second, time.Unix(1_400_000_000, 0)}
)

// shown is how many digits an attribute has: a shorter size makes it a prefix.
func (s sortableID) shown(a *Attribute) int {
	if a.Size == 0 || int(a.Size) > s.length {
		return s.length
	}
	return int(a.Size)
}

// step is by how much the last digit that is shown counts.
func (s sortableID) step(shown int) *big.Int {
	return new(big.Int).Exp(big.NewInt(int64(len(s.alphabet))), big.NewInt(int64(s.length-shown)), nil)
}

// period is how long a prefix stays the same. That of a whole identifier is next to nothing.
func (s sortableID) period(a *Attribute) float64 {
	step, _ := new(big.Float).SetInt(s.step(s.shown(a))).Float64()
	return step / math.Pow(2, float64(s.random)) * s.tick.Seconds()
}

// aligned returns an identifier whose digits are those of the time, followed by zeros for
// the random bits, if it shows all digits of the time. It saves the arithmetic of large
// numbers.
func (s sortableID) aligned(shown, ordinal int) (text string, ok bool) {
	const bits = 5 // of a digit
	times := s.length - int(s.random)/bits
	if len(s.alphabet) != 1<<bits || s.random%bits != 0 || shown < times {
		return "", false
	}
	out := make([]byte, s.length)
	n := int64(epoch.Sub(s.since)/s.tick) + int64(ordinal)
	for i := range out {
		out[i] = s.alphabet[0]
	}
	for i := times - 1; i >= 0; i-- {
		out[i] = s.alphabet[n&(1<<bits-1)]
		n >>= bits
	}
	return string(out[:shown]), true
}

func (s sortableID) value(f *Field, ordinal int) item.Value {
	shown := s.shown(f.Attribute)
	if text, ok := s.aligned(shown, ordinal); ok {
		return item.String(text)
	}
	id := new(big.Int).Lsh(big.NewInt(int64(epoch.Sub(s.since)/s.tick)), s.random)
	// Each ordinal is one tick later, or as much as changes the prefix.
	later := new(big.Int).Lsh(big.NewInt(1), s.random)
	if step := s.step(shown); step.Cmp(later) > 0 {
		later = step
	}
	id.Add(id, later.Mul(later, big.NewInt(int64(ordinal))))
	text, base, digit := make([]byte, s.length), big.NewInt(int64(len(s.alphabet))), new(big.Int)
	for i := len(text) - 1; i >= 0; i-- {
		id.DivMod(id, base, digit)
		text[i] = s.alphabet[digit.Int64()]
	}
	return item.String(string(text[:shown]))
}
