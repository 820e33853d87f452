package infer

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/exchange"
)

// Model returns the result as the text of a model, in which a comment after
// each guess gives its evidence. It returns an error if the text is not valid.
func (r *Result) Model() ([]byte, error) {
	text := r.text()
	if _, err := model.Parse(r.Name, text); err != nil {
		return nil, fmt.Errorf("what was derived from %s is not a valid model:\n%w", r.Source, err)
	}
	return text, nil
}

func (r *Result) text() []byte {
	w := &resultWriter{}
	w.line(0, "", "# Derived by stator model infer from %s.", exchange.Comment(r.Source))
	w.line(0, "", "# A comment that begins with guess gives the evidence of what it follows.")
	w.line(0, "", "model: %d", model.Version)
	w.line(0, "", "name: %s", exchange.Quote(r.Name))
	w.line(0, "", "\ntables:")
	for _, s := range r.tables {
		exchange.WriteTable(&w.Buffer, s.Table)
	}
	w.heading("entities", len(r.Entities), "{}")
	for _, e := range r.Entities {
		w.entity(e)
	}
	w.heading("patterns", len(r.Patterns), "[]")
	for _, p := range r.Patterns {
		w.pattern(p)
	}
	for _, text := range r.Unmatched {
		w.line(0, "", "# Not derived: %s", exchange.Comment(text))
	}
	return w.Bytes()
}

// resultWriter writes a result as YAML.
type resultWriter struct{ bytes.Buffer }

// line writes a line, with the evidence of a guess as a comment.
func (w *resultWriter) line(indent int, guess, format string, args ...any) {
	w.WriteString(strings.Repeat("  ", indent))
	fmt.Fprintf(w, format, args...)
	if guess != "" {
		w.WriteString("  # guess: " + exchange.Comment(guess))
	}
	w.WriteByte('\n')
}

// heading begins a list of n entries.
func (w *resultWriter) heading(name string, n int, empty string) {
	if n > 0 {
		empty = ""
	}
	w.line(0, "", "%s", strings.TrimRight("\n"+name+": "+empty, " "))
}

func (w *resultWriter) entity(e *Entity) {
	w.line(1, e.Guess, "%s:", exchange.Quote(e.Name))
	w.line(2, "", "# An item has %s bytes typically, and %s at most.", figure(e.Typical), figure(e.Largest))
	w.line(2, "", "table: %s", exchange.Quote(e.Table))
	if len(e.Keys) > 0 {
		w.line(2, "", "keys:")
	}
	for _, k := range e.Keys {
		if k.When == nil {
			w.line(3, k.Guess, "%s: %s", exchange.Quote(k.Name), exchange.InQuotes(k.Template))
		} else {
			w.line(3, k.Guess, "%s: {template: %s, when: %s}", exchange.Quote(k.Name), exchange.InQuotes(k.Template), k.When.yaml())
		}
	}
	if len(e.Attributes) > 0 {
		w.line(2, "", "attributes:")
	}
	for _, a := range e.Attributes {
		w.line(3, a.Guess, "%s: {%s}", exchange.Quote(a.Name), a.yaml())
	}
	counted := "the share of the sampled items, times the items of the table"
	if e.group.sample.Complete {
		counted = "all items were read"
	}
	w.line(2, counted, "count: %d", e.Count)
	if e.Growth != "" {
		w.line(2, e.GrowthFrom, "growth: %s", e.Growth)
	}
	if e.Keep != "" {
		w.line(2, e.KeepFrom, "keep: %s", e.Keep)
	}
}

func (p *Presence) yaml() string {
	return "{" + exchange.Quote(p.Attribute) + ": " + texts(p.Values) + "}"
}

