package main

import (
	"fmt"
	"strings"
)

// An answer is the reply of one server to one step.
type answer struct {
	Status int    `json:"status"`
	Code   string `json:"code,omitempty"`    // of an error
	Text   string `json:"message,omitempty"` // of an error
	Body   object `json:"body,omitempty"`    // of a reply; of an error, its other members
}

func (a answer) ok() bool { return a.Status == 200 }

// outcome returns "200", or the error with its message.
func (a answer) outcome() string {
	if a.ok() {
		return "200"
	}
	s := a.Code + ": " + a.Text
	if a.Status != 400 {
		s = fmt.Sprintf("%d %s", a.Status, s)
	}
	return s
}

const envelope = "1 validation error detected: "

// bare returns the outcome without the words that the service puts before some
// messages.
func (a answer) bare() string {
	b := a
	b.Text = strings.TrimPrefix(a.Text, envelope)
	return b.outcome()
}

// makeAnswer reads the error members of a reply.
func makeAnswer(status int, body object) answer {
	a := answer{Status: status, Body: body}
	if a.ok() {
		return a
	}
	kind, _ := body["__type"].(string)
	_, a.Code, _ = strings.Cut(kind, "#")
	if a.Code == "" {
		a.Code = kind
	}
	for _, member := range []string{"message", "Message"} {
		if text, ok := body[member].(string); ok {
			a.Text = text
		}
		delete(body, member)
	}
	delete(body, "__type")
	return a
}
