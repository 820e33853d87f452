// Package torture injects the failures of real machines under a server, and
// checks the result.
//
// Each rig has a control, which shows that it can find faults. They run in a
// short form with all tests; with -torture each runs for -torture.for, and
// adds a line to LEDGER.md.
package torture

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/cli"
	"github.com/stator-db/stator/torture/ledger"
)

var (
	long     = flag.Bool("torture", false, "run the long forms, and add their results to LEDGER.md")
	longTime = flag.Duration("torture.for", 30*time.Second, "how long each rig runs in its long form")
	until    = flag.String("torture.until", "", "counts at which a rig ends before its time, such as kills=1000,acknowledged=5000")
	seedFlag = flag.Uint64("torture.seed", 0, "random seed; defaults to a new one")
)

func TestMain(m *testing.M) {
	if os.Getenv(serveEnv) != "" {
		os.Exit(cli.Run(os.Args[1:], os.Stdout, os.Stderr))
	}
	if script := os.Getenv(childEnv); script != "" {
		os.Exit(child(script))
	}
	if script := os.Getenv(crowdEnv); script != "" {
		os.Exit(badClients(script))
	}
	flag.Parse()
	code := m.Run()
	for _, dir := range leftovers {
		os.RemoveAll(dir)
	}
	os.Exit(code)
}

// rig is one run of a rig: its seed, and its counts.
type rig struct {
	testing.TB
	*rand.Rand
	seed  uint64
	began time.Time

	mu     sync.Mutex
	counts []count
	goals  []string
}

type count struct {
	name string
	n    int
}

// newRig begins a run. At its end it logs the counts and, in the long form,
// adds them to the ledger.
func newRig(t testing.TB) *rig {
	t.Helper()
	seed := *seedFlag
	if seed == 0 {
		seed = rand.Uint64()
	}
	g := &rig{TB: t, Rand: rand.New(rand.NewPCG(seed, 0)), seed: seed, began: time.Now()}
	t.Logf("-torture.seed=%d", seed)
	t.Cleanup(func() {
		t.Log(g.summary())
		if *long && !t.Skipped() {
			g.writeDown()
		}
	})
	return g
}

// rounds yields short rounds in the short form. In the long form it continues
// until the time is over or a fault was found.
func (g *rig) rounds(short int) func(func(int) bool) {
	return func(yield func(int) bool) {
		for n := 0; !g.over(n, short); n++ {
			if !yield(n) {
				return
			}
		}
	}
}

// parallel runs the rounds at the same time on all processors.
func (g *rig) parallel(short int, round func(n int)) {
	defer debug.SetGCPercent(debug.SetGCPercent(400)) // each round has little that stays
	var running sync.WaitGroup
	var next atomic.Int64
	for range 2 * runtime.GOMAXPROCS(0) { // they wait for flushes sometimes
		running.Go(func() {
			for n := int(next.Add(1)) - 1; !g.over(n, short); n = int(next.Add(1)) - 1 {
				round(n)
			}
		})
	}
	running.Wait()
}

// over reports whether round n is not needed.
func (g *rig) over(n, short int) bool {
	switch {
	case g.Failed():
		return true
	case *long:
		return n > 0 && (time.Since(g.began) > *longTime || g.enough(*until))
	}
	return n >= short
}

