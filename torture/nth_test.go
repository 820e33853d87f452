package torture

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/stator-db/stator/internal/store/pebble"
	"github.com/stator-db/stator/internal/store/pebble/disktest"
)

// fault is an injected failure of a child process's disk.
type fault struct {
	Dir  string
	Seed uint64
	Kind string // of operations
	Nth  int    // the one that fails; 0 for none
	Ever bool   // all later ones fail too
}

func (f fault) String() string {
	return fmt.Sprintf("%s %d fails (and all after it: %v; seed %d)", f.Kind, f.Nth, f.Ever, f.Seed)
}

// kinds are the operations of a file system that can fail.
var kinds = map[string][]errorfs.OpKind{
	"write":  {errorfs.OpFileWrite, errorfs.OpFileWriteAt},
	"sync":   {errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo},
	"read":   {errorfs.OpFileRead, errorfs.OpFileReadAt},
	"create": {errorfs.OpCreate, errorfs.OpReuseForWrite},
	"change": {errorfs.OpRename, errorfs.OpRemove, errorfs.OpLink},
	"open":   {errorfs.OpOpen, errorfs.OpOpenDir, errorfs.OpList, errorfs.OpStat},
}

// Whichever write, sync, read or other operation of the disk fails, once or
// from then on: no answer is wrong, no acknowledged write is lost, and the
// process either continues, rejects requests, or ends and logs why.
//
// The long form fails each operation of a workload in turn, and continues with other
// workloads until the time is over.
func TestNthOperationOfTheDiskFails(t *testing.T) {
	g := newRig(t)
	if *long {
		for range g.rounds(0) {
			seed := g.Uint64()
			if g.tryAll(everyFault(g.totals(seed, len(kinds)), seed)) {
				g.count("workloads", 1)
			}
		}
		return
	}
	totals := g.totals(g.Uint64(), 1)
	var some []fault
	for range 8 {
		all := everyFault(totals, g.Uint64())
		some = append(some, all[g.IntN(len(all))])
	}
	g.tryAll(some)
}

// totals returns how many operations of each kind a workload has. It counts some kinds
// only: there are at least 30 of each.
func (g *rig) totals(seed uint64, counted int) map[string]int {
	g.Helper()
	totals := make(map[string]int)
	for i, kind := range slices.Sorted(maps.Keys(kinds)) {
		if totals[kind] = 30; i >= counted {
			continue
		}
		out := g.try(fault{Seed: seed, Kind: kind})
		if totals[kind] = out.total; out.total == 0 || out.acked < childSteps/2 {
			g.Fatalf("without a fault there are %d of kind %s, and %d writes acknowledged\n%s", out.total, kind, out.acked, out.stderr)
		}
	}
	return totals
}

// tryAll tries faults, and reports whether there was time for all of them.
func (g *rig) tryAll(all []fault) bool {
	var running sync.WaitGroup
	faults := make(chan fault)
	for range 4 { // they mostly wait
		running.Go(func() {
			for f := range faults {
				out := g.try(f)
				g.count("faults", 1)
				g.count(out.end, 1)
				g.count("acknowledged", out.acked)
			}
		})
	}
	tried := 0
	for ; tried < len(all) && !g.over(tried, len(all)); tried++ {
		faults <- all[tried]
	}
	close(faults)
	running.Wait()
	return tried == len(all) && !g.Failed()
}

// everyFault returns a fault for each operation that can fail, once and from
// then on. It has a few more than were counted, since the number varies with
// the interleaving.
func everyFault(totals map[string]int, seed uint64) (all []fault) {
	for _, kind := range slices.Sorted(maps.Keys(totals)) {
		for n := range totals[kind] * 11 / 10 {
			all = append(all, fault{Seed: seed, Kind: kind, Nth: 1 + n}, fault{Seed: seed, Kind: kind, Nth: 1 + n, Ever: true})
		}
	}
	return all
}

// The control: a disk that silently drops a write is found.
func TestNthRigFindsLosses(t *testing.T) {
	g := newRig(t)
	dir, remove := quickDir(t)
	defer remove()
	f := fault{Dir: dir, Seed: g.Uint64(), Kind: "lie", Nth: 20, Ever: true}
	out := f.run(t)
	if out.acked == 0 {
		t.Fatalf("nothing was acknowledged: %s", out.stderr)
	}
	if faults := out.check(t, f.Dir); len(faults) == 0 {
		t.Errorf("none of %d writes was lost, although the disk dropped some", out.acked)
	}
}

