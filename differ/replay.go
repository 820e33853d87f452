package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
)

// replay sends the requests of a report again, and prints the answers of all
// servers to each, and the differences that are the order of two faults.
func (g group) replay(ctx context.Context, file string, w io.Writer) error {
	steps, err := readSteps(file)
	if err != nil {
		return err
	}
	g.rename()
	inStep := make([]bool, len(g))
	for i := range inStep {
		inStep[i] = true
	}
	var open []openFinding
	for i, st := range steps {
		answers, err := g.ask(ctx, st, inStep)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "> %s %s\n", st.Op, st.text())
		for i, a := range answers {
			printAnswer(w, g[i].name, *a)
		}
		for _, f := range (exchange{st, answers}).compare() {
			ks := explain(f)
			for _, k := range ks {
				fmt.Fprintf(w, "# %s: %s\n", f.Witness, k.name)
			}
			if ks == nil {
				fmt.Fprintf(w, "# %s: unexplained\n", f.Witness)
				open = append(open, openFinding{f, i + 1})
			}
		}
		fmt.Fprintln(w)
	}
	if err := g.clear(ctx); err != nil {
		return err
	}
	for _, o := range open {
		sq, err := g.reduce(ctx, steps[:o.steps], o.f, nil)
		if err != nil {
			return err
		}
		if sq != nil {
			sq.print(w)
		}
	}
	return nil
}

// readSteps reads lines of the form "> Operation {…}".
func readSteps(file string) (steps []step, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		rest, ok := strings.CutPrefix(strings.TrimSpace(line), "> ")
		if !ok {
			continue
		}
		op, body, _ := strings.Cut(rest, " ")
		st := step{Op: op, Pages: op == "Query" || op == "Scan" || op == "ExecuteStatement"}
		if err := json.Unmarshal([]byte(body), &st.Body); err != nil {
			return nil, fmt.Errorf("%s: %w in %s", file, err, line)
		}
		steps = append(steps, st)
	}
	return steps, nil
}
