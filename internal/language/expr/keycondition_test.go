package expr

import (
	"fmt"
	"testing"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
)

func bindKey(t *testing.T, text, vs string) *KeyCondition {
	t.Helper()
	p, err := ParseKeyCondition(text)
	if err != nil {
		t.Fatal(err)
	}
	k, err := p.Bind(&Bindings{Names: map[string]string{"#a": "a"}, Values: values(t, vs)})
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// Recorded by the tests of dynalite. Since then two of the messages were
// observed with the prefix (2026); we assume that the third of that form has
// it too.
func TestKeyConditionsThatServeNoKey(t *testing.T) {
	const prefix = "Invalid KeyConditionExpression: "
	for _, c := range []struct{ name, text, want string }{
		{"OR, before what it joins", "a > b and size(b) > c or a > c", "Invalid operator used in KeyConditionExpression: OR"},
		{"IN", "a in (b, size(c), d)", "Invalid operator used in KeyConditionExpression: IN"},
		{"NOT", "not a > b", "Invalid operator used in KeyConditionExpression: NOT"},
		{"not equal", "a <> b", "Invalid operator used in KeyConditionExpression: <>"},
		{"attribute_exists", "attribute_exists(a)", "Invalid operator used in KeyConditionExpression: attribute_exists"},
		{"attribute_not_exists", "attribute_not_exists(a)", "Invalid operator used in KeyConditionExpression: attribute_not_exists"},
		{"attribute_type", "attribute_type(a, :type)", "Invalid operator used in KeyConditionExpression: attribute_type"},
		{"contains", "contains(a.d, b)", "Invalid operator used in KeyConditionExpression: contains"},
		{"BETWEEN of a value", ":a between size(b) and size(a) and b > :b", "Invalid condition in KeyConditionExpression: BETWEEN operator must have the key attribute as its first operand"},
		{"begins_with of a value", "begins_with(:a, b) and a > :b", "Invalid condition in KeyConditionExpression: begins_with operator must have the key attribute as its first operand"},
		{"a size on the left", "size(b) > a AND a.b > b AND b > c", prefix + "KeyConditionExpressions cannot contain nested operations"},
		{"a size on the right", "a > size(b.d)", prefix + "KeyConditionExpressions cannot contain nested operations"},
		{"sizes as bounds", "a between size(b) and size(a)", prefix + "KeyConditionExpressions cannot contain nested operations"},
		{"two attributes, before the path", "b > a.b", "Invalid condition in KeyConditionExpression: Multiple attribute names used in one condition"},
		{"an attribute as a bound", "a between b and size(a)", "Invalid condition in KeyConditionExpression: Multiple attribute names used in one condition"},
		{"an attribute as a prefix", "begins_with(a, b)", "Invalid condition in KeyConditionExpression: Multiple attribute names used in one condition"},
		{"a path", "b.d > a AND c.d > e.f", prefix + "KeyConditionExpressions cannot have conditions on nested attributes"},
		{"an index", "b[0] > a", prefix + "KeyConditionExpressions cannot have conditions on nested attributes"},
		{"no attribute", ":b > :a AND a < :b", "Invalid condition in KeyConditionExpression: No key attribute specified"},
		{"one attribute twice", "b > :a AND b < :a and c = :a and d = :a", prefix + "KeyConditionExpressions must only contain one condition per key"},
		{"one attribute twice, in parentheses", "(a > :a and b > :a) and (b > :a and c > :a)", prefix + "KeyConditionExpressions must only contain one condition per key"},
		{"one attribute twice, through a name", "a = :a AND #a = :b", prefix + "KeyConditionExpressions must only contain one condition per key"},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := bindKey(t, c.text, `{":a": {"S": "1"}, ":b": {"S": "1"}, ":type": {"S": "S"}}`)
			if got := message(t, k.Check()); got != c.want {
				t.Errorf("%s: got %s, want %s", c.text, got, c.want)
			}
		})
	}
}