// try runs a child, and checks its folder afterwards.
func (g *rig) try(f fault) outcome {
	g.Helper()
	var remove func()
	f.Dir, remove = quickDir(g)
	defer remove()
	out := f.run(g)
	out.faults = append(out.faults, out.check(g, f.Dir)...)
	for _, fault := range out.faults {
		g.Errorf("%v: %s", f, fault)
	}
	if len(out.faults) > 0 {
		g.Logf("%v: %s\n%.20000s", f, out.end, out.stderr)
	}
	return out
}

// quickDir returns a folder in memory, if possible: failures are injected
// above the disk.
func quickDir(t testing.TB) (dir string, remove func()) {
	t.Helper()
	above, err := os.MkdirTemp("/dev/shm", "stator-nth")
	if err != nil {
		above, err = os.MkdirTemp("", "stator-nth")
	}
	if err != nil {
		t.Error(err)
	}
	return filepath.Join(above, "d"), func() { os.RemoveAll(above) }
}

// outcome is what a child reported.
type outcome struct {
	expectation
	created bool
	total   int
	end     string
	faults  []string
	stderr  string
}

// childPatience is the time after which a child is considered to hang.
const childPatience = time.Minute // much more than it needs on a busy machine

func (f fault) run(t testing.TB) (out outcome) {
	t.Helper()
	script, err := json.Marshal(f)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), childPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+string(script))
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	out.stderr = stderr.String()
	out.base = state{}
	var exit *exec.ExitError
	switch {
	case ctx.Err() != nil:
		out.faults = append(out.faults, "it hangs")
	case errors.As(err, &exit) && exit.ExitCode() == exitHangs:
		out.faults = append(out.faults, "it hangs while it opens")
	case err == nil:
		out.end = "survived"
	case errors.As(err, &exit) && exit.ExitCode() == exitRefused:
		out.end = "not opened"
	case errors.As(err, &exit) && exit.ExitCode() == 1 && strings.Contains(out.stderr, "the database cannot continue"):
		out.end = "ended"
	default:
		out.faults = append(out.faults, fmt.Sprintf("the child ended with %v", err))
	}
	logFailed, after := false, 0
	for lines := bufio.NewScanner(&stdout); lines.Scan(); {
		word, rest, _ := strings.Cut(lines.Text(), " ")
		switch word {
		case "created":
			out.created = true
		case "ask":
			var asked asked
			if err := json.Unmarshal([]byte(rest), &asked); err != nil {
				t.Fatal(err)
			}
			out.changes = append(out.changes, change{operation: asked.Operation, after: asked.after(), whole: asked.Whole})
		case "ack":
			if out.acked = len(out.changes); logFailed && rest != unchanged {
				after++
			}
		case "total":
			fmt.Sscan(rest, &out.total)
		case "fault":
			out.faults = append(out.faults, rest)
		case "fails":
			logFailed = logFailed || strings.HasSuffix(rest, ".log") && (f.Kind == "sync" || f.Kind == "write")
		}
	}
	// One may have been in flight.
	if after > 1 {
		out.faults = append(out.faults, fmt.Sprintf("%d writes were acknowledged after the log could not be written", after))
	}
	return out
}

// asked is a change, encoded for the parent process.
type asked struct {
	Operation string
	After     map[int][2]int
	Whole     bool
}

func (a asked) after() map[int]version {
	after := make(map[int]version)
	for key, v := range a.After {
		after[key] = version{v[0], v[1]}
	}
	return after
}

// check opens the child's folder on a working disk, and compares.
func (out outcome) check(t testing.TB, dir string) (faults []string) {
	t.Helper()
	h, err := open(vfs.Default, dir, pebble.Durable, quiet)
	if err != nil {
		return []string{"it cannot be opened afterwards: " + err.Error()}
	}
	defer h.close()
	if err := h.call("DescribeTable", object{"TableName": "Work"}, nil); err != nil {
		if out.created {
			faults = append(faults, "the table is lost: "+err.Error())
		}
		return faults
	}
	w := crew(1, 0)[0]
	w.door = h.door
	found, err := w.read()
	if err != nil {
		return append(faults, "it cannot be read afterwards: "+err.Error())
	}
	if _, ok := out.fits(found); !ok {
		faults = append(faults, fmt.Sprintf("it has %v, after %s", found, out.expectation))
	}
	reports, err := h.db.Verify(context.Background(), func(string, int64) {})
	if err != nil {
		faults = append(faults, "verify: "+err.Error())
	}
	for _, r := range reports {
		faults = append(faults, r.First...)
	}
	return append(faults, replay(streamOf(t, h.door), present(t, h.door))...)
}