// texts returns texts as a list that YAML does not read as anything else.
func texts(all []string) string {
	quoted := make([]string, len(all))
	for i, text := range all {
		quoted[i] = exchange.Quote(text)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// yaml returns the fields of an attribute.
func (a *Attribute) yaml() string {
	var parts []string
	add := func(name, value string) { parts = append(parts, name+": "+value) }
	if a.Type != "S" || a.Format == "" && a.Size == 0 && len(a.Values) == 0 && a.Shards == 0 {
		add("type", a.Type)
	}
	if a.Format != "" {
		add("format", a.Format)
	}
	for _, n := range []struct {
		name  string
		value int
	}{{"size", a.Size}, {"largest", a.Largest}, {"digits", a.Digits}, {"count", a.Count}, {"most", a.Most}, {"shards", a.Shards}, {"distinct", int(a.Distinct)}} {
		if n.value > 0 {
			add(n.name, strconv.Itoa(n.value))
		}
	}
	if a.Of != "" {
		add("of", exchange.Quote(a.Of))
	}
	if len(a.Values) > 0 {
		add("values", texts(a.Values))
	}
	if len(a.Mix) > 0 {
		var mix []string
		for i, v := range a.Values {
			mix = append(mix, exchange.Quote(v)+": "+strconv.FormatFloat(a.Mix[i], 'f', -1, 64))
		}
		add("mix", "{"+strings.Join(mix, ", ")+"}")
	}
	if a.Hottest > 0 {
		add("hottest", strconv.FormatFloat(a.Hottest, 'f', -1, 64))
	}
	if a.When != nil {
		add("when", a.When.yaml())
	}
	if a.Unstored {
		add("stored", "false")
	}
	return strings.Join(parts, ", ")
}

func (w *resultWriter) pattern(p *Pattern) {
	w.line(1, p.Guess, "- name: %s", exchange.Quote(p.Name))
	if p.Combined == "" {
		w.action(2, "", p.Actions[0])
	} else {
		w.line(2, "", "%s:", p.Combined)
		for _, a := range p.Actions {
			w.action(4, "- ", a)
		}
	}
	w.line(2, "", "rate: %s", p.Rate)
}

// action writes an action, with a mark before its first line.
func (w *resultWriter) action(indent int, mark string, a *Action) {
	at := indent - len(mark)/2
	for _, f := range a.fields() {
		w.line(at, "", "%s%s", mark, f)
		at, mark = indent, ""
	}
	for _, note := range a.Notes {
		w.line(indent, "", "# guess: %s", exchange.Comment(note))
	}
}

// fields returns the fields of an action as YAML.
func (a *Action) fields() (all []string) {
	add := func(name, value string) {
		if value != "" {
			all = append(all, name+": "+value)
		}
	}
	list := func(name string, names []string) {
		if len(names) > 0 {
			add(name, exchange.List(names))
		}
	}
	settings := func(name string, of []Assignment) {
		var parts []string
		for _, s := range of {
			parts = append(parts, exchange.Quote(s.Name)+": "+s.Value)
		}
		if len(parts) > 0 {
			add(name, "{"+strings.Join(parts, ", ")+"}")
		}
	}
	flag := func(name string, set bool) {
		if set {
			add(name, "true")
		}
	}
	count := func(name string, n int) {
		if n > 0 {
			add(name, strconv.Itoa(n))
		}
	}
	add(a.Verb, exchange.Quote(a.Entity))
	list("given", a.Given)
	list("each", a.Each)
	count("times", a.Times)
	settings("where", a.Where)
	if a.Range != nil {
		add("range", fmt.Sprintf("{attribute: %s, is: %s}", exchange.Quote(a.Range.Attribute), a.Range.Is))
	}
	if a.Index != "" {
		add("index", exchange.Quote(a.Index))
	}
	flag("consistent", a.Consistent)
	count("matches", a.Matches)
	count("reads", a.Reads)
	settings("with", a.With)
	list("returns", a.Returns)
	settings("from", a.From)
	settings("set", a.Set)
	list("remove", a.Remove)
	if a.Condition != "" {
		add("condition", exchange.InQuotes(a.Condition))
	}
	settings("values", a.Values)
	flag("replaces", a.Replaces)
	return all
}

// actionsText is what distinguishes the actions of patterns.
func (p *Pattern) actionsText() string {
	var all []string
	for _, a := range p.Actions {
		x := *a
		x.Matches, x.Reads, x.Times = 0, 0, 0
		all = append(all, strings.Join(x.fields(), "\n"))
	}
	return strings.Join(all, "\n\n")
}
