package infer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/model/exchange"
	"github.com/stator-db/stator/internal/workload"
)

// query derives the key condition and the filter of a query.
func (e *Entity) query(a *Action, c workload.ShapeCount) {
	a.Index = c.Index
	for i, name := range e.partitionOf(c.Index) {
		e.partitionGiven(a, name, prefixAt(c.Partition, i))
	}
	tests := strings.Split(strings.ReplaceAll(c.Form, " BETWEEN ? AND ?", " BETWEEN ?"), " AND ")
	for _, test := range tests[min(len(tests), len(e.partitionOf(c.Index))):] {
		e.sortTest(a, test)
	}
	a.Matches = perRequest(c.Returned, c.Requests)
	if c.Filter {
		e.filter(a, c.FilterText)
		a.Reads = max(a.Matches, perRequest(c.Scanned, c.Requests))
	}
}

// assumeMatches sets how many items a query returns if that was not counted: those of a
// partition, or one if it asks for more than the partition.
func (e *Entity) assumeMatches(a *Action, c workload.ShapeCount) {
	a.Matches = 1
	what := "one item"
	if readsPartition(c) || strings.Contains(c.Form, "begins_with") {
		a.Matches = max(1, int(e.perPartition(c.Index)+0.5))
		what = "the items of a partition of the sample"
	}
	a.Reads = 0
	if c.Filter {
		a.Reads = a.Matches
	}
	a.Notes = append(a.Notes, "the log does not say how many items it returns; assumed: "+what)
}

func prefixAt(text string, i int) string {
	if all := strings.Split(text, ","); i < len(all) {
		return all[i]
	}
	return ""
}

// partitionGiven adds what a query knows of a partition key. If its template
// begins with an enumeration, the prefix tells the value.
func (e *Entity) partitionGiven(a *Action, name, prefix string) {
	leaves := e.known(e.leaves(name))
	if k := e.key(name); k != nil && prefix != "" && len(leaves) > 0 && k.parts[0].name == leaves[0] {
		first := e.attribute(leaves[0])
		after := ""
		if len(k.parts) > 1 {
			after = k.parts[1].text
		}
		for _, v := range first.Values {
			if string(workload.Prefix([]byte(v+after))) == prefix {
				a.Where = append(a.Where, Assignment{first.Name, exchange.Quote(v)})
				leaves = leaves[1:]
				break
			}
		}
	}
	a.Given = appendNew(a.Given, leaves...)
}

var keyTest = form(`^(?:begins_with\((.+), \?\)|(.+) (=|<|<=|>|>=|BETWEEN) \?)$`)

var rangeWords = map[string]string{"<": "before", "<=": "until", ">": "after", ">=": "from", "BETWEEN": "between"}

// sortTest adds one test of a sort key.
func (e *Entity) sortTest(a *Action, test string) {
	m := keyTest().FindStringSubmatch(test)
	if m == nil {
		return
	}
	name, op := m[1]+m[2], m[3]
	leaves := e.known(e.leaves(name))
	literal := ""
	if k := e.key(name); k != nil {
		literal = k.parts[0].text
	}
	switch {
	case op == "=":
		a.Given = appendNew(a.Given, leaves...)
	case op == "" && literal != "": // the planner asks for the literal by itself
	case len(leaves) == 0:
	case op == "":
		a.Range = &Range{leaves[0], "begins"}
	default:
		a.Range = &Range{leaves[0], rangeWords[op]}
	}
}

var filterTest = form(`^([A-Za-z0-9_.-]+) (=|<|<=|>|>=|BETWEEN) \?$`)

