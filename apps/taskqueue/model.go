// Package taskqueue holds the model of the task queue's table. The system itself
// is in the packages below it: task says what a task is, table keeps tasks,
// queue hands them out, front is the HTTP side of it, client the other side.
package taskqueue

import _ "embed"

// Model is the text of the model that the table is made from.
//
//go:embed taskqueue.model.yaml
var Model []byte
