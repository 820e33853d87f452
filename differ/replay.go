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
// servers to each.
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
	for _, st := range steps {
		answers, err := g.ask(ctx, st, inStep)
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "> %s %s\n", st.Op, st.text())
		for i, a := range answers {
			printAnswer(w, g[i].name, *a)
		}
		for _, f := range (exchange{st, answers}).compare() {
			for _, k := range explain(f) {
				fmt.Fprintf(w, "# %s: %s\n", f.Witness, k.name)
			}
		}
		fmt.Fprintln(w)
	}
	return g.clear(ctx)
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
