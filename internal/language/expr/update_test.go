package expr

import (
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/data/item"
)

// Most texts and their order are those that the tests of dynalite recorded
// against the service; the others are those of DynamoDB Local. "reported" is
// explained in syntax_test.go.
func TestUpdateFaults(t *testing.T) {
	ab := map[string]string{"#a": "a", "#b": "b"}
	cd := map[string]string{"#c": "c", "#d": "[3]"}
	overlap := func(one, two string) string {
		return "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: " + one + ", path two: " + two
	}
	conflict := func(one, two string) string {
		return strings.Replace(overlap(one, two), "overlap", "conflict", 1)
	}
	constant := func(verb, t string) string {
		return "Incorrect operand type for operator or function; operator: " + verb + ", operand type: " + t + ", typeSet: ALLOWED_FOR_" + verb + "_OPERAND"
	}
	operand := func(op, t string) string {
		return "Incorrect operand type for operator or function; operator or function: " + op + ", operand type: " + t
	}
	undefined := func(kind, ref string) string {
		if kind == "name" {
			return "An expression attribute name used in the document path is not defined; attribute name: " + ref
		}
		return "An expression attribute value used in expression is not defined; attribute value: " + ref
	}
	const misused = "The function is not allowed to be used this way in an expression; function: list_append"
	const distinct = "The first operand must be distinct from the remaining operands for this operator or function; operator: if_not_exists, first operand: "
	testFaults(t, UpdateExpression, []faultCase{
		{"a reserved word, before a section that occurs twice", " set #c = :c set abOrt = true ", ab, "", "Attribute name is a reserved keyword; reserved keyword: abOrt"},
		{"a reserved word in any case", " remove Absolute ", ab, "", "Attribute name is a reserved keyword; reserved keyword: Absolute"},
		{"an unknown function, before a section that occurs twice", "set #c = if_not_exist(:c) set c = d", ab, "", "Invalid function name; function: if_not_exist"},
		{"a function of conditions (reported)", "set a = size(b)", nil, "", "The function is not allowed in an update expression; function: size"},
		{"list_append in list_append", "set a = list_append(list_append(a, b), c)", nil, "", misused},
		{"list_append in if_not_exists", "set a = if_not_exists(a, list_append(b, c))", nil, "", misused},
		{"list_append in a sum, before a later reserved word", "set a = list_append(a, b) + c, abort = d", nil, "", misused},
		{"a reserved word before list_append", "set a = list_append(abort, list_append(b, c))", nil, "", "Attribute name is a reserved keyword; reserved keyword: abort"},
		{"if_not_exists in list_append is fine", "set a = list_append(if_not_exists(a, b), (c))", nil, "", ""},
		{"SET twice, before an undefined name", "set a = #c set c = :d", ab, "", `The "SET" section can only be used once in an update expression;`},
		{"REMOVE twice", "remove #d set a = b remove e", ab, "", `The "REMOVE" section can only be used once in an update expression;`},
		{"ADD twice", "add #d :e set a = b add e :f", ab, "", `The "ADD" section can only be used once in an update expression;`},
		{"DELETE twice", "delete #d :e set a = b delete #e :f", ab, "", `The "DELETE" section can only be used once in an update expression;`},
		{"an undefined name, before an undefined value", "SET a = :c, #c = if_not_exists(:c)", ab, "", "An expression attribute name used in the document path is not defined; attribute name: #c"},
		{"an undefined value, before the number of operands", "SET #a = if_not_exists(:c)", ab, "", "An expression attribute value used in expression is not defined; attribute value: :c"},

		{"an overlap, before conflicts and functions", "set d[1] = a, d.b = a, c[1].a = a, #c = if_not_exists(a)", cd, "", overlap("[c, [1], a]", "[c]")},
		{"a path inside another", "set #c[3].#d = a, #c[3] = a", cd, "", overlap("[c, [3], [3]]", "[c, [3]]")},
		{"one path twice", "SET fieldx = :s, fieldx = :o", nil, `{":s": {"S": ""}, ":o": {"S": ""}}`, overlap("[fieldx]", "[fieldx]")},
		{"one path in two sections", "SET a.b = :s REMOVE a", nil, `{":s": {"S": ""}}`, overlap("[a, b]", "[a]")},
		{"a list that is a map", "set #c[3].#d = a, #c.#d[3] = if_not_exists(a)", cd, "", conflict("[c, [3], [3]]", "[c, [3], [3]]")},
		{"a map that is a list", "remove a.#c set a[1] = #d", cd, "", conflict("[a, c]", "[a, [1]]")},
		{"neighbours are fine", "set a.b = :s, a.c = :s, b[0] = :s, b[1] = :s", nil, `{":s": {"S": ""}}`, ""},

		{"ADD of a string, before functions", "set b = list_append(:a, a), c = if_not_exists(a) add a.b :a", nil, `{":a": {"S": "a"}}`, constant("ADD", "STRING")},
		{"DELETE of a string", "delete a.b :a", nil, `{":a": {"S": "a"}}`, constant("DELETE", "STRING")},
		{"ADD of a null", "add a.b :a", nil, `{":a": {"NULL": true}}`, constant("ADD", "NULL")},
		{"ADD of a boolean", "add a.b :a", nil, `{":a": {"BOOL": true}}`, constant("ADD", "BOOLEAN")},
		{"ADD of bytes", "add a.b :a", nil, `{":a": {"B": "YQ=="}}`, constant("ADD", "BINARY")},
		{"ADD of a map", "add a.b :a", nil, `{":a": {"M": {}}}`, constant("ADD", "MAP")},
		{"DELETE of a list", "delete a.b :a", nil, `{":a": {"L": []}}`, constant("DELETE", "LIST")},
		{"DELETE of a number", "delete a.b :a", nil, `{":a": {"N": "1"}}`, constant("DELETE", "NUMBER")},
		{"ADD of a number is fine", "add a.b :a", nil, `{":a": {"N": "1"}}`, ""},
		{"DELETE of a set is fine", "delete a.b :a", nil, `{":a": {"BS": ["YQ=="]}}`, ""},

		{"the last undefined value", "set a = :a, b = :b", nil, "", undefined("value", ":b")},
		{"the last undefined name", "remove #x, #y", nil, "", undefined("name", "#y")},
		{"the last section", "remove #x set #y = :a", nil, "", undefined("name", "#y")},
		{"an action's operands in order", "set a = :a + #x", nil, "", undefined("value", ":a")},
		{"an overlap before undefined values", "set a = :a, a = :b", nil, "", overlap("[a]", "[a]")},
		{"an overlap before an earlier undefined name", "set #x = a, b = a, b = a", nil, "", overlap("[b]", "[b]")},
		{"an undefined name before an earlier overlap", "set b = a, b = a, #x = a", nil, "", undefined("name", "#x")},
		{"a conflict before an earlier overlap", "set b = a, b = a, c.d = a, c[1] = a", nil, "", conflict("[c, d]", "[c, [1]]")},
		{"the last of several paths that overlap with one", "set a = d, a.c = d, a.b = d", nil, "", overlap("[a]", "[a, b]")},
		{"the last of several overlaps", "set a = c, b = c, a = c, b = c", nil, "", overlap("[b]", "[b]")},
		{"a function before an earlier undefined value", "set a = :a, b = if_not_exists(b)", nil, "", "Incorrect number of operands for operator or function; operator or function: if_not_exists, number of operands: 1"},
		{"a function before a later operand", "set a = if_not_exists(b) + :a", nil, "", "Incorrect number of operands for operator or function; operator or function: if_not_exists, number of operands: 1"},

		{"if_not_exists of one path twice", "set a = if_not_exists(a, a)", nil, "", distinct + "[a]"},
		{"if_not_exists of one path by two names", "set a = if_not_exists(b.#a, b.a)", ab, "", distinct + "[b, a]"},
		{"if_not_exists of one path, in another", "set a = if_not_exists(c, if_not_exists(b, b))", nil, "", distinct + "[b]"},
		{"if_not_exists of one path at two depths is fine", "set a = if_not_exists(b, if_not_exists(b, c))", nil, "", ""},
		{"if_not_exists of one", "set a = if_not_exists(c)", nil, "", "Incorrect number of operands for operator or function; operator or function: if_not_exists, number of operands: 1"},
		{"list_append of three", "set a = list_append(c, d, e)", nil, "", "Incorrect number of operands for operator or function; operator or function: list_append, number of operands: 3"},
		{"if_not_exists of a value", "set a = if_not_exists(:a, c)", nil, `{":a": {"S": "a"}}`, "Operator or function requires a document path; operator or function: if_not_exists"},
		{"if_not_exists of a function", "set a = if_not_exists(if_not_exists(a, b), c)", nil, "", "Operator or function requires a document path; operator or function: if_not_exists"},
		{"list_append of a string", "set a = list_append(:a, a)", nil, `{":a": {"S": "a"}}`, operand("list_append", "S")},
		{"list_append of a map", "set a = list_append(a, :i)", nil, `{":i": {"M": {}}}`, operand("list_append", "M")},
		{"a string plus", "set a = :a + :c", nil, `{":a": {"S": "a"}, ":c": {"B": "YQ=="}}`, operand("+", "S")},
		{"plus bytes", "set a = a + :c", nil, `{":c": {"B": "YQ=="}}`, operand("+", "B")},
		{"minus a list", "set a = a - :j", nil, `{":j": {"L": []}}`, operand("-", "L")},
		{"a sum in parentheses is fine", "set a = ((b.c.d)+(e))", nil, "", ""},
		{"functions in functions are fine", "SET a = if_not_exists(a, if_not_exists(b, c)) + b", nil, "", ""},
		{"two parentheses around a sum", "set a = ((b + c))", nil, "", "The expression has redundant parentheses;"},
		{"two parentheses around an operand", "set a = ((b))", nil, "", "The expression has redundant parentheses;"},
	})
}

