// Package ledger reads and writes the record of the runs of the fault rigs.
package ledger

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"
)

// Name is the name of the file, in the folder torture.
const Name = "LEDGER.md"

// Line is the line of one run of a rig.
type Line struct {
	Began  time.Time
	Commit string
	Rig    string // the name of its test, without Test
	Seed   string
	Took   time.Duration
	Counts string // such as "3 kills, 20 acknowledged"
	Failed bool
}

// Read returns the lines of the commits that are wanted.
func Read(path string, wanted func(commit string) bool) ([]Line, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var all []Line
	for line := range strings.Lines(string(text)) {
		cells := strings.Split(strings.TrimSpace(line), " | ")
		if len(cells) != 7 || cells[1] == "commit" || !wanted(cells[1]) {
			continue
		}
		seconds, err := strconv.Atoi(strings.TrimSuffix(cells[4], " s"))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", line, err)
		}
		began, err := time.Parse(minute, strings.TrimPrefix(cells[0], "| "))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", line, err)
		}
		all = append(all, Line{
			Began: began, Commit: cells[1], Rig: cells[2], Seed: cells[3], Took: time.Duration(seconds) * time.Second,
			Counts: cells[5], Failed: strings.Contains(cells[6], failed),
		})
	}
	return all, nil
}

// Append adds the line to a file.
func (l Line) Append(path string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	result := "held"
	if l.Failed {
		result = failed
	}
	_, err = fmt.Fprintf(f, "| %s | %s | %s | %s | %.0f s | %s | %s |\n", l.Began.UTC().Format(minute), l.Commit,
		l.Rig, l.Seed, l.Took.Seconds(), l.Counts, result)
	return errors.Join(err, f.Close())
}

const (
	minute = "2006-01-02 15:04"
	failed = "**FAILED**"
)

// Count returns one of the counts of a line. SecondsInSum is how long it took.
func (l Line) Count(name string) int {
	if name == SecondsInSum {
		return int(l.Took / time.Second)
	}
	sum := 0
	for part := range strings.SplitSeq(l.Counts, ", ") {
		text, of, _ := strings.Cut(part, " ")
		if n, err := strconv.Atoi(text); err == nil && of == name {
			sum += n
		}
	}
	return sum
}

// SecondsInSum is the name of a count that each line has.
const SecondsInSum = "seconds in sum"

// NotReached is what a line has after a goal of the rig that was not reached.
const NotReached = "**not reached**"

// Commit returns the commit of the code, with + if a file other than the ledger was changed
// since; ? if it is unknown.
func Commit() string {
	head, err := exec.Command("git", "describe", "--always", "--exclude=*").Output()
	if err != nil {
		return "?"
	}
	changed, err := exec.Command("git", "status", "--porcelain", "--untracked-files=no", "--", ":/", ":(top,exclude)torture/"+Name).Output()
	if err != nil || len(changed) > 0 {
		return strings.TrimSpace(string(head)) + "+"
	}
	return strings.TrimSpace(string(head))
}
