package rightsize

import (
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/stator-db/stator/internal/data/scaling"
	"github.com/stator-db/stator/internal/data/throttle"
	"github.com/stator-db/stator/internal/model"
)

var start = time.Date(2026, 11, 1, 0, 0, 0, 0, time.UTC)

const day = 24 * 60 // in minutes

// loadOf returns the load of a table without indexes. The functions return units per second.
func loadOf(minutes int, read, write func(minute int) float64) *Load {
	r := new(Resource)
	for kind, rate := range []func(int) float64{read, write} {
		for minute := range minutes {
			r.Consumed[kind] = append(r.Consumed[kind], 60*rate(minute))
		}
	}
	return &Load{Table: "Orders", From: start, Minutes: minutes, Resources: []*Resource{r}}
}

func always(rate float64) func(int) float64 { return func(int) float64 { return rate } }

// daily is a load that rises and falls each day.
func daily(mean, amplitude float64) func(int) float64 {
	return func(minute int) float64 { return mean + amplitude*math.Sin(2*math.Pi*float64(minute)/day) }
}

// settings are those of the tests: changes are immediate.
func settings() *Settings {
	return &Settings{Prices: model.DefaultPrices(), Target: 70, Throttled: 0.001}
}

func analyzed(l *Load, set *Settings) *Report { return Analyze(l, set, func(int, int) {}) }

func near(a, b float64) bool { return math.Abs(a-b) < 1e-9*max(1, math.Abs(a)) }

// Known loads cost what they cost by hand, at 0.125 and 0.625 a million requests, and
// 0.00013 and 0.00065 a unit and hour.
func TestCosts(t *testing.T) {
	once := func(minute int) float64 { // a minute a day, at ten in the morning
		if minute%day == 600 {
			return 100
		}
		return 0
	}
	for _, c := range []struct {
		name        string
		days        int
		read, write func(int) float64

		onDemand, constant, scaled float64 // of the whole time
		units                      [2]int64
		recommended                string
	}{
		// 6,048,000 reads; 10 units and 1 for 168 hours; 15 units and 1.
		{"flat", 7, always(10), always(0), 6.048 * 0.125, 168*10*0.00013 + 168*0.00065, 168*15*0.00013 + 168*0.00065, [2]int64{10, 1}, Provisioned},
		// 84,000 writes. 300 seconds of burst and the minute itself are 360 seconds of 17 units,
		// and a minute is too short to scale.
		{"spiky", 14, always(0), once, 0.084 * 0.625, 336*0.00013 + 336*17*0.00065, 336*0.00013 + 336*17*0.00065, [2]int64{1, 17}, OnDemand},
		{"idle", 7, always(0), always(0), 0, 168 * (0.00013 + 0.00065), 168 * (0.00013 + 0.00065), [2]int64{1, 1}, OnDemand},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := analyzed(loadOf(c.days*day, c.read, c.write), settings())
			month := 730 / (24 * float64(c.days))
			for _, x := range []struct {
				name string
				got  Total
				want float64
			}{{"on demand", r.OnDemand, c.onDemand}, {"constant", r.Constant, c.constant}, {"scaled", r.Scaled, c.scaled}} {
				if !near(x.got.Dollars, x.want) || !near(x.got.MonthlyDollars, x.want*month) || x.got.Throttled != 0 {
					t.Errorf("%s costs %+v, want %v, and %v a month", x.name, x.got, x.want, x.want*month)
				}
			}
			for i, d := range r.Dimensions {
				if d.Constant.Units != c.units[i] {
					t.Errorf("%ss need %d units, want %d", d.Kind, d.Constant.Units, c.units[i])
				}
			}
			if r.Recommended != c.recommended || r.Reason == "" {
				t.Errorf("%s is recommended, want %s: %s", r.Recommended, c.recommended, r.Reason)
			}
		})
	}
}