func bindUpdate(t testing.TB, text, vs string) *Update {
	t.Helper()
	p, err := ParseUpdate(text)
	if err != nil {
		t.Fatal(err)
	}
	u, err := p.Bind(&Bindings{Names: map[string]string{"#1": "1"}, Values: values(t, vs)})
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestUpdateApply(t *testing.T) {
	const given = `{
		":s": {"S": "new"}, ":t": {"S": "other"}, ":1": {"N": "1"}, ":10": {"N": "10"}, ":l": {"L": [{"S": "z"}]}, ":none": {"L": []},
		":ss": {"SS": ["b", "c"]}, ":abc": {"SS": ["a", "b", "c"]}, ":ns": {"NS": ["1.0", "3"]}, ":bs": {"BS": ["AQ=="]}, ":m": {"M": {}}
	}`
	for _, c := range []struct{ name, before, text, want string }{
		{"SET makes an attribute", `{"p": {"S": "k"}}`, "SET a = :s", `{"p": {"S": "k"}, "a": {"S": "new"}}`},
		{"SET replaces one, of any type", `{"a": {"N": "1"}}`, "SET a = :s", `{"a": {"S": "new"}}`},
		{"SET copies", `{"a": {"N": "1"}}`, "SET b = a", `{"a": {"N": "1"}, "b": {"N": "1"}}`},
		{"operands are read before anything is written", `{"a": {"N": "1"}, "b": {"N": "2"}}`, "SET a = b, b = a", `{"a": {"N": "2"}, "b": {"N": "1"}}`},
		{"a removed attribute can be read", `{"a": {"N": "1"}}`, "REMOVE a SET b = a", `{"b": {"N": "1"}}`},
		{"plus", `{"a": {"N": "1"}}`, "SET a = a + :10", `{"a": {"N": "11"}}`},
		{"minus", `{"a": {"N": "1"}}`, "SET a = (:1 - :10)", `{"a": {"N": "-9"}}`},
		{"sums keep 38 digits", `{"a": {"N": "12345678901234567890123456789012345678"}}`, "SET a = a + :1", `{"a": {"N": "12345678901234567890123456789012345679"}}`},
		{"if_not_exists takes what exists", `{"a": {"N": "1"}}`, "SET a = if_not_exists(a, :10)", `{"a": {"N": "1"}}`},
		{"if_not_exists takes the other", `{"p": {"S": "k"}}`, "SET a = if_not_exists(a, :10) + :1", `{"p": {"S": "k"}, "a": {"N": "11"}}`},
		{"what if_not_exists does not need may be missing", `{"a": {"N": "1"}}`, "SET b = if_not_exists(a, nope)", `{"a": {"N": "1"}, "b": {"N": "1"}}`},
		{"list_append", `{"a": {"L": [{"S": "x"}]}}`, "SET a = list_append(a, :l)", `{"a": {"L": [{"S": "x"}, {"S": "z"}]}}`},
		{"list_append in front", `{"a": {"L": [{"S": "x"}]}}`, "SET a = list_append(:l, a)", `{"a": {"L": [{"S": "z"}, {"S": "x"}]}}`},
		{"list_append to a new list", `{"p": {"S": "k"}}`, "SET a = list_append(if_not_exists(a, :none), :l)", `{"p": {"S": "k"}, "a": {"L": [{"S": "z"}]}}`},
		{"SET inside a map", `{"m": {"M": {"x": {"S": "old"}, "y": {"N": "1"}}}}`, "SET m.x = :s", `{"m": {"M": {"x": {"S": "new"}, "y": {"N": "1"}}}}`},
		{"SET makes an entry", `{"m": {"M": {}}}`, "SET m.x = :s", `{"m": {"M": {"x": {"S": "new"}}}}`},
		{"SET of an element", `{"l": {"L": [{"S": "a"}, {"S": "b"}]}}`, "SET l[1] = :s", `{"l": {"L": [{"S": "a"}, {"S": "new"}]}}`},
		{"an index past the end appends", `{"l": {"L": [{"S": "a"}]}}`, "SET l[5] = :s", `{"l": {"L": [{"S": "a"}, {"S": "new"}]}}`},
		{"several are appended in the order of their indexes", `{"l": {"L": []}}`, "SET l[9] = :t, l[5] = :s", `{"l": {"L": [{"S": "new"}, {"S": "other"}]}}`},
		{"SET inside an element", `{"l": {"L": [{"M": {"x": {"N": "1"}}}]}}`, "SET l[0].x = :s", `{"l": {"L": [{"M": {"x": {"S": "new"}}}]}}`},
		{"REMOVE", `{"a": {"N": "1"}, "b": {"N": "1"}}`, "REMOVE a", `{"b": {"N": "1"}}`},
		{"REMOVE of what is not there", `{"b": {"N": "1"}}`, "REMOVE a", `{"b": {"N": "1"}}`},
		{"REMOVE of an entry", `{"m": {"M": {"x": {"N": "1"}, "y": {"N": "1"}}}}`, "REMOVE m.x, m.z", `{"m": {"M": {"y": {"N": "1"}}}}`},
		{"REMOVE of an element closes the gap", `{"l": {"L": [{"N": "0"}, {"N": "1"}, {"N": "2"}]}}`, "REMOVE l[1]", `{"l": {"L": [{"N": "0"}, {"N": "2"}]}}`},
		{"REMOVE uses the old indexes", `{"l": {"L": [{"N": "0"}, {"N": "1"}, {"N": "2"}, {"N": "3"}]}}`, "REMOVE l[0], l[2]", `{"l": {"L": [{"N": "1"}, {"N": "3"}]}}`},
		{"REMOVE in nested lists", `{"l": {"L": [{"L": [{"N": "0"}, {"N": "1"}]}, {"N": "2"}, {"N": "3"}]}}`, "REMOVE l[1], l[0][0]", `{"l": {"L": [{"L": [{"N": "1"}]}, {"N": "3"}]}}`},
		{"REMOVE past the end", `{"l": {"L": [{"N": "0"}]}}`, "REMOVE l[3]", `{"l": {"L": [{"N": "0"}]}}`},
		{"SET and REMOVE in one list use the old indexes", `{"l": {"L": [{"N": "0"}, {"N": "1"}]}}`, "REMOVE l[0] SET l[1] = :s", `{"l": {"L": [{"S": "new"}]}}`},
		{"REMOVE does not take what SET appends", `{"l": {"L": [{"N": "0"}]}}`, "REMOVE l[1] SET l[7] = :s", `{"l": {"L": [{"N": "0"}, {"S": "new"}]}}`},
		{"ADD to a number", `{"a": {"N": "1"}}`, "ADD a :10", `{"a": {"N": "11"}}`},
		{"ADD makes a number", `{"p": {"S": "k"}}`, "ADD a :10", `{"p": {"S": "k"}, "a": {"N": "10"}}`},
		{"ADD to a set", `{"a": {"SS": ["a", "b"]}}`, "ADD a :ss", `{"a": {"SS": ["a", "b", "c"]}}`},
		{"ADD to a set of numbers compares by value", `{"a": {"NS": ["1", "2"]}}`, "ADD a :ns", `{"a": {"NS": ["1", "2", "3"]}}`},
		{"ADD makes a set", `{"m": {"M": {}}}`, "ADD m.s :bs", `{"m": {"M": {"s": {"BS": ["AQ=="]}}}}`},
		{"ADD past the end of a list", `{"l": {"L": [{"N": "0"}]}}`, "ADD l[4] :1", `{"l": {"L": [{"N": "0"}, {"N": "1"}]}}`},
		{"DELETE from a set", `{"a": {"SS": ["a", "b"]}}`, "DELETE a :ss", `{"a": {"SS": ["a"]}}`},
		{"DELETE of all members removes the set", `{"a": {"SS": ["a", "b"]}, "b": {"N": "1"}}`, "DELETE a :abc", `{"b": {"N": "1"}}`},
		{"DELETE of all members removes the element", `{"l": {"L": [{"SS": ["a", "b"]}, {"N": "1"}]}}`, "DELETE l[0] :abc", `{"l": {"L": [{"N": "1"}]}}`},
		{"DELETE from nothing", `{"b": {"N": "1"}}`, "DELETE a :ss", `{"b": {"N": "1"}}`},
		{"all four at once", `{"a": {"N": "1"}, "b": {"N": "1"}, "c": {"SS": ["b", "q"]}}`, "ADD a :10 DELETE c :ss REMOVE b SET d = :s", `{"a": {"N": "11"}, "c": {"SS": ["q"]}, "d": {"S": "new"}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			before := doc(t, c.before)
			after, err := bindUpdate(t, c.text, given).Apply(before)
			if err != nil {
				t.Fatal(err)
			}
			if want := doc(t, c.want); !after.Equal(want) {
				t.Errorf("%s\n got %s\nwant %s", c.text, item.Map(after), item.Map(want))
			}
			if !before.Equal(doc(t, c.before)) {
				t.Errorf("%s changed the item before", c.text)
			}
		})
	}
}

func TestUpdateFaultsOfTheItem(t *testing.T) {
	const (
		stored    = `{"a": {"S": "k"}, "b": {"S": "k"}, "c": {"M": {"1": {"S": "a"}, "s": {"SS": ["1"]}}}, "d": {"L": [{"S": "a"}, {"S": "b"}]}, "n": {"NS": ["1"]}, "x": {"N": "9.9e125"}}`
		given     = `{":a": {"SS": ["a"]}, ":1": {"N": "1"}, ":x": {"N": "9.9e125"}, ":ns": {"NS": ["1"]}, ":none": {"L": []}}`
		badPath   = "The document path provided in the update expression is invalid for update"
		wrongType = "An operand in the update expression has an incorrect data type"
		noOperand = "The provided expression refers to an attribute that does not exist in the item"
	)
	for _, c := range []struct{ text, want string }{
		{"set b.a = :a, #1 = :a", badPath},
		{"set b[1] = :a, #1 = :a", badPath},
		{"set y.a = :a, #1 = :a", badPath},
		{"set y[1] = :a, #1 = :a", badPath},
		{"set c[1] = :a, #1 = :a", badPath},
		{"set d.#1 = :a", badPath},
		{"set d[7].z = :a", badPath},
		{"remove b.a set #1 = :a", badPath},
		{"remove b[1] set #1 = :a", badPath},
		{"remove y.a set #1 = :a", badPath},
		{"remove y[1] set #1 = :a", badPath},
		{"remove c[1] set #1 = :a", badPath},
		{"remove d.#1 set #1 = :a", badPath},
		{"delete b.a :a set #1 = :a", badPath},
		{"delete b[1] :a set #1 = :a", badPath},
		{"delete y.a :a set #1 = :a", badPath},
		{"delete c[1] :a set #1 = :a", badPath},
		{"delete d.#1 :a", badPath},
		{"add b.a :a set #1 = :a", badPath},
		{"add y[1] :a set #1 = :a", badPath},
		{"add d.#1 :a", badPath},
		{"delete n :a", wrongType},
		{"delete c :ns", wrongType},
		{"delete c.s :ns", wrongType},
		{"add c :ns", wrongType},
		{"add n :1", wrongType},
		{"add a :1", wrongType},
		{"set e = a + :1", wrongType},
		{"set e = c - :1", wrongType},
		{"set e = list_append(n, if_not_exists(f, :none))", wrongType},
		{"set e = y", noOperand},
		{"set e = y + a", noOperand},
		{"set e = list_append(y, z)", noOperand},
		{"set e = if_not_exists(y, z)", noOperand},
		{"set e = d[2]", noOperand},
		{"set x = x + :x", "Number overflow. Attempting to store a number with magnitude larger than supported range"},
	} {
		t.Run(c.text, func(t *testing.T) {
			if _, err := bindUpdate(t, c.text, given).Apply(doc(t, stored)); message(t, err) != c.want {
				t.Errorf("got %v, want %s", err, c.want)
			}
		})
	}
}

func TestUpdatedOldAndNew(t *testing.T) {
	const given = `{":s": {"S": "new"}, ":t": {"S": "other"}, ":1": {"N": "1"}, ":ss": {"SS": ["a"]}}`
	for _, c := range []struct{ name, before, text, old, after string }{
		{"attributes that were touched", `{"p": {"S": "k"}, "a": {"N": "1"}}`, "SET a = :s, b = :t", `{"a": {"N": "1"}}`, `{"a": {"S": "new"}, "b": {"S": "other"}}`},
		{"no more than the path", `{"m": {"M": {"x": {"N": "1"}, "y": {"N": "2"}}}}`, "SET m.x = :s", `{"m": {"M": {"x": {"N": "1"}}}}`, `{"m": {"M": {"x": {"S": "new"}}}}`},
		{"paths of one map together", `{"m": {"M": {"x": {"N": "1"}, "y": {"N": "2"}, "z": {"N": "3"}}}}`, "SET m.y = :s, m.x = :t", `{"m": {"M": {"x": {"N": "1"}, "y": {"N": "2"}}}}`, `{"m": {"M": {"x": {"S": "other"}, "y": {"S": "new"}}}}`},
		{"nothing new after REMOVE", `{"a": {"N": "1"}, "b": {"N": "1"}}`, "REMOVE a", `{"a": {"N": "1"}}`, `{}`},
		{"elements close up", `{"l": {"L": [{"N": "0"}, {"N": "1"}, {"N": "2"}]}}`, "SET l[2] = :t, l[0] = :s", `{"l": {"L": [{"N": "0"}, {"N": "2"}]}}`, `{"l": {"L": [{"S": "new"}, {"S": "other"}]}}`},
		{"an index past the end has no value", `{"l": {"L": [{"N": "0"}]}}`, "SET l[7] = :s", `{}`, `{}`},
		{"the index after the last element has one", `{"l": {"L": [{"N": "0"}]}}`, "SET l[1] = :s", `{}`, `{"l": {"L": [{"S": "new"}]}}`},
		{"a removed element is not its successor", `{"l": {"L": [{"N": "0"}, {"N": "1"}]}}`, "REMOVE l[0]", `{"l": {"L": [{"N": "0"}]}}`, `{}`},
		{"an element that moves", `{"l": {"L": [{"N": "0"}, {"N": "1"}]}}`, "REMOVE l[0] SET l[1] = :s", `{"l": {"L": [{"N": "0"}, {"N": "1"}]}}`, `{"l": {"L": [{"S": "new"}]}}`},
		{"a sum", `{"a": {"N": "1"}}`, "ADD a :1", `{"a": {"N": "1"}}`, `{"a": {"N": "2"}}`},
		{"what DELETE leaves", `{"a": {"SS": ["a", "b"]}}`, "DELETE a :ss", `{"a": {"SS": ["a", "b"]}}`, `{"a": {"SS": ["b"]}}`},
		{"nothing if it leaves nothing", `{"a": {"SS": ["a"]}}`, "DELETE a :ss", `{"a": {"SS": ["a"]}}`, `{}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			u := bindUpdate(t, c.text, given)
			before := doc(t, c.before)
			if got, want := u.UpdatedOld(before), doc(t, c.old); !got.Equal(want) {
				t.Errorf("old\n got %s\nwant %s", item.Map(got), item.Map(want))
			}
			got, err := u.UpdatedNew(before)
			if want := doc(t, c.after); err != nil || !got.Equal(want) {
				t.Errorf("new\n got %s, %v\nwant %s", item.Map(got), err, item.Map(want))
			}
		})
	}
}

