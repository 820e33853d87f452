package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// store is a small server for tests: PutItem and GetItem by the text of the key,
// and an answer to everything else.
type store struct {
	items map[string]any
	alter func(op string, body, reply object) // a planted fault
}

func newStore(t *testing.T, name string, alter func(op string, body, reply object)) *server {
	t.Helper()
	s := &store{items: make(map[string]any), alter: alter}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	return newServer(name, h.URL)
}

func (s *store) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	_, op, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	var body object
	if err := json.NewDecoder(r.Body).Decode(&body); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	reply := object{}
	switch op {
	case "PutItem":
		it, _ := body["Item"].(object)
		s.items[fmt.Sprint(body["TableName"], canonical(it["pk"]))] = it
	case "GetItem":
		key, _ := body["Key"].(object)
		if it, ok := s.items[fmt.Sprint(body["TableName"], canonical(key["pk"]))]; ok {
			reply["Item"] = cloneJSON(it)
		}
	case "ListTables":
		reply["TableNames"] = []any{}
	}
	if s.alter != nil {
		s.alter(op, body, reply)
	}
	_ = json.NewEncoder(w).Encode(reply)
}

// dropTags is a planted fault: an item with the attributes tags and a loses
// tags.
func dropTags(op string, _, reply object) {
	if it, ok := reply["Item"].(object); op == "GetItem" && ok && it["a"] != nil {
		delete(it, "tags")
	}
}

// A planted fault is found, and shrunk to a put with the two attributes that it
// needs and a read.
func TestPlantedFaultIsShrunk(t *testing.T) {
	g := group{newStore(t, nameStator, nil), newStore(t, nameLocal, dropTags), newStore(t, nameDynoxide, dropTags)}
	s := settings{requests: 5000, seed: 1, duration: time.Minute, perRound: 100, shrink: 1}
	r, err := s.search(t.Context(), g, nil, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	var found *unexplained
	for _, u := range r.Unexplained {
		if strings.HasPrefix(u.Class, "GetItem") && found == nil {
			found = u
		}
	}
	if found == nil {
		t.Fatalf("the fault was not found; classes: %d", len(r.Unexplained))
	}
	if !found.First.alone("Item") {
		t.Error("the witnesses agree, but are not reported to")
	}
	if len(found.Steps) != 2 || found.Steps[0].Op != "PutItem" || found.Steps[1].Op != "GetItem" {
		t.Fatalf("the sequence is %v, want a PutItem and a GetItem", found.Steps)
	}
	it, _ := found.Steps[0].Body["Item"].(object)
	if it["tags"] == nil || it["a"] == nil || len(it) > 3 {
		t.Errorf("the item is %v, want its key, a and tags only", it)
	}
	if extra := len(found.Steps[1].Body); extra > 2 {
		t.Errorf("the read is %s, want a table and a key only", found.Steps[1].text())
	}
}

// Servers that answer alike have no differences.
func TestEqualServers(t *testing.T) {
	g := group{newStore(t, nameStator, nil), newStore(t, nameLocal, nil), newStore(t, nameDynoxide, nil)}
	s := settings{requests: 500, seed: 2, duration: time.Minute, perRound: 100}
	r, err := s.search(t.Context(), g, nil, io.Discard)
	if err != nil || r.Requests != 500 || r.Equal+r.Skipped != 500 || len(r.Unexplained) != 0 {
		t.Errorf("report %+v, %v; want 500 equal answers", r, err)
	}
}

// A run ends when its time is over.
func TestDuration(t *testing.T) {
	g := group{newStore(t, nameStator, nil), newStore(t, nameLocal, nil)}
	s := settings{requests: 1 << 40, seed: 3, duration: 2 * time.Second, perRound: 50}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if r, err := s.search(ctx, g, nil, io.Discard); err != nil || r.Requests == 0 {
		t.Errorf("report %+v, %v", r, err)
	}
}

// The same seed makes the same requests, and another seed others.
func TestSeed(t *testing.T) {
	texts := func(seed uint64) string {
		var b strings.Builder
		for round := range uint64(3) {
			g := newGenerator(seed, round, "")
			for range 200 {
				st := g.next()
				fmt.Fprintln(&b, st.Op, st.text())
			}
		}
		return b.String()
	}
	if texts(7) != texts(7) {
		t.Error("two runs of one seed differ")
	}
	if texts(7) == texts(8) {
		t.Error("two seeds make the same requests")
	}
}

// Each production occurs, so that a weight of zero is noticed.
func TestOperationsOccur(t *testing.T) {
	seen := make(map[string]bool)
	for round := range uint64(20) {
		g := newGenerator(1, round, "")
		for range 200 {
			seen[g.next().Op] = true
		}
	}
	for _, op := range []string{
		"PutItem", "GetItem", "UpdateItem", "DeleteItem", "Query", "Scan", "BatchGetItem", "BatchWriteItem", "TransactGetItems", "TransactWriteItems",
		"ExecuteStatement", "BatchExecuteStatement", "ExecuteTransaction", "CreateTable", "DescribeTable", "UpdateTable", "DeleteTable",
		"UpdateTimeToLive", "DescribeTimeToLive", "ListTables", readStream,
	} {
		if !seen[op] {
			t.Errorf("no %s in 4,000 steps", op)
		}
	}
}

// A run of one area has the requests that create tables and items, and those of
// the area.
func TestArea(t *testing.T) {
	g := newGenerator(1, 0, "statements")
	for len(g.start) > 0 {
		g.next()
	}
	for range 200 {
		if st := g.next(); !strings.Contains(st.Op, "Statement") && st.Op != "ExecuteTransaction" {
			t.Fatalf("%s is no statement", st.Op)
		}
	}
}

// A transaction that only one server carries out does not make later ones with its
// token differ.
func TestTokensOfDifferentHistories(t *testing.T) {
	used := make(map[string]bool)
	refuse := newChecker(t, nameStator, check{"refused", func(body object) bool { return body["Limit"] != nil }})
	remember := newChecker(t, nameLocal, check{"the token is in use", func(body object) bool {
		token, _ := body[tokenMember].(string)
		was := used[token]
		used[token] = true
		return was
	}})
	s := group{refuse, remember}.begin()
	for i, body := range []object{{tokenMember: "a", "Limit": 1}, {tokenMember: "a"}, {tokenMember: "b"}} {
		_, found, err := s.send(t.Context(), step{Op: "Scan", Body: body})
		if err != nil || (len(found) > 0) != (i == 0) {
			t.Errorf("request %d has %d differences, %v", i, len(found), err)
		}
	}
}
