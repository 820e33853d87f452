package expr

import (
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/data/item"
)

// Most texts and their order are those that the tests of dynalite recorded
// against the service; "observed" and "reported" are explained in
// syntax_test.go.
func TestConditionFaults(t *testing.T) {
	a := map[string]string{"#a": "a"}
	const redundant = "The expression has redundant parentheses;"
	testFaults(t, FilterExpression, []faultCase{
		{"an operand in two parentheses", "a=a and a > ((views))", nil, "", redundant},
		{"a path in two parentheses, before a later syntax error", "(a)between(((b.c)).d)and(c)", nil, "", redundant},
		{"a function's operand in two parentheses", "a > whatever((:things), ((a)))", nil, "", redundant},
		{"a conjunction in two parentheses", "a=a AND ((a=a AND a=a)) AND a=a", nil, "", redundant},
		{"a disjunction in two parentheses", "a=a OR ((a=a OR (a=a OR a=a)))", nil, "", redundant},
		{"two parentheses with blanks between", "( (a = b) )", nil, "", redundant},
		{"the parentheses of a function and of IN are not redundant", "attribute_exists((b)) and a in ((b), (c))", nil, "", ""},
		{"nor those around several conditions", "((a = b) AND (c = d))", nil, "", ""},
		{"nor those around NOT", "(NOT (a = b))", nil, "", ""},
		{"nor those around an operand that begins a condition", "((a) = (b))", nil, "", ""},

		{"an unknown function", "b=a and whatever((:things)) > a", nil, "", "Invalid function name; function: whatever"},
		{"a function in the wrong case, before a reserved word in it", "attRIbute_exIsts((views), #a)", nil, "", "Invalid function name; function: attRIbute_exIsts"},
		{"a function of updates (reported)", "if_not_exists(a, b) = c", nil, "", "The function is not allowed in a condition expression; function: if_not_exists"},
		{"a test as an operand, before a reserved word in it", "attribute_exists((views), (#a)) > b", nil, "", "The function is not allowed to be used this way in an expression; function: attribute_exists"},
		{"a test inside size", "size(contains(a, b)) > a", nil, "", "The function is not allowed to be used this way in an expression; function: contains"},
		{"size as a test", "size(things)", nil, "", "The function is not allowed to be used this way in an expression; function: size"},
		{"size as a test after NOT", "NOT (size(things))", nil, "", "The function is not allowed to be used this way in an expression; function: size"},
		{"a test as a bound", "a between b and attribute_exists(things)", nil, "", "The function is not allowed to be used this way in an expression; function: attribute_exists"},
		{"a test in IN's list", "a in (b, attribute_exists(things))", nil, "", "The function is not allowed to be used this way in an expression; function: attribute_exists"},
		{"a reserved word, before the number of operands", "attribute_exists(views, #a)", nil, "", "Attribute name is a reserved keyword; reserved keyword: views"},
		{"a reserved word as it was written", ":a < abOrT", nil, "", "Attribute name is a reserved keyword; reserved keyword: abOrT"},
		{"a reserved word inside a path", "a.b[1].Status = :a", nil, "", "Attribute name is a reserved keyword; reserved keyword: Status"},

		{"an undefined name, before the number of operands", "attribute_exists(#Pictures.RearView, :a) and a=a", nil, "", "An expression attribute name used in the document path is not defined; attribute name: #Pictures"},
		{"an undefined name inside a path", "begins_with(Pictures.#RearView)", nil, "", "An expression attribute name used in the document path is not defined; attribute name: #RearView"},
		{"names and values in the order of the text", "(#P between :lo and :hi) and (#PC in (:cat1, :cat2))", nil, "", "An expression attribute name used in the document path is not defined; attribute name: #P"},
		{"a name that begins with a digit", "#4g > a", nil, "", "An expression attribute name used in the document path is not defined; attribute name: #4g"},
		{"an undefined value", ":a < :b", nil, "", "An expression attribute value used in expression is not defined; attribute value: :a"},
		{"an undefined value before later undefined names", "begins_with(:hello, #a, #b)", nil, "", "An expression attribute value used in expression is not defined; attribute value: :hello"},
		{"a condition is checked before the next one", "attribute_exists(b, a) and a=:nope", nil, "", "Incorrect number of operands for operator or function; operator or function: attribute_exists, number of operands: 2"},

		{"too few operands", "attribute_type(things)", nil, "", "Incorrect number of operands for operator or function; operator or function: attribute_type, number of operands: 1"},
		{"too many operands", "begins_with(things, size(a), b)", nil, "", "Incorrect number of operands for operator or function; operator or function: begins_with, number of operands: 3"},
		{"too many operands of size", "size(things, a) > b", nil, "", "Incorrect number of operands for operator or function; operator or function: size, number of operands: 2"},
		{"a hundred operands of IN are allowed", "a in (b" + strings.Repeat(",c", 99) + ")", nil, "", ""},
		{"a hundred and one are not (observed)", "a in (b" + strings.Repeat(",c", 100) + ")", nil, "", "The IN operator is provided with too many operands; number of operands: 101"},

		{"one path twice, before a name", "a = a AND #a = b AND :views > a", a, "", "The first operand must be distinct from the remaining operands for this operator or function; operator: =, first operand: [a]"},
		{"one path twice, through a name", "#a <> a", a, "", "The first operand must be distinct from the remaining operands for this operator or function; operator: <>, first operand: [a]"},
		{"one path twice in a function", "contains(ab.bc[1].a, ab.bc[1].#a)", a, "", "The first operand must be distinct from the remaining operands for this operator or function; operator: contains, first operand: [ab, bc, [1], a]"},
		{"one path twice, before the type", "attribute_type(ab.bc[1].#a, ab.bc[1].a)", a, "", "The first operand must be distinct from the remaining operands for this operator or function; operator: attribute_type, first operand: [ab, bc, [1], a]"},
		{"one value twice is fine", ":a = :a", nil, `{":a": {"S": "1"}}`, ""},
		{"a path and its size are fine", "a > size(a)", nil, "", ""},

		{"attribute_type of a number", "attribute_type(a, :a)", nil, `{":a": {"N": "1"}}`, "Incorrect operand type for operator or function; operator or function: attribute_type, operand type: N"},
		{"attribute_type of a size", "attribute_type(a, size(a)) and a=:a", nil, `{":a": {"N": "1"}}`, "Incorrect operand type for operator or function; operator or function: attribute_type, operand type: N"},
		{"attribute_type of a path", "attribute_type(a, b)", nil, "", "Incorrect operand type for operator or function; operator or function: attribute_type, operand type: {NS,SS,L,BS,N,M,B,BOOL,NULL,S}"},
		{"attribute_type of no type", "attribute_type(a, :a)", nil, `{":a": {"S": "1"}}`, "Invalid attribute type name found; type: 1, valid types: {B,NULL,SS,BOOL,L,BS,N,NS,S,M}"},
		{"begins_with of a number", "begins_with(a, :a)", nil, `{":a": {"N": "1"}}`, "Incorrect operand type for operator or function; operator or function: begins_with, operand type: N"},
		{"begins_with in a number set", "begins_with(:a, a)", nil, `{":a": {"NS": ["1"]}}`, "Incorrect operand type for operator or function; operator or function: begins_with, operand type: NS"},
		{"begins_with of a size", "begins_with(a, size(a)) and a=:a", nil, `{":a": {"N": "1"}}`, "Incorrect operand type for operator or function; operator or function: begins_with, operand type: N"},
		{"the size of a size", "size(size(a)) > :a", nil, `{":a": {"N": "1"}}`, "Incorrect operand type for operator or function; operator or function: size, operand type: N"},
		{"the size of a boolean", "size(:a) > a", nil, `{":a": {"BOOL": true}}`, "Incorrect operand type for operator or function; operator or function: size, operand type: BOOL"},
		{"the size of a number, before the path that is missing", "attribute_not_exists(size(:a))", nil, `{":a": {"N": "1"}}`, "Incorrect operand type for operator or function; operator or function: size, operand type: N"},
		{"the existence of a size", "attribute_not_exists(size(:a))", nil, `{":a": {"S": "1"}}`, "Operator or function requires a document path; operator or function: attribute_not_exists"},
		{"the existence of a value", "attribute_exists(:a) and a=a", nil, `{":a": {"S": "1"}}`, "Operator or function requires a document path; operator or function: attribute_exists"},
		{"the order of booleans (reported)", "a < :l", nil, `{":l": {"BOOL": true}}`, "Incorrect operand type for operator or function; operator or function: <, operand type: BOOL"},
		{"bounds without an order (reported)", "a between :l and b", nil, `{":l": {"L": []}}`, "Incorrect operand type for operator or function; operator or function: BETWEEN, operand type: L"},
		{"bounds of two types", "a between :b and :a", nil, `{":a": {"S": "a"}, ":b": {"N": "1"}}`, "The BETWEEN operator requires same data type for lower and upper bounds; lower bound operand: AttributeValue: {N:1}, upper bound operand: AttributeValue: {S:a}"},
		{"bounds in the wrong order", "a between :b and :a", nil, `{":a": {"S": "a"}, ":b": {"S": "b"}}`, "The BETWEEN operator requires upper bound to be greater than or equal to lower bound; lower bound operand: AttributeValue: {S:b}, upper bound operand: AttributeValue: {S:a}"},
		{"equal bounds are fine", "a between :a and :a", nil, `{":a": {"S": "a"}}`, ""},
	})
}

