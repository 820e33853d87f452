package mcp

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/past"
	"github.com/stator-db/stator/internal/protocol/api"
	"github.com/stator-db/stator/internal/server"
)

// forkSet is the forks that the server has made for its clients. Requests reach no others: a
// server that knows no forks would take them for its own database.
type forkSet struct {
	mutex sync.Mutex
	made  []madeFork
}

// madeFork is a fork that the server has made.
type madeFork struct{ name, url string }

func (f *forkSet) find(name string) (made madeFork, ok bool) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if i := slices.IndexFunc(f.made, func(m madeFork) bool { return m.name == name }); i >= 0 {
		return f.made[i], true
	}
	return madeFork{}, false
}

func (f *forkSet) names() []string {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	names := []string{}
	for _, m := range f.made {
		names = append(names, m.name)
	}
	return names
}

func (f *forkSet) add(made madeFork) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.made = append(f.made, made)
}

func (f *forkSet) remove(name string) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.made = slices.DeleteFunc(f.made, func(m madeFork) bool { return m.name == name })
}

// maxForks is how many forks the clients of a server may have at once.
const maxForks = 16

// Close deletes the forks.
func (s *Server) Close() error {
	ctx, cancel := context.WithTimeout(context.Background(), callTime)
	defer cancel()
	var all error
	for _, name := range s.session.names() {
		if _, err := s.Endpoint.SendOwn(ctx, "DeleteFork", map[string]string{"ForkName": name}); err != nil && !apierror.IsNoFork(err, name) {
			all = errors.Join(all, fmt.Errorf("delete fork %s: %w", name, err))
		}
		s.session.remove(name)
	}
	return all
}

type forkIn struct {
	Action string `json:"action" jsonschema:"create, diff, drop or list"`
	Name   string `json:"name,omitempty" jsonschema:"up to 50 letters, digits and hyphens, which get a random ending"`
	Table  string `json:"table,omitempty" jsonschema:"for diff: only this table"`
}

var forkName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// maxGivenName leaves room for the ending of a name.
const maxGivenName = 50

// manageFork creates, compares and drops forks.
func (c *call) manageFork(ctx context.Context, in forkIn) (any, error) {
	in.Name = strings.ToLower(in.Name)
	switch in.Action {
	case "create":
		return c.createFork(ctx, in.Name)
	case "list":
		return map[string]any{"forks": c.server.session.names()}, nil
	case "drop", "diff":
		made, ok := c.server.session.find(in.Name)
		if !ok {
			return nil, fmt.Errorf("there is no fork %q: forks are those that this tool has made; they are %q", in.Name, c.server.session.names())
		}
		if in.Action == "diff" {
			return c.diffFork(ctx, made, in.Table)
		}
		if _, err := c.sendOwn(ctx, "DeleteFork", map[string]string{"ForkName": in.Name}); err != nil && !apierror.IsNoFork(err, in.Name) {
			return nil, fmt.Errorf("cannot drop fork %s: %w", in.Name, err)
		}
		c.server.session.remove(in.Name)
		return map[string]any{"dropped": in.Name}, nil
	}
	return nil, fmt.Errorf("action is %q, but must be create, diff, drop or list", in.Action)
}

func (c *call) createFork(ctx context.Context, name string) (any, error) {
	if name != "" {
		if len(name) > maxGivenName || !forkName.MatchString(name) {
			return nil, fmt.Errorf("%q is no name of a fork: it has up to %d letters, digits and hyphens", name, maxGivenName)
		}
		// A server drops forks that are not used, and another client may then take their names. With
		// the ending, no fork of another client is taken for one of ours.
		name += "-" + strings.ToLower(rand.Text()[:12])
	}
	if n := len(c.server.session.names()); n >= maxForks {
		return nil, fmt.Errorf("there are %d forks: drop one first", n)
	}
	made, expires, err := c.makeFork(ctx, name)
	if err != nil {
		return nil, err
	}
	c.server.session.add(made)
	return map[string]any{"fork": made.name, "expires": expires,
		"note": "give fork as an argument of other tools; it sees nothing that is written to its base later, and is dropped at the end of the session"}, nil
}

// makeFork makes a fork of what the call works on.
func (c *call) makeFork(ctx context.Context, name string) (made madeFork, expires string, err error) {
	in := make(map[string]string)
	if name != "" {
		in["ForkName"] = name
	}
	text, err := c.sendOwn(ctx, "CreateFork", in)
	if err != nil {
		return madeFork{}, "", fmt.Errorf("cannot make a fork: %w", err)
	}
	var reply api.CreateForkReply
	if err := json.Unmarshal(text, &reply); err != nil || !forkName.MatchString(reply.Fork.ForkName) {
		return madeFork{}, "", errors.New("the server has no forks: it does not answer CreateFork with one")
	}
	fork := reply.Fork
	return madeFork{fork.ForkName, server.ForkURL(c.server.Endpoint.URL, fork.ForkOf, fork.ForkName)}, fork.Expires, nil
}

// The bounds of a difference.
const (
	maxCompared    = 20_000 // items of a table
	maxDifferences = 50
	comparePage    = 500
	compareTime    = callTime - 2*time.Second
)