// enough reports whether all the wanted counts are reached; false if none is wanted.
func (g *rig) enough(wanted string) bool {
	if wanted == "" {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for want := range strings.SplitSeq(wanted, ",") {
		name, text, _ := strings.Cut(want, "=")
		n, err := strconv.Atoi(text)
		if err != nil {
			panic("-torture.until: " + err.Error())
		}
		if !slices.ContainsFunc(g.counts, func(c count) bool { return c.name == name && c.n >= n }) {
			return false
		}
	}
	return true
}

// A rig ends when all the counts that are wanted are reached.
func TestRigEndsAtItsCounts(t *testing.T) {
	g := &rig{TB: t}
	g.count("kills", 3)
	g.count("items written", 40)
	for wanted, enough := range map[string]bool{
		"": false, "kills=3": true, "kills=4": false, "cuts=1": false,
		"kills=2,items written=40": true, "kills=2,items written=41": false,
	} {
		if g.enough(wanted) != enough {
			t.Errorf("%q: enough is %v", wanted, !enough)
		}
	}
}

// count adds to one of the counts.
func (g *rig) count(name string, n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.counts {
		if g.counts[i].name == name {
			g.counts[i].n += n
			return
		}
	}
	g.counts = append(g.counts, count{name, n})
}

// goal records a goal and what was reached, for the ledger. A rig fails at its bound,
// which may be lower than its goal: that the goal is not reached is written down, and
// stands in the README.
func (g *rig) goal(what string, goal, reached float64, atLeast bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	relation, met := "at most", reached <= goal
	if atLeast {
		relation, met = "at least", reached >= goal
	}
	text := fmt.Sprintf("goal %s %.4g %s: %.4g", relation, goal, what, reached)
	if !met {
		text += ", " + ledger.NotReached
	}
	g.goals = append(g.goals, text)
}

func (g *rig) summary() string {
	var all []string
	for _, c := range g.counts {
		all = append(all, fmt.Sprintf("%d %s", c.n, c.name))
	}
	return strings.Join(append(all, g.goals...), ", ")
}

// The ledger says whether a goal was reached.
func TestGoalsAreWrittenDown(t *testing.T) {
	g := &rig{TB: t}
	g.count("rounds", 3)
	g.goal("% of the peak", 90, 85.21, true)
	g.goal("MB", 512, 400, false)
	if got, want := g.summary(), "3 rounds, goal at least 90 % of the peak: 85.21, **not reached**, goal at most 512 MB: 400"; got != want {
		t.Errorf("the summary is %q, want %q", got, want)
	}
}

func (g *rig) writeDown() {
	line := ledger.Line{
		Began: g.began, Commit: ledger.Commit(), Rig: strings.TrimPrefix(g.Name(), "Test"), Seed: strconv.FormatUint(g.seed, 10),
		Took: time.Since(g.began), Counts: g.summary(), Failed: g.Failed(),
	}
	if err := line.Append(ledger.Name); err != nil {
		g.Error(err)
	}
}

// The ledger has one row for each run, of as many cells as its head.
func TestLedgerIsATable(t *testing.T) {
	text, err := os.ReadFile(ledger.Name)
	if err != nil {
		t.Fatal(err)
	}
	cells := 0
	for line := range strings.Lines(string(text)) {
		if !strings.HasPrefix(line, "|") {
			continue
		}
		n := strings.Count(line, "|")
		if cells == 0 {
			cells = n
		}
		if n != cells {
			t.Errorf("%d cells, want %d: %s", n-1, cells-1, line)
		}
	}
	if cells == 0 {
		t.Error("it has no head")
	}
}

// serveEnv is the environment variable that makes this program a stator.
const serveEnv = "STATOR_TORTURE_SERVE"

// leftovers are folders that several tests use.
var leftovers []string

var builtDir string

// command runs a stator: this program itself, so that it has the race
// detector if the test has, and in the long form the binary as it is
// delivered.
func command(t testing.TB, args ...string) *exec.Cmd {
	t.Helper()
	path := os.Args[0]
	if *long {
		path = build(t, "cmd/stator")
	}
	cmd := exec.Command(path, args...)
	cmd.Env = append(os.Environ(), serveEnv+"=1")
	return cmd
}

// build builds the binary of a package, once.
func build(t testing.TB, pkg string) string {
	t.Helper()
	if builtDir == "" {
		dir, err := os.MkdirTemp("", "stator-torture")
		if err != nil {
			t.Fatal(err)
		}
		builtDir, leftovers = dir, append(leftovers, dir)
	}
	path := filepath.Join(builtDir, filepath.Base(pkg))
	if _, err := os.Stat(path); err == nil {
		return path
	}
	cmd := exec.Command("go", "build", "-trimpath", "-o", path, "../"+pkg) // like make build
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}
