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
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/cli"
)

var (
	long     = flag.Bool("torture", false, "run the long forms, and add their results to LEDGER.md")
	longTime = flag.Duration("torture.for", 30*time.Second, "how long each rig runs in its long form")
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
		for n := 0; !g.Failed(); n++ {
			over := n >= short
			if *long {
				over = n > 0 && time.Since(g.began) > *longTime
			}
			if over || !yield(n) {
				return
			}
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

func (g *rig) summary() string {
	var all []string
	for _, c := range g.counts {
		all = append(all, fmt.Sprintf("%d %s", c.n, c.name))
	}
	return strings.Join(all, ", ")
}

const ledger = "LEDGER.md"

func (g *rig) writeDown() {
	result := "held"
	if g.Failed() {
		result = "**FAILED**"
	}
	f, err := os.OpenFile(ledger, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		g.Error(err)
		return
	}
	defer f.Close()
	fmt.Fprintf(f, "| %s | %s | %s | %d | %.0f s | %s | %s |\n", g.began.UTC().Format("2006-01-02 15:04"), commit(),
		strings.TrimPrefix(g.Name(), "Test"), g.seed, time.Since(g.began).Seconds(), g.summary(), result)
}

// commit is the commit of the code, with + if it was changed since.
func commit() string {
	out, err := exec.Command("git", "describe", "--always", "--dirty=+", "--exclude=*").Output()
	if err != nil {
		return "?"
	}
	return strings.TrimSpace(string(out))
}

// The ledger has one row for each run, of as many cells as its head.
func TestLedgerIsATable(t *testing.T) {
	text, err := os.ReadFile(ledger)
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
