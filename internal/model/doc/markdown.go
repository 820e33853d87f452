package doc

import (
	"bufio"
	"fmt"
	"io"
	"regexp"
	"strings"
	"sync"
	"unicode"
)

// Markdown writes the page as GitHub shows it: tables, and status machines as
// Mermaid diagrams.
func (p *Page) Markdown(w io.Writer) error {
	out := &markdown{Writer: bufio.NewWriter(w)}
	out.line("# %s", prose(p.Title))
	out.paragraph(p.Description)
	var tiles []string
	for _, t := range p.Tiles {
		tiles = append(tiles, fmt.Sprintf("**%s** %s", prose(t.Value), prose(t.Label)))
	}
	out.line("\n%s", strings.Join(tiles, " · "))
	out.faults(p.Faults)
	out.patterns(p.Groups)
	for _, t := range p.Tables {
		out.table(t)
	}
	out.machines(p.Machines)
	out.heat(p.Heat)
	if len(p.Rules) > 0 {
		out.line("\n## Rules and budgets\n")
		for _, r := range p.Rules {
			out.line("- %s", prose(r))
		}
	}
	out.line("\n---\n\n%s a month, at the prices of %s. Written by stator model doc.", prose(p.Dollars), prose(p.Prices))
	return out.Flush()
}

type markdown struct{ *bufio.Writer }

func (m *markdown) line(format string, args ...any) { fmt.Fprintf(m, format+"\n", args...) }

func (m *markdown) paragraph(text string) {
	if text != "" {
		m.line("\n%s", prose(text))
	}
}

// row is one row of a table; its cells are escaped already.
func (m *markdown) row(cells ...string) { m.line("| %s |", strings.Join(cells, " | ")) }

func (m *markdown) header(cells ...string) {
	m.line("")
	m.row(cells...)
	m.line("|%s", strings.Repeat("---|", len(cells)))
}

func (m *markdown) faults(all []Fault) {
	if len(all) == 0 {
		return
	}
	m.line("\n## Faults\n")
	for _, f := range all {
		text := prose(f.Message)
		if f.About != "" {
			text = "**" + prose(f.About) + "**: " + text
		}
		if f.Try != "" {
			text += "; " + prose(f.Try)
		}
		if f.Line > 0 {
			text += fmt.Sprintf(" (line %d)", f.Line)
		}
		m.line("- %s", text)
	}
}

func (m *markdown) patterns(groups []Group) {
	m.line("\n## Access patterns")
	if len(groups) == 0 {
		m.line("\nNone are written down yet.")
	}
	for _, g := range groups {
		if g.Name != "" {
			m.line("\n### %s", prose(g.Name))
		}
		m.header("pattern", "served by", "request", "rate", "read", "write", "a month")
		for _, p := range g.Patterns {
			by, summary := code(p.By), code(p.Summary)
			if p.Status != "ok" {
				by = strings.TrimSpace(by + " **" + p.Status + "**")
			}
			m.row(prose(p.Name), by, summary, prose(p.Rate), p.Read, p.Write, p.Dollars)
		}
		for _, p := range g.Patterns {
			if len(p.Requests) == 0 {
				continue
			}
			m.line("\n<details><summary>%s</summary>", inHTML(p.Name))
			for _, r := range p.Requests {
				fence := strings.Repeat("`", max(3, longestRun(r.Body, '`')+1))
				m.line("\n%sjson\n%s\n%s", fence, r.Body, fence)
			}
			m.line("\n</details>")
		}
	}
}

func (m *markdown) facts(facts []Fact) {
	var all []string
	for _, f := range facts {
		all = append(all, prose(f.Name)+" "+code(f.Value))
	}
	m.line("\n%s", strings.Join(all, ", "))
}

func (m *markdown) table(t Table) {
	m.line("\n## Table %s", prose(t.Name))
	m.paragraph(t.Description)
	m.facts(t.Facts)
	m.grid(t.Grid)
	m.serves("By its own key", t.Patterns)
	for _, x := range t.Indexes {
		m.line("\n### Index %s", prose(x.Name))
		m.paragraph(x.Description)
		m.facts(x.Facts)
		if len(x.Patterns) == 0 {
			m.line("\nServes no pattern.")
		}
		m.serves("Serves", x.Patterns)
		m.grid(x.Grid)
	}
	for _, e := range t.Entities {
		m.line("\n### Item %s", prose(e.Name))
		m.paragraph(e.Description)
		m.facts(e.Facts)
		m.header("attribute", "is")
		for _, k := range e.Keys {
			m.row("**"+code(k.Name)+"**", code(k.Value))
		}
		for _, a := range e.Attributes {
			m.row(code(a.Name), prose(a.Value))
		}
	}
	if len(t.Cost) > 0 {
		m.facts(t.Cost)
	}
}

