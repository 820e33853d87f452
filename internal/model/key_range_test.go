package model

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/language/expr"
)

// A range of text contains the keys of exactly the values in the range, also of values
// that begin with others or are not ASCII.
func TestRangeValues(t *testing.T) {
	names := []string{"A", "Ann", "Anna", "Annä", "Bob", "zed", "~tilde", "Émile", "Ольга", "日本", "\U0001F600"}
	slices.Sort(names)
	ranges := map[string]func(v, from, to string) bool{
		"before":  func(v, _, to string) bool { return v < to },
		"until":   func(v, _, to string) bool { return v <= to },
		"after":   func(v, from, _ string) bool { return v > from },
		"from":    func(v, from, _ string) bool { return v >= from },
		"between": func(v, from, to string) bool { return from <= v && v <= to },
	}
	for _, begin := range []string{"", "NAME#"} {
		for _, next := range []string{"", "#"} {
			for is, within := range ranges {
				k := &KeyPart{Op: rangeOp(is, begin != ""), rangeIs: is, suffix: next != "", next: next}
				for _, from := range names {
					for _, to := range names {
						values := k.rangeValues(begin, from, to)
						for _, v := range names {
							key := begin + v + next
							if next != "" {
								key += "1"
							}
							want := within(v, from, to)
							if is == "before" && k.Op == expr.Between && next == "" && v == to {
								want = true // a filter excludes it
							}
							if got := holds(k.Op, key, values); got != want {
								t.Errorf("%s from %q to %q by %v %q: contains %q is %v", is, from, to, k.Op, values, key, got)
							}
						}
						if k.Op == expr.Between && (holds(k.Op, "NAME", values) || holds(k.Op, "NAMF", values)) && begin != "" {
							t.Errorf("%s from %q to %q: %q contains other prefixes", is, from, to, values)
						}
					}
				}
			}
		}
	}
}

func holds(op expr.Op, key string, values []string) bool {
	switch op {
	case expr.Between:
		return values[0] <= key && key <= values[1]
	case expr.Less:
		return key < values[0]
	case expr.LessOrEqual:
		return key <= values[0]
	case expr.Greater:
		return key > values[0]
	}
	return key >= values[0]
}

// BETWEEN includes the end of a range, so that a filter must exclude it.
func TestRangeBeforeExcludesItsEnd(t *testing.T) {
	const text = `
model: 1
tables:
  tab: {key: {partition: PK, sort: SK}}
entities:
  user:
    keys: {PK: "ORG#{org}", SK: "NAME#{name}"}
    attributes: {org: {distinct: 10}, name: {size: 8, stored: STORED}}
    count: 100
patterns:
  - {name: x, query: user, given: [org], range: {attribute: name, is: before}, matches: 3, rate: 1/s}
`
	for stored, want := range map[string]string{"true": "#name < :name", "false": ""} {
		m := parsed(t, []byte(strings.ReplaceAll(text, "STORED", stored)))
		plan := m.Plan(m.Patterns[0])
		if want == "" {
			if plan.Served() {
				t.Error("it is served although nothing can exclude the end")
			}
			continue
		}
		if got := plan.Requests[0].Body["FilterExpression"]; got != want {
			t.Errorf("the filter is %v, expected %s", got, want)
		}
		if faults := m.Check(DefaultPrices()).Faults; len(faults) > 0 {
			t.Error(faults)
		}
	}
}

// A range is exact whenever the keys are in the order of the values, and only then.
func TestRangesAreExactInOrder(t *testing.T) {
	inOrder := 0
	for _, next := range []string{"#", "##", "|", ":", " ", "A", "!"} {
		for _, values := range [][]string{
			{"A", "B"}, {"A", "A B"}, {"A", "AB"}, {"A", "A1"}, {"A", "A!"}, {"A", "A#B"}, {"A", "A#"}, {"A", "A##B"}, {"A", "A:"},
			{"1", "10", "2"}, {"Ann", "Anna", "Anne"}, {"L", "M", "S", "XL", "XXL"}, {"x", "xA", "xAA"}, {"", "A"}, {"Ä", "Äpfel"},
		} {
			f := &Field{Name: "v", Type: item.S, Attribute: &Attribute{Name: "v", Values: values}}
			d := disorderOf(f, &Field{Name: "SK", Type: item.S}, next)
			if exact := rangesAreExact(values, next); exact != (d == nil) {
				t.Errorf("%q followed by %q: in order is %v, exact is %v", values, next, d == nil, exact)
			}
			if d == nil {
				inOrder++
			} else if !d.certain {
				t.Errorf("%q followed by %q: the values are known", values, next)
			}
		}
	}
	if inOrder < 40 {
		t.Errorf("only %d are in order", inOrder)
	}
}

