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
	var server, shell, level string
	c := &cobra.Command{
		Use: "work QUEUE", Short: "Do the tasks of a queue, by a command", Args: command.Args(1, "a queue"),
		Long: `Do the tasks of a queue, by a command.

The command is run by the shell for each task, with the payload on its input and
TASK_ID, TASK_QUEUE, TASK_TYPE and TASK_ATTEMPT in its environment. What it prints
is the result, of which the first 4,096 bytes are kept. It ends with 0 when the
task is done, with 100 when trying again is of no use, and with anything else when
it is to be tried again. Whatever the command started is killed when it ends, and
all of it when the task must be let go of.`,
		RunE: func(c *cobra.Command, args []string) error {
			log, err := logger(level)
			if err != nil {
				return err
			}
			if shell == "" {
				return command.Usagef("--exec is missing: the command that does a task")
			}
			commands, err := newBound()
			if err != nil {
				return err
			}
			defer commands.close()
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
	f.StringVar(&shell, "exec", "", "command that does a task")
	f.StringVar(&w.ID, "worker", fmt.Sprintf("%s-%d-%s", host, os.Getpid(), strconv.FormatInt(time.Now().UnixMilli(), 36)), "name of this worker; no other may have it at the same time")
	f.IntVar(&w.Parallel, "parallel", 1, "tasks at once")
	f.DurationVar(&w.Lease, "lease", 30*time.Second, "silence after which a task is given to another worker")
	f.StringVar(&level, "log", "info", "what is logged: debug, info, warn or error")
	return c
}

// exitNever is the exit code that says: trying again is of no use.
const exitNever = 100

// doTask runs the command for a task.
func doTask(ctx context.Context, commands *bound, shell string, claim task.Claim) (string, error) {
	c := exec.CommandContext(ctx, "/bin/sh", "-c", shell)
	c.Stdin = bytes.NewReader(claim.Payload)
	c.Env = append(os.Environ(), "TASK_ID="+claim.ID, "TASK_QUEUE="+claim.Queue, "TASK_TYPE="+claim.Type, "TASK_ATTEMPT="+strconv.Itoa(claim.Attempts))
	result, trouble := &start{most: task.MaxResult}, &start{most: 1024}
	c.Stdout, c.Stderr = result, trouble
	c.WaitDelay = 2 * time.Second
	err := commands.run(c)
	var exit *exec.ExitError
	switch {
	case err == nil || errors.Is(err, exec.ErrWaitDelay) && c.ProcessState.Success(): // it left something behind that held its output
		return result.text(), nil
	case errors.As(err, &exit):
		failed := errors.New(strings.TrimSuffix(fmt.Sprintf("%s: %s", exit.ProcessState, trouble.text()), ": "))
		if exit.ExitCode() == exitNever {
			return "", client.Never(failed)
		}
		return "", failed
	}
	return "", err
}

// start keeps the start of what is written to it.
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
