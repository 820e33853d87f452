package mcp

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

const (
	tokenLife  = time.Minute
	maxWaiting = 100 // plans
)

// waitingPlan is a plan that waits for confirmation. Its token is good for one call with the same
// arguments.
type waitingPlan struct {
	until     time.Time
	arguments [sha256.Size]byte
	state     string // of the tool
}

// planned is the answer to a call that needs confirmation.
type planned struct {
	Done    bool   `json:"done"` // false: nothing was changed
	Plan    any    `json:"plan"`
	Confirm string `json:"confirm"`
	Note    string `json:"note"`
}

const planNote = "nothing was changed. Show the plan to the user; then repeat the call with the same arguments and confirm, within one minute."

// confirm returns the state of the plan when a call is confirmed: by the token of an earlier
// call, or by the person at a client that can ask. Otherwise it returns the answer to the call,
// which has the plan.
//
// A token is no proof that a person has agreed.
func (c *call) confirm(arguments any, token string, summary string, plan any, state string) (confirmed string, answer any, err error) {
	sum, err := c.digest(arguments)
	if err != nil {
		return "", nil, err
	}
	if token != "" {
		w, err := c.server.tokens.take(token, sum, c.server.Now())
		if err != nil {
			return "", nil, err
		}
		return w.state, nil, nil
	}
	if given, ok := c.request.Params.InputResponses["confirm"].(*sdk.ElicitResult); ok {
		w, err := c.server.tokens.take(c.request.Params.RequestState, sum, c.server.Now())
		switch {
		case err != nil:
			return "", nil, err
		case given.Action != "accept" || given.Content["agree"] != true:
			return "", nil, errors.New("the user has not agreed; nothing was changed")
		}
		return w.state, nil, nil
	}
	token = c.server.tokens.put(&waitingPlan{c.server.Now().Add(tokenLife), sum, state}, c.server.Now())
	if !c.canAsk() {
		return "", planned{Plan: plan, Confirm: token, Note: planNote}, nil
	}
	return "", &sdk.CallToolResult{RequestState: token, InputRequests: sdk.InputRequestMap{"confirm": &sdk.ElicitParams{
		Message:         shorten(summary, 2000),
		RequestedSchema: json.RawMessage(`{"type":"object","properties":{"agree":{"type":"boolean","title":"Make this change","description":"It is made as described."}},"required":["agree"]}`),
	}}}, nil
}

// isConfirmation reports whether a call carries a confirmation, so that its plan need not be made
// again.
func (c *call) isConfirmation(token string) bool {
	_, answered := c.request.Params.InputResponses["confirm"]
	return token != "" || answered
}

// canAsk reports whether the client can ask the person. Those of older versions are asked by a
// request of the server, which needs a connection that lasts.
func (c *call) canAsk() bool {
	can := c.request.ClientCapabilities()
	return can != nil && can.Elicitation != nil && (c.server.asks || c.request.ProtocolVersion() >= "2026-07-28")
}

// digest returns the digest of the tool and its arguments, without the token.
func (c *call) digest(arguments any) (sum [sha256.Size]byte, err error) {
	text, err := json.Marshal([]any{c.tool.name, arguments})
	return sha256.Sum256(text), err
}

// put keeps a plan, and drops those whose time is over, or the oldest if there are too many.
func (t *tokens) put(w *waitingPlan, now time.Time) string {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	if t.waiting == nil {
		t.waiting = make(map[string]*waitingPlan)
	}
	oldest := ""
	for token, other := range t.waiting {
		if now.After(other.until) {
			delete(t.waiting, token)
		} else if oldest == "" || other.until.Before(t.waiting[oldest].until) {
			oldest = token
		}
	}
	if len(t.waiting) >= maxWaiting {
		delete(t.waiting, oldest)
	}
	token := rand.Text()
	t.waiting[token] = w
	return token
}

// take returns the plan of a token, once.
func (t *tokens) take(token string, arguments [sha256.Size]byte, now time.Time) (*waitingPlan, error) {
	t.mutex.Lock()
	defer t.mutex.Unlock()
	w := t.waiting[token]
	delete(t.waiting, token)
	switch {
	case w == nil || now.After(w.until):
		return nil, fmt.Errorf("the token is not known: each is good for one call within %v; nothing was changed: repeat the call without confirm", tokenLife)
	case w.arguments != arguments:
		return nil, errors.New("the token is for other arguments; nothing was changed: repeat the call without confirm")
	}
	return w, nil
}