// rangesAreExact reports whether ranges of values that a text follows contain the keys of
// exactly the values in the range, whatever follows that text.
func rangesAreExact(values []string, next string) bool {
	ends := []string{"", "!", "0", "#", "~~"}
	for is, within := range map[string]func(v, bound string) bool{
		"until": func(v, bound string) bool { return v <= bound },
		"from":  func(v, bound string) bool { return v >= bound },
	} {
		k := &KeyPart{Op: rangeOp(is, true), rangeIs: is, suffix: true, next: next}
		for _, bound := range values {
			limits := k.rangeValues("K#", bound, bound)
			for _, v := range values {
				for _, end := range ends {
					if holds(k.Op, "K#"+v+next+end, limits) != within(v, bound) {
						return false
					}
				}
			}
		}
	}
	return true
}

// The example of a note is one for which a range is wrong.
func TestExamplesOfDisorder(t *testing.T) {
	for _, next := range []string{" ", " | ", " - ", " #", "!", "\"", "#", "##", "$", "-", "/", ":", "_", "|", "~", "A", "a", "é"} {
		if _, example := lowerCharacters(next); rangesAreExact([]string{"A", example}, next) {
			t.Errorf("ranges of A and %q are exact before %q", example, next)
		}
	}
}

// A range or an order of text that something follows is noted unless all values have the same
// length.
func TestTextBeforeSeparators(t *testing.T) {
	const text = `
model: 1
tables:
  tab: {key: {partition: PK, sort: SK}}
entities:
  user:
    keys: {PK: "ORG#{org}", SK: %q}
    attributes: {org: {distinct: 10}, name: %s, id: {format: uuid}, part: {size: 3}, amount: N, of: {values: [S, SM]}}
    count: 100
patterns:
  - {name: x, query: user, given: [org], %s, matches: 3, rate: 1/s}
`
	const until, sorted = "range: {attribute: name, is: until}", "order: name"
	for _, c := range []struct{ name, key, attribute, pattern, want string }{
		{"text", "{name}#{id}", "{size: 8}", until, `11:50 separator: the range of name may be wrong: "#" follows it in SK, and a value that continues another with a lower character (spaces, ! and ") sorts before it: "A B" before "A"`},
		{"an order of text", "N#{name}#{id}", "{size: 8}", sorted, `separator: items may not be in order of name: "#" follows it in SK`},
		{"a range and an order", "{name}#{id}", "{size: 8}", until + ", order: name desc", "separator: the range"},
		{"letters sort before |", "{name}|{id}", "{size: 8}", until, `(letters, digits, spaces and others) sorts before it: "AB" before "A"`},
		{"capitals sort before _", "{name}_{id}", "{size: 8}", until, `(capital letters, digits, spaces and others) sorts before it: "AB" before "A"`},
		{"digits sort before :", "{name}:{id}", "{size: 8}", until, `(digits, spaces and others) sorts before it: "A1" before "A"`},
		{"values contain a space", "{name} {id}", "{size: 8}", until, `the range of name may be wrong: " " follows it in SK, and values may contain that: the keys of "A B" are among those of "A"; end the key`},
		{"values contain a separator that begins with a space", "{name} | {id}", "{size: 8}", sorted, `items may not be in order of name: " | " follows it in SK, and values may contain that: the keys of "A | B" are among`},
		{"spaces sort before !", "{name}!{id}", "{size: 8}", until, `(spaces) sorts before it: "A B" before "A"`},
		{"a space after text of one length", "{name} {id}", "{size: 8, largest: 8}", until, ""},
		{"text at the end", "N#{name}", "{size: 8}", until, ""},
		{"the beginning of text", "{name}#{id}", "{size: 8}", "range: {attribute: name, is: begins}", ""},
		{"text of one length", "{name}#{id}", "{size: 8, largest: 8}", until, ""},
		{"text of other lengths", "{name}#{id}", "{size: 8, largest: 9}", until, "separator: "},
		{"a time", "{name}#{id}", "{format: iso8601}", until, ""},
		{"padded numbers", "{name}#{id}", "{format: sequence, size: 6}", until, ""},
		{"the beginning of an identifier", "{name}#{id}", "{format: ulid, size: 10}", until, ""},
		{"a text of parts", "{name}#{id}", `{template: "{id}-{part}"}`, until, "sort key of its own; if part has values of one length, set its size and largest to that\n"},
		{"a text of several parts", "{name}#{id}", `{template: "{part} {org}", size: 10, largest: 10}`, until, "; if each of part and org has values of one length, set its size and largest to that\n"},
		{"a text of a number", "{name}#{id}", `{template: "{part} {amount}"}`, until, `sorts before it: "A B" before "A"; end the key with it, or give it a sort key of its own` + "\n"},
		{"a text of listed values", "{name}#{id}", `{template: "{part} {of}"}`, until, "give it a sort key of its own\n"},
		{"listed values in order", "{name}#{id}", "{values: [S, SM, M]}", until, ""},
		{"listed values", "{name}#{id}", "{values: [S, S B, M]}", until, `order: the range of name is wrong: "#" follows it in SK, so that "S B" does not sort after "S"`},
		{"an order of listed values", "{name}|{id}", "{values: [S, SM, M]}", sorted, `order: items are not returned in order of name: "|" follows it in SK, so that "SM" does not sort after "S"`},
		{"an order of one listed value", "{name}_{id}", "{values: [S, SM]}", "where: {name: S}, order: name", ""},
		{"an order of one text", "{name}#{id}", "{size: 8}", "where: {name: Ann}, order: name desc", ""},
		{"an order of one number", "{name}#{id}", "N", "where: {name: 9}, order: name", ""},
		{"an order of one random identifier", "{name}#{id}", "{format: uuid}", "where: {name: x}, order: name", ""},
		{"an order of one value that is not in the key", "{id}", "{size: 8}", "where: {name: Ann}, reads: 3, order: name", ""},
		{"numbers", "{name}#{id}", "{type: N}", until, "order: the range of name is wrong: SK stores the number name as text, where 10 sorts before 9; store it as zero-padded text: format: sequence"},
		{"numbers at the end", "N#{name}", "{type: N}", until, "order: the range of name is wrong"},
		{"numbers of so many digits", "{name}#{id}", "{type: N, digits: 4}", until, "11:50 order: the range of name may be wrong: SK stores the number name as text, where 10 sorts before 9; store it as zero-padded text: format: sequence, unless all values have the same number of digits"},
		{"an order of numbers of one digit", "N#{name}", "{type: N, digits: 1}", sorted, "order: items may not be in order of name: SK stores the number name as text"},
		{"listed numbers in order", "{name}#{id}", "{type: N, values: [1, 2, 30]}", until, ""},
		{"an order of listed numbers", "{name}#{id}", "{type: N, values: [2, 10]}", sorted, "SK stores the number name as text, where 10 sorts before 2"},
		{"a time as a number", "{name}#{id}", "{type: N, format: epoch-seconds}", until, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			var found []string
			for _, f := range notesOf(fmt.Appendf(nil, text, c.key, c.attribute, c.pattern)) {
				if strings.Contains(f, " separator: ") || strings.Contains(f, " order: ") {
					found = append(found, f)
				}
			}
			got := strings.Join(found, "\n")
			if c.want == "" && got != "" || !strings.Contains(got+"\n", c.want) || len(found) > 1 {
				t.Errorf("got\n  %s\nwant\n  %s", got, c.want)
			}
		})
	}
}

