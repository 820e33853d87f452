// Package taskqueue holds the model of the task queue's table. The system itself
// is in the packages below it: task defines tasks, table stores them, queue hands
// them out, front serves HTTP, and client is the HTTP client.
package taskqueue

import _ "embed"

// Model is the text of the table's model.
//
//go:embed taskqueue.model.yaml
var Model []byte