func TestConditionHolds(t *testing.T) {
	const stored = `{
		"pk": {"S": "p"}, "s": {"S": "hello"}, "wide": {"S": "a😀é"}, "n": {"N": "5"}, "huge": {"N": "12345678901234567890123456789012345678"},
		"b": {"B": "AQID"}, "yes": {"BOOL": true}, "nil": {"NULL": true},
		"ss": {"SS": ["x", "y"]}, "ns": {"NS": ["1", "2.50"]}, "bs": {"BS": ["AQ=="]},
		"l": {"L": [{"S": "x"}, {"N": "7"}, {"M": {"k": {"S": "v"}}}]},
		"m": {"M": {"x": {"N": "1"}, "y": {"L": [{"S": "deep"}]}}}
	}`
	const given = `{
		":s": {"S": "hello"}, ":h": {"S": "he"}, ":z": {"S": "zz"}, ":empty": {"S": ""}, ":x": {"S": "x"}, ":type": {"S": "SS"},
		":5": {"N": "5.0"}, ":4": {"N": "4"}, ":6": {"N": "6"}, ":1": {"N": "1"}, ":2": {"N": "2"}, ":3": {"N": "3"}, ":25": {"N": "2.5"},
		":more": {"N": "12345678901234567890123456789012345679"},
		":b": {"B": "AQI="}, ":b1": {"B": "AQ=="}, ":yes": {"BOOL": true}, ":no": {"BOOL": false}, ":null": {"NULL": true},
		":ss": {"SS": ["y", "x"]}, ":l": {"L": [{"S": "x"}]}, ":m": {"M": {"k": {"S": "v"}}}, ":deep": {"S": "deep"}
	}`
	for _, c := range []struct {
		name, text string
		want       bool
	}{
		{"equal strings", "s = :s", true},
		{"equal numbers in two spellings", "n = :5", true},
		{"numbers are compared in full", "huge < :more", true},
		{"a number is not a string", "n = :s", false},
		{"and differs from one", "n <> :s", true},
		{"and is not less", "n < :z", false},
		{"nor more", "n > :empty", false},
		{"less", "n < :6", true},
		{"less or equal", "n <= :5", true},
		{"greater", "n > :4", true},
		{"greater or equal", "n >= :6", false},
		{"the operands may be exchanged", ":4 < n", true},
		{"two constants", ":4 < :6", true},
		{"bytes have an order", "b > :b", true},
		{"booleans are equal", "yes = :yes", true},
		{"or differ", "yes <> :no", true},
		{"nulls are equal", "nil = :null", true},
		{"sets have no order of members", "ss = :ss", true},
		{"maps are equal by content", "l[2] = :m", true},
		{"documents stored have no order", "l < m", false},
		{"what is missing equals nothing", "nope = :s", false},
		{"but differs", "nope <> :s", true},
		{"and is not less", "nope < :s", false},
		{"two that are missing differ", "nope <> nada", true},
		{"NOT negates a missing one", "NOT nope = :s", true},
		{"between", "n BETWEEN :4 AND :6", true},
		{"between includes the bounds", "n between :5 and :5", true},
		{"between stored bounds", ":4 between m.x and n", true},
		{"between a missing bound", "n between :4 and nope", false},
		{"in a list", "n IN (:4, :5)", true},
		{"not in a list", "n in (:4, :s, nope)", false},
		{"a missing one is in no list", "nope in (:4)", false},
		{"exists", "attribute_exists(m.y[0])", true},
		{"does not exist inside", "attribute_not_exists(m.y[1])", true},
		{"does not exist inside a string", "attribute_not_exists(s.x)", true},
		{"an index into a map leads nowhere", "attribute_exists(m[0])", false},
		{"a type", "attribute_type(ss, :type)", true},
		{"another type", "attribute_type(s, :type)", false},
		{"a missing one has no type", "attribute_type(nope, :type)", false},
		{"a prefix", "begins_with(s, :h)", true},
		{"the empty prefix", "begins_with(s, :empty)", true},
		{"a prefix of bytes", "begins_with(b, :b)", true},
		{"a string is not a prefix of bytes", "begins_with(b, :empty)", false},
		{"a number has no prefix", "begins_with(n, :h)", false},
		{"a part of a string", "contains(s, :h)", true},
		{"no part of a string", "contains(s, :z)", false},
		{"a part of bytes", "contains(b, :b1)", true},
		{"a member of a set", "contains(ss, :x)", true},
		{"a number in a set", "contains(ns, :25)", true},
		{"a string is not a member of a number set", "contains(ns, :x)", false},
		{"an element of a list", "contains(l, :m)", true},
		{"a map contains nothing", "contains(m, :x)", false},
		{"a string in a stored one", "contains(:s, pk)", false},
		{"a string's size counts UTF-16 units", "size(wide) = :4", true},
		{"the size of bytes", "size(b) = :3", true},
		{"the size of a set", "size(ss) = :2", true},
		{"the size of a list", "size(l) = :3", true},
		{"the size of a map", "size(m) = :2", true},
		{"a number has no size", "size(n) > :1", false},
		{"no size differs from every number", "size(n) <> :1", true},
		{"the size of a constant", "size(:s) = :5", true},
		{"AND binds more than OR", "s = :s OR s = :z AND s = :z", true},
		{"parentheses bind more", "(s = :s OR s = :z) AND s = :z", false},
		{"NOT binds more than AND", "NOT s = :z AND s = :s", true},
		{"NOT NOT is nothing", "NOT NOT s = :s", true},
		{"keywords have any case", "s = :s aNd nOt n iN (:4)", true},
		{"no blanks are needed", "s=:s AND(n>:4)", true},
		{"operands may stand in parentheses", "(s) = (:s) and (size(l)) = (:3)", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, err := ParseCondition(ConditionExpression, c.text)
			if err != nil {
				t.Fatal(err)
			}
			cond, err := p.Bind(&Bindings{Values: values(t, given)})
			if err != nil {
				t.Fatal(err)
			}
			if got := cond.Holds(doc(t, stored)); got != c.want {
				t.Errorf("%s is %v", c.text, got)
			}
		})
	}
}

