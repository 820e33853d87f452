package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// A report is the result of a run.
type report struct {
	Seed        uint64         `json:"seed"`
	Requests    int            `json:"requests"`
	Rounds      int            `json:"rounds"`
	Equal       int            `json:"equal"`   // requests that all servers answered alike
	Skipped     int            `json:"skipped"` // reads of streams that the servers have no common history for
	Known       map[string]int `json:"known"`   // differences by the name of their known fault
	Squares     []*square      `json:"squares"` // differences that are the order of two faults
	Unexplained []*unexplained `json:"unexplained"`
	Operations  map[string]int `json:"operations"`
	Control     *control       `json:"control,omitempty"` // nil if no faults are planted

	byClass map[string]int // index into Unexplained
	shrunk  int            // classes that were shrunk
	record  func(exchange) // gets all exchanges; nil is nothing
}

// unexplained are the differences of one class that no known fault explains.
type unexplained struct {
	Class string   `json:"class"`
	Count int      `json:"count"`
	First *finding `json:"first"`
	Steps []step   `json:"steps"` // the shortest sequence that shows it
}

func newReport(seed uint64) *report {
	return &report{Seed: seed, Known: make(map[string]int), byClass: make(map[string]int), Operations: make(map[string]int)}
}

// count counts an exchange and its findings. It returns the findings that no
// known fault explains.
func (r *report) count(e exchange, found []*finding) (open []*finding) {
	r.Requests++
	r.Operations[e.Step.Op]++
	if e.Answers == nil {
		r.Skipped++
		return nil
	}
	if r.record != nil {
		r.record(e)
	}
	if r.Control != nil {
		r.Control.count(e)
	}
	if found == nil {
		r.Equal++
	}
	for _, f := range found {
		ks := explain(f)
		if ks == nil {
			open = append(open, f)
		}
		for _, k := range ks {
			r.Known[k.name]++
		}
	}
	return open
}

// maxClasses bounds the memory of a run.
const maxClasses = 500

// addSquare counts a difference that is the order of two faults.
func (r *report) addSquare(sq *square) {
	for _, other := range r.Squares {
		if other.Class == sq.Class {
			other.Count++
			return
		}
	}
	r.Squares = append(r.Squares, sq)
}

// add counts an unexplained finding. It returns the class if the finding is the
// first of it.
func (r *report) add(f *finding) *unexplained {
	class := f.class()
	if i, ok := r.byClass[class]; ok {
		r.Unexplained[i].Count++
		return nil
	}
	if len(r.Unexplained) == maxClasses {
		return nil
	}
	u := &unexplained{Class: class, Count: 1, First: f}
	r.byClass[class] = len(r.Unexplained)
	r.Unexplained = append(r.Unexplained, u)
	return u
}

// print writes the report for people.
func (r *report) print(w io.Writer) {
	slices.SortFunc(r.Unexplained, func(a, b *unexplained) int { return cmp.Compare(b.Count, a.Count) })
	for _, u := range r.Unexplained {
		alone := ""
		if u.First.alone(u.First.Places[0]) {
			alone = " (the witnesses agree)"
		}
		fmt.Fprintf(w, "unexplained, %d times%s: %s\n", u.Count, alone, u.Class)
		for _, st := range u.Steps {
			fmt.Fprintf(w, "> %s %s\n", st.Op, st.text())
		}
		f := u.First
		fmt.Fprintf(w, "# differs in %s\n", strings.Join(f.Places, ", "))
		printAnswer(w, nameStator, f.Stator)
		printAnswer(w, f.Witness, f.Other)
		if f.Third != nil {
			printAnswer(w, "the other witness", *f.Third)
		}
		fmt.Fprintln(w)
	}
	for _, sq := range r.Squares {
		sq.print(w)
	}
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "TIMES\tSERVER\tKNOWN FAULT")
	for _, k := range faults {
		if n := r.Known[k.name]; n > 0 {
			fmt.Fprintf(t, "%d\t%s\t%s\n", n, cmp.Or(k.witness, "both"), k.name)
		}
	}
	_ = t.Flush()
	if r.Control != nil {
		r.Control.print(w)
	}
	total, orders := 0, 0
	for _, u := range r.Unexplained {
		total += u.Count
	}
	for _, sq := range r.Squares {
		orders += sq.Count
	}
	fmt.Fprintf(w, "%d requests in %d rounds, seed %d: %d answered alike by all servers, %d differ in the order of two faults, %d unexplained differences in %d classes\n",
		r.Requests, r.Rounds, r.Seed, r.Equal, orders, total, len(r.Unexplained))
}

// print writes the requests that show the order of two faults.
func (sq *square) print(w io.Writer) {
	fmt.Fprintf(w, "order of two faults, %d times: %s\n", sq.Count, sq.Class)
	for _, body := range []object{sq.Request.Body, sq.WithoutFirst, sq.WithoutSecond, sq.WithoutBoth} {
		fmt.Fprintf(w, "> %s %s\n", sq.Request.Op, canonical(body))
	}
	fmt.Fprintln(w)
}

const maxShown = 1500

func printAnswer(w io.Writer, name string, a answer) {
	text := a.outcome()
	if len(a.Body) > 0 {
		text += " " + canonical(a.Body)
	}
	if len(text) > maxShown {
		text = text[:maxShown] + "…"
	}
	fmt.Fprintf(w, "< %s: %s\n", name, text)
}

func (r *report) json(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// printKnown writes the list of known faults as Markdown.
func printKnown(w io.Writer) {
	fmt.Fprint(w, "# Known faults\n\nDifferences that have been decided, from `faults*.go`. `go run . --known > KNOWN.md` writes this page.\n\n")
	fmt.Fprint(w, "| server | difference | evidence |\n|---|---|---|\n")
	for _, k := range faults {
		fmt.Fprintf(w, "| %s | %s | %s |\n", cmp.Or(k.witness, "both"), k.name, strings.ReplaceAll(k.evidence, "|", "\\|"))
	}
}
