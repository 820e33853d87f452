package expr

import (
	"strings"
	"testing"
)

// How we know a message: "observed" stands for a report by a user of the
// service, or a suite that runs against it; "reported" for the tests of
// another implementation, which we could not check. The others follow from
// the rule that these show.
func TestSyntaxErrorsShowTheTokenAndItsNeighbours(t *testing.T) {
	for _, c := range []struct {
		name        string
		kind        Kind
		text        string
		token, near string
	}{
		{"the first token has no neighbour before it (observed)", UpdateExpression, "INVALID SYNTAX HERE", "INVALID", "INVALID SYNTAX"},
		{"an unknown character is a token (observed)", ProjectionExpression, "!!!", "!", "!!"},
		{"blanks between tokens are kept (observed)", UpdateExpression, "ADD hits : incr", ":", "hits : incr"},
		{"a lone number sign is not a name (observed)", UpdateExpression, "SET a = :a, #, b = :b", "#", ", #,"},
		{"the end has no neighbour after it (observed)", ConditionExpression, "foo", "<EOF>", "foo"},
		{"the last token has no neighbour after it (observed)", UpdateExpression, "SET path = VALUE 1", "1", "VALUE 1"},
		{"a brace begins nothing (observed)", UpdateExpression, "set {0} = :a", "{", "set {0"},
		{"a name does not begin with an underscore (observed)", KeyConditionExpression, "pk = :pk AND __typename = :t", "_", "AND __"},
		{"tokens may touch (observed)", FilterExpression, "x = tenantAgent:abc123-1", ":abc123", "tenantAgent:abc123-"},
		{"a function is not an operator (observed)", FilterExpression, "#articleId attribute_not_exists :ckpst", "attribute_not_exists", "#articleId attribute_not_exists :ckpst"},
		{"a value is not a condition (observed)", KeyConditionExpression, "pk = :hashId a", "a", ":hashId a"},
		{"a bracket begins nothing (observed)", KeyConditionExpression, "[object Object]", "[", "[object"},
		{"ADD needs a value (reported)", UpdateExpression, "ADD numx", "<EOF>", "numx"},
		{"ADD takes no number (reported)", UpdateExpression, "ADD numx 1", "1", "numx 1"},
		{"DELETE takes no path (reported)", UpdateExpression, "DELETE setx a", "a", "setx a"},
		{"plus needs a second operand (reported)", UpdateExpression, "SET note = :v +", "<EOF>", "+"},
		{"there is no multiplication (reported)", UpdateExpression, "SET numx = numx * :v", "*", "numx * :v"},
		{"a projection is separated by commas", ProjectionExpression, "a b", "b", "a b"},
		{"a projection does not end with a comma", ProjectionExpression, "a,", "<EOF>", ","},
		{"a name does not begin with a digit", UpdateExpression, "SET 123a = :v", "123", "SET 123a"},
		{"SET needs an equals sign", UpdateExpression, "set a", "<EOF>", "a"},
		{"a keyword is not an operand", UpdateExpression, "set a=set", "set", "=set"},
		{"a keyword of updates is not a name in conditions either", ConditionExpression, "add = :v", "add", "add ="},
		{"REMOVE assigns nothing", UpdateExpression, "remove a = b", "=", "a = b"},
		{"a value is not a target", UpdateExpression, "set :a = b", ":a", "set :a ="},
		{"a function is not a target", UpdateExpression, "SET f(a, b) = a", "(", "f(a"},
		{"an action has no parentheses", UpdateExpression, "set (a = (b + c))", "(", "set (a"},
		{"a sum has two operands", UpdateExpression, "set a = b + c + d", "+", "c + d"},
		{"a sum in parentheses is not an operand", UpdateExpression, "set a = (b + c) + d", "+", ") + d"},
		{"a path does not continue after parentheses", UpdateExpression, "set a = (b.c).d + e", ".", ").d"},
		{"an update ends with an action", UpdateExpression, "set a = b,", "<EOF>", ","},
		{"a condition takes no constants", FilterExpression, "a > 4", "4", "> 4"},
		{"a hyphen splits a name", FilterExpression, "attribute_exists(Pictures-RearView)", "-", "Pictures-RearView"},
		{"a dot is followed by a name", FilterExpression, "attribute_exists(Pictures..RearView)", ".", "..RearView"},
		{"a number sign splits a name", FilterExpression, "attribute_exists(Pi#ctures.RearView)", "#ctures", "Pi#ctures."},
		{"an index is a number", FilterExpression, "attribute_exists(asdf[a])", "a", "[a]"},
		{"an index has no leading zero", FilterExpression, "a[01] = :v", "1", "01]"},
		{"an index is not negative", FilterExpression, "a[-1] = :v", "-", "[-1"},
		{"IN needs parentheses", FilterExpression, "a in b, c", "b", "in b,"},
		{"IN's list does not end with a comma", FilterExpression, "a in (b,c,)", ")", ",)"},
		{"IN's list is not empty", FilterExpression, "a in ()", ")", "()"},
		{"BETWEEN is not an operand", FilterExpression, "a > between", "between", "> between"},
		{"parentheses do not stand inside a path", FilterExpression, "(a)between(b.(c.d))and(c)", "(", ".(c"},
		{"parentheses close", FilterExpression, "(a)between(b.c.d)and((c)", "<EOF>", ")"},
		{"a value has no attributes", FilterExpression, "a > :things.stuff", ".", ":things.stuff"},
		{"other letters do not begin a name", FilterExpression, "ü > a", "ü", "ü >"},
		{"the result of a function has no attributes", FilterExpression, "size(a).b > a", ".", ").b"},
		{"not even in parentheses", FilterExpression, "(size(a))[0] > a", "[", ")[0"},
		{"a comparison is not an operand", FilterExpression, "(a = b) = c", "=", ") = c"},
		{"a path is not a condition", FilterExpression, "a = b AND c", "<EOF>", "c"},
		{"nor in parentheses", FilterExpression, "(a) AND b = c", "AND", ") AND b"},
		{"nor after NOT in parentheses", FilterExpression, "(NOT a)", ")", "a)"},
		{"nor joined to others in parentheses", FilterExpression, "(a OR b = c)", "OR", "a OR b"},
		{"a function has operands", FilterExpression, "size() > :a", ")", "() >"},
		{"blanks are not empty", FilterExpression, " \t\n", "<EOF>", " \t\n"},
		{"blanks at the end belong to the last token", UpdateExpression, "SET a =  ", "<EOF>", "=  "},
		{"also if it is the wrong one", UpdateExpression, "SET a = :v b  ", "b", ":v b  "},
		{"blanks at the beginning belong to the first token", ProjectionExpression, "  , a ", ",", "  , a"},
		{"everything ends", FilterExpression, strings.Repeat("(", MaxSize), "<EOF>", "("},
	} {
		t.Run(c.name, func(t *testing.T) {
			want := "Invalid " + c.kind.String() + `: Syntax error; token: "` + c.token + `", near: "` + c.near + `"`
			if got := message(t, bindAny(c.kind, c.text, new(Bindings))); got != want {
				t.Errorf("%s\n got %s\nwant %s", c.text, got, want)
			}
		})
	}
}

