package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/apps/internal/command"
	"github.com/stator-db/stator/apps/taskqueue/client"
	"github.com/stator-db/stator/apps/taskqueue/task"
)

func workCommand() *cobra.Command {
	host, err := os.Hostname()
	if err != nil || task.CheckName("worker", host) != nil {
		host = "worker"
	}
	w := new(client.Worker)
	var server, shell string
	c := &cobra.Command{
		Use: "work QUEUE", Short: "Run a command for each task of a queue", Args: command.Args(1, "a queue"),
		Long: `Run a command for each task of a queue.

The shell runs the command for each task, with the payload on standard input and
TASK_ID, TASK_QUEUE, TASK_TYPE and TASK_ATTEMPT in its environment. Its output is
the result, of which the first 4,096 bytes are kept. Exit code 0 means that the
task is done, 100 that it failed and must not be retried, and any other code that
it is to be retried. Processes that the command has started are killed when it
ends, and the command with them when the worker loses the task.`,
		RunE: func(c *cobra.Command, args []string) error {
			if shell == "" {
				return command.Usagef("--exec is missing: the command that runs for each task")
			}
			commands, err := newBound()
			if err != nil {
				return err
			}
			defer commands.close()
			log := command.Logger(c)
			w.Client, w.Queue, w.Log = client.New(server), args[0], log
			w.Do = func(ctx context.Context, claim task.Claim) (string, error) {
				return doTask(ctx, commands, shell, claim)
			}
			log.Info("working", "queue", w.Queue, "worker", w.ID, "parallel", w.Parallel)
			return w.Run(c.Context())
		},
	}
	f := c.Flags()
	f.StringVar(&server, "server", "http://127.0.0.1:8070", "URL of the task queue")
	f.StringVar(&shell, "exec", "", "shell command that runs for each task")
	f.StringVar(&w.ID, "worker", fmt.Sprintf("%s-%d-%s", host, os.Getpid(), strconv.FormatInt(time.Now().UnixMilli(), 36)), "name of this worker; it must be unique")
	f.IntVar(&w.Parallel, "parallel", 1, "number of concurrent tasks")
	f.DurationVar(&w.Lease, "lease", 30*time.Second, "time without heartbeats after which a task is given to another worker")
	return c
}

// exitNever is the exit code of a command whose task must not be retried.
const exitNever = 100

// doTask runs the command for a task.
func doTask(ctx context.Context, commands *bound, shell string, claim task.Claim) (string, error) {
	c := exec.CommandContext(ctx, "/bin/sh", "-c", shell)
	c.Stdin = bytes.NewReader(claim.Payload)
	c.Env = append(os.Environ(), "TASK_ID="+claim.ID, "TASK_QUEUE="+claim.Queue, "TASK_TYPE="+claim.Type, "TASK_ATTEMPT="+strconv.Itoa(claim.Attempts))
	result, stderr := &start{most: task.MaxResult}, &start{most: 1024}
	c.Stdout, c.Stderr = result, stderr
	c.WaitDelay = 2 * time.Second
	err := commands.run(c)
	var exit *exec.ExitError
	switch {
	case err == nil || errors.Is(err, exec.ErrWaitDelay) && c.ProcessState.Success(): // a child process still had its output open
		return result.text(), nil
	case errors.As(err, &exit):
		failed := errors.New(strings.TrimSuffix(fmt.Sprintf("%s: %s", exit.ProcessState, stderr.text()), ": "))
		if exit.ExitCode() == exitNever {
			return "", client.Never(failed)
		}
		return "", failed
	}
	return "", err
}

// start keeps the first bytes that are written to it.
type start struct {
	bytes []byte
	most  int
}

func (s *start) Write(b []byte) (int, error) {
	s.bytes = append(s.bytes, b[:min(len(b), s.most-len(s.bytes))]...)
	return len(b), nil
}

func (s *start) text() string {
	return strings.TrimRight(strings.ToValidUTF8(string(s.bytes), ""), "\n")
}
