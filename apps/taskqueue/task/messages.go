package task

import "time"

// What travels between clients and the server, beside tasks and submissions.

// Claiming is how a worker asks for a task.
type Claiming struct {
	Worker string   `json:"worker"`
	Lease  Duration `json:"lease,omitempty"` // 30 s unless given
	Wait   Duration `json:"wait,omitempty"`  // for a task to come; not at all unless given
}

// Claim is a task in a worker's hands.
type Claim struct {
	Task
	Token string   `json:"claim"` // to be sent with each word about the task
	Lease Duration `json:"lease"` // heartbeats must not be further apart
}

// Word is what a worker says about a task that it has.
type Word struct {
	Worker string   `json:"worker"`
	Claim  string   `json:"claim"`
	Result string   `json:"result,omitempty"` // of complete
	Reason string   `json:"reason,omitempty"` // of fail
	Never  bool     `json:"never,omitempty"`  // of fail: trying again is of no use
	After  Duration `json:"after,omitempty"`  // of fail: instead of the task's back-off
}

// Page is some tasks of a list.
type Page struct {
	Tasks []Task `json:"tasks"`
	Next  string `json:"next,omitempty"` // asks for what comes behind
}

// Queue is a queue and its limits.
type Queue struct {
	Name       string `json:"name"`
	MaxPending int    `json:"maxPending"` // tasks that wait; a submission beyond is refused
	MaxRunning int    `json:"maxRunning"` // tasks that run at once; 0 is without limit
	Paused     bool   `json:"paused"`     // nothing is handed out

	Updated time.Time `json:"updatedAt,omitzero"`
}

// QueueView is a queue as a server sees it.
type QueueView struct {
	Queue
	Pending int  `json:"pending"`
	Delayed int  `json:"delayed"` // those that are due within ten minutes
	Running int  `json:"running"`
	Waiting int  `json:"waiting"` // workers that wait at this server
	More    bool `json:"more"`    // there are more tasks in the table than are counted here
}

// Worker is a worker and when a server last heard of it.
type Worker struct {
	ID   string    `json:"id"`
	Seen time.Time `json:"seenAt"`
}

// WorkerView is a worker and what it is at.
type WorkerView struct {
	Worker
	Tasks []Task `json:"tasks"`
}