func TestLegacyUpdates(t *testing.T) {
	add := func(v item.Value) *Update {
		return &Update{Legacy: true, Actions: []Action{{Verb: Add, Path: item.Path{{Name: "l"}}, Term: Term{Value: v}}}}
	}
	before := doc(t, `{"l": {"L": [{"N": "0"}]}}`)
	after, err := add(item.List(item.String("x"))).Apply(before)
	if want := doc(t, `{"l": {"L": [{"N": "0"}, {"S": "x"}]}}`); err != nil || !after.Equal(want) {
		t.Errorf("ADD of a list: %s, %v, want %s", item.Map(after), err, item.Map(want))
	}
	if _, err := add(num(t, "1")).Apply(before); message(t, err) != "Type mismatch for attribute to update" {
		t.Errorf("ADD of a number to a list: %v", err)
	}
}

func TestUpdatePathsAndCounts(t *testing.T) {
	u := bindUpdate(t, "SET a.b = c, l[0] = if_not_exists(d, :1) + e REMOVE x, y ADD z :1 DELETE q :ss", `{":1": {"N": "1"}, ":ss": {"SS": ["a"]}}`)
	if got, want := u.Counts(), (Counts{Writes: 3, Clears: 3, Indexed: 1, Arithmetic: 1}); got != want {
		t.Errorf("counts %+v, want %+v", got, want)
	}
	var texts []string
	for _, p := range u.Paths() {
		texts = append(texts, p.String())
	}
	if got, want := strings.Join(texts, " "), "[a, b] [l, [0]] [x] [y] [z] [q]"; got != want {
		t.Errorf("paths %s, want %s", got, want)
	}
	texts = nil
	for _, p := range u.Reads() {
		texts = append(texts, p.String())
	}
	if got, want := strings.Join(texts, " "), "[c] [d] [e]"; got != want {
		t.Errorf("reads %s, want %s", got, want)
	}
}
