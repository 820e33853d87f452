package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"
)

// slowGuard is slow to accept a command, and records whether the command had
// started by then.
type slowGuard struct {
	sign  string // file that the command creates
	err   error
	early bool
	input bytes.Buffer
}

func (g *slowGuard) Write(b []byte) (int, error) {
	if b[0] == '+' {
		for end := time.Now().Add(300 * time.Millisecond); time.Now().Before(end) && !g.early; time.Sleep(time.Millisecond) {
			_, err := os.Stat(g.sign)
			g.early = err == nil
		}
	}
	if g.err != nil {
		return 0, g.err
	}
	return g.input.Write(b)
}

func (*slowGuard) Close() error { return nil }

// A command starts only after its guard has been notified: otherwise its child
// processes would outlive a worker that is killed in between.
func TestCommandAwaitsItsGuard(t *testing.T) {
	for name, failure := range map[string]error{"it accepts": nil, "it has ended": errors.New("ended")} {
		t.Run(name, func(t *testing.T) {
			g := &slowGuard{sign: filepath.Join(t.TempDir(), "begun"), err: failure}
			c := exec.CommandContext(t.Context(), "/bin/sh", "-c", `echo >"$0"; echo "$@"; cat; exit 7`, g.sign, "a  b", "c")
			var out bytes.Buffer
			c.Stdin, c.Stdout = bytes.NewReader([]byte("in")), &out
			err := (&bound{guard: g}).run(c)
			if g.early {
				t.Error("the command started before the guard was notified")
			}
			_, missing := os.Stat(g.sign)
			if failure != nil {
				if !errors.Is(err, failure) || missing == nil {
					t.Errorf("the error is %v, and the command ran: %t", err, missing == nil)
				}
				return
			}
			if c.ProcessState.ExitCode() != 7 || out.String() != "a  b c\nin" {
				t.Errorf("the command ends with %v and %q", err, out.String())
			}
		})
	}
}
