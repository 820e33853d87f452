package task

import (
	"fmt"
	"strings"
	"time"
)

// Selection selects tasks of one status. Empty members select all tasks.
type Selection struct {
	Status    Status   `json:"status"`
	Queue     string   `json:"queue,omitempty"`
	Type      string   `json:"type,omitempty"`
	Reason    string   `json:"reason,omitempty"`    // text that the reason contains, in any case
	OlderThan Duration `json:"olderThan,omitempty"` // minimum time since the task last changed
}

// Check validates the selection.
func (s *Selection) Check() error {
	if !s.Status.Known() {
		return fault("status", "is %q, but must be one of %v", s.Status, Statuses)
	}
	for field, name := range map[string]string{"queue": s.Queue, "type": s.Type} {
		if name == "" {
			continue
		}
		if err := CheckName(field, name); err != nil {
			return err
		}
	}
	if s.OlderThan < 0 {
		return fault("olderThan", "is %v, but must not be negative", time.Duration(s.OlderThan))
	}
	return CheckReason(s.Reason)
}

// Selects reports whether a task is selected at a time.
func (s *Selection) Selects(t *Task, now time.Time) bool {
	return t.Status == s.Status &&
		(s.Queue == "" || t.Queue == s.Queue) &&
		(s.Type == "" || t.Type == s.Type) &&
		strings.Contains(strings.ToLower(t.Reason), strings.ToLower(s.Reason)) &&
		now.Sub(t.Updated) >= time.Duration(s.OlderThan)
}

// Narrow reports whether the selection has more than a status.
func (s *Selection) Narrow() bool { return *s != Selection{Status: s.Status} }

// String describes the selection in a sentence.
func (s Selection) String() string {
	text := string(s.Status) + " tasks"
	if s.Queue != "" {
		text += " of queue " + s.Queue
	}
	if s.Type != "" {
		text += " of type " + s.Type
	}
	if s.Reason != "" {
		text += fmt.Sprintf(" whose reason contains %q", s.Reason)
	}
	if s.OlderThan > 0 {
		text += fmt.Sprintf(" that last changed at least %v ago", time.Duration(s.OlderThan))
	}
	return text
}

// Change is what a bulk request does to tasks.
type Change string

// The changes.
const (
	RequeueTasks Change = "requeue"
	CancelTasks  Change = "cancel"
)

// Event returns the event of a change, or "" for an unknown change.
func (c Change) Event() EventType {
	switch c {
	case RequeueTasks:
		return Requeued
	case CancelTasks:
		return CancelledByClient
	}
	return ""
}

// BulkRequest is a request to requeue or cancel all tasks of a selection. The
// server handles some of them, newest first, and returns where the next request
// continues.
type BulkRequest struct {
	Selection
	Next   string `json:"next,omitempty"`
	DryRun bool   `json:"dryRun,omitempty"` // changes nothing
	Note   string `json:"note,omitempty"`   // of cancel: the reason that the cancelled tasks get
}

// BulkReply is what a BulkRequest did.
type BulkReply struct {
	Matched int    `json:"matched"` // tasks that were selected
	Changed int    `json:"changed"` // of them, tasks that were changed; 0 in a dry run
	Skipped int    `json:"skipped"` // of them, tasks whose status changed meanwhile
	Tasks   []Task `json:"tasks"`   // the matched tasks as they are now, without payloads
	Next    string `json:"next,omitempty"`
}

// Counts are numbers of tasks by status.
type Counts struct {
	Queues []QueueCounts  `json:"queues"`
	Total  map[Status]int `json:"total"`
	More   []Status       `json:"more"` // statuses of which some queue has more tasks than were counted
}

// QueueCounts are the numbers of tasks of one queue by status.
type QueueCounts struct {
	Queue string         `json:"queue"`
	Tasks map[Status]int `json:"tasks"`
	More  []Status       `json:"more"` // statuses with more tasks than were counted
}