// filter adds the tests of a filter that a model can describe.
func (e *Entity) filter(a *Action, text string) {
	var left []string
	for test := range strings.SplitSeq(strings.ReplaceAll(text, " BETWEEN ? AND ?", " BETWEEN ?"), " AND ") {
		m := filterTest().FindStringSubmatch(test)
		switch {
		case m == nil || e.attribute(m[1]) == nil:
			left = append(left, test)
		case m[2] == "=":
			a.Given = appendNew(a.Given, m[1])
		case a.Range == nil:
			a.Range = &Range{m[1], rangeWords[m[2]]}
		default:
			left = append(left, test)
		}
	}
	if len(left) > 0 {
		a.Notes = append(a.Notes, "its filter also tests "+strings.Join(left, " AND "))
	}
}

var (
	comparisonTest = form(`^(size\()?([A-Za-z0-9_.-]+)\)? (=|<>|<|<=|>|>=) \?$`)
	functionTest   = form(`^(attribute_exists|attribute_not_exists|attribute_type|begins_with|contains)\(([A-Za-z0-9_.-]+)(, \?)?\)$`)
	conditionWord  = form(` (?:AND|OR) `)
)

// condition derives the condition of a write from its text without values: a
// value that is compared for equality is the item's own.
func (e *Entity) condition(a *Action, text string) {
	if !isDerivable(text) {
		e.usualCondition(a)
		a.Notes = append(a.Notes, "its condition is not counted as text")
		return
	}
	text = strings.ReplaceAll(text, " BETWEEN ? AND ?", " >= ?")
	words := conditionWord().FindAllString(text, -1)
	var b strings.Builder
	for i, test := range conditionWord().Split(text, -1) {
		opening := len(test) - len(strings.TrimLeft(test, "("))
		inner := test[opening:]
		not := ""
		if rest, ok := strings.CutPrefix(inner, "NOT "); ok {
			not, inner = "NOT ", rest
			for strings.HasPrefix(inner, "(") {
				not, inner = not+"(", inner[1:]
			}
		}
		closing := ""
		for strings.HasSuffix(inner, ")") && strings.Count(inner, ")") > strings.Count(inner, "(") {
			inner, closing = inner[:len(inner)-1], closing+")"
		}
		if i > 0 {
			b.WriteString(words[i-1])
		}
		b.WriteString(test[:opening] + not + e.conditionTest(a, inner, i) + closing)
	}
	a.Condition = b.String()
}

// isDerivable reports whether the text of a condition says what it tests.
func isDerivable(text string) bool {
	return text != "" && !strings.Contains(text, "??") && !strings.Contains(text, "…") && !strings.ContainsAny(strings.ReplaceAll(text, "size(", ""), ".")
}

// conditionTest rewrites one test with placeholders.
func (e *Entity) conditionTest(a *Action, test string, at int) string {
	if m := functionTest().FindStringSubmatch(test); m != nil {
		if m[3] == "" {
			return m[1] + "(#" + m[2] + ")"
		}
		if m[1] == "attribute_type" {
			value := fmt.Sprintf(":type%d", at)
			a.Values = append(a.Values, Assignment{value, e.typeOf(m[2])})
			return m[1] + "(#" + m[2] + ", " + value + ")"
		}
		return m[1] + "(#" + m[2] + ", :" + m[2] + ")"
	}
	m := comparisonTest().FindStringSubmatch(test)
	if m == nil {
		return strings.NewReplacer(" IN (?)", " = ?").Replace(test) // it is rejected later if it is still not valid
	}
	left, name, op := "#"+m[2], m[2], m[3]
	if m[1] != "" {
		left = "size(#" + name + ")"
	}
	value := ":" + name
	if op != "=" || m[1] != "" {
		value = fmt.Sprintf(":value%d", at)
		a.Values = append(a.Values, Assignment{value, e.beyond(name, op, m[1] != "")})
	}
	return left + " " + op + " " + value
}

func (e *Entity) typeOf(name string) string {
	if a := e.attribute(name); a != nil {
		return a.Type
	}
	return "S"
}

// beyond is a value for which a comparison with an attribute holds.
func (e *Entity) beyond(name, op string, size bool) string {
	number := size || e.typeOf(name) == "N"
	more := op == "<" || op == "<=" || op == "<>"
	switch {
	case number && more:
		return "9999999999999999"
	case number:
		return "0"
	case more:
		return `"~"`
	}
	return `" "`
}

