// Command sidebyside runs the tests of two ordinary projects, in JavaScript and in Python, against
// DynamoDB Local and against stator, and prints how long they take.
//
//	go run . --runs 3
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

func main() {
	c := config{root: "../.."}
	var runs int
	var projects, databases string
	var asJSON bool
	flag.StringVar(&c.work, "work", "../../bin/sidebyside", "folder for what is installed")
	flag.StringVar(&c.stator, "stator", "", "stator to run; built from the source by default")
	flag.IntVar(&runs, "runs", 3, "how often each project runs against each database")
	flag.StringVar(&projects, "projects", "js,python", "which projects run")
	flag.StringVar(&databases, "databases", "dynamodb-local,stator", "against which databases")
	flag.BoolVar(&asJSON, "json", false, "print JSON")
	flag.Parse()
	if flag.NArg() > 0 || runs < 1 {
		fmt.Fprintln(os.Stderr, "sidebyside: --runs must be 1 or more, and there are no arguments")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	results, err := c.measure(ctx, runs, strings.Split(projects, ","), strings.Split(databases, ","))
	if err == nil {
		err = write(results, asJSON)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "sidebyside:", err)
		os.Exit(1)
	}
}

// result is what the runs of a project against a database took.
type result struct {
	Project  string    `json:"project"`
	Database string    `json:"database"`
	Passed   int       `json:"passed"`
	Failed   int       `json:"failed"`
	Wall     []seconds `json:"wallSeconds"`      // of each run, with the start of the server
	CPU      []seconds `json:"processorSeconds"` // of the tests and the server
}

// seconds is a duration that JSON has with two digits.
type seconds time.Duration

func (s seconds) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, "%.2f", time.Duration(s).Seconds()), nil
}

func (s seconds) String() string { return fmt.Sprintf("%.1f s", time.Duration(s).Seconds()) }

// measure runs each project against each database. Runs against different databases take turns, so
// that other work on the machine slows all of them down.
func (c *config) measure(ctx context.Context, runs int, projects, databases []string) (results []result, err error) {
	if err := c.prepare(ctx, projects, databases); err != nil {
		return nil, err
	}
	for _, name := range projects {
		first := len(results)
		for _, database := range databases {
			results = append(results, result{Project: name, Database: database})
		}
		for n := range runs {
			for i := range databases {
				r := &results[first+(n+i)%len(databases)]
				fmt.Fprintf(os.Stderr, "run %d of %d: %s against %s\n", n+1, runs, r.Project, r.Database)
				o, err := c.run(ctx, r.Project, r.Database)
				if err != nil {
					return nil, err
				}
				r.Passed, r.Failed = o.passed, max(r.Failed, o.failed)
				r.Wall, r.CPU = append(r.Wall, seconds(o.wall)), append(r.CPU, seconds(o.cpu))
			}
		}
	}
	return results, nil
}

func write(results []result, asJSON bool) error {
	if asJSON {
		e := json.NewEncoder(os.Stdout)
		e.SetIndent("", "  ")
		return e.Encode(results)
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "PROJECT\tDATABASE\tPASSED\tFAILED\tWALL TIME\tRUNS\tPROCESSOR TIME")
	for _, r := range results {
		var all []string
		for _, s := range r.Wall {
			all = append(all, s.String())
		}
		fmt.Fprintf(w, "%s\t%s\t%d\t%d\t%s\t%s\t%s\n", r.Project, r.Database, r.Passed, r.Failed, median(r.Wall), strings.Join(all, ", "), median(r.CPU))
	}
	return w.Flush()
}

func median(times []seconds) seconds {
	sorted := slices.Sorted(slices.Values(times))
	return sorted[(len(sorted)-1)/2]
}