// A load that rises and falls each day is followed by auto scaling, within four decreases a
// day and one each hour, and costs less than a constant number of units.
func TestDailyLoad(t *testing.T) {
	l := loadOf(14*day, daily(100, 80), always(0))
	r := analyzed(l, settings())
	d := r.Dimensions[0]
	if !near(d.OnDemand.Dollars, 14*8.64*0.125) {
		t.Errorf("on demand costs %v, want %v", d.OnDemand.Dollars, 14*8.64*0.125)
	}
	if d.Choice != choiceScaled || d.Scaled.Dollars >= d.Constant.Dollars {
		t.Errorf("%s is chosen: auto-scaled costs %v, constant %v", d.Choice, d.Scaled.Dollars, d.Constant.Dollars)
	}
	if least := 100 / 0.9 * 336 * 0.00013; d.Scaled.Dollars < least {
		t.Errorf("auto-scaled costs %v, less than %v with a use of 90 %%", d.Scaled.Dollars, least)
	}
	if d.Scaled.Max < 250 || d.Scaled.Max > 258 { // 180 / 0.7
		t.Errorf("auto scaling reaches %d units, want about 257", d.Scaled.Max)
	}
	if d.Scaled.Throttled != 0 {
		t.Errorf("%v of the units are throttled", d.Scaled.Throttled)
	}
	// The decreases of each day: four, and then one an hour.
	for n := range 14 {
		decreases := 0
		for minute := max(1, n*day); minute < (n+1)*day; minute++ {
			if d.units[minute] < d.units[minute-1] {
				decreases++
			}
		}
		if decreases > 27 {
			t.Errorf("%d decreases on day %d", decreases, n)
		}
	}
	if r.Confidence != "high" || len(r.Doubts) > 0 {
		t.Errorf("the confidence is %s: %q", r.Confidence, r.Doubts)
	}
}

// naive returns how much is throttled of a load, second by second.
func naive(consumed []float64, units int64) (throttled float64) {
	held := float64(units)
	for _, n := range consumed {
		for range 60 {
			held = min(held+float64(units)-n/60, 300*float64(units))
			if held < 0 {
				throttled, held = throttled-held, 0
			}
		}
	}
	return throttled
}

// randomLoad returns the units of each minute of a load with peaks.
func randomLoad(random *rand.Rand, minutes int) (consumed []float64) {
	rate := 20 * random.Float64()
	for range minutes {
		rate = max(0, rate+random.NormFloat64())
		n := 60 * rate
		if random.IntN(20) == 0 {
			n *= 1 + 10*random.Float64()
		}
		consumed = append(consumed, n)
	}
	return consumed
}

// The recommended constant number of units is the smallest that throttles nothing, or no
// more than the accepted share.
func TestSmallestWithoutThrottling(t *testing.T) {
	seed := rand.Uint64()
	for i := range 60 {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		consumed := randomLoad(random, 60+random.IntN(100))
		for _, share := range []float64{0, 0.001, 0.05} {
			want := int64(1)
			for naive(consumed, want) > share*sum(consumed)+1e-6 {
				want++
			}
			if got := smallest(consumed, share); got != want {
				t.Errorf("seed %d, load %d: %d units with %v throttled, want %d", seed, i, got, share, want)
			}
		}
	}
}

// A minimum that is not given keeps to the accepted share of throttled units, and one that is
// given is used.
func TestMinimumOfAutoScaling(t *testing.T) {
	jump := func(minute int) float64 { // for an hour of each day
		if minute%day >= 600 && minute%day < 660 {
			return 50
		}
		return 1
	}
	set := settings()
	set.Delay = 2 * time.Minute
	d := analyzed(loadOf(7*day, jump, always(0)), set).Dimensions[0]
	if d.Scaled.Throttled > set.Throttled || d.Scaled.Min < 2 {
		t.Errorf("%+v throttles more than accepted, or has no minimum", d.Scaled)
	}
	set.Min, set.Max = 1, 40
	d = analyzed(loadOf(7*day, jump, always(0)), set).Dimensions[0]
	if d.Scaled.Min != 1 || d.Scaled.Max != 40 || d.Scaled.Throttled < 0.01 || d.Choice != choiceConstant {
		t.Errorf("%+v, %s: want the given bounds, throttling, and constant units in place of them", d.Scaled, d.Choice)
	}
}

