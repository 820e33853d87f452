package batch

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stator-db/stator/apps/goals"
	"github.com/stator-db/stator/apps/goals/rules"
)

// payments are rewards that were sent, as short texts.
type payments []string

func (p *payments) send(_ context.Context, some []goals.Reward) error {
	for _, r := range some {
		*p = append(*p, fmt.Sprintf("%s %s to %s", r.Month, r.Before, r.Amount))
	}
	return nil
}

// take returns the rewards since the last call.
func (p *payments) take() string {
	all := strings.Join(*p, ", ")
	*p = nil
	return all
}

// paid returns a contribution of Ana.
func paid(amount, at string) string {
	return fmt.Sprintf(`{"personId":"%s","product":"SAV","amount":%s,"contributedAt":"%s"}`, ana, amount, at)
}

// Contributions of the last day of a month are in the files of the next month. They
// count for the month in which they were made, once, at its targets and rates.
func TestRewardsOfTheLastDay(t *testing.T) {
	b := newBank(t)
	var sent payments
	b.options.Reward = sent.send
	customer := []string{`{"personId":"` + ana + `","name":"Ana","segment":"CLASSIC","language":"en"}`}
	march := paid("900.00", "2026-03-31T12:00:00Z")
	first, last := paid("250.00", "2026-04-10T00:00:00Z"), paid("250.00", "2026-04-30T12:00:00Z")
	late := paid("50.00", "2026-04-30T23:59:59Z")
	for _, c := range []struct {
		day  string
		rows []string
		want string
	}{
		{"2026-04-30", []string{march, first}, ""}, // no run knew March
		{"2026-05-01", []string{march, first, last}, "2026-04 0.00 to 500.00"},
		{"2026-05-02", []string{first, last}, ""},
		{"2026-05-03", []string{first, last, late}, "2026-04 500.00 to 550.00"},
		{"2026-05-04", nil, ""}, // files without the last month
		{"2026-05-05", []string{first, last, late, paid("600.00", "2026-05-04T00:00:00Z")}, "2026-05 0.00 to 600.00"},
		{"2026-05-06", []string{first, last, late, paid("600.00", "2026-05-04T00:00:00Z")}, ""},
	} {
		b.day(c.day, customer, c.rows)
		r := b.mustRun(c.day)
		if got := sent.take(); got != c.want {
			t.Errorf("day %s: rewards %q, want %q (%+v)", c.day, got, c.want, r)
		}
	}
}

// A month that has ended is computed with its own rules, not with those of the run.
func TestEndedMonthKeepsItsTargets(t *testing.T) {
	r, s := new(run), new(state)
	s.segment = "CLASSIC"
	s.earlier[0] = 45000
	r.rules = rulesWith(40000)
	if got := r.completed(s, &terms{Month: "2026-04", Goals: rulesWith(50000).Goals}, &s.earlier); len(got) != 0 {
		t.Errorf("450.00 of 500.00 completes %v", got)
	}
	if got := r.completed(s, &terms{Month: "2026-04", Goals: rulesWith(45000).Goals}, &s.earlier); len(got) != 1 || got[0].Month != "2026-04" || got[0].Amount != 45000 {
		t.Errorf("450.00 of 450.00 completes %v", got)
	}
}

// rulesWith returns rules with one goal.
func rulesWith(target goals.Money) *rules.Set {
	return &rules.Set{Goals: []rules.Goal{{ID: "SAVINGS_ACCOUNT", Rate: 800, Targets: map[string]goals.Money{"CLASSIC": target}}}}
}

// If an amount goes down and up again, only what exceeds the last order is ordered.
func TestRewardsAfterACorrection(t *testing.T) {
	b := newBank(t)
	var sent payments
	b.options.Reward = sent.send
	for i, cents := range []int{60000, 55000, 58000, 49000, 60500} {
		day := fmt.Sprintf("2026-05-%02d", i+2)
		b.saving(day, cents, 100)
		b.mustRun(day)
	}
	if got, want := sent.take(), "2026-05 0.00 to 600.00, 2026-05 600.00 to 605.00"; got != want {
		t.Errorf("rewards %q, want %q", got, want)
	}
}

