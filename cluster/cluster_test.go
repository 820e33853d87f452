//go:build linux && cluster

// Package cluster tests stator servers on a real cluster, and injects
// failures into it. README.md in this folder lists what the tests prove.
package cluster

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stator-db/stator/cluster/rig"
)

// patience is the longest time that a test waits. It is generous: on two busy
// cores a lost leader is replaced in a tenth of it.
const patience = 3 * time.Minute

// given is an existing cluster to test on, instead of starting one.
var given = os.Getenv("STATOR_TIKV")

func TestMain(m *testing.M) {
	if given == "" {
		rig.Namespace()
	}
	code := m.Run()
	for _, end := range atEnd {
		end()
	}
	os.Exit(code)
}

// atEnd has the functions to call after the tests. Tests run one after
// another, so it needs no lock.
var atEnd []func()

// ownCluster is the cluster of all tests, started by the first that needs it.
// A test that kills a part of it waits until it is whole again.
var ownCluster = sync.OnceValues(func() (*rig.Cluster, error) {
	dir, err := os.MkdirTemp("", "stator-cluster-")
	if err != nil {
		return nil, err
	}
	atEnd = append(atEnd, func() { os.RemoveAll(dir) })
	c, err := rig.Start(context.Background(), rig.Options{Bin: "../bin/cluster", Dir: dir})
	if err == nil {
		atEnd = append([]func(){c.Close}, atEnd...)
	}
	return c, err
})

// wholeCluster returns our own cluster with all its parts running.
func wholeCluster(t *testing.T) *rig.Cluster {
	t.Helper()
	if given != "" {
		t.Skip("STATOR_TIKV names a cluster that is not ours to break")
	}
	c, err := ownCluster()
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the cluster is whole", c.Healthy)
	return c
}

// engineURL returns the URL of our own cluster, or the given one, with a key
// prefix that no other test uses.
func engineURL(t *testing.T) string {
	t.Helper()
	prefix := fmt.Sprintf("prefix=test-%016x", rand.Uint64())
	if given != "" {
		if strings.Contains(given, "?") {
			return given + "&" + prefix
		}
		return given + "?" + prefix
	}
	return "tikv://" + strings.Join(wholeCluster(t).PD(), ",") + "?quirks=unistore&lease=2s&" + prefix
}

func await(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := rig.Await(ctx, check); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
}

// program builds a program of this module, or the tests of a package, once.
func program(t *testing.T, name string) string {
	t.Helper()
	build, ok := programs[name]
	if !ok {
		t.Fatalf("there is no program %s", name)
	}
	path, err := build()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

var programs = map[string]func() (string, error){
	"stator":     buildOnce("stator", "build", "-tags", "tikv", "-o", "", "../cmd/stator"),
	"serialtest": buildOnce("serialtest", "test", "-c", "-o", "", "../internal/serialtest"),
}

// buildOnce runs the go command, with "" in args replaced by the path of the
// result.
func buildOnce(name string, args ...string) func() (string, error) {
	return sync.OnceValues(func() (string, error) {
		dir, err := os.MkdirTemp("", "stator-test-")
		if err != nil {
			return "", err
		}
		atEnd = append(atEnd, func() { os.RemoveAll(dir) })
		path := filepath.Join(dir, name)
		for i := range args {
			if args[i] == "" {
				args[i] = path
			}
		}
		if out, err := exec.Command("go", args...).CombinedOutput(); err != nil {
			return "", fmt.Errorf("go %s: %w\n%s", strings.Join(args, " "), err, out)
		}
		return path, nil
	})
}
