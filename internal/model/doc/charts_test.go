package doc

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/model"
)

const peaked = `
model: 1
name: shop
tables:
  shop:
    key: {partition: PK, sort: SK}
    indexes:
      GSI1: {partition: GSI1PK, sort: SK}
entities:
  order:
    keys:
      PK: "CUSTOMER#{customerId}"
      SK: "ORDER#{orderId}"
      GSI1PK: {template: "STATUS#{status}", when: {status: [OPEN]}}
    attributes:
      customerId: {distinct: 100}
      orderId: {format: uuid}
      status: {values: [OPEN, DONE]}
    count: 1000
  customer:
    keys: {PK: "CUSTOMER#{customerId}", SK: "PROFILE"}
    attributes: {customerId: {distinct: 100}}
    count: 100
patterns:
  - {name: get an order, get: order, given: [customerId, orderId], rate: 1000/s, peak: 4000/s}
  - {name: get a customer, get: customer, given: [customerId], rate: 100/s, peak: 400/s}
  - {name: open orders, query: order, where: {status: OPEN}, matches: 10, rate: 1/s}
`

func pageOf(t *testing.T, text string) *Page {
	t.Helper()
	return New(parse(t, "shop", []byte(text)), model.DefaultPrices())
}

// The key layout has a row for each entity, and a dash where an entity is not in
// an index.
func TestLayout(t *testing.T) {
	l := pageOf(t, peaked).Tables[0].Layout
	var lines []string
	for _, r := range l.Rows {
		line := r.Entity
		for _, c := range r.Cells {
			line += fmt.Sprintf(" | %s%s", c.Text, c.When)
		}
		lines = append(lines, line)
	}
	want := []string{
		"order | CUSTOMER#{customerId} | ORDER#{orderId} | STATUS#{status} when status is OPEN | ORDER#{orderId}",
		"customer | CUSTOMER#{customerId} | PROFILE |  | ",
	}
	if !slices.Equal(lines, want) {
		t.Errorf("the layout is\n%s", strings.Join(lines, "\n"))
	}
	if len(l.Places) != 2 || l.Places[1].Name != "GSI1" || !slices.Equal(l.Places[1].Names, []string{"GSI1PK", "SK"}) {
		t.Errorf("the places are %+v", l.Places)
	}
	html, markdown := write(t, parse(t, "shop", []byte(peaked)))
	if !strings.Contains(html, "Key layout") || !strings.Contains(markdown, "| order | `CUSTOMER#{customerId}` | `ORDER#{orderId}` | `STATUS#{status}` when status is OPEN | `ORDER#{orderId}` |") {
		t.Errorf("the layout is missing in\n%s", markdown)
	}
}

// A curve has the share at the peak as its maximum, and that of the rates as its
// mean.
func TestDay(t *testing.T) {
	m := parse(t, "shop", []byte(peaked))
	r := m.Check(model.DefaultPrices())
	d := dayOf(m, r)
	if d == nil || len(d.Curves) == 0 || d.Note != "" {
		t.Fatalf("the day is %+v", d)
	}
	hottest := r.Heat[0]
	if mean := hottest.MeanShare(m); math.Abs(mean-hottest.Share/4) > 1e-9 {
		t.Errorf("the mean share is %g of %g", mean, hottest.Share)
	}
	top, sum, n := 0.0, 0.0, 0
	for point := range strings.FieldsSeq(d.Curves[0].Points) {
		_, y, _ := strings.Cut(point, ",")
		f, err := strconv.ParseFloat(y, 64)
		if err != nil || f < 0 || f > dayHeight+0.1 {
			t.Fatalf("the point is %s", point)
		}
		share := d.Top * (1 - f/dayHeight)
		top = max(top, share)
		if n++; n <= dayHours*stepsPerHour {
			sum += share
		}
	}
	if math.Abs(top-hottest.Share) > 0.01*hottest.Share || math.Abs(sum/(dayHours*stepsPerHour)-hottest.Share/4) > 0.01*hottest.Share {
		t.Errorf("the maximum is %g and the mean %g, want %g and %g", top, sum/(dayHours*stepsPerHour), hottest.Share, hottest.Share/4)
	}
}

// The shape of a day has any mean.
func TestDayShape(t *testing.T) {
	for _, mean := range []float64{0.01, 0.1, 0.25, 0.5, 0.75, 0.99, 1} {
		sum := 0.0
		for i := range 24_000 {
			sum += dayShape(mean, float64(i)/1000)
		}
		if got := sum / 24_000; math.Abs(got-mean) > 0.001 || dayShape(mean, peakHour) != 1 {
			t.Errorf("the mean is %g, want %g; the peak is %g", got, mean, dayShape(mean, peakHour))
		}
	}
}

// A day without curves says why.
func TestDayWithoutCurves(t *testing.T) {
	steady := strings.NewReplacer(", peak: 4000/s", "", ", peak: 400/s", "").Replace(peaked)
	idle := strings.NewReplacer("1000/s, peak: 4000/s", "1/day", "100/s, peak: 400/s", "1/day", "1/s", "1/day").Replace(peaked)
	for text, want := range map[string]string{steady: "the same all day", idle: "No partition takes a thousandth"} {
		p := pageOf(t, text)
		if p.Day == nil || len(p.Day.Curves) > 0 || !strings.Contains(p.Day.Note, want) {
			t.Errorf("the day is %+v, want %s", p.Day, want)
		}
	}
}

// The bars of the cost add up to the whole, the most expensive first.
func TestCostBars(t *testing.T) {
	for name, m := range models(t) {
		bars := costBars(m.Check(model.DefaultPrices()))
		if len(bars) > mostCostBars+1 {
			t.Errorf("%s has %d bars", name, len(bars))
		}
		sum := 0.0
		for i, b := range bars {
			sum += b.Share
			if b.Width < 0 || b.Width > 1 || i > 0 && b.ID != "" && b.Share > bars[i-1].Share {
				t.Errorf("%s: the bars are %+v", name, bars)
			}
		}
		if len(bars) > 0 && math.Abs(sum-1) > 1e-9 {
			t.Errorf("%s: the bars add up to %g", name, sum)
		}
	}
}