func TestKeyConditionsAndKeys(t *testing.T) {
	s := func(names ...string) (attrs []schema.Attribute) {
		for _, name := range names {
			attrs = append(attrs, schema.Attribute{Name: name, Type: item.S})
		}
		return attrs
	}
	const (
		notSupported = "Query key condition not supported"
		wrongType    = "One or more parameter values were invalid: Condition parameter type does not match schema type"
	)
	for _, c := range []struct {
		name, text      string
		partition, sort []schema.Attribute
		want            string // the partition and the conditions on the sort attributes, or the fault
	}{
		{"a partition", "a = :a", s("a"), nil, "[{S:1}] []"},
		{"a partition of a table with a sort key", "a = :a", s("a"), s("b"), "[{S:1}] []"},
		{"the value may stand first", ":a = #a", s("a"), nil, "[{S:1}] []"},
		{"one item", "a = :a AND b = :b", s("a"), s("b"), "[{S:1}] [{b = [{S:2}]}]"},
		{"in any order", "b = :b AND a = :a", s("a"), s("b"), "[{S:1}] [{b = [{S:2}]}]"},
		{"less", "a = :a AND b < :b", s("a"), s("b"), "[{S:1}] [{b < [{S:2}]}]"},
		{"greater, written the other way", "a = :a AND :b <= b", s("a"), s("b"), "[{S:1}] [{b >= [{S:2}]}]"},
		{"greater", "a = :a AND :b > b", s("a"), s("b"), "[{S:1}] [{b < [{S:2}]}]"},
		{"between", "(a = :a) AND (b BETWEEN :a AND :b)", s("a"), s("b"), "[{S:1}] [{b BETWEEN [{S:1} {S:2}]}]"},
		{"a prefix", "a = :a AND begins_with(b, :b)", s("a"), s("b"), "[{S:1}] [{b begins_with [{S:2}]}]"},
		{"parentheses around all", "(a = :a AND (b = :b))", s("a"), s("b"), "[{S:1}] [{b = [{S:2}]}]"},

		{"no partition", "b = :b", s("a"), s("b"), "Query condition missed key schema element: a"},
		{"an attribute of no key", "z = :a", s("a"), nil, "Query condition missed key schema element: a"},
		{"an attribute of no key next to the partition", "a = :a AND z = :b", s("a"), s("b"), "Query condition missed key schema element: b"},
		{"two conditions on a table without a sort key", "y = :a AND z = :a", s("a"), nil, notSupported},
		{"three conditions", "a = :a AND b = :b AND c = :c", s("a"), s("b"), "Conditions can be of length 1 or 2 only"},
		{"a range of partitions", ":a >= a", s("a"), nil, notSupported},
		{"a prefix of partitions", "begins_with(a, :a)", s("a"), s("b"), notSupported},
		{"a number for a string, before the operator", ":n > a", s("a"), nil, wrongType},
		{"a number for a string in the sort key", "a = :a AND b = :n", s("a"), s("b"), wrongType},

		{"several partition attributes", "b = :b AND a = :a", s("a", "b"), nil, "[{S:1} {S:2}] []"},
		{"one of several is missing", "a = :a", s("a", "b"), nil, "Query condition missed key schema element: b"},
		{"several sort attributes", "a = :a AND c > :c AND b = :b", s("a"), s("b", "c"), "[{S:1}] [{b = [{S:2}]} {c > [{S:3}]}]"},
		{"the first of several sort attributes", "a = :a AND b > :b", s("a"), s("b", "c"), "[{S:1}] [{b > [{S:2}]}]"},
		{"a sort attribute is left out", "a = :a AND c = :c", s("a"), s("b", "c"), "Query condition missed key schema element: b"},
		{"a range before the last", "a = :a AND b > :b AND c = :c", s("a"), s("b", "c"), notSupported},
	} {
		t.Run(c.name, func(t *testing.T) {
			k := bindKey(t, c.text, `{":a": {"S": "1"}, ":b": {"S": "2"}, ":c": {"S": "3"}, ":n": {"N": "1"}}`)
			if err := k.Check(); err != nil {
				t.Fatal(err)
			}
			r, err := k.Keys(c.partition, c.sort)
			got := message(t, err)
			if err == nil {
				got = fmt.Sprintf("%v %v", r.Partition, r.Sort)
			}
			if got != c.want {
				t.Errorf("%s: got %s, want %s", c.text, got, c.want)
			}
		})
	}
}
