package goals

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestMoney(t *testing.T) {
	for _, c := range []struct {
		in   string
		want Money
		ok   bool
	}{
		{"0", 0, true}, {"12", 1200, true}, {"12.5", 1250, true}, {"0.07", 7, true}, {"10000000000", MaxMoney, true},
		{"10000000000.01", 0, false}, {"12.345", 0, false}, {"-1", 0, false}, {"+1", 0, false}, {"1e3", 0, false}, {"", 0, false},
		{".5", 0, false}, {"5.", 0, false}, {"NaN", 0, false}, {"99999999999999999999", 0, false}, {"1_0", 0, false}, {" 1", 0, false},
	} {
		got, err := ParseMoney(c.in)
		if got != c.want || (err == nil) != c.ok {
			t.Errorf("ParseMoney(%q) = %v, %v", c.in, got, err)
		}
	}
	b, err := json.Marshal([]any{Money(7), Money(123456), Rate(800), Rate(10000)})
	if err != nil || string(b) != "[0.07,1234.56,0.08,1]" {
		t.Errorf("as JSON: %s, %v", b, err)
	}
}

func FuzzMoney(f *testing.F) {
	f.Add("12.34")
	f.Fuzz(func(t *testing.T, s string) {
		m, err := ParseMoney(s)
		if err != nil {
			return
		}
		if again, err := ParseMoney(m.String()); err != nil || again != m {
			t.Errorf("%q became %s, which is read as %v, %v", s, m, again, err)
		}
	})
}

