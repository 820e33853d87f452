//go:build linux && cluster

package rig

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	Namespace()
	os.Exit(m.Run())
}

// bin is where `make cluster-binaries` puts the programs.
const bin = "../../bin/cluster"

// patience is the longest time that a test waits; a healthy cluster needs a
// tenth of it.
const patience = 90 * time.Second

func TestCluster(t *testing.T) {
	began := time.Now()
	c, err := Start(t.Context(), Options{Bin: bin, Dir: t.TempDir(), Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	t.Logf("started in %v with %d MiB resident", time.Since(began).Round(time.Millisecond), residentMiB(t, c))
	await(t, "healthy at first", c.Healthy)

	t.Run("the loss of the leading store is noticed and repaired", func(t *testing.T) {
		await(t, "healthy", c.Healthy)
		lost, err := c.StoreLeading(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c.KillStore(lost)
		if err := c.Healthy(t.Context()); err == nil {
			t.Error("healthy with a store that was killed")
		}
		await(t, "another store leads all regions", func(ctx context.Context) error {
			return ledByOthers(ctx, c, lost)
		})
		if err := c.StartStore(lost); err != nil {
			t.Fatal(err)
		}
		await(t, "healthy again", c.Healthy)
	})

	t.Run("the loss of the leading PD is noticed and repaired", func(t *testing.T) {
		await(t, "healthy", c.Healthy)
		lost, err := c.PDLeader(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		c.KillPD(lost)
		if err := c.Healthy(t.Context()); err == nil {
			t.Error("healthy with a PD that was killed")
		}
		await(t, "another PD leads", func(ctx context.Context) error {
			leader, err := c.PDLeader(ctx)
			if err == nil && leader == lost {
				return fmt.Errorf("the dead %s leads", pdName(lost))
			}
			return err
		})
		if err := c.StartPD(lost); err != nil {
			t.Fatal(err)
		}
		await(t, "healthy again", c.Healthy)
	})

	t.Run("a server is not started twice", func(t *testing.T) {
		if err := c.StartStore(0); err == nil {
			t.Error("a running store was started again")
		}
	})
}

// A server that ends by itself is reported at once, with its last output.
func TestStartReportsWhyAServerEnded(t *testing.T) {
	dir := t.TempDir()
	for _, program := range []string{pdProgram, storeProgram} {
		script := "#!/bin/sh\necho the disk is made of cheese\nexit 3\n"
		if err := os.WriteFile(dir+"/"+program, []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	c, err := Start(t.Context(), Options{Bin: dir, Dir: t.TempDir()})
	if err == nil {
		c.Close()
		t.Fatal("a cluster of scripts has started")
	}
	for _, want := range []string{"exit status 3", "made of cheese"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q: %v", want, err)
		}
	}
}

func TestStartReportsHowToBuildThePrograms(t *testing.T) {
	c, err := Start(t.Context(), Options{Bin: t.TempDir(), Dir: t.TempDir()})
	if err == nil {
		c.Close()
		t.Fatal("a cluster without programs has started")
	}
	if want := "make cluster-binaries"; !strings.Contains(err.Error(), want) {
		t.Errorf("the error does not say %q: %v", want, err)
	}
}

func ledByOthers(ctx context.Context, c *Cluster, lost int) error {
	stores, err := c.storesByID(ctx)
	if err != nil {
		return err
	}
	regions, err := c.regions(ctx)
	if err != nil {
		return err
	}
	for _, r := range regions {
		if i, ok := stores[r.Leader.StoreID]; !ok || i == lost {
			return fmt.Errorf("region %d has no new leader", r.ID)
		}
	}
	return nil
}

func await(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	began := time.Now()
	if err := Await(ctx, check); err != nil {
		t.Fatalf("%s: %v", what, err)
	}
	t.Logf("%s after %v", what, time.Since(began).Round(time.Millisecond))
}

// residentMiB is the memory of all servers together.
func residentMiB(t *testing.T, c *Cluster) int {
	t.Helper()
	total := 0
	for _, s := range slices.Concat(c.pd[:], c.stores[:]) {
		status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", s.life.process.Pid))
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(status) {
			if rest, ok := bytes.CutPrefix(line, []byte("VmRSS:")); ok {
				kiB, err := strconv.Atoi(string(bytes.Fields(rest)[0]))
				if err != nil {
					t.Fatal(err)
				}
				total += kiB
			}
		}
	}
	return total / 1024
}