type forkDifference struct {
	Table   string            `json:"table"`
	Key     map[string]any    `json:"key,omitempty"`
	Change  string            `json:"change"` // added, removed or changed
	Changed map[string][2]any `json:"changed,omitempty"`

	id string // the key as text, for the order
}

type forkDiff struct {
	Fork        string           `json:"fork"`
	Differences []forkDifference `json:"differences"`
	Compared    map[string]int   `json:"compared_items"`
	Complete    bool             `json:"complete"`
	Units       float64          `json:"units"`
	Note        string           `json:"note,omitempty"`
}

// diffFork compares the tables of a fork with those of its base.
func (c *call) diffFork(ctx context.Context, made madeFork, table string) (any, error) {
	base, fork := c, c.on(made)
	base.table = table
	deadline := c.server.Now().Add(compareTime)
	before, err := base.listTables(ctx)
	if err != nil {
		return nil, err
	}
	after, err := fork.listTables(ctx)
	if err != nil {
		return nil, err
	}
	if table != "" && !slices.Contains(before, table) && !slices.Contains(after, table) {
		return nil, fmt.Errorf("there is no table %q, neither in fork %s nor in its base", table, made.name)
	}
	out := &forkDiff{Fork: made.name, Differences: []forkDifference{}, Compared: make(map[string]int), Complete: true}
	for _, t := range before {
		if !slices.Contains(after, t) && (table == "" || table == t) {
			out.Differences = append(out.Differences, forkDifference{Table: t, Change: "table removed"})
		}
	}
	for _, t := range after {
		switch {
		case table != "" && table != t:
		case !slices.Contains(before, t):
			out.Differences = append(out.Differences, forkDifference{Table: t, Change: "table added"})
		default:
			if err := diffTable(ctx, base, fork, t, deadline, out); err != nil {
				return nil, err
			}
		}
	}
	if c.units += fork.units; len(out.Differences) > maxDifferences {
		out.Differences, out.Complete = out.Differences[:maxDifferences], false
	}
	if out.Units = c.units; !out.Complete {
		out.Note = "not all was compared: name a table, or compare items with get"
	}
	return out, nil
}

// diffTable adds the differences of a table. Both sides are scanned in the same order, so that
// only items which differ, and those between the two scans, are kept.
func diffTable(ctx context.Context, base, fork *call, table string, deadline time.Time, out *forkDiff) error {
	t, err := base.describe(ctx, table)
	if err != nil {
		return err
	}
	sides := [2]*scanSide{{c: base, waiting: make(map[string]past.Item)}, {c: fork, waiting: make(map[string]past.Item)}}
	for !sides[0].done || !sides[1].done {
		if out.Compared[table] >= maxCompared || len(out.Differences) > maxDifferences || len(sides[0].waiting)+len(sides[1].waiting) > 4*comparePage || base.server.Now().After(deadline) {
			out.Complete = false
			return nil // what waits may be on the other side, further on
		}
		for i, side := range sides {
			items, err := side.page(ctx, table)
			if err != nil {
				return err
			}
			for _, it := range items {
				key := make(past.Item)
				for _, name := range t.Key.All() {
					key[name] = it[name]
				}
				id, err := json.Marshal(key)
				if err != nil {
					return err
				}
				other, ok := sides[1-i].waiting[string(id)]
				if !ok {
					side.waiting[string(id)] = it
					continue
				}
				delete(sides[1-i].waiting, string(id))
				out.Compared[table]++
				before, after := other, it
				if i == 0 {
					before, after = it, other
				}
				if diff := changed(before, after); len(diff) > 0 {
					var plain plainer
					out.Differences = append(out.Differences, forkDifference{Table: table, Key: plain.item(key), Change: "changed", Changed: diff})
				}
			}
		}
	}
	for i, change := range []string{"removed", "added"} {
		for id, it := range sides[i].waiting {
			var key past.Item
			if err := json.Unmarshal([]byte(id), &key); err != nil {
				return err
			}
			images := [2]past.Item{}
			images[i] = it
			var plain plainer
			out.Differences = append(out.Differences, forkDifference{Table: table, Key: plain.item(key), Change: change, Changed: changed(images[0], images[1]), id: id})
			out.Compared[table]++
		}
	}
	slices.SortStableFunc(out.Differences, func(a, b forkDifference) int {
		return strings.Compare(a.Table+a.Change+a.id, b.Table+b.Change+b.id)
	})
	return nil
}

// scanSide is the scan of one side.
type scanSide struct {
	c       *call
	next    json.RawMessage
	done    bool
	waiting map[string]past.Item // for the same item of the other side, by keys
}

func (s *scanSide) page(ctx context.Context, table string) ([]past.Item, error) {
	if s.done {
		return nil, nil
	}
	body := map[string]any{"TableName": table, "Limit": comparePage, "ReturnConsumedCapacity": "TOTAL"}
	if s.next != nil {
		body["ExclusiveStartKey"] = s.next
	}
	var reply struct {
		Items            []past.Item
		LastEvaluatedKey json.RawMessage
	}
	if err := s.c.ask(ctx, "Scan", body, &reply); err != nil {
		return nil, fmt.Errorf("cannot scan table %s: %w", table, err)
	}
	s.next = reply.LastEvaluatedKey
	s.done = len(bytes.TrimSpace(s.next)) == 0
	return reply.Items, nil
}
