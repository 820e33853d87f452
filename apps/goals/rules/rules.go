// Package rules reads the business rules: the goals, their rates, the target of each
// customer segment, and which product counts for which goal. They are in a relational
// database that both pipelines read.
package rules

import (
	"cmp"
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib" // postgres://
	_ "modernc.org/sqlite"             // files

	"github.com/stator-db/stator/apps/goals"
)

// Set is a snapshot of all rules.
type Set struct {
	Goals    []Goal         `json:"goals"`    // in display order
	Products map[string]int `json:"products"` // product -> index in Goals
}

// Goal is the rule of one investment type.
type Goal struct {
	ID      string                 `json:"goalId"`
	Title   string                 `json:"title"`
	Titles  map[string]string      `json:"titles,omitempty"` // in other languages
	Rate    goals.Rate             `json:"specialRate"`
	Targets map[string]goals.Money `json:"targets"` // by segment
}

// MaxGoals is the maximum number of goals: a customer's item must fit in one read
// unit.
const MaxGoals = 8

// Limits of what is kept in memory.
const (
	maxRows     = 10_000
	maxTextSize = 60
)

// Has reports whether a segment has targets.
func (s *Set) Has(segment string) bool {
	_, ok := s.Goals[0].Targets[segment]
	return ok
}

// TitleIn returns the title in a language such as pt-BR: that of the language, of
// another region of it, or the default.
func (g *Goal) TitleIn(language string) string {
	tag := strings.ToLower(language)
	if title, ok := g.Titles[tag]; ok {
		return title
	}
	base, _, _ := strings.Cut(tag, "-")
	for _, other := range slices.Sorted(maps.Keys(g.Titles)) {
		if own, _, _ := strings.Cut(other, "-"); own == base {
			return g.Titles[other]
		}
	}
	return g.Title
}

// Segments returns the segments that have a target, that with the lowest target first.
func (g *Goal) Segments() []string {
	return slices.SortedFunc(maps.Keys(g.Targets), func(a, b string) int {
		return cmp.Or(cmp.Compare(g.Targets[a], g.Targets[b]), strings.Compare(a, b))
	})
}

// Fingerprint returns a fingerprint of the rules.
func (s *Set) Fingerprint() string {
	b, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("rules as JSON: %v", err)) // strings and numbers only
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:8])
}

// Source is a database with rules.
type Source struct{ db *sql.DB }

// Open opens the rules at a postgres:// URL, in a SQLite file, or in memory if where is
// empty. A SQLite database without rules gets the built-in ones; a PostgreSQL database
// is only changed by Init.
func Open(ctx context.Context, where string) (*Source, error) {
	if IsPostgres(where) {
		db, err := sql.Open("pgx", where)
		if err != nil {
			return nil, fmt.Errorf("open the rules: %w; --rules must be a URL such as postgres://user@host/rules, or a file", err)
		}
		return &Source{db}, nil
	}
	name := ":memory:"
	if where != "" {
		name = "file:" + where + "?_pragma=busy_timeout(5000)&_pragma=journal_mode(wal)"
	}
	db, err := sql.Open("sqlite", name)
	if err != nil {
		return nil, fmt.Errorf("open the rules in %s: %w", where, err)
	}
	db.SetMaxOpenConns(1) // a database in memory belongs to one connection
	s := &Source{db}
	if err := s.Init(ctx); err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return s, nil
}

// IsPostgres reports whether where is a PostgreSQL URL.
func IsPostgres(where string) bool {
	return strings.HasPrefix(where, "postgres://") || strings.HasPrefix(where, "postgresql://")
}

// Close closes the database.
func (s *Source) Close() error { return s.db.Close() }

// Load reads all rules in one transaction and validates them.
func (s *Source) Load(ctx context.Context) (*Set, error) {
	tx, err := s.db.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true})
	if err != nil { // SQLite has one isolation level only, which is at least as strict
		if tx, err = s.db.BeginTx(ctx, nil); err != nil {
			return nil, fmt.Errorf("read the rules: %w; is the database of --rules available?", err)
		}
	}
	defer func() { _ = tx.Rollback() }()
	set, err := read(ctx, tx)
	if err != nil {
		return nil, fmt.Errorf("read the rules: %w", err)
	}
	return set, set.check()
}