// The child.

const (
	childEnv    = "STATOR_TORTURE_CHILD"
	childSteps  = 24
	exitRefused = 3
	exitHangs   = 4

	openPatience = 10 * time.Second
)

// child runs a workload on a failing disk, and reports the replies on
// standard output.
func child(script string) int {
	var f fault
	if err := json.Unmarshal([]byte(script), &f); err != nil {
		panic(err)
	}
	bad := &failing{fault: f}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	opens := time.AfterFunc(openPatience, func() { os.Exit(exitHangs) })
	h, err := open(bad.wrap(vfs.Default), f.Dir, pebble.Durable, log)
	opens.Stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return exitRefused
	}
	w := crew(1, f.Seed)[0]
	w.door = h.door
	if createErr := w.create(); createErr == nil {
		report("created")
		w.run()
	}
	for _, fault := range w.faults {
		report("fault", fault)
	}
	if err := h.close(); err != nil {
		fmt.Fprintln(os.Stderr, "close:", err)
	}
	report("total", bad.seen())
	return 0
}

// unchanged marks a write that changed nothing, such as the removal of an
// item that does not exist: it needs no WAL record.
const unchanged = "unchanged"

// report writes a line for the parent, unbuffered.
func report(words ...any) { fmt.Fprintln(os.Stdout, words...) }

func (w *worker) create() error {
	t := &failure{}
	func() {
		defer func() { _ = recover() }()
		createWork(t, w.door)
	}()
	return t.err
}

// failure is a testing.TB that records errors.
type failure struct {
	testing.TB
	err error
}

func (*failure) Helper() {}
func (f *failure) Errorf(format string, args ...any) {
	f.err = errors.Join(f.err, fmt.Errorf(format, args...))
}
func (f *failure) Fatalf(format string, args ...any) {
	f.err = fmt.Errorf(format, args...)
	panic(f.err)
}

// run changes items until a write is rejected, and reads in between.
func (w *worker) run() {
	for step := range childSteps {
		if len(w.changes) == w.acked {
			c := w.next()
			a := asked{c.operation, make(map[int][2]int), c.whole}
			for key, v := range c.after {
				a.After[key] = [2]int{v.v, v.n}
			}
			line, err := json.Marshal(a)
			if err != nil {
				panic(err)
			}
			report("ask", string(line))
			w.changes = append(w.changes, c)
			if err := w.call(c.operation, c.body, nil); err == nil {
				before := w.is
				w.acked++
				if w.is = before.with(c); maps.Equal(w.is, before) {
					report("ack", unchanged)
				} else {
					report("ack")
				}
			} else {
				fmt.Fprintln(os.Stderr, "refused:", err)
			}
		}
		if found, err := w.read(); err == nil {
			if _, ok := w.expectation().fits(found); !ok {
				w.faults = append(w.faults, fmt.Sprintf("it reads %v, after %s", found, w.expectation()))
			}
		}
		if step%4 == 3 {
			time.Sleep(8 * time.Millisecond) // for a flush
		}
	}
}

// failing is a file system in which one operation fails.
type failing struct {
	fault
	mu sync.Mutex
	n  int
}

func (f *failing) seen() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.n
}

// due counts an operation, and reports whether it should fail.
func (f *failing) due() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.n++
	return f.n == f.Nth || f.Ever && f.Nth > 0 && f.n > f.Nth
}

func (f *failing) wrap(inner vfs.FS) vfs.FS {
	if f.Kind == "lie" {
		return &lying{inner, f}
	}
	return disktest.Inject(inner, func(op errorfs.Op) error {
		if !slices.Contains(kinds[f.Kind], op.Kind) || !f.due() {
			return nil
		}
		report("fails", op.Path)
		return &fs.PathError{Op: f.Kind, Path: op.Path, Err: errorfs.ErrInjected}
	})
}

// lying is a file system that drops writes to WALs and sstables.
type lying struct {
	vfs.FS
	f *failing
}

func (l *lying) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	file, err := l.FS.Create(name, category)
	if ending := filepath.Ext(name); err == nil && (ending == ".log" || ending == ".sst") {
		file = &lyingFile{file, l.f}
	}
	return file, err
}

func (l *lying) ReuseForWrite(old, name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	return l.Create(name, category)
}

type lyingFile struct {
	vfs.File
	f *failing
}

func (l *lyingFile) Write(p []byte) (int, error) {
	if l.f.due() {
		return len(p), nil
	}
	return l.File.Write(p)
}