// usualCondition is the condition that most writes of its kind have.
func (e *Entity) usualCondition(a *Action) {
	key := primaryKey(e.group.sample.Table)[0]
	a.Condition = "attribute_exists(#" + key + ")"
	if a.Verb == "put" {
		a.Condition = "attribute_not_exists(#" + key + ")"
	}
}

// combinedOf says whether an operation combines actions, and how a model does.
func combinedOf(operation string) string {
	switch operation {
	case "TransactWriteItems", "TransactGetItems":
		return "transact"
	case "BatchWriteItem", "BatchGetItem":
		return "batch"
	}
	return ""
}

// combinedPattern is a transaction or a batch, of one table or of several.
type combinedPattern struct {
	operation string
	requests  int64
	tables    []string
	pattern   *Pattern
}

// addCombined adds the part of a transaction or a batch for one table. Parts of
// several tables with the same number of requests are one pattern.
func (d *trafficReader) addCombined(c workload.ShapeCount) {
	sent, complete := workload.ParseActions(c.Actions)
	p := &Pattern{Combined: combinedOf(c.Operation), Requests: c.Requests, perSecond: float64(c.Requests) / d.seconds}
	for _, s := range sent {
		a := d.combinedAction(c, s, d.ofAction(c.Table, s, sent))
		if a == nil {
			d.unmatched(c, "no entity has the keys of "+s.String())
			return
		}
		p.Actions = append(p.Actions, a)
	}
	if len(p.Actions) == 0 {
		d.unmatched(c, "its actions are not counted")
		return
	}
	if !complete {
		p.Actions[0].Notes = append(p.Actions[0].Notes, "it has more kinds of actions")
	}
	at := slices.IndexFunc(d.combined, func(x *combinedPattern) bool {
		return x.operation == c.Operation && x.requests == c.Requests && !slices.Contains(x.tables, c.Table)
	})
	if at < 0 {
		d.combined = append(d.combined, &combinedPattern{c.Operation, c.Requests, []string{c.Table}, p})
		return
	}
	x := d.combined[at]
	x.tables = append(x.tables, c.Table)
	x.pattern.Actions = append(x.pattern.Actions, p.Actions...)
}

func (d *trafficReader) endCombined() {
	for _, x := range d.combined {
		d.join(x.pattern)
	}
}

// combinedAction derives one action of a transaction or a batch.
// found are the entities that it may be about.
func (d *trafficReader) combinedAction(c workload.ShapeCount, s workload.Action, found []*Entity) *Action {
	if len(found) == 0 {
		return nil
	}
	e := found[0]
	a := &Action{Entity: e.Name}
	if s.Verb != "Get" {
		a.Notes = append(a.Notes, "how many of them a request has is not counted")
	}
	switch s.Verb {
	case "Get":
		a.Verb, a.Given, a.Consistent = "get", e.keyLeaves(), c.Consistent && c.Operation == "BatchGetItem"
		if n := perRequest(c.Returned, c.Requests*int64(1+strings.Count(c.Actions, "; "))); n > 1 {
			a.Given, a.Each, a.Times = nil, a.Given, min(n, 100)
		}
	case "Put":
		a.Verb, a.Replaces = "put", !s.Conditional
	case "Update":
		a.Verb, a.Given = "update", e.keyLeaves()
		a.Notes = append(a.Notes, unknownChange)
	case "Delete":
		a.Verb, a.Given = "delete", e.keyLeaves()
	case "ConditionCheck":
		a.Verb, a.Given = "check", e.keyLeaves()
	default:
		return nil
	}
	if len(found) > 1 {
		a.Notes = append(a.Notes, "the keys of "+namesOf(found)+" have the same prefix")
	}
	if s.Conditional {
		e.usualCondition(a)
		a.Notes = append(a.Notes, "its condition is not counted as text")
	}
	return a
}
