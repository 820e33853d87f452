package docs

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/internal/cli"
	"github.com/stator-db/stator/internal/ops"
)

// Links between documents lead somewhere.
func TestLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#\s]+)(#[^)]*)?\)`)
	for name, text := range documents(t) {
		for _, m := range link.FindAllStringSubmatch(text, -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(name), m[1])); err != nil {
				t.Errorf("%s links to %s, which does not exist", name, m[1])
			}
		}
	}
}

// Files, folders and tests that documents name exist.
func TestNames(t *testing.T) {
	tests := testNames(t)
	for name, text := range documents(t) {
		for _, m := range quoted.FindAllStringSubmatch(text, -1) {
			switch {
			case isPath.MatchString(m[1]):
				if _, err := os.Stat(filepath.Join("..", m[1])); err != nil {
					t.Errorf("%s names %s, which does not exist", name, m[1])
				}
			case isTest.MatchString(m[1]) && !tests[m[1]]:
				t.Errorf("%s names %s, which is not a test", name, m[1])
			}
		}
	}
}

var (
	quoted = regexp.MustCompile("`([^`\n]+)`")
	isPath = regexp.MustCompile(`^(\.ci|cmd|conformance|docs|internal|statortest)/([\w-]+[./]?)*$`)
	isTest = regexp.MustCompile(`^(Test|Fuzz)[A-Z]\w*$`)
)

// Each row of the tables of differences and limits names the transcript or the
// test that holds it. TestNames checks that these exist.
func TestRowsNameTheirTests(t *testing.T) {
	for _, name := range []string{"differences.md", "limits.md"} {
		rows := 0
		for line := range strings.Lines(read(t, name)) {
			cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), "|")
			if len(cells) < 3 || strings.HasPrefix(cells[0], "---") || strings.TrimSpace(cells[len(cells)-1]) == "held by" {
				continue
			}
			rows++
			held := quoted.FindAllStringSubmatch(cells[len(cells)-1], -1)
			if !slices.ContainsFunc(held, func(m []string) bool { return isPath.MatchString(m[1]) || isTest.MatchString(m[1]) }) {
				t.Errorf("%s: no test holds the row %s", name, line)
			}
		}
		if rows < 30 {
			t.Errorf("%s has only %d rows", name, rows)
		}
	}
}

// The page on architecture says where to find what a reader looks for first, by
// the field's name for it.
func TestWhereToFind(t *testing.T) {
	_, table, _ := strings.Cut(read(t, "architecture.md"), "| subject | where |")
	table, _, _ = strings.Cut(table, "\n\n")
	for _, subject := range []string{"value cache", "admission control", "group commit", "index backfill", "stream reader", "dead letters", "TTL"} {
		row := regexp.MustCompile(`(?m)^\| [^|]*\b` + subject + `\b[^|]*\|(.*)\|$`).FindStringSubmatch(table)
		if row == nil || !slices.ContainsFunc(quoted.FindAllStringSubmatch(row[1], -1), func(m []string) bool { return isPath.MatchString(m[1]) }) {
			t.Errorf("architecture.md does not say where to find the %s", subject)
		}
	}
}

// The README's table of operations names each operation of the SDK once, as there
// or not yet there.
func TestOperations(t *testing.T) {
	_, table, _ := strings.Cut(read(t, "../README.md"), "| | there | not yet |")
	table, _, _ = strings.Cut(table, "\n\n")
	there, notYet := map[string]bool{}, map[string]bool{}
	name := regexp.MustCompile(`[A-Z]\w+[a-z]`)
	for line := range strings.Lines(table) {
		if cells := strings.Split(line, "|"); len(cells) == 5 {
			for _, op := range name.FindAllString(cells[2], -1) {
				there[op] = true
			}
			for _, op := range name.FindAllString(cells[3], -1) {
				notYet[op] = true
			}
		}
	}
	client := reflect.TypeFor[*dynamodb.Client]()
	for i := range client.NumMethod() {
		op := client.Method(i).Name
		switch {
		case op == "Options":
		case there[op] == notYet[op]:
			t.Errorf("%s is on both sides of the table, or on neither", op)
		case there[op] != ops.Known(op):
			t.Errorf("%s is on the wrong side of the table", op)
		}
	}
}

// The make targets that documents name are in the Makefile.
func TestMakeTargets(t *testing.T) {
	makefile := read(t, "../Makefile")
	for name, text := range documents(t) {
		for _, m := range makeTarget.FindAllStringSubmatch(text, -1) {
			if target := m[1] + m[2]; !strings.Contains(makefile, "\n"+target+":") {
				t.Errorf("%s names make %s, which the Makefile does not have", name, target)
			}
		}
	}
}