// A query uses an index whose keys are in the order of the attribute rather than keys that
// may not be, unless something else is wrong with the index or it costs more.
func TestQueriesPreferKeysInOrder(t *testing.T) {
	const text = `
model: 1
tables:
  tab:
    key: {partition: PK, sort: SK}
    indexes:
      byName: %s
entities:
  article:
    keys: {PK: "SHOP#{shop}", SK: "NAME#{name}#{id}"}
    attributes: {shop: {format: uuid, distinct: 50}, name: {size: 20}, id: {format: uuid}, shard: {shards: 3, of: id}, spread: {template: "{shop}#{shard}"}}
    count: 5000
  supplier:
    keys: {PK: "SHOP#{shop}", SK: "SUPPLIER#{id}"}
    attributes: {shop: {format: uuid, distinct: 50}, id: {format: uuid}, label: {size: 20}, %s: {size: 20}}
    count: 250
patterns:
  - {name: x, query: article, given: [shop], matches: 20, rate: 1/s, %s}
`
	const whole = "{partition: shop, sort: name}"
	for _, c := range []struct {
		name, index, neighbour, action, wantIndex string
		noted                                     bool
	}{
		{"a range", whole, "phone", "range: {attribute: name, is: between}", "byName", false},
		{"an order", whole, "phone", "order: name", "byName", false},
		{"another order", whole, "phone", "order: id", "", false},
		{"the beginning of text", whole, "phone", "range: {attribute: name, is: begins}", "", false},
		{"an index with shards", "{partition: spread, sort: name}", "phone", "order: name", "", true},
		{"an index with items of another entity", whole, "name", "order: name", "", true},
		{"an index without the items of another entity", whole, "phone", "order: name, with: {supplier: 5}", "", true},
		{"an index that lacks attributes", "{partition: shop, sort: name, projection: KEYS_ONLY}", "phone", "order: name, returns: [name, spread]", "", true},
		{"a consistent read", whole, "phone", "order: name, consistent: true", "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := parsed(t, fmt.Appendf(nil, text, c.index, c.neighbour, c.action))
			plan := m.Plan(m.Patterns[0])
			got := ""
			if x := plan.Steps[0].Index; x != nil {
				got = x.Name
			}
			if got != c.wantIndex || len(plan.Notes) > 0 != c.noted {
				t.Errorf("it uses the index %q with the notes %v", got, plan.Notes)
			}
			if (c.wantIndex != "" || c.noted) && len(plan.Faults) > 0 {
				t.Error(plan.Faults)
			}
		})
	}
}