func TestTextsHaveLimits(t *testing.T) {
	long := func(n int) string { return "a" + strings.Repeat("b", n-1) }
	nested := func(depth int) string {
		return "a<b " + strings.Repeat("or (a<b ", depth) + strings.Repeat(")", depth)
	}
	for _, c := range []struct {
		name string
		kind Kind
		text string
		want string
	}{
		{"4096 bytes are allowed", ProjectionExpression, long(4096), ""},
		{"4097 are not, and a projection's size is not in the message (reported)", ProjectionExpression, long(4097), "Invalid ProjectionExpression: Expression size has exceeded the maximum allowed size;"},
		{"an update's size is not in the message (observed)", UpdateExpression, long(5167), "Invalid UpdateExpression: Expression size has exceeded the maximum allowed size;"},
		{"a filter's size is in the message (observed)", FilterExpression, long(4109), "Invalid FilterExpression: Expression size has exceeded the maximum allowed size; expression size: 4109"},
		{"a condition's size is in the message (reported)", ConditionExpression, long(4200), "Invalid ConditionExpression: Expression size has exceeded the maximum allowed size; expression size: 4200"},
		{"size is checked before syntax", KeyConditionExpression, strings.Repeat("(", 5000), "Invalid KeyConditionExpression: Expression size has exceeded the maximum allowed size;"},
		{"bytes are counted, not characters", ProjectionExpression, strings.Repeat("é", 2049), "Invalid ProjectionExpression: Expression size has exceeded the maximum allowed size;"},
		{"an empty text is not an expression", UpdateExpression, "", "Invalid UpdateExpression: The expression can not be empty;"},
		{"299 operators are allowed (observed)", ConditionExpression, nested(149), ""},
		{"more than 300 are not, and counting stops (observed)", ConditionExpression, nested(454), "Invalid ConditionExpression: The expression contains too many operators; operator count: 301"},
		{"NOT counts", ConditionExpression, strings.Repeat("not ", 1000) + "a<b", "Invalid ConditionExpression: The expression contains too many operators; operator count: 301"},
		{"a function's name is checked before the count (observed)", ConditionExpression, "a < " + strings.Repeat("f(", 1355) + "b" + strings.Repeat(")", 1355), "Invalid ConditionExpression: Invalid function name; function: f"},
		{"deep parentheses are redundant (observed)", ConditionExpression, strings.Repeat("(", 2046) + "a<b" + strings.Repeat(")", 2046), "Invalid ConditionExpression: The expression has redundant parentheses;"},
		{"a path of 32 steps is allowed (observed)", ProjectionExpression, "a" + strings.Repeat(".b", 31), ""},
		{"one of 33 is not (observed)", ProjectionExpression, "a" + strings.Repeat(".b", 32), "Invalid ProjectionExpression: The document path has too many nesting levels; nesting levels: 33"},
		{"the largest index is 2147483647", ProjectionExpression, "a[2147483647]", ""},
		{"a larger one is not allowed (reported)", ProjectionExpression, "a[4294967295]", "Invalid ProjectionExpression: List index is not within the allowable range; index: [4294967295]"},
		{"not even if it overflows (reported)", ProjectionExpression, "l[999999999999999999999]", "Invalid ProjectionExpression: List index is not within the allowable range; index: [999999999999999999999]"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := message(t, bindAny(c.kind, c.text, new(Bindings))); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestReservedWords(t *testing.T) {
	if n := len(reserved); n != 573 {
		t.Errorf("%d reserved words, want 573", n)
	}
	for word := range reserved {
		if !isReserved(strings.ToLower(word)) {
			t.Errorf("%s is not reserved in lower case", word)
		}
	}
	for _, word := range []string{"pk", "sk", "id", "statuses", "a", "", strings.Repeat("a", 300)} {
		if isReserved(word) {
			t.Errorf("%s is reserved", word)
		}
	}
}