func read(ctx context.Context, tx *sql.Tx) (*Set, error) {
	set := &Set{Products: make(map[string]int)}
	place := make(map[string]int)
	err := each(ctx, tx, `SELECT goal_id, title, CAST(special_rate AS TEXT) FROM goal_rules ORDER BY position, goal_id`, func(row [3]string) (err error) {
		g := Goal{ID: row[0], Title: row[1], Targets: make(map[string]goals.Money)}
		if g.Rate, err = goals.ParseRate(row[2]); err != nil {
			return fmt.Errorf("goal %s: %w", g.ID, err)
		}
		place[g.ID] = len(set.Goals)
		set.Goals = append(set.Goals, g)
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = each(ctx, tx, `SELECT goal_id, segment, CAST(target_amount AS TEXT) FROM goal_targets`, func(row [3]string) error {
		i, ok := place[row[0]]
		if !ok {
			return fmt.Errorf("goal_targets names the goal %q, which goal_rules does not have", row[0])
		}
		target, err := goals.ParseMoney(row[2])
		if err != nil || target == 0 {
			return fmt.Errorf("the target of goal %s, segment %s is %q, but must be an amount above zero", row[0], row[1], row[2])
		}
		set.Goals[i].Targets[row[1]] = target
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = each(ctx, tx, `SELECT goal_id, language, title FROM goal_titles`, func(row [3]string) error {
		i, ok := place[row[0]]
		if !ok {
			return fmt.Errorf("goal_titles names the goal %q, which goal_rules does not have", row[0])
		}
		if len(row[2]) == 0 || len(row[2]) > maxTextSize {
			return fmt.Errorf("the title of goal %s in language %s has %d bytes; it must have 1 to %d", row[0], row[1], len(row[2]), maxTextSize)
		}
		if set.Goals[i].Titles == nil {
			set.Goals[i].Titles = make(map[string]string)
		}
		set.Goals[i].Titles[strings.ToLower(row[1])] = row[2]
		return nil
	})
	if err != nil {
		return nil, err
	}
	return set, each(ctx, tx, `SELECT product, goal_id, '' FROM products`, func(row [3]string) error {
		i, ok := place[row[1]]
		if !ok {
			return fmt.Errorf("products names the goal %q, which goal_rules does not have", row[1])
		}
		set.Products[row[0]] = i
		return nil
	})
}

func each(ctx context.Context, tx *sql.Tx, query string, use func(row [3]string) error) error {
	rows, err := tx.QueryContext(ctx, query)
	if err != nil {
		return fmt.Errorf("%w; `goals rules init` creates the tables", err)
	}
	defer func() { _ = rows.Close() }()
	for n := 0; rows.Next(); n++ {
		if n == maxRows {
			return fmt.Errorf("there are more than %d rows (%s)", maxRows, query)
		}
		var row [3]string
		if err := rows.Scan(&row[0], &row[1], &row[2]); err != nil {
			return err
		}
		if err := use(row); err != nil {
			return err
		}
	}
	return rows.Err()
}

// check rejects rules that would make customers' items wrong or too large.
func (s *Set) check() error {
	if len(s.Goals) == 0 || len(s.Goals) > MaxGoals {
		return fmt.Errorf("the rules have %d goals; there must be 1 to %d", len(s.Goals), MaxGoals)
	}
	for _, g := range s.Goals {
		if g.ID == "" || len(g.ID) > maxTextSize || len(g.Title) > maxTextSize {
			return fmt.Errorf("the id of goal %.80q must have 1 to %d bytes, and its title no more", g.ID, maxTextSize)
		}
		if len(g.Targets) != len(s.Goals[0].Targets) {
			return fmt.Errorf("goal %s has targets for %d segments, goal %s for %d: each segment needs a target in every goal", g.ID, len(g.Targets), s.Goals[0].ID, len(s.Goals[0].Targets))
		}
		for segment := range g.Targets {
			if !s.Has(segment) {
				return fmt.Errorf("segment %s has a target in goal %s, but none in goal %s", segment, g.ID, s.Goals[0].ID)
			}
		}
	}
	if len(s.Products) == 0 {
		return errors.New("the rules have no products, so no contribution would count")
	}
	return nil
}