// Text of one length needs no separator, and a separator does not change its order: both
// follow from one rule.
func TestEqualLengths(t *testing.T) {
	const text = `
model: 1
tables:
  tab: {key: {partition: PK, sort: SK}}
entities:
  user:
    keys: {PK: "ORG#{org}", SK: %q}
    attributes: {org: {distinct: 10}, code: %s, id: {format: uuid}, two: {values: [AA, BB]}, at: {type: N, format: epoch-seconds}, part: {size: 3}}
    count: 100
patterns:
  - {name: x, query: user, given: [org], range: {attribute: code, is: until}, matches: 3, rate: 1/s}
`
	for _, c := range []struct {
		name, attribute string
		equal           bool
	}{
		{"text of a size", "{size: 6}", false},
		{"text of one size", "{size: 6, largest: 6}", true},
		{"text of several sizes", "{size: 6, largest: 7}", false},
		{"text of which nothing is said", "S", false},
		{"an identifier", "{format: uuid}", true},
		{"a padded number", "{format: sequence, size: 6}", true},
		{"a number", "{type: N}", false},
		{"a number that is not padded", "{type: N, format: sequence, digits: 6}", false},
		{"a time as a number", "{type: N, format: epoch-millis}", true},
		{"a template of parts of one length", `{template: "{two}-{at}"}`, true},
		{"a template of a part of any length", `{template: "{two}-{part}"}`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			found := func(key string) string { return strings.Join(notesOf(fmt.Appendf(nil, text, key, c.attribute)), "\n") }
			if got := found("{code}{id}"); strings.Contains(got, " collision: ") == c.equal {
				t.Errorf("without a separator: %s", got)
			}
			if got := found("{code}#{id}"); (got == "") != c.equal {
				t.Errorf("before a separator: %s", got)
			}
		})
	}
}

// A filter that only excludes the end of a range reads an item too many. An index that has
// items of another kind is no better for that.
func TestQueriesPreferAnExcludedEndToNeighbours(t *testing.T) {
	const text = `
model: 1
tables:
  tab:
    key: {partition: PK, sort: SK}
    indexes:
      byAt: {partition: device, sort: at}
entities:
  reading:
    keys: {PK: "READINGS#{device}", SK: "AT#{at}"}
    attributes: {device: {format: uuid, distinct: 50}, at: {format: iso8601-ms}}
    count: 5000
  alarm:
    keys: {PK: "ALARMS#{device}", SK: "AT#{at}"}
    attributes: {device: {format: uuid, distinct: 50}, at: {format: iso8601-ms}, level: {size: 5}}
    count: 5000
patterns:
  - {name: x, query: reading, given: [device], range: {attribute: at, is: %s}, matches: 20, rate: 1/s}
`
	for _, is := range []string{"before", "until", "from"} {
		m := parsed(t, fmt.Appendf(nil, text, is))
		plan := m.Plan(m.Patterns[0])
		if x := plan.Steps[0].Index; x != nil {
			t.Errorf("what is %s a time is read with the index %s and the notes %v", is, x.Name, plan.Notes)
		}
	}
}