// Units follow two minutes above the target and fifteen below it, after a delay in which the
// old units hold; what is throttled is not consumption.
func TestScalingMinuteByMinute(t *testing.T) {
	rate := func(minute int) float64 {
		switch {
		case minute < 10:
			return 7
		case minute < 30:
			return 14
		}
		return 1
	}
	set := settings()
	set.Delay = 2 * time.Minute
	l := loadOf(60, rate, always(0))
	run := l.Resources[0].scale([2]*scaling.Bounds{{Min: 2, Max: 100}, nil}, set, l.From)
	changes := changesOf(run.units[throttle.Read])
	// The minutes 10 and 11 are above 70 % of 10, and the new units there after 12 and 13;
	// the minutes from 30 to 44 are below, with the same delay.
	if want := []int{14, 20, 47, 2}; !slices.Equal(changes, want) || run.units[throttle.Read][0] != 10 {
		t.Errorf("from %d units, changes are %v, want %v", run.units[throttle.Read][0], changes, want)
	}
	if run.exceeding[throttle.Read] != 0 {
		t.Errorf("%v units are throttled in spite of burst", run.exceeding[throttle.Read])
	}
	set.Delay = 0
	l = loadOf(60, func(minute int) float64 {
		if minute < 20 {
			return 70
		}
		return 1000
	}, always(0))
	run = l.Resources[0].scale([2]*scaling.Bounds{{Min: 2, Max: 40000}, nil}, set, l.From)
	// 100 units and a burst of 30,000 serve 600 a second in the first minute, and 100 in the
	// second: 600 are 70 % of 858. Two minutes of 858 lead to 1,226, and of 1,000 to 1,429.
	changes = changesOf(run.units[throttle.Read])
	if want := []int{22, 858, 24, 1226, 26, 1429}; !slices.Equal(changes, want) {
		t.Errorf("changes are %v, want %v", changes, want)
	}
	if got, want := run.exceeding[throttle.Read], 60.0*(400+900+142+142); !near(got, want) {
		t.Errorf("%v units are throttled, want %v", got, want)
	}
}

// changesOf returns the minutes in which units change, each with the units.
func changesOf(units []int64) (changes []int) {
	for minute := 1; minute < len(units); minute++ {
		if units[minute] != units[minute-1] {
			changes = append(changes, minute, int(units[minute]))
		}
	}
	return changes
}

func TestConfidence(t *testing.T) {
	for _, c := range []struct {
		name   string
		load   func() *Load
		want   string
		reason string
	}{
		{"an hour", func() *Load { return loadOf(60, always(1), always(1)) }, "low", "1h of data do not cover a week"},
		{"a week", func() *Load { return loadOf(7*day, always(1), always(1)) }, "medium", "7 days of data cover one week, but do not show whether it repeats"},
		{"two weeks less the last minutes", func() *Load { return loadOf(14*day-30, always(1), always(1)) }, "high", ""},
		{"growth", func() *Load { return loadOf(14*day, func(m int) float64 { return 1 + float64(m/(7*day)) }, always(0)) }, "medium", "the second half of the time costs"},
		{"nights", func() *Load { // two days and a half, each with a night
			return loadOf(60*60, func(m int) float64 { return float64(m / 720 % 2) }, always(0))
		}, "low", "2.5 days of data do not cover a week"},
		{"throttles", func() *Load {
			l := loadOf(14*day, always(1), always(1))
			l.Resources[0].Throttles[throttle.Write] = 1200
			return l
		}, "medium", "1,200 requests were throttled"},
		{"gaps", func() *Load {
			l := loadOf(14*day, always(1), always(1))
			l.Gaps = []Gap{{start, start.Add(2 * time.Hour)}, {start.Add(48 * time.Hour), start.Add(51 * time.Hour)}}
			return l
		}, "medium", "there are no data points for 5h, the longest time from 2026-11-03 00:00"},
		{"five minutes", func() *Load {
			l := loadOf(14*day, always(1), always(1))
			l.Coarse = []Coarse{{300, 3 * day}}
			return l
		}, "medium", "3 days are known by periods of 5m only"},
		{"metrics that begin later", func() *Load {
			l := loadOf(14*day, always(1), always(1))
			l.Asked = start.Add(-26 * time.Hour)
			return l
		}, "medium", "there are no data points before 2026-11-01 00:00, 26h after the time that was asked for"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := analyzed(c.load(), settings())
			want := 1
			if c.reason == "" {
				want = 0
			}
			if r.Confidence != c.want || !strings.Contains(strings.Join(r.Doubts, "\n"), c.reason) || len(r.Doubts) != want {
				t.Errorf("the confidence is %s, want %s: %q, want %q", r.Confidence, c.want, r.Doubts, c.reason)
			}
		})
	}
}

