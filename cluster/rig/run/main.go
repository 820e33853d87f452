//go:build linux

// Command run starts a cluster for experiments. Ctrl-C ends it.
//
// With arguments it runs them as a command in the network of the cluster, and
// ends the cluster when the command ends:
//
//	go run ./cluster/rig/run go test ./internal/store/tikv
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"

	"github.com/stator-db/stator/cluster/rig"
)

func main() {
	bin := flag.String("bin", "bin/cluster", "folder with the programs that `make cluster-binaries` builds")
	data := flag.String("data", "", "folder for data and logs, kept at the end (default: a temporary one)")
	flag.Parse()
	rig.Namespace()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *bin, *data, flag.Args())
	stop()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		os.Exit(failed.ExitCode())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, bin, data string, command []string) error {
	if data == "" {
		temporary, err := os.MkdirTemp("", "stator-cluster-")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(temporary) }()
		data = temporary
	}
	c, err := rig.Start(ctx, rig.Options{
		Bin: bin,
		Dir: data,
		Log: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	defer c.Close()
	if len(command) > 0 {
		return runCommand(ctx, command)
	}
	pd := strings.Join(c.PD(), ",")
	fmt.Printf(`PD    %s
data  %s

The cluster has a network of its own. A server in it:

    %s stator serve --engine 'tikv://%s'

Its clients need the same words before their command. Ctrl-C ends the cluster.
`, pd, data, enter(), pd)
	<-ctx.Done()
	return nil
}

func runCommand(ctx context.Context, command []string) error {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	// The terminal's Ctrl-C reaches the command directly; the cluster ends
	// after the command.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	return cmd.Run()
}

// enter returns the command line that runs a command in this network.
func enter() string {
	user := ""
	// Within a user namespace we are root of that namespace only.
	if all, err := os.ReadFile("/proc/self/uid_map"); err == nil && len(strings.Fields(string(all))) == 3 && strings.Fields(string(all))[2] == "1" {
		user = " --user --preserve-credentials"
	}
	return fmt.Sprintf("nsenter --target %d --net%s", os.Getpid(), user)
}
