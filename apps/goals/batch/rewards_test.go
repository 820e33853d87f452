package batch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"

	"github.com/stator-db/stator/apps/goals"
	"github.com/stator-db/stator/apps/goals/gold"
)

const bea = "1356f2f8-8c84-4614-a99c-b302a84b53f7"

// saving writes a day in which Ana and Bea have saved amounts in cents.
func (b *bank) saving(day string, ana_, bea_ int) {
	b.Helper()
	row := func(id, name string) string {
		return `{"personId":"` + id + `","name":"` + name + `","segment":"CLASSIC","language":"en"}`
	}
	paid := func(id string, cents int) string {
		return fmt.Sprintf(`{"personId":"%s","product":"SAV","amount":%d.%02d,"contributedAt":"%s-01T00:00:00Z"}`, id, cents/100, cents%100, day[:7])
	}
	b.day(day, []string{row(ana, "Ana"), row(bea, "Bea")}, []string{paid(ana, ana_), paid(bea, bea_)})
}

// A reward is recorded once when a goal is reached, and again when more is saved; a
// repeated run records nothing, and a new month begins again.
func TestRewards(t *testing.T) {
	b := newBank(t)
	var sent []goals.Reward
	b.options.Reward = func(_ context.Context, some []goals.Reward) error {
		sent = append(sent, some...)
		return nil
	}
	said := func() string {
		t.Helper()
		var all []string
		for _, r := range sent {
			name := map[string]string{ana: "Ana", bea: "Bea"}[r.PersonID]
			all = append(all, fmt.Sprintf("%s %s %s to %s at %s", name, r.Month, r.Before, r.Amount, r.SpecialRate))
		}
		sent = nil
		return strings.Join(all, ", ")
	}
	for _, c := range []struct {
		day      string
		ana, bea int
		want     string
	}{
		{"2026-04-29", 49999, 50000, "Bea 2026-04 0.00 to 500.00 at 0.0800"},
		{"2026-04-30", 50000, 50000, "Ana 2026-04 0.00 to 500.00 at 0.0800"},
		{"2026-05-01", 100, 100, ""},
		{"2026-05-02", 60000, 100, "Ana 2026-05 0.00 to 600.00 at 0.0800"},
		{"2026-05-03", 60000, 100, ""},
		{"2026-05-04", 70000, 100, "Ana 2026-05 600.00 to 700.00 at 0.0800"},
	} {
		b.saving(c.day, c.ana, c.bea)
		r := b.mustRun(c.day)
		if got := said(); got != c.want {
			t.Errorf("day %s: %q, want %q", c.day, got, c.want)
		}
		list, err := b.options.State.ReadAll(t.Context(), r.RewardList)
		if err != nil || strings.Count(string(list), "\n") != int(r.Rewards) || (r.Rewards > 0) != (c.want != "") {
			t.Errorf("day %s: %d rewards, listed as %s, %v", c.day, r.Rewards, list, err)
		}
		if again := b.mustRun(c.day); again.Rewards != 0 || said() != "" {
			t.Errorf("day %s again: %+v", c.day, again)
		}
	}
	view, _, err := b.tables.Person(t.Context(), ana)
	if err != nil || view.Goals[0].Invested == nil || *view.Goals[0].Invested != 70000 || view.Goals[1].Invested != nil {
		t.Errorf("the view has %+v, %v", view.Goals, err)
	}
}

// A run whose rewards cannot be sent is not finished; when it is continued it sends the
// same ones, with the same ids.
func TestRewardsAreSentAgain(t *testing.T) {
	b := newBank(t)
	b.saving("2026-05-02", 50000, 50000)
	var first, second []goals.Reward
	if _, err := b.run("2026-05-02", func(o *Options) {
		o.Reward = func(_ context.Context, some []goals.Reward) error {
			first = append(first, some...)
			return errors.New("Kafka does not respond")
		}
	}); err == nil || !strings.Contains(err.Error(), "Kafka does not respond") {
		t.Fatal(err)
	}
	b.mustRun("2026-05-02", func(o *Options) {
		o.Reward = func(_ context.Context, some []goals.Reward) error {
			second = append(second, some...)
			return nil
		}
	})
	one, _ := json.Marshal(first)
	two, _ := json.Marshal(second)
	if len(first) != 2 || string(one) != string(two) {
		t.Errorf("first %s, then %s", one, two)
	}
}

// The newest twelve accomplished goals are in the item, and the count of all.
func TestAccomplished(t *testing.T) {
	b := newBank(t)
	b.saving("2026-05-02", 100, 100)
	var rows []string
	for i := range 20 {
		rows = append(rows, fmt.Sprintf(`{"personId":"%s","goalId":"GOVERNMENT_BONDS","month":"20%02d-%02d","savedAmount":1500.25,"specialRate":0.12}`, ana, 24+i/12, 1+i%12))
	}
	rows = append(rows, rows[3]) // twice
	name := path.Join(gold.Folder("2026-05-02"), "manifest.json")
	text, err := b.options.Bucket.ReadAll(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	with := func(rows []string) {
		t.Helper()
		var m gold.Manifest
		if err := json.Unmarshal(text, &m); err != nil {
			t.Fatal(err)
		}
		m.Accomplished = []gold.File{{Name: "a.jsonl", Rows: int64(len(rows))}}
		changed, err := json.Marshal(m)
		if err != nil {
			t.Fatal(err)
		}
		for name, content := range map[string]string{name: string(changed), path.Join(gold.Folder(m.Day), "a.jsonl"): strings.Join(rows, "\n")} {
			if err := b.options.Bucket.WriteAll(t.Context(), name, []byte(content), nil); err != nil {
				t.Fatal(err)
			}
		}
	}
	with(rows)
	b.mustRun("2026-05-02")
	view, units, err := b.tables.Person(t.Context(), ana)
	if err != nil || units != 1 || view.AccomplishedCount != 20 || len(view.Accomplished) != 12 || view.Accomplished[0] != (goals.Accomplished{Month: "2025-08", GoalID: "GOVERNMENT_BONDS", SavedAmount: 150025, SpecialRate: 1200}) || view.Accomplished[11].Month != "2024-09" {
		t.Errorf("%+v costs %v, %v", view, units, err)
	}
	for _, c := range []struct{ old, new, want string }{
		{"2024-01", "2026-05", "not before"}, {"2024-01", "soon", "must be like"}, {"1500.25", "0", "above zero"}, {"GOVERNMENT_BONDS", "", "0 bytes"}, {"0.12", "1.2", "not a rate"},
	} {
		with([]string{strings.Replace(rows[0], c.old, c.new, 1)})
		if _, err := b.run("2026-05-02"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.new, err, c.want)
		}
	}
}
