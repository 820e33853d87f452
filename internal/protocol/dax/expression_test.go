package dax

import (
	"encoding/hex"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/language/expr"
)

// compiled reads a compiled expression of a kind.
func compiled(kind string, b []byte) (any, error) {
	switch kind {
	case "condition":
		return conditionOf(b, expr.ConditionExpression)
	case "filter":
		return conditionOf(b, expr.FilterExpression)
	case "key":
		root, err := readCondition(b, expr.KeyConditionExpression)
		return expr.NewKeyCondition(root), err
	case "update":
		return readUpdate(b)
	}
	return readProjection(b)
}

// parsed parses and binds the text of an expression.
func parsed(t *testing.T, kind, text string, b *expr.Bindings) any {
	t.Helper()
	var got any
	var err error
	switch kind {
	case "condition", "filter":
		of := expr.ConditionExpression
		if kind == "filter" {
			of = expr.FilterExpression
		}
		var p *expr.ParsedCondition
		if p, err = expr.ParseCondition(of, text); err == nil {
			got, err = p.Bind(b)
		}
	case "key":
		var p *expr.ParsedKeyCondition
		if p, err = expr.ParseKeyCondition(text); err == nil {
			got, err = p.Bind(b)
		}
	case "update":
		var p *expr.ParsedUpdate
		if p, err = expr.ParseUpdate(text); err == nil {
			got, err = p.Bind(b)
		}
	default:
		var p *expr.ParsedProjection
		if p, err = expr.ParseProjection(text); err == nil {
			var bound *expr.Projection
			if bound, err = p.Bind(b); err == nil {
				got = bound.Paths()
			}
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// An expression that the client has compiled becomes the nodes that its text becomes.
func TestExpressions(t *testing.T) {
	for _, line := range readLines(t, "expressions.txt") {
		f := fields(t, line, 5)
		kind, text := f[0], f[1]
		t.Run(kind+" "+text, func(t *testing.T) {
			b := &expr.Bindings{Values: valuesOf(t, f[3])}
			if err := json.Unmarshal([]byte(f[2]), &b.Names); err != nil {
				t.Fatal(err)
			}
			want := parsed(t, kind, text, b)
			got, err := compiled(kind, unhex(t, f[4]))
			if err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got  %s\nwant %s", show(got), show(want))
			}
		})
	}
}

// checked returns the fault of an expression that package ops finds.
func checked(expression any) error {
	switch e := expression.(type) {
	case *expr.Condition:
		return e.CheckAs(expr.ConditionExpression)
	case *expr.Update:
		return e.CheckExpression()
	}
	return nil
}

func TestInvalidExpressions(t *testing.T) {
	const a, b = "82126161", "82126162" // the paths a and b
	for _, c := range []struct{ kind, name, bytes, want string }{
		{"condition", "nothing", "", "The expression is malformed"},
		{"condition", "another version", "83028200" + a + "80", "The expression is malformed"},
		{"condition", "no values", "82018200" + a, "The expression is malformed"},
		{"condition", "one operand", "83018200" + a + "80", "The expression is malformed"},
		{"condition", "three operands", "83018400" + a + a + a + "80", "The expression is malformed"},
		{"condition", "BETWEEN of two", "83018309" + a + a + "80", "The expression is malformed"},
		{"condition", "AND of one", "83018206" + "820b" + a + "80", "The expression is malformed"},
		{"condition", "NOT of nothing", "83018108" + "80", "The expression is malformed"},
		{"condition", "a function of nothing", "8301810b80", "The expression is malformed"},
		{"condition", "an operand alone", "8301" + a + "80", "The expression is malformed"},
		{"condition", "an action", "83018216" + a + "80", "The expression is malformed"},
		{"condition", "an unknown node", "8301821863" + a + "80", "The expression is malformed"},
		{"condition", "a node without a number", "83018080", "The expression is malformed"},
		{"condition", "a text for a node", "8301616180", "The expression is malformed"},
		{"condition", "a value that is not there", "83018300" + a + "82110181" + "00", "The expression is malformed"},
		{"condition", "a negative value", "83018300" + a + "82112081" + "00", "The expression is malformed"},
		{"condition", "a path of nothing", "8301820b811280", "The expression is malformed"},
		{"condition", "a path that begins with an index", "8301820b8212d90cfc0080", "The expression is malformed"},
		{"condition", "a negative index", "8301820b83126161d90cfc2080", "The expression is malformed"},
		{"condition", "an empty name", "8301820b82126080", "Empty attribute name"},
		{"condition", "size of size", "83018300" + "82108210" + a + a + "80", "Incorrect operand type for operator or function; operator or function: size, operand type: N"},
		{"condition", "size of nothing", "83018300" + "8110" + a + "80", "Incorrect number of operands for operator or function; operator or function: size, number of operands: 0"},
		{"condition", "another error before size of size", "83018306" + "830b" + a + a + "8300" + "82108210" + a + a + "80", "Incorrect number of operands for operator or function; operator or function: attribute_exists, number of operands: 2"},
		{"condition", "size of two", "83018300" + "8310" + a + a + a + "80", "Incorrect number of operands for operator or function; operator or function: size, number of operands: 2"},
		{"condition", "bytes after it", "8301820b" + a + "8000", "The expression is malformed"},
		{"condition", "an invalid value", "83018300" + a + "82110081d90cf980", "One or more parameter values were invalid: An string set  may not be empty"},
		{"update", "no actions", "83018080", "The expression is malformed"},
		{"update", "SET without a value", "8301818213" + a + "80", "The expression is malformed"},
		{"update", "ADD of a path", "8301818314" + a + a + "80", "The expression is malformed"},
		{"update", "plus of one", "8301818313" + a + "8219" + a + "80", "The expression is malformed"},
		{"update", "if_not_exists of one", "8301818313" + a + "8217" + a + "80", "Incorrect number of operands for operator or function; operator or function: if_not_exists, number of operands: 1"},
		{"update", "if_not_exists of a value", "8301818313" + a + "8317" + "821100" + a + "8100", "Operator or function requires a document path; operator or function: if_not_exists"},
		{"update", "if_not_exists of one value", "8301818313" + a + "8217" + "821100" + "8100", "operator or function: if_not_exists, number of operands: 1"},
		{"update", "if_not_exists of three", "8301818313" + a + "8417" + a + "821100" + "821100" + "8100", "operator or function: if_not_exists, number of operands: 3"},
		{"update", "if_not_exists of nothing", "8301818313" + a + "8117" + "80", "operator or function: if_not_exists, number of operands: 0"},
		{"update", "list_append of one", "8301818313" + a + "821818" + a + "80", "operator or function: list_append, number of operands: 1"},
		// Actions are checked from the last to the first (conformance/expr/update_order.txt).
		{"update", "two errors of if_not_exists", "8301828313" + a + "8217" + a + "8313" + b + "8317" + b + b + "80", "operator: if_not_exists, first operand: [b]"},
		{"update", "an error within an error of if_not_exists", "8301818313" + a + "8317" + "821100" + "8317" + b + b + "8100", "operator: if_not_exists, first operand: [b]"},
		{"update", "a condition", "830181820b" + a + "80", "The expression is malformed"},
		{"projection", "no paths", "820180", "The expression is malformed"},
		{"projection", "values", "830181" + a + "80", "The expression is malformed"},
		{"projection", "a value", "82018182110080", "The expression is malformed"},
		{"condition", "too many nodes", "8301" + strings.Repeat("8208", 5000) + "820b" + a + "80", "Expression size has exceeded the maximum allowed size;"},
		{"projection", "too many paths", "8201" + "991388" + strings.Repeat(a, 5000), "Expression size has exceeded the maximum allowed size;"},
		{"condition", "too many values", "8301820b" + a + "991388" + strings.Repeat("00", 5000), "Expression size has exceeded the maximum allowed size;"},
	} {
		t.Run(c.kind+" "+c.name, func(t *testing.T) {
			got, err := compiled(c.kind, unhex(t, c.bytes))
			if err == nil {
				err = checked(got)
			}
			if err == nil || !strings.HasSuffix(err.Error(), c.want) {
				t.Errorf("got %v, %v, want %s", got, err, c.want)
			}
		})
	}
}

// The values of a projected item are found at its paths, also after elements of lists have
// moved together: the client puts them back as DynamoDB does.
func TestProjections(t *testing.T) {
	it := itemOf(t, `{"a":{"S":"1"},"l":{"L":[{"N":"0"},{"M":{"x":{"N":"1"}}},{"M":{"x":{"N":"2"},"y":{"N":"3"}}},{"L":[{"N":"4"},{"N":"5"}]}]},
		"m":{"M":{"p":{"M":{"q":{"N":"6"}}},"r":{"NULL":true}}},"e":{"M":{}}}`)
	for _, c := range []struct{ paths, want string }{
		{"a", "bf006131ff"},
		{"z", "bfff"},
		{"z, a", "bf016131ff"},
		{"l[0], l[9]", "bf0000ff"},
		{"l[9], l[0], l[8]", "bf0100ff"},
		{"l[2].y, l[1].x", "bf01010003ff"},
		{"l[0].x, l[2].y", "bf0103ff"},
		{"l[1].y, l[1].x, l[2].y", "bf01010203ff"},
		{"l[3][1], l[3][0]", "bf01040005ff"},
		{"m.p.q, m.r, m.z", "bf000601f6ff"},
		{"e, e.x", "bf00a0ff"},
	} {
		t.Run(c.paths, func(t *testing.T) {
			parsed, err := expr.ParseProjection(c.paths)
			if err != nil {
				t.Fatal(err)
			}
			bound, err := parsed.Bind(new(expr.Bindings))
			var paths []item.Path
			if err == nil {
				paths = bound.Paths()
			} else {
				paths = []item.Path{{{Name: "e"}}} // they overlap
			}
			if got := hex.EncodeToString(newProjection(paths).append(nil, it.Project(paths))); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}