// makeTarget matches a target in backquotes, and on a line of its own.
var makeTarget = regexp.MustCompile("(?m)`make ([a-z-]+)|^make ([a-z-]+)(?: *$| +#| +[A-Z]+=)")

// The program in the README is the one that is run as a test.
func TestExample(t *testing.T) {
	if example := read(t, "example/orders_test.go"); !strings.Contains(read(t, "../README.md"), "```go\n"+example+"```") {
		t.Error("the README's program differs from docs/example/orders_test.go")
	}
}

// The commands and flags of stator that documents use exist.
func TestFlags(t *testing.T) {
	command := regexp.MustCompile("(?:go run ./cmd/)?stator (serve|version|conform)\\b([^`\n]*)")
	checked := 0
	for name, text := range documents(t) {
		for _, m := range command.FindAllStringSubmatch(text, -1) {
			var help bytes.Buffer
			if code := cli.Run([]string{m[1], "--help"}, &help, io.Discard); code != 0 || !strings.Contains(help.String(), "stator "+m[1]) {
				t.Errorf("%s uses stator %s, which is not a command", name, m[1])
				continue
			}
			for _, flag := range regexp.MustCompile(`--[a-z-]+`).FindAllString(m[2], -1) {
				if !strings.Contains(help.String(), flag+" ") {
					t.Errorf("%s uses %s of stator %s, which does not exist", name, flag, m[1])
				}
			}
			checked++
		}
	}
	if checked == 0 {
		t.Error("no document shows a command")
	}
}

// The AWS commands of the README's first minute do what it says.
func TestFirstMinute(t *testing.T) {
	d := openDatabase(t, stator.Options{})
	text := strings.ReplaceAll(read(t, "../README.md"), "\\\n", " ")
	var last string
	for _, m := range regexp.MustCompile(`(?m)^aws dynamodb (.*)$`).FindAllStringSubmatch(text, -1) {
		operation, body := request(t, words(m[1]))
		last = d.must(operation, string(body))
	}
	if !strings.Contains(last, `"42.5"`) {
		t.Errorf("the query answers %s", last)
	}
}

// request returns the operation and the body that the AWS CLI sends for its
// arguments.
func request(t *testing.T, args []string) (operation string, body []byte) {
	t.Helper()
	members := map[string]any{}
	member := ""
	for _, arg := range args[1:] {
		if name, ok := strings.CutPrefix(arg, "--"); ok {
			member = camel(name)
			continue
		}
		if pairs := strings.Split(arg, ","); strings.HasPrefix(arg, "AttributeName=") {
			structure := map[string]string{}
			for _, p := range pairs {
				name, value, _ := strings.Cut(p, "=")
				structure[name] = value
			}
			list, _ := members[member].([]any)
			members[member] = append(list, structure)
			continue
		}
		members[member] = arg
		if json.Valid([]byte(arg)) {
			members[member] = json.RawMessage(arg)
		}
	}
	body, err := json.Marshal(members)
	if err != nil {
		t.Fatal(err)
	}
	return camel(args[0]), body
}

func camel(name string) string {
	var b strings.Builder
	for part := range strings.SplitSeq(name, "-") {
		b.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	return b.String()
}

// words splits a command line; text in single quotes stays together.
func words(line string) (words []string) {
	for _, m := range regexp.MustCompile(`'([^']*)'|(\S+)`).FindAllStringSubmatch(line, -1) {
		words = append(words, m[1]+m[2])
	}
	return words
}

// documents returns the texts of all documents, by their path from here.
func documents(t *testing.T) map[string]string {
	t.Helper()
	texts := map[string]string{}
	walk(t, ".md", func(name, text string) { texts[name] = text })
	return texts
}

// testNames returns the names of all tests in the module.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	walk(t, "_test.go", func(_, text string) {
		for _, m := range regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`).FindAllStringSubmatch(text, -1) {
			names[m[1]] = true
		}
	})
	return names
}

// walk visits the module's files with a suffix.
func walk(t *testing.T, suffix string, visit func(name, text string)) {
	t.Helper()
	skipped := []string{".git", "node_modules", "bin", "testdata", "stator-data"}
	err := filepath.WalkDir("..", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(skipped, d.Name()):
			return fs.SkipDir
		case !d.IsDir() && strings.HasSuffix(name, suffix):
			visit(filepath.ToSlash(name), read(t, name))
		}
		return nil
	})
	if err != nil {
		t.Fatal(fmt.Errorf("read the documents: %w", err))
	}
}
