package documents

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/stator-db/stator/apps/internal/web"
)

// childVariable has the orders of a child process of a test.
const childVariable = "DOCUMENTS_TEST_CHILD"

// orders say what a child runs: a processor, or the whole service.
type orders struct {
	Endpoint, Data, Bucket string
}

// address is printed by a serving child when it is ready.
type address struct{ URL, DynamoDB string }

// childMain executes the orders in the environment until it is killed; without
// orders it returns.
func childMain() {
	text := os.Getenv(childVariable)
	if text == "" {
		return
	}
	var do orders
	if err := json.Unmarshal([]byte(text), &do); err != nil {
		panic(err)
	}
	if err := obey(context.Background(), do); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// hurried returns options with a short lease.
func hurried(o *Options) {
	o.Lease, o.Look = 600*time.Millisecond, 50*time.Millisecond
}

func obey(ctx context.Context, do orders) error {
	o := Defaults()
	hurried(&o)
	o.Home.Endpoint, o.Home.Data, o.Bucket = do.Endpoint, do.Data, do.Bucket
	if do.Endpoint == "" {
		o.Home.DynamoDB = "127.0.0.1:0"
	}
	s, err := Open(ctx, o)
	if err != nil {
		return err
	}
	if do.Endpoint != "" {
		return s.Process(ctx)
	}
	listener, err := web.Listen("127.0.0.1:0", false)
	if err != nil {
		return err
	}
	if err := json.NewEncoder(os.Stdout).Encode(address{"http://" + listener.Addr().String(), s.Home.Address}); err != nil {
		return err
	}
	return s.Serve(ctx, listener, true)
}

// child is a process that can be killed.
type child struct {
	*exec.Cmd
	address address
}

func spawn(t *testing.T, do orders) *child {
	t.Helper()
	text, err := json.Marshal(do)
	if err != nil {
		t.Fatal(err)
	}
	c := &child{Cmd: exec.Command(os.Args[0])}
	// Without the last one the SDK would ask EC2's metadata service.
	c.Env = append(os.Environ(), childVariable+"="+string(text), "AWS_EC2_METADATA_DISABLED=true")
	c.Stderr = t.Output()
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.kill)
	if do.Endpoint == "" {
		line, err := bufio.NewReader(out).ReadBytes('\n')
		if err == nil {
			err = json.Unmarshal(line, &c.address)
		}
		if err != nil {
			t.Fatalf("a child does not print its address: %v", err)
		}
	}
	return c
}

// kill ends the process at once, as kill -9 does.
func (c *child) kill() {
	if c.ProcessState == nil {
		c.Process.Kill()
		c.Wait()
	}
}
