package main

import (
	"testing"

	"github.com/stator-db/stator/apps/internal/deploytest"
	"github.com/stator-db/stator/apps/taskqueue"
)

func TestDeploy(t *testing.T) { deploytest.Check(t, "../..", root) }

// The server leaves tables as an operator has set them, and each line of its log is JSON.
func TestStarts(t *testing.T) {
	deploytest.Starts(t, taskqueue.Model, root, "task queue on ", "serve", "--listen", "127.0.0.1:0")
}
