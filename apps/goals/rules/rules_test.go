package rules

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func open(t *testing.T, where string) *Source {
	t.Helper()
	s, err := Open(t.Context(), where)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func (s *Source) do(t *testing.T, statement string) {
	t.Helper()
	if _, err := s.db.ExecContext(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

func TestBuiltInRules(t *testing.T) {
	file := filepath.Join(t.TempDir(), "rules.db")
	s := open(t, file)
	set, err := s.Load(t.Context())
	if err != nil || len(set.Goals) != 3 || set.Goals[0].ID != "SAVINGS_ACCOUNT" || set.Goals[0].Rate != 800 || set.Goals[0].Targets["CLASSIC"] != 50000 || set.Products["CDB"] != 2 {
		t.Fatalf("%+v, %v", set, err)
	}
	s.do(t, `UPDATE goal_rules SET special_rate = '0.09' WHERE goal_id = 'SAVINGS_ACCOUNT'`)
	again, err := open(t, file).Load(t.Context()) // opening does not restore the built-in rules
	if err != nil || again.Goals[0].Rate != 900 || again.Fingerprint() == set.Fingerprint() {
		t.Errorf("%+v, %v", again, err)
	}
}

func TestTitles(t *testing.T) {
	set, err := open(t, "").Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for language, want := range map[string]string{"pt-BR": "Poupança", "pt-PT": "Poupança", "es-MX": "Cuenta de ahorro", "ES": "Cuenta de ahorro", "en": "Savings account", "de": "Savings account", "": "Savings account"} {
		if got := set.Goals[0].TitleIn(language); got != want {
			t.Errorf("in %q: %q, want %q", language, got, want)
		}
	}
}

// The rules are the same on a PostgreSQL server, which the test starts if it is
// installed, or which GOALS_POSTGRES names.
func TestPostgres(t *testing.T) {
	where := os.Getenv("GOALS_POSTGRES")
	if where == "" {
		where = startPostgres(t)
	}
	s := open(t, where)
	if _, err := s.Load(t.Context()); err == nil || !strings.Contains(err.Error(), "rules init") {
		t.Errorf("an empty database: %v", err)
	}
	for range 2 { // the second changes nothing
		if err := s.Init(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	want, err := open(t, "").Load(t.Context())
	if err != nil || got.Fingerprint() != want.Fingerprint() {
		t.Errorf("%+v, %v", got, err)
	}
	s.do(t, `UPDATE goal_rules SET special_rate = '0.09' WHERE goal_id = 'SAVINGS_ACCOUNT'`)
	s.do(t, `INSERT INTO products VALUES ('NEW', 'SAVINGS_ACCOUNT')`)
	known := &Cached{Source: open(t, where), Log: slog.New(slog.DiscardHandler), Now: time.Now}
	if goal, ok, err := known.Goal(t.Context(), "NEW"); err != nil || !ok || goal != "SAVINGS_ACCOUNT" {
		t.Errorf("a new product: %s, %v, %v", goal, ok, err)
	}
	if got, err = s.Load(t.Context()); err != nil || got.Goals[0].Rate != 900 {
		t.Errorf("a changed rate: %+v, %v", got, err)
	}
}

func TestNoPostgresThere(t *testing.T) {
	s := open(t, "postgres://goals@127.0.0.1:1/rules?connect_timeout=1")
	if _, err := s.Load(t.Context()); err == nil || !strings.Contains(err.Error(), "--rules") {
		t.Errorf("a missing database: %v", err)
	}
}

func TestRulesThatMakeNoSense(t *testing.T) {
	for _, c := range []struct{ name, statement, want string }{
		{"no goals", `DELETE FROM goal_targets; DELETE FROM goal_titles; DELETE FROM products; DELETE FROM goal_rules`, "0 goals"},
		{"no products", `DELETE FROM products`, "no products"},
		{"a rate that is too high", `UPDATE goal_rules SET special_rate = '8'`, "not a rate"},
		{"a target of zero", `UPDATE goal_targets SET target_amount = '0'`, "above zero"},
		{"a segment with a target missing", `DELETE FROM goal_targets WHERE segment = 'PREMIUM' AND goal_id = 'GOVERNMENT_BONDS'`, "every goal"},
		{"a product of no goal", `PRAGMA foreign_keys = off; INSERT INTO products VALUES ('X', 'YACHT')`, "YACHT"},
		{"a table missing", `DROP TABLE products`, "rules init"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t, "")
			s.do(t, c.statement)
			if _, err := s.Load(t.Context()); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

func TestCachedRules(t *testing.T) {
	s, at := open(t, ""), time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	c := &Cached{Source: s, Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return at }}
	ask := func(product string) (string, bool) {
		t.Helper()
		goal, ok, err := c.Goal(t.Context(), product)
		if err != nil {
			t.Fatal(err)
		}
		return goal, ok
	}
	if goal, ok := ask("SAV"); !ok || goal != "SAVINGS_ACCOUNT" {
		t.Fatal(goal, ok)
	}
	s.do(t, `INSERT INTO products VALUES ('NEW', 'SAVINGS_ACCOUNT')`)
	if _, ok := ask("NEW"); ok {
		t.Error("the rules are read for every call")
	}
	at = at.Add(lookAgain + time.Second)
	if goal, ok := ask("NEW"); !ok || goal != "SAVINGS_ACCOUNT" {
		t.Errorf("a new product is not found: %s", goal)
	}
	s.do(t, `DROP TABLE products`)
	at = at.Add(2 * maxAge)
	if _, ok := ask("SAV"); !ok {
		t.Error("the cached rules are lost when reading fails")
	}
	if _, _, err := c.Goal(t.Context(), "OTHER"); err == nil {
		t.Error("a product is reported as unknown while the rules cannot be read")
	}
}