// The rewards of a month's last night are sent although Kafka was away in it and the next
// run is of another month, whose files may not have the contributions.
func TestRewardsOfAnUnfinishedRun(t *testing.T) {
	for _, c := range []struct{ name, before string }{{"the first run", ""}, {"after a run", "2026-04-29"}} {
		t.Run(c.name, func(t *testing.T) {
			b := newBank(t)
			var sent payments
			b.options.Reward = sent.send
			if c.before != "" {
				b.saving(c.before, 100, 100)
				b.mustRun(c.before)
			}
			b.saving("2026-04-30", 50000, 100)
			away := func(o *Options) {
				o.Reward = func(context.Context, []goals.Reward) error { return errors.New("Kafka does not respond") }
			}
			if _, err := b.run("2026-04-30", away); err == nil {
				t.Fatal("the run is finished")
			}
			b.saving("2026-05-01", 100, 100)
			b.mustRun("2026-05-01", func(o *Options) { o.Reward = nil }) // lists them only
			b.saving("2026-05-02", 60000, 100)
			if _, err := b.run("2026-05-02", away); err == nil {
				t.Fatal("the run is finished")
			}
			if r := b.mustRun("2026-05-02"); r.Rewards != 1 || !strings.Contains(r.RewardList, "2026-05-02") {
				t.Errorf("the continued run has %d rewards in %q", r.Rewards, r.RewardList)
			}
			if got, want := sent.take(), "2026-04 0.00 to 500.00, 2026-05 0.00 to 600.00"; got != want {
				t.Errorf("sent %q, want %q", got, want)
			}
			b.saving("2026-05-03", 60000, 100)
			b.mustRun("2026-05-03")
			if got := sent.take(); got != "" {
				t.Errorf("sent %q again", got)
			}
		})
	}
}

// A run of a month counts for the month before also if no run of that month was
// finished, with the rules of the one that was not.
func TestTermsOfAnUnfinishedRun(t *testing.T) {
	b := newBank(t)
	var sent payments
	customer := []string{`{"personId":"` + ana + `","name":"Ana","segment":"CLASSIC","language":"en"}`}
	first := paid("500.00", "2026-04-10T00:00:00Z")
	b.day("2026-04-30", customer, []string{first})
	if _, err := b.run("2026-04-30", func(o *Options) {
		o.Reward = func(context.Context, []goals.Reward) error { return errors.New("Kafka does not respond") }
	}); err == nil {
		t.Fatal("the run is finished")
	}
	b.options.Reward = sent.send
	b.day("2026-05-01", customer, []string{first, paid("40.00", "2026-04-30T12:00:00Z")})
	b.mustRun("2026-05-01")
	if got, want := sent.take(), "2026-04 0.00 to 500.00, 2026-04 500.00 to 540.00"; got != want {
		t.Errorf("sent %q, want %q", got, want)
	}
}

// Loading the finished day again does not lose what a later, unfinished run ordered.
func TestDayAgainAfterAnUnfinishedRun(t *testing.T) {
	b := newBank(t)
	var sent payments
	b.saving("2026-05-02", 100, 100)
	b.mustRun("2026-05-02")
	b.saving("2026-05-03", 50000, 100)
	if _, err := b.run("2026-05-03", func(o *Options) {
		o.Reward = func(context.Context, []goals.Reward) error { return errors.New("Kafka does not respond") }
	}); err == nil {
		t.Fatal("the run is finished")
	}
	b.options.Reward = sent.send
	b.mustRun("2026-05-02")
	b.mustRun("2026-05-03")
	b.saving("2026-05-04", 60000, 100)
	b.mustRun("2026-05-04")
	if got, want := sent.take(), "2026-05 0.00 to 500.00, 2026-05 500.00 to 600.00"; got != want {
		t.Errorf("sent %q, want %q", got, want)
	}
}