func TestBadEvents(t *testing.T) {
	now := time.Date(2026, 5, 16, 12, 0, 0, 0, time.UTC)
	good := `{"type":"deposit","eventId":"5b1f8c3e-0f6a-4a53-9d0c-3c1f3f0e7a11","personId":"0356f2f8-8c84-4614-a99c-b302a84b53f7","product":"SAV","occurredAt":"2026-05-16T11:00:00Z","balance":370.00}`
	if e, err := ParseEvent([]byte(good), now); err != nil || *e.Balance != 37000 {
		t.Fatalf("a good event: %+v, %v", e, err)
	}
	swap := func(old, new string) string { return strings.Replace(good, old, new, 1) }
	for _, c := range []struct{ name, event, want string }{
		{"nothing", ``, "not the expected JSON"},
		{"half of one", good[:40], "not the expected JSON"},
		{"another type", swap("deposit", "refund"), "the type is"},
		{"an invalid person", swap("0356f2f8-8c84-4614-a99c-b302a84b53f7", "'; DROP TABLE"), "personId"},
		{"a person in braces", swap("0356f2f8-8c84-4614-a99c-b302a84b53f7", "{0356f2f8-8c84-4614-a99c-b302a84b53f7}"), "personId"},
		{"no event id", swap("5b1f8c3e-0f6a-4a53-9d0c-3c1f3f0e7a11", ""), "eventId"},
		{"far in the future", swap("2026-05-16T11", "2226-05-16T11"), "ahead of our clock"},
		{"no time", swap(`"occurredAt":"2026-05-16T11:00:00Z",`, ""), "before the year 2000"},
		{"no balance", swap(`,"balance":370.00`, ""), "needs a balance"},
		{"a negative balance", swap("370.00", "-370.00"), "not an amount"},
		{"a huge balance", swap("370.00", "1e308"), "not an amount"},
		{"far too large", swap("SAV", strings.Repeat("x", MaxEvent)), "the limit is"},
		{"a reconciliation without a deposit", swap(`"deposit"`, `"reconciliation","outcome":"FAILED"`), "must name its deposit"},
		{"a failure without the balance after it", strings.Replace(swap(`"deposit"`, `"reconciliation","outcome":"FAILED","deposit":{"eventId":"5b1f8c3e-0f6a-4a53-9d0c-3c1f3f0e7a11","occurredAt":"2026-05-16T11:00:00Z"}`), `,"balance":370.00`, "", 1), "needs the balance after it"},
		{"a reconciliation without outcome", swap(`"deposit"`, `"reconciliation"`), "the outcome"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := ParseEvent([]byte(c.event), now)
			var bad *BadEvent
			if !errors.As(err, &bad) || !strings.Contains(bad.Reason, c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestMerge(t *testing.T) {
	now := time.Date(2026, 5, 16, 15, 0, 0, 0, time.UTC)
	batch := Customer{
		PersonID: "p", LastUpdated: Instant(now.Add(-12 * time.Hour)), ChosenGoal: "A", ChosenAt: Instant(now.Add(-48 * time.Hour)),
		Goals: []Goal{{GoalID: "A", TargetAmount: 50000, SavedAmount: 32000, Status: InProgress}},
	}
	at := func(ago time.Duration) []Pending {
		return []Pending{{GoalID: "A", CurrentBalance: 37000, Status: PendingConfirmation, UpdatedAt: Instant(now.Add(-ago)), TTL: now.Add(Keep - ago).Unix()}}
	}
	for _, c := range []struct {
		name    string
		pending []Pending
		saved   Money
		status  Status
	}{
		{"nothing pending", nil, 32000, InProgress},
		{"newer than the batch", at(time.Hour), 37000, PendingConfirmation},
		{"as old as the batch", at(12 * time.Hour), 32000, InProgress},
		{"older than the batch", at(13 * time.Hour), 32000, InProgress},
		{"nothing is pending after a failure", []Pending{{GoalID: "A", CurrentBalance: 32000, Status: PendingConfirmation, UpdatedAt: Instant(now), TTL: now.Add(Keep).Unix()}}, 32000, InProgress},
		{"rejected, by an earlier version", []Pending{{GoalID: "A", CurrentBalance: 37000, Status: "REJECTED", UpdatedAt: Instant(now), TTL: now.Add(Keep).Unix()}}, 32000, InProgress},
		{"of an unknown goal", []Pending{{GoalID: "B", Status: PendingConfirmation, UpdatedAt: Instant(now), TTL: now.Add(Keep).Unix()}}, 32000, InProgress},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := Merge(batch, c.pending, Choice{}, now).Goals[0]
			if g.SavedAmount != c.saved || g.Status != c.status || !g.Chosen {
				t.Errorf("got %+v", g)
			}
		})
	}
	old := batch
	old.LastUpdated = Instant(now.Add(-20 * 24 * time.Hour))
	if g := Merge(old, at(6*24*time.Hour), Choice{}, now).Goals[0]; g.Status != InProgress {
		t.Errorf("an expired balance that is not deleted yet is shown: %+v", g)
	}
	if g := Merge(batch, nil, Choice{GoalID: "B", ChosenAt: Instant(now)}, now).Goals[0]; g.Chosen {
		t.Errorf("a newer choice of another goal does not count: %+v", g)
	}
}

func TestProgress(t *testing.T) {
	for _, c := range []struct {
		saved Money
		want  Status
	}{{0, NotStarted}, {1, InProgress}, {49999, InProgress}, {50000, Completed}, {50001, Completed}} {
		if got := Progress(c.saved, 50000); got != c.want {
			t.Errorf("with %s of 500.00: %s, want %s", c.saved, got, c.want)
		}
	}
}

// Between the beginning of a month and its first batch, a deposit counts for the new month:
// nothing of it is confirmed, whatever was saved in the last month.
func TestMergeInANewMonth(t *testing.T) {
	may := time.Date(2026, 5, 31, 3, 0, 0, 0, time.UTC)
	batch := Customer{PersonID: "p", LastUpdated: Instant(may), Goals: []Goal{{GoalID: "A", TargetAmount: 50000, SavedAmount: 45000, Status: InProgress}}}
	for _, c := range []struct {
		name             string
		at               time.Time
		balance          Money
		saved, confirmed Money
		status           Status
	}{
		{"on the last day of the month", may.Add(20 * time.Hour), 46000, 46000, 45000, PendingConfirmation},
		{"in the new month", may.Add(21 * time.Hour), 10000, 10000, 0, PendingConfirmation},
		{"as much as in the last month", may.Add(22 * time.Hour), 45000, 45000, 0, PendingConfirmation},
		{"after the only deposit of the new month failed", may.Add(22 * time.Hour), 0, 45000, -1, InProgress},
	} {
		pending := []Pending{{GoalID: "A", CurrentBalance: c.balance, Status: PendingConfirmation, UpdatedAt: Instant(c.at), TTL: c.at.Add(Keep).Unix()}}
		g := Merge(batch, pending, Choice{}, c.at.Add(time.Minute)).Goals[0]
		confirmed := Money(-1)
		if g.ConfirmedAmount != nil {
			confirmed = *g.ConfirmedAmount
		}
		if g.SavedAmount != c.saved || confirmed != c.confirmed || g.Status != c.status {
			t.Errorf("%s: %s of which %d cents are confirmed, %s; want %+v", c.name, g.SavedAmount, confirmed, g.Status, c)
		}
	}
}