func (m *markdown) serves(what string, links []Link) {
	var names []string
	for _, l := range links {
		names = append(names, prose(l.Name))
	}
	if len(names) > 0 {
		m.line("\n%s: %s.", what, strings.Join(names, ", "))
	}
}

func (m *markdown) grid(g Grid) {
	if len(g.Rows) == 0 {
		return
	}
	var head []string
	for _, k := range g.Keys {
		head = append(head, code(k))
	}
	m.header(append(head, "item", "attributes")...)
	for _, r := range g.Rows {
		var cells []string
		for _, k := range r.Keys {
			text := code(k.Text)
			if k.Partition && r.Span == 0 {
				text = "″"
			}
			cells = append(cells, text)
		}
		var rest []string
		for _, c := range r.Cells {
			rest = append(rest, prose(c.Name)+" "+code(c.Text))
		}
		m.row(append(cells, prose(r.Entity), strings.Join(rest, ", "))...)
	}
}

func (m *markdown) machines(all []Machine) {
	if len(all) == 0 {
		return
	}
	m.line("\n## Status machines")
	for _, k := range all {
		m.line("\n### %s (%s)", prose(k.Name), prose(k.Of))
		m.paragraph(k.Description)
		m.line("\n```mermaid\nstateDiagram-v2")
		id := make(map[string]string)
		for i, s := range k.States {
			id[s] = fmt.Sprintf("s%d", i+1)
			m.line("  state \"%s\" as %s", mermaid(s), id[s])
		}
		for _, s := range k.Initial {
			m.line("  [*] --> %s", id[s])
		}
		for _, t := range k.Transitions {
			m.line("  %s --> %s : %d", id[t.From], id[t.To], t.Number)
		}
		m.line("```")
		m.header("#", "from", "to", "also needs", "done by")
		for _, t := range k.Transitions {
			var names []string
			for _, l := range t.Patterns {
				names = append(names, prose(l.Name))
			}
			m.row(fmt.Sprint(t.Number), prose(t.From), prose(t.To), code(t.Condition), strings.Join(names, ", "))
		}
	}
}

// barLetters is how many letters wide a bar is.
const barLetters = 20

func (m *markdown) heat(bars []Bar) {
	if len(bars) == 0 {
		return
	}
	m.line("\n## Heat\n\nThe busiest partitions at the peak, as a share of what one takes: 1,000 write units or 3,000 read units a second.")
	m.header("partition", "of", "", "share", "writes/s", "reads/s", "by")
	for _, b := range bars {
		full := int(min(1, b.Share)*barLetters + 0.5)
		bar := strings.Repeat("█", full) + strings.Repeat("░", barLetters-full)
		var names []string
		for _, name := range b.Patterns {
			names = append(names, prose(name))
		}
		m.row(code(b.Key), code(b.Place), bar, percent(b.Share), b.Writes, b.Reads, strings.Join(names, ", "))
	}
}

// oneLine is text without breaks and control characters.
func oneLine(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == 0x2028 || r == 0x2029 {
			return ' '
		}
		return r
	}, text)
	return strings.Join(strings.Fields(text), " ")
}

var marks = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("[\\\\`*_{}\\[\\]<>()#!|~&$@:]") })

// prose is text of the model in running text: nothing in it is a mark, a link
// or HTML.
func prose(text string) string {
	return marks().ReplaceAllStringFunc(oneLine(text), func(mark string) string {
		switch mark {
		case "<":
			return "&lt;"
		case ">":
			return "&gt;"
		case "&":
			return "&amp;"
		case "@", ":":
			// They make links of what looks like one; a reference does not.
			return fmt.Sprintf("&#%d;", mark[0])
		}
		return "\\" + mark
	})
}

// inHTML is text of the model within HTML, where no mark may be escaped by a
// backslash: all are given by number.
func inHTML(text string) string {
	return marks().ReplaceAllStringFunc(oneLine(text), func(mark string) string { return fmt.Sprintf("&#%d;", mark[0]) })
}

// code is text of the model as it is.
func code(text string) string {
	text = oneLine(text)
	if text == "" {
		return ""
	}
	fence := strings.Repeat("`", longestRun(text, '`')+1)
	if strings.HasPrefix(text, "`") || strings.HasSuffix(text, "`") {
		text = " " + text + " "
	}
	return fence + strings.ReplaceAll(text, "|", "\\|") + fence
}

// longestRun is how often a letter stands in a row at most.
func longestRun(text string, letter rune) (most int) {
	run := 0
	for _, r := range text {
		if r != letter {
			run = 0
			continue
		}
		run++
		most = max(most, run)
	}
	return most
}

// mermaid is text within double quotes of a diagram: all but plain letters by
// number.
func mermaid(text string) string {
	var b strings.Builder
	for _, r := range oneLine(text) {
		if unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune(" -_.", r) {
			b.WriteRune(r)
		} else {
			fmt.Fprintf(&b, "#%d;", r)
		}
	}
	return b.String()
}