func TestConditionOnAnAbsentItem(t *testing.T) {
	for text, want := range map[string]bool{
		"attribute_not_exists(pk)": true,
		"attribute_exists(pk)":     false,
		"pk = :v":                  false,
		"pk <> :v":                 true,
	} {
		p, err := ParseCondition(ConditionExpression, text)
		if err != nil {
			t.Fatal(err)
		}
		cond, err := p.Bind(&Bindings{Values: values(t, `{":v": {"S": "x"}}`)})
		if err != nil {
			t.Fatal(err)
		}
		if got := cond.Holds(nil); got != want {
			t.Errorf("%s is %v", text, got)
		}
	}
	if !new(Condition).Holds(nil) {
		t.Error("the zero Condition does not hold")
	}
}

func TestConditionPaths(t *testing.T) {
	p, err := ParseCondition(FilterExpression, "#a.x = :v AND (b[1] > size(c) OR NOT attribute_exists(d))")
	if err != nil {
		t.Fatal(err)
	}
	cond, err := p.Bind(&Bindings{Names: map[string]string{"#a": "A b"}, Values: values(t, `{":v": {"N": "1"}}`)})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"[A b, x]", "[b, [1]]", "[c]", "[d]"}
	got := cond.Paths()
	if len(got) != len(want) {
		t.Fatalf("paths %v, want %v", got, want)
	}
	for i, p := range got {
		if p.String() != want[i] {
			t.Errorf("path %d is %s, want %s", i, p, want[i])
		}
	}
}

func TestConditionsNeedNoText(t *testing.T) {
	cond := NewCondition(Test{Op: And, Tests: []Test{
		{Op: Equal, Operands: []Operand{{Path: item.Path{{Name: "a"}}}, {Value: item.String("x")}}},
		{Op: Not, Tests: []Test{{Op: Exists, Operands: []Operand{{Path: item.Path{{Name: "b"}}}}}}},
	}})
	if !cond.Holds(doc(t, `{"a": {"S": "x"}}`)) || cond.Holds(doc(t, `{"a": {"S": "x"}, "b": {"S": ""}}`)) {
		t.Error("the condition made of nodes does not hold where it should")
	}
}
