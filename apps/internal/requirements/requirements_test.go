// Package requirements checks the table of the design documents' requirements.
package requirements

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const file = "../../REQUIREMENTS.md"

// row is a requirement.
type row struct {
	system, state, shown string
	number               int
}

var (
	heading  = regexp.MustCompile(`^## (.+)$`)
	folder   = regexp.MustCompile(`^\[([a-z]+)\]\(([a-z]+)/README\.md\)`)
	line     = regexp.MustCompile(`^\| (\d+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$`)
	sum      = regexp.MustCompile(`^\| (?:\[([^\]]+)\]\([^)]*\)|(all)) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|$`)
	testName = regexp.MustCompile("`(Test[A-Za-z0-9]+)`")
	declared = regexp.MustCompile(`(?m)^func (Test[A-Za-z0-9]+)\(t \*testing\.T\)`)
)

// read returns the rows by title, and the sums that the page has.
func read(t *testing.T) (rows map[string][]row, sums map[string]string) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	rows, sums = make(map[string][]row), make(map[string]string)
	title, system := "", ""
	for _, l := range strings.Split(string(text), "\n") {
		if m := heading.FindStringSubmatch(l); m != nil {
			title = m[1]
		} else if m := folder.FindStringSubmatch(l); m != nil {
			system = m[1]
		} else if m := sum.FindStringSubmatch(l); m != nil {
			sums[m[1]+m[2]] = strings.Join(m[3:], " ")
		} else if m := line.FindStringSubmatch(l); m != nil {
			n, _ := strconv.Atoi(m[1])
			rows[title] = append(rows[title], row{system, m[3], m[4], n})
		}
	}
	return rows, sums
}

// tests returns the names of the tests in a folder.
func tests(t *testing.T, of string) map[string]bool {
	t.Helper()
	found := make(map[string]bool)
	err := filepath.WalkDir(of, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range declared.FindAllStringSubmatch(string(text), -1) {
			found[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// Every test that a row names exists, in the row's system or in the shared packages; each
// row has a test or a command, and one that is not met has a reason.
func TestRequirements(t *testing.T) {
	rows, _ := read(t)
	shared := tests(t, "..")
	for title, all := range rows {
		own := tests(t, "../../"+all[0].system)
		for i, r := range all {
			if r.number != i+1 {
				t.Errorf("%s: row %d follows row %d", title, r.number, i)
			}
			names := testName.FindAllStringSubmatch(r.shown, -1)
			for _, m := range names {
				if !own[m[1]] && !shared[m[1]] {
					t.Errorf("%s %d: there is no %s", title, r.number, m[1])
				}
			}
			if len(names) == 0 && !strings.Contains(r.shown, "`") {
				t.Errorf("%s %d names neither a test nor a command", title, r.number)
			}
			reason := regexp.MustCompile("`[^`]*`").ReplaceAllString(r.shown, "")
			switch r.state {
			case "met":
			case "partly", "not met":
				if len(strings.Fields(reason)) < 6 {
					t.Errorf("%s %d is %s without a reason", title, r.number, r.state)
				}
			default:
				t.Errorf("%s %d has the state %q", title, r.number, r.state)
			}
		}
	}
}

// The sums are those of the rows.
func TestSums(t *testing.T) {
	rows, sums := read(t)
	total := [4]int{}
	say := func(n [4]int) string { return strings.Trim(fmt.Sprint(n), "[]") }
	for title, want := range map[string]int{"Task queue": 21, "Download pipeline": 47, "Saving goals": 36, "Document extraction": 36} {
		n := [4]int{len(rows[title])}
		for _, r := range rows[title] {
			n[map[string]int{"met": 1, "partly": 2, "not met": 3}[r.state]] += 1
		}
		for i := range n {
			total[i] += n[i]
		}
		if n[0] != want || sums[title] != say(n) {
			t.Errorf("%s: the page has the sums %s, the rows %s; the document has %d requirements", title, sums[title], say(n), want)
		}
	}
	if sums["all"] != say(total) {
		t.Errorf("the page has the sums %s, the rows %s", sums["all"], say(total))
	}
}