func TestNotes(t *testing.T) {
	high := func(minute int) float64 { // rises at once
		if minute > 8*day && minute < 8*day+30 {
			return 30_000
		}
		return 10
	}
	r := analyzed(loadOf(14*day, high, always(3)), settings())
	notes := strings.Join(r.Notes, "\n")
	for _, want := range []string{
		"Orders: OnDemandThroughput of MaxReadRequestUnits 60000 and MaxWriteRequestUnits 6,",
		"reads of Orders need a warm throughput of 30,000: they rise to more than twice of what they were before, at 2026-11-09 00:01",
	} {
		if r.Recommended != OnDemand || !strings.Contains(notes, want) {
			t.Errorf("%s, notes are %q, without %q", r.Recommended, notes, want)
		}
	}
	l := loadOf(14*day, always(50_000), always(0))
	l.Now = &Current{InfrequentAccess: true}
	r = analyzed(l, settings())
	if notes := strings.Join(r.Notes, "\n"); !strings.Contains(notes, "reads of Orders need 50,000 units, above the quota of 40,000") || !strings.Contains(notes, "STANDARD_INFREQUENT_ACCESS") {
		t.Errorf("notes are %q", notes)
	}
}

// A plot fits 80 columns, and shows bars and the line of auto scaling.
func TestPlots(t *testing.T) {
	r := analyzed(loadOf(2*day, daily(100, 80), always(1)), settings())
	lines := r.Plots(1)
	if len(lines) != plotRows+2 || !strings.HasPrefix(lines[0], "reads of Orders: units/s") || !strings.Contains(lines[plotRows+1], "2026-11-01 00:00") {
		t.Errorf("the plot is\n%s", strings.Join(lines, "\n"))
	}
	for _, line := range lines {
		if utf8.RuneCountInString(line) > 80 {
			t.Errorf("the line has %d columns: %s", utf8.RuneCountInString(line), line)
		}
	}
	if all := strings.Join(lines, ""); !strings.Contains(all, "█") || !strings.Contains(all, "─") {
		t.Errorf("the plot has no bars or no line:\n%s", strings.Join(lines, "\n"))
	}
	if two := r.Plots(9); len(two) != 2*(plotRows+2)+1 {
		t.Errorf("%d lines, want two plots:\n%s", len(two), strings.Join(two, "\n"))
	}
	for _, c := range []struct {
		bar, line float64
		row       int
		want      rune
	}{
		{1, 1, 7, '▒'}, {1, 0, 7, '█'}, {0.5, 0.9, 3, '█'}, {0.5, 0.9, 4, ' '}, {0.5, 0.9, 7, '─'}, {0.53125, 0.9, 4, '▂'}, {0, 0, 0, '─'},
	} {
		if got := cell(c.bar, c.line, c.row); got != c.want {
			t.Errorf("a bar of %v and a line of %v are %c in row %d, want %c", c.bar, c.line, got, c.row, c.want)
		}
	}
}
