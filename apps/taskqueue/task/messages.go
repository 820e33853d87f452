package task

import "time"

// Messages between clients and the server, besides tasks and submissions.

// ClaimRequest is a worker's request for a task.
type ClaimRequest struct {
	Worker string   `json:"worker"`
	Lease  Duration `json:"lease,omitempty"` // defaults to 30 s
	Wait   Duration `json:"wait,omitempty"`  // how long to wait for a task; defaults to 0
}

// Claim is a task that a worker has claimed.
type Claim struct {
	Task
	Token string   `json:"claim"` // sent with each report about the task
	Lease Duration `json:"lease"` // maximum time between heartbeats
}

// Report is a worker's report about a task that it has claimed.
type Report struct {
	Worker string   `json:"worker"`
	Claim  string   `json:"claim"`
	Result string   `json:"result,omitempty"` // of complete
	Reason string   `json:"reason,omitempty"` // of fail
	Never  bool     `json:"never,omitempty"`  // of fail: the task must not be retried
	After  Duration `json:"after,omitempty"`  // of fail: replaces the task's backoff
}

// Page is one page of a list of tasks.
type Page struct {
	Tasks []Task `json:"tasks"`
	Next  string `json:"next,omitempty"` // parameter of the next page
}

// Queue is a queue and its limits.
type Queue struct {
	Name       string `json:"name"`
	MaxPending int    `json:"maxPending"` // limit of waiting tasks; further submissions are rejected
	MaxRunning int    `json:"maxRunning"` // limit of running tasks; 0 means no limit
	Paused     bool   `json:"paused"`     // no tasks are handed out

	Updated time.Time `json:"updatedAt,omitzero"`
}

// QueueView is a queue as a server sees it.
type QueueView struct {
	Queue
	Pending int  `json:"pending"`
	Delayed int  `json:"delayed"` // tasks that are due within ten minutes
	Running int  `json:"running"`
	Waiting int  `json:"waiting"` // workers that wait at this server
	More    bool `json:"more"`    // the table has more tasks than are counted here
}

// Worker is a worker and when a server last saw it.
type Worker struct {
	ID   string    `json:"id"`
	Seen time.Time `json:"seenAt"`
}

// WorkerView is a worker and its tasks.
type WorkerView struct {
	Worker
	Tasks []Task `json:"tasks"`
}

// Limits are the limits of a queue, as a client sets them. Absent members get their
// defaults.
type Limits struct {
	MaxPending int  `json:"maxPending"` // defaults to 100,000
	MaxRunning int  `json:"maxRunning"` // defaults to 0, no limit
	Paused     bool `json:"paused"`
}

// Cancellation is a request to cancel a task.
type Cancellation struct {
	Reason string `json:"reason,omitempty"`
}

// History is the reply with the events of a task.
type History struct {
	Events []Event `json:"events"`
}

// QueueList is the reply with all queues.
type QueueList struct {
	Queues []QueueView `json:"queues"`
}

// WorkerList is the reply with all workers.
type WorkerList struct {
	Workers []WorkerView `json:"workers"`
}

// FailReply is the reply to the report of a failure.
type FailReply struct {
	Status Status `json:"status"`
}
