// Command prose counts words in the comments of the repository's Go files that
// are not plain technical English, per 1,000 lines of comments.
//
// CONTRIBUTING.md has the rules of language. Nothing fails when a count is above its
// target: some uses are legitimate.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
)

func main() {
	asJSON := flag.Bool("json", false, "print the counts as JSON")
	list := flag.Bool("list", false, "print each use with its file and line")
	flag.Usage = func() {
		fmt.Fprintln(flag.CommandLine.Output(), "usage: prose [--json] [--list] [directory]")
		flag.PrintDefaults()
	}
	flag.Parse()
	if flag.NArg() > 1 {
		flag.Usage()
		os.Exit(2)
	}
	root := "."
	if flag.NArg() == 1 {
		root = flag.Arg(0)
	}
	r, err := read(root)
	if err == nil {
		err = output(r, *asJSON, *list)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "prose:", err)
		os.Exit(1)
	}
}

func output(r *report, asJSON, list bool) error {
	switch {
	case asJSON:
		out := json.NewEncoder(os.Stdout)
		out.SetIndent("", "  ")
		return out.Encode(r)
	case list:
		for _, u := range r.uses {
			fmt.Printf("%s:%d: %s: %s\n", u.file, u.line, u.phrase, u.text)
		}
		return nil
	}
	if err := printTable(os.Stdout, "directory", r.Code); err != nil {
		return err
	}
	fmt.Println()
	return printTable(os.Stdout, "tests of", r.Tests)
}

// printTable prints the counts of each directory, and of all of them the counts
// per 1,000 lines and their targets.
func printTable(w io.Writer, title string, byDir map[string]*count) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	row := func(head, lines string, cell func(p phrase) string) {
		cells := []string{head, lines}
		for _, p := range phrases {
			cells = append(cells, cell(p))
		}
		fmt.Fprintln(out, strings.Join(cells, "\t"))
	}
	row(strings.ToUpper(title), "COMMENT LINES", func(p phrase) string { return strings.ToUpper(p.name) })
	total := newCount()
	for _, dir := range slices.Sorted(maps.Keys(byDir)) {
		c := byDir[dir]
		total.add(c)
		row(dir, fmt.Sprint(c.Lines), func(p phrase) string { return fmt.Sprint(c.Uses[p.name]) })
	}
	row("total", fmt.Sprint(total.Lines), func(p phrase) string { return fmt.Sprint(total.Uses[p.name]) })
	row("per 1,000", "", func(p phrase) string { return fmt.Sprintf("%.1f", total.perThousand(p)) })
	row("target", "", func(p phrase) string { return p.target })
	return out.Flush()
}
