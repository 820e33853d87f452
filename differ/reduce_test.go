package main

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
)

// A check is a fault that a server of a test reports.
type check struct {
	message string
	faulty  func(body object) bool
}

var (
	limitCheck = check{"Limit must be at least 1", func(body object) bool { return body["Limit"] == 0.0 }}
	wordCheck  = check{"Syntax error", func(body object) bool {
		text, _ := body["FilterExpression"].(string)
		return strings.Contains(text, "%")
	}}
	// nullCheck finds a null that the list of known faults says is undecided.
	nullCheck = check{"ExpressionAttributeNames contains invalid value: null for key #n", func(body object) bool {
		names, _ := body["ExpressionAttributeNames"].(object)
		_, ok := names["#n"]
		return ok
	}}
	limitOtherwise = check{"Limit must be at least one", limitCheck.faulty}
	limitAlways    = check{limitCheck.message, func(object) bool { return true }}
	// wordNotAlone is a check that does not find the fault of a request without
	// Limit.
	wordNotAlone = check{wordCheck.message, func(body object) bool { return wordCheck.faulty(body) && body["Limit"] != nil }}
	// limitOfPages reports a fault that the request does not have.
	limitOfPages = check{limitCheck.message, func(body object) bool { return body["Limit"] == 5.0 }}
)

// newChecker starts a server that reports the first of some faults.
func newChecker(t *testing.T, name string, checks ...check) *server {
	t.Helper()
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body object
		_ = json.NewDecoder(r.Body).Decode(&body)
		for _, c := range checks {
			if strings.HasSuffix(r.Header.Get("X-Amz-Target"), ".Scan") && c.faulty(body) {
				w.WriteHeader(http.StatusBadRequest)
				_ = json.NewEncoder(w).Encode(object{"__type": "#ValidationException", "message": c.message})
				return
			}
		}
		_ = json.NewEncoder(w).Encode(object{})
	}))
	t.Cleanup(h.Close)
	return newServer(name, h.URL)
}

// A difference is the order of two faults only if both servers report both, or
// if the list of known faults has a server that does not report one of them.
func TestOrderOfTwoFaults(t *testing.T) {
	for _, c := range []struct {
		name                 string
		stator, local, other []check
		limit                any
		want                 bool
	}{
		{"two faults in another order", []check{limitCheck, wordCheck}, []check{wordCheck, limitCheck}, nil, 0.0, true},
		{"three servers, of which one does not have the checks", []check{limitCheck, wordCheck}, []check{wordCheck, limitCheck}, []check{}, 0.0, true},
		{"both witnesses have the other order", []check{limitCheck, wordCheck}, []check{wordCheck, limitCheck}, []check{wordCheck, limitCheck}, 0.0, false},
		{"stator has another message", []check{limitOtherwise, wordCheck}, []check{wordCheck, limitCheck}, nil, 0.0, false},
		{"stator lacks a check", []check{limitCheck}, []check{wordCheck, limitCheck}, nil, 0.0, false},
		{"stator lacks a check of some requests", []check{limitCheck, wordNotAlone}, []check{wordCheck, limitCheck}, nil, 0.0, false},
		{"the witness lacks a check", []check{limitCheck, wordCheck}, []check{wordCheck}, nil, 0.0, false},
		{"stator lacks a check that the list knows", []check{wordCheck}, []check{nullCheck, wordCheck}, nil, 5.0, true},
		{"stator lacks a check that the list knows, and has another message", []check{limitOfPages}, []check{nullCheck, wordCheck}, nil, 5.0, false},
		{"stator reports a fault always", []check{limitAlways, wordCheck}, []check{wordCheck, limitCheck}, nil, 0.0, false},
		{"stator reports a fault that the request does not have", []check{limitOfPages, wordCheck}, []check{wordCheck, limitCheck}, nil, 5.0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			g := group{newChecker(t, nameStator, c.stator...), newChecker(t, nameLocal, c.local...)}
			if c.other != nil {
				g = append(g, newChecker(t, nameDynoxide, c.other...))
			}
			st := step{Op: "Scan", Body: object{"TableName": "OrdersA", "Limit": c.limit, "FilterExpression": "a = % b"}}
			if slices.ContainsFunc(c.local, func(c check) bool { return c.message == nullCheck.message }) {
				st.Body["ExpressionAttributeNames"] = object{"#n": nil}
			}
			e, found, err := g.begin().send(t.Context(), st)
			if err != nil || len(found) == 0 {
				t.Fatalf("%d findings in %v, %v", len(found), e, err)
			}
			// The messages are not those of transcripts; a witness has them.
			found[0].Third = e.Answers[0]
			if len(e.Answers) == 3 && !e.Answers[2].ok() {
				found[0].Third = e.Answers[2]
			}
			got, err := g.reduce(t.Context(), []step{st}, found[0], nil)
			if err != nil || (got != nil) != c.want {
				t.Errorf("the square is %+v, %v", got, err)
			}
		})
	}
}

func TestEdits(t *testing.T) {
	body := reply(t, `{"Statement":"UPDATE T SET a = list_append(b, ?) WHERE pk = ?","Parameters":[{"L":[]},{"S":"x"}]}`)
	base := reply(t, `{"Statement":"UPDATE T SET a = c + list_append(b, ?) WHERE pk = ?","Parameters":[{"L":[]},{"S":"x"}]}`)
	texts := make(map[string]bool)
	for _, e := range edits(body, base) {
		if edited, ok := apply(body, e); ok {
			texts[canonical(edited)] = true
		}
	}
	for _, want := range []string{
		canonical(base),
		`{"Parameters":[{"S":"x"}],"Statement":"UPDATE T SET a = list_append(b) WHERE pk = ?"}`,
		`{"Parameters":[{"L":[]},{"S":"x"}],"Statement":"UPDATE T SET a = b, ?WHERE pk = ?"}`,
		`{"Parameters":[{"L":[]},{"N":"1"}],"Statement":"UPDATE T SET a = list_append(b, ?) WHERE pk = ?"}`,
		`{"Parameters":[{"L":[]}],"Statement":"UPDATE T SET a = list_append(b, ?) WHERE pk = 1 "}`,
		`{"Statement":"UPDATE T SET a = list_append(b, ?) WHERE pk = ?"}`,
		`{"Parameters":[{"L":[]},{"S":"x"},{"N":"1"}],"Statement":"UPDATE T SET a = list_append(b, ?) WHERE pk = ?"}`,
	} {
		if !texts[want] {
			t.Errorf("no edit makes %s", want)
		}
	}
	one, two := edit{{path: "/Statement", from: 2, to: 5}}, edit{{path: "/Statement", from: 4, to: 6}}
	if _, ok := apply(body, one, two); ok {
		t.Error("two edits of the same words are made together")
	}
}
