package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/stator-db/stator/torture/ledger"
)

// goal is a count that the lines of a rig should reach together. The name of the rig may be
// that of a subtest, or the beginning of several names; empty are all rigs.
type goal struct {
	rig, count string
	n          int
}

// row is a row of the table of goals in torture/README.md.
type row struct {
	id, what string
	goals    []goal
	control  string // the rig that shows that faults are found
	weight   int    // the part of the budget
	whole    bool   // it is not run in slices
	rig      string // the name in the ledger, if the tests do not write to it
	command  func(missing []goal, span time.Duration) []string
}

// mutantsRig is the rig of mutants in the ledger.
const mutantsRig = "Mutants"

// rows are in the order in which they run. A row without a command counts what others do.
var rows = []row{
	{id: "R1", what: "kill -9", control: "KillRigFindsLosses", weight: 16, command: rigs("Kill(Loses|RigFinds)", 1),
		goals: []goal{{"KillLosesNoAcknowledgedWrite", "kills", 1000}, {"KillLosesNoAcknowledgedWrite", "items written", 5_000_000}}},
	{id: "R2", what: "power cut", control: "PowerCutRigFindsLosses", weight: 6, command: rigs("PowerCut", 2),
		goals: []goal{{"PowerCutLosesNoAcknowledgedWrite/ext4", "cuts", 500}, {"PowerCutLosesNoAcknowledgedWrite/xfs", "cuts", 500}}},
	{id: "R3", what: "crash in memory", control: "CrashImagesFindLosses", weight: 16, command: rigs("CrashImages", 1),
		goals: []goal{{"CrashImagesLoseNoWrite", "crashes", 1_000_000}}},
	{id: "R3", what: "crash after each call", weight: 3, command: rigs("CrashAfterEachCall", 1),
		goals: []goal{{"CrashAfterEachCall", "workloads", 20}}},
	{id: "R3", what: "crash of long workloads", control: "CrashRigFindsLosses", weight: 1, command: rigs("Crash(LosesNo|RigFinds)", 1),
		goals: []goal{{"CrashLosesNoAcknowledgedWrite", "crashes", 1000}}},
	{id: "R4", what: "n-th failure", control: "NthRigFindsLosses", weight: 7, command: rigs("Nth", 1),
		goals: []goal{{"NthOperationOfTheDiskFails", "workloads", 20}}},
	{id: "R5", what: "full disk", weight: 3, command: rigs("FullDiskRefuses", 2),
		goals: []goal{{"FullDiskRefusesWritesOnly", "times full", 100}}},
	{id: "R6", what: "damage", weight: 7, command: rigs("Damage", 4),
		goals: []goal{{"Damage", "damaged", 10_000}}},
	{id: "R7", what: "verify", weight: 1, rig: "VerifyFindsPlantedDivergences",
		command: other("./internal/db", "VerifyFindsPlantedDivergences"),
		goals:   []goal{{"VerifyFindsPlantedDivergences", "found", 200}}},
	{id: "R8", what: "single items", weight: 10, rig: "SingleItems", command: serial("SingleItems", "windows"),
		goals: []goal{{"SingleItems", "windows", 100}}},
	{id: "R9", what: "transactions", weight: 14, rig: "ListAppend", command: serial("ListAppend", "transactions"),
		goals: []goal{{"ListAppend", "transactions", 10_000_000}}},
	{id: "R12", what: "recovery", weight: 2, rig: "RestoreToAnySecond",
		command: other("./internal/db", "RestoreToAnySecond", "-seconds", "100"),
		goals:   []goal{{"RestoreToAnySecond", "seconds", 1000}}},
	{id: "R13", what: "formats", weight: 1, rig: "FoldersOfEachFormatAreOpened",
		command: other("./torture", "FoldersOfEachFormat"),
		goals:   []goal{{"FoldersOfEachFormatAreOpened", "runs", 1}}},
	{id: "R14", what: "SIGTERM", weight: 5, command: rigs("StopAnswers", 1),
		goals: []goal{{"StopAnswersRequestsInFlight", "stops", 500}}},
	{id: "R15", what: "soak", weight: 3, whole: true, command: rigs("Soak|WorkLeaves", 2),
		goals: []goal{{"Soak", ledger.SecondsInSum, 24 * 3600}}},
	{id: "R16", what: "race detector", weight: 3, rig: "RaceDetector", command: raced("KillLoses|CrashLoses|CrashImagesLose", 3),
		goals: []goal{{"RaceDetector", ledger.SecondsInSum, 10 * 3600}}},
	{id: "R17", what: "overload", weight: 2, command: rigs("Overload|Crowd", 3),
		goals: []goal{{"OverloadIsThrottled", ledger.SecondsInSum, 1}, {"CrowdIsThrottled", ledger.SecondsInSum, 1}}},
	{id: "S6", what: "abuse", weight: 1, command: rigs("GoodClients", 1),
		goals: []goal{{"GoodClientsAreServedAmongBadOnes", ledger.SecondsInSum, 1}}},
	{id: "R19", what: "mutants", weight: 8, rig: mutantsRig, command: mutants,
		goals: []goal{{mutantsRig, "mutants", 200}}},
	{id: "R10", what: "streams", goals: []goal{{"", "records", 100_000_000}}},
}

// rigs returns the command of rigs that write to the ledger. The pattern matches so many
// that each run for the given time.
func rigs(pattern string, n int) func([]goal, time.Duration) []string {
	return func(missing []goal, span time.Duration) []string {
		args := []string{"go", "test", "-count=1", "-timeout", timeout(span), "./torture", "-run", pattern,
			"-torture", "-torture.for", (span / time.Duration(n)).Round(time.Second).String()}
		if counts := untils(missing); counts != "" {
			args = append(args, "-torture.until", counts)
		}
		return args
	}
}

// raced is rigs with the race detector.
func raced(pattern string, n int) func([]goal, time.Duration) []string {
	return func(_ []goal, span time.Duration) []string {
		args := rigs(pattern, n)(nil, span)
		return slices.Insert(args, 2, "-race")
	}
}

// untils are the counts at which a rig can end: those of one rig, or the larger ones of
// several.
func untils(missing []goal) string {
	var names []string
	most := make(map[string]int)
	for _, g := range missing {
		if g.count == ledger.SecondsInSum {
			continue
		}
		if most[g.count] == 0 {
			names = append(names, g.count)
		}
		most[g.count] = max(most[g.count], g.n)
	}
	var all []string
	for _, name := range names {
		all = append(all, fmt.Sprintf("%s=%d", name, most[name]))
	}
	return strings.Join(all, ",")
}

// other returns the command of a test that has no time of its own.
func other(folder, test string, flags ...string) func([]goal, time.Duration) []string {
	return func(_ []goal, span time.Duration) []string {
		return append([]string{"go", "test", "-v", "-count=1", "-timeout", timeout(span), folder, "-run", test}, flags...)
	}
}

// serial returns the command of a check of histories.
func serial(test, unit string) func([]goal, time.Duration) []string {
	return func(missing []goal, span time.Duration) []string {
		args := other("./internal/serialtest", "^Test"+test+"$")(nil, span)
		return append(args, "-serial.for", span.String(), "-serial.operations", "128000", fmt.Sprintf("-serial.%s=%d", unit, missing[0].n))
	}
}

// mutants returns the command of the mutants of the commit path: small packages first.
func mutants(_ []goal, span time.Duration) []string {
	args := []string{"go", "run", "./torture/mutate", "--most", "25", "--for", span.Round(time.Second).String(), "--seed", fmt.Sprint(time.Now().Unix())}
	return append(args, "internal/data/index", "internal/data/keyspace", "internal/data/item", "internal/store/pebble/walguard=internal/store/pebble/walguard,internal/store/pebble",
		"internal/store/pebble/commit=internal/store/pebble/commit,internal/store/pebble", "internal/store/latch=internal/store/latch,internal/store/pebble",
		"internal/db/codec=internal/db/codec,internal/db", "internal/db/history=internal/db/history,internal/db", "internal/store/pebble", "internal/db")
}

// timeout is that of go test, which only ends what hangs.
func timeout(span time.Duration) string { return (2*span + 30*time.Minute).Round(time.Second).String() }

// of reports whether a line counts for a goal.
func (g goal) of(l ledger.Line) bool {
	if g.rig == "" || l.Rig == g.rig || strings.HasPrefix(l.Rig, g.rig+"/") {
		return true
	}
	return g.rig == "Damage" && strings.HasPrefix(l.Rig, g.rig)
}

// reached returns the sum of the lines.
func (g goal) reached(lines []ledger.Line) (sum int) {
	for _, l := range lines {
		if g.of(l) {
			sum += l.Count(g.count)
		}
	}
	return sum
}

// missing returns the goals that are not reached, each with what is missing.
func (r row) missing(lines []ledger.Line) (left []goal) {
	for _, g := range r.goals {
		if g.n -= g.reached(lines); g.n > 0 {
			left = append(left, g)
		}
	}
	return left
}

func (r row) failed(lines []ledger.Line) bool { return slices.ContainsFunc(r.lines(lines), isFailed) }

func isFailed(l ledger.Line) bool { return l.Failed }

func notReached(l ledger.Line) bool { return strings.Contains(l.Counts, ledger.NotReached) }

// lines returns the lines of a row, with those of its control. A row that counts what others do has none.
func (r row) lines(all []ledger.Line) (own []ledger.Line) {
	for _, l := range all {
		control := r.control != "" && goal{rig: r.control}.of(l)
		if control || slices.ContainsFunc(r.goals, func(g goal) bool { return g.rig != "" && g.of(l) }) {
			own = append(own, l)
		}
	}
	return own
}

// report returns the table of the rows, and whether no row failed.
func report(chosen []row, lines []ledger.Line, commit string) (text string, held bool) {
	held = true
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "ROW\t\tGOAL\tREACHED ON %s\tRESULT\n", commit)
	for _, r := range chosen {
		held = held && !r.failed(lines)
		for i, g := range r.goals {
			id, what, result := r.id, r.what, r.result(lines)
			if i > 0 {
				id, what, result = "", "", ""
			}
			name := g.count
			if _, part, ok := strings.Cut(g.rig, "/"); ok {
				name += " (" + part + ")"
			}
			fmt.Fprintf(w, "%s\t%s\t%s %s\t%s\t%s\n", id, what, thousands(g.n), name, thousands(g.reached(lines)), result)
		}
	}
	w.Flush() //nolint:errcheck // into memory
	return b.String(), held
}

// result says in a few words what became of a row.
func (r row) result(lines []ledger.Line) string {
	own := r.lines(lines)
	switch {
	case r.failed(lines):
		return "FAILED"
	case len(own) == 0 && r.command != nil:
		return "not run"
	case len(r.missing(lines)) > 0:
		return "held, not enough yet"
	case slices.ContainsFunc(own, notReached):
		return "held, but a goal of the rig is not reached"
	}
	return "held"
}

// thousands formats a number with commas.
func thousands(n int) string {
	text := fmt.Sprint(n)
	for i := len(text) - 3; i > 0; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}
