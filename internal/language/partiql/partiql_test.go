package partiql

import (
	"fmt"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/language/expr"
)

// bind parses and binds a statement.
func bind(text string, parameters ...item.Value) (Statement, error) {
	parsed, err := Parse(text)
	if err != nil {
		return nil, err
	}
	return parsed.Bind(parameters)
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return strings.TrimPrefix(err.Error(), "ValidationException: ")
}

// Syntax errors have the messages of PartiQL's grammar. Those of "SELECTT",
// UPDATE a-b and VALUES were observed on the service; the others follow from
// the grammar that it builds on.
func TestSyntaxFaults(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "Unexpected term"},
		{"SELECTT * FROM \"abc\"", "Expected data manipulation"},
		{"UPDATE a-b SET c = 1", "Expected data manipulation"},
		{"UPDATE \"abc\"", "Expected data manipulation"},
		{"UPDATE \"abc\" WHERE a = 1", "Expected data manipulation"},
		{"INSERT INTO abc (a) VALUES (1)", "Unexpected token after expression"},
		{"INSERT INTO abc (key) VALUES (1)", "Unexpected keyword"},
		{"SELECT", "Unexpected term"},
		{"SELECT *", "Expected FROM after SELECT list"},
		{"SELECT * FROM", "Unexpected term"},
		{"SELECT *, a FROM b", "Other expressions may not be present in the select list when '*' is used without dot notation."},
		{"SELECT a, FROM b", "Expected data manipulation"},
		{"SELECT a[*] FROM b", "Invalid use of * in select list"},
		{"SELECT a.*.b FROM b", "Invalid use of * in select list"},
		{"SELECT a[0].* FROM b", "Cannot use [] and * together in SELECT list expression"},
		{"SELECT size FROM b", "Unexpected keyword"},
		{"SELECT key FROM b", "Unexpected keyword"},
		{"SELECT date FROM b", "Expected date string followed by the keyword DATE, found SYMBOL"},
		{"SELECT * FROM a WHERE", "Unexpected term"},
		{"SELECT * FROM a WHERE b =", "Missing right-hand side expression of infix operator"},
		{"SELECT * FROM a WHERE = b", "Unexpected operator"},
		{"SELECT * FROM a WHERE (b = 1", "Expected RIGHT_PAREN"},
		{"SELECT * FROM a WHERE b = 1)", "Unexpected token after expression"},
		{"SELECT * FROM a, WHERE b = 1", "Unexpected keyword"},
		{"SELECT * FROM a, b c d", "Unexpected token after expression"},
		{"SELECT * FROM a WHERE b IN ()", "Unexpected term"},
		{"SELECT * FROM a WHERE b BETWEEN 1", "Expected AND keyword"},
		{"SELECT * FROM a WHERE b BETWEEN 1 AND", "Expected expression after AND"},
		{"SELECT * FROM a WHERE b IS c", "Expected type name"},
		{"SELECT * FROM a WHERE b = [1", "Expected RIGHT_BRACKET"},
		{"SELECT * FROM a WHERE b = <<1", "Expected RIGHT_DOUBLE_ANGLE_BRACKET"},
		{"SELECT * FROM a WHERE b. = 1", "Invalid path dot component"},
		{"SELECT * FROM a ORDER b", "Expected BY"},
		{"SELECT * FROM a; SELECT", "Unexpected token after semicolon. (Only one query is allowed.)"},
		{"SELECT * FROM a WHERE b = (DELETE FROM c)", "Keyword delete only expected at the top level in the query"},
		{"DELETE FROM a b = 'c'", "Keyword delete only expected at the top level in the query"},
		{"UPDATE a SET b[?] = 1", "Invalid path component for simple path"},
		{"UPDATE a SET b[1+1] = 1", "Invalid path component for simple path"},
		{"UPDATE a REMOVE b[c.d]", "Invalid path component for simple path"},
		{"DELETE FROM a[[1]]", "Invalid path component for simple path"},
		{"UPDATE a REMOVE b = 1", "Keyword update only expected at the top level in the query"},
		{"SELECT * FROM a WHERE b = #", ""},
		{"SELECT * FROM a WHERE b = 'x", ""},
		{"SELECT * FROM \"", ""},
		{"SELECT * FROM a /* b", ""},
		{"SELECT * FROM a WHERE b = 1e", ""},
		{"SELECT * FROM a WHERE b = é", ""},
		{"INSERT INTO 'a' VALUE {}", "Expected identifier for simple path"},
		{"INSERT INTO a VALUE {'b'}", "Expected COLON"},
		{"INSERT INTO a VALUE {'b':1", "Expected RIGHT_CURLY"},
		{"INSERT INTO a VALUE {'b':1} IF NOT EXISTS", "Unexpected token after expression"},
		{"INSERT INTO a VALUES {'b':1}", "Expected LEFT_PAREN for row value constructor"},
		{"UPDATE a SET", "Expected identifier for simple path"},
		{"UPDATE a SET b", "Expected '='"},
		{"UPDATE a REMOVE b, c", "Unexpected token after expression"},
		{"DELETE a", "Expected FROM after DELETE"},
		{"DELETE FROM a RETURNING", "Expected ( MODIFIED | ALL ) ( NEW | OLD ) in each returning element."},
		{"SELECT * FROM a WHERE " + strings.Repeat("(", 600) + "b = 1" + strings.Repeat(")", 600), "Expression is nested too deeply"},
		{"SELECT * FROM a WHERE " + strings.Repeat("NOT ", 2000) + "b = 1", "Expression is nested too deeply"},
		{"SELECT * FROM a WHERE b = " + strings.Repeat("- ", 4000) + "1", "Expression is nested too deeply"},
	} {
		t.Run(c.text[:min(len(c.text), 40)], func(t *testing.T) {
			_, err := bind(c.text)
			if want := "Statement wasn't well formed, can't be processed: " + c.want; message(err) != want {
				t.Errorf("%s\n got %s\nwant %s", c.text, message(err), want)
			}
		})
	}
}

// Unsupported constructs are reported with their position. The positions of
// COUNT and of the name in an INSERT were observed on the service, the other
// messages on DynamoDB Local.
func TestFaults(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"abc", "Unsupported operation: VariableReference"},
		{"'abc'", "Unsupported operation: Literal"},
		{"CREATE TABLE abc", "Unsupported operation: CreateTable"},
		{"INSERT INTO a <<{'b':1}>>", "Unsupported operation: InsertOp"},

		{"SELECT COUNT(*) FROM a", "Unexpected path component at 1:8:5"},
		{"SELECT\n  count(b) FROM a", "Unexpected path component at 2:3:5"},
		{"SELECT b + 1 FROM a", "Unexpected path component at 1:10:1"},
		{"SELECT 'é', ? FROM a", "Unexpected path component at 1:8:3"},
		{"SELECT b[?] FROM a", "Unexpected path component at 1:10:1"},
		{"SELECT b[-1] FROM a", "List index is not within the allowable range; index: [-1] at 1:11:1"},
		{"SELECT b[2147483648] FROM a", "List index is not within the allowable range; index: [2147483648] at 1:10:10"},
		{"SELECT b.* FROM a", "Changing item's hierarchy while reading isn't supported"},
		{"SELECT b.c, c FROM a", "Duplicate identifiers in select clause: c"},
		{"SELECT b, b.c FROM a", "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [b, c], path two: [b]"},
		{"SELECT \"\" FROM a", "Path component cannot be an empty string"},
		{"SELECT b AS c FROM a", "Aliasing is not supported"},
		{"SELECT VALUE b FROM a", "Select projection doesn't support value or pivot keywords"},
		{"SELECT DISTINCT b FROM a", "Unsupported token in expression: DISTINCT"},
		{"SELECT * FROM a, b", "Only select from a single table or index is supported."},
		{"SELECT * FROM a JOIN b ON 1 = 1", "Only select from a single table or index is supported."},
		{"SELECT * FROM \"\"", "Path component cannot be an empty string"},
		{"SELECT * FROM a.\"\"", "Path component cannot be an empty string"},
		{"SELECT * FROM a.b.c", "A path may contain at most 2 components in the FROM clause"},
		{"SELECT * FROM a[0]", "Invalid list expression in source."},
		{"SELECT * FROM a.b[0]", "A path may contain at most 2 components in the FROM clause"},
		{"SELECT * FROM a[?]", "Unexpected path component at 1:17:1"},
		{"INSERT INTO a[0] VALUE {'c':1}", "FROM clause may only contain a single table name in data manipulation statements at 1:13:1"},
		{"SELECT * FROM 'a'", "Unexpected from source"},
		{"SELECT * FROM a GROUP BY b", "Unsupported clause: GROUP BY"},
		{"SELECT * FROM a LIMIT 1", "Unsupported clause: LIMIT at 1:23:1"},
		{"SELECT * FROM a WHERE b=1 ORDER BY b.c", "Argument to ORDER BY must be of type VariableReference. Type: PATH"},
		{"SELECT * FROM a WHERE b=1 ORDER BY 1", "Argument to ORDER BY must be of type VariableReference. Type: 1"},

		{"SELECT * FROM a WHERE b", "WHERE clause must contain an expression that resolves to a boolean"},
		{"SELECT * FROM a WHERE b = 1 AND c", "The arguments to AND/OR must be Expressions"},
		{"SELECT * FROM a WHERE NOT c", "The argument to NOT must be a Type or Expression"},
		{"SELECT * FROM a WHERE b = 1 AND size(c)", "Incorrect operand type for operator or function; operator or function: AND, operand type: N"},
		{"SELECT * FROM a WHERE b > [1]", "Incorrect operand type for operator or function; operator or function: >, operand type: L"},
		{"SELECT * FROM a WHERE b BETWEEN 2 AND 1", "The BETWEEN operator requires upper bound to be greater than or equal to lower bound; lower bound operand: AttributeValue: {N:2}, upper bound operand: AttributeValue: {N:1}"},
		{"SELECT * FROM a WHERE b IN []", "IN operator must have a left hand argument of type Variable Reference and right hand argument of type Seq with at least one member"},
		{"SELECT * FROM a WHERE b IN ?", "IN operator must have a left hand argument of type Variable Reference and right hand argument of type Seq with at least one member"},
		{"SELECT * FROM a WHERE b = MISSING", "MISSING must be compared using IS operator"},
		{"SELECT * FROM a WHERE b IS INT", "Unsupported data type for IS operator: INTEGER. Supported data types are [MISSING, NULL, BOOLEAN, BLOB, STRING, NUMERIC, STRUCT, TUPLE, LIST] at 1:25:2"},
		{"SELECT * FROM a WHERE size(b) IS NULL", "The left hand side argument to IS must be a Variable Reference, Literal, or Path"},
		{"SELECT * FROM a WHERE b = b", "The first operand must be distinct from the remaining operands for this operator or function; operator: =, first operand: [b]"},
		{"SELECT * FROM a WHERE b + 1 = 2", "Unsupported operator in Condition Expression. Operator: +"},
		{"SELECT * FROM a WHERE size(b > [1]) = 1", "Incorrect operand type for operator or function; operator or function: >, operand type: L"},
		{"SELECT * FROM a WHERE size() = 1 AND size(size(b)) = 1", "Incorrect number of operands for operator or function; operator or function: size, number of operands: 0"},
		{"SELECT * FROM a WHERE size(b) AND NOT size(c) AND b > 1", "Incorrect operand type for operator or function; operator or function: NOT, operand type: N"},
		{"SELECT * FROM a WHERE b LIKE 'c'", "Unsupported operator in Condition Expression. Operator: like"},
		{"SELECT * FROM a WHERE foo(b)", "Unrecognized function: foo"},
		{"SELECT * FROM a WHERE begins_with(b)", "Incorrect number of operands for operator or function; operator or function: begins_with, number of operands: 1"},
		{"SELECT * FROM a WHERE begins_with(b, 1)", "Incorrect operand type for operator or function; operator or function: begins_with, operand type: N"},
		{"SELECT * FROM a WHERE list_append(b, c) = 1", "The function is not allowed in a condition expression; function: list_append"},
		{"SELECT * FROM a WHERE EXISTS(SELECT * FROM b)", "Unsupported token in expression: SELECT at 1:30:6"},
		{"SELECT * FROM a WHERE b = `c`", "Ion Literals are not supported: SYMBOL under key root at 1:27:3"},
		{"SELECT * FROM a WHERE b = CASE WHEN 1=1 THEN 1 END", "Unsupported token in expression: CASE at 1:27:4"},
		{"SELECT * FROM a WHERE b = <<>>", "Empty bags are not supported at 1:27:2"},
		{"SELECT * FROM a WHERE b = <<1, 'c'>>", "Unsupported data type in Bag. DynamoDB only supports either numbers or strings in bags"},
		{"SELECT * FROM a WHERE b = <<'c', 1>>", "Unsupported data type in Bag. DynamoDB only supports either numbers or strings in bags at 1:34:1"},
		{"SELECT [1] FROM a", "Unexpected path component at 1:8:1"},
		{"SELECT * FROM a WHERE FOO(b)", "Unrecognized function: foo"},
		{"b IS MISSING", "Unsupported operation: Typed"},
		{"SELECT b[c.d] FROM a", "Unexpected path component"},
		{"INSERT INTO a VALUE {b.c:1}", "Tuple keys must be of type String. Actual type: Path under root"},
		{"SELECT * FROM a WHERE [b][0] = 1", "A path cannot start with a list index at 1:23:1"},
		{"SELECT * FROM a WHERE b = <<1, 1.0>>", "Input collection contains duplicates"},
		{"SELECT * FROM a WHERE b = [1, c]", "Unsupported data type: VariableReference under key root.1 at 1:31:1"},
		{"SELECT * FROM a WHERE ? IS NULL", "The left hand side argument to IS must be a Variable Reference, Literal, or Path"},
		{"SELECT * FROM a WHERE [0] IS NULL", "The left hand side argument to IS must be a Variable Reference, Literal, or Path"},
		{"SELECT * FROM a WHERE {'b': 0} IS MISSING", "The left hand side argument to IS must be a Variable Reference, Literal, or Path"},
		{"SELECT * FROM a WHERE b = [?]", "Unsupported data type: Parameter under key root.0 at 1:28:1"},
		{"SELECT * FROM a WHERE b = {'c':1,'c':2}", "Duplicate keys in tuple. Key: c under root at 1:27:1"},
		{"SELECT * FROM a WHERE b = 123456789012345678901234567890123456789", "DynamoDB only supports precision up to 38 digits"},
		{"SELECT * FROM a WHERE b = 1e200", "Number overflow. Attempting to store a number with magnitude larger than supported range"},
		{"SELECT * FROM a WHERE b = ?", "Number of parameters in request and statement don't match."},
		{"SELECT * FROM a WHERE b = 1" + strings.Repeat(" AND b = 1", 150), "The expression contains too many operators; operator count: 301"},
		{"SELECT * FROM a WHERE b IN (1" + strings.Repeat(",1", 100) + ")", "The IN operator is provided with too many operands; number of operands: 101"},
		{"SELECT * FROM a WHERE b" + strings.Repeat(".b", 32) + " = 1", "The document path has too many nesting levels; nesting levels: 33"},

		{"INSERT INTO a.b VALUE {'c':1}", "FROM clause may only contain a single table name in data manipulation statements at 1:13:1"},
		{"INSERT INTO a VALUE [1]", "Unsupported format in item expression. Please use struct format {...} to express item values for insert statement. at 1:21:1"},
		{"INSERT INTO a VALUE {b:1}", "Tuple keys must be of type String. Actual type: VariableReference under root at 1:22:1"},
		{"INSERT INTO a VALUE {1:1}", "Tuple keys must be of type String. Actual type: INT under root at 1:22:1"},
		{"INSERT INTO a VALUE {'b':1,'b':2}", "Duplicate keys in tuple. Key: b under root at 1:28:3"},
		{"INSERT INTO a VALUE {'':1}", "Path component cannot be an empty string"},
		{"INSERT INTO a VALUE {'b':c}", "Unsupported data type: c under key root at 1:26:1"},
		{"INSERT INTO a VALUE {'b':1+1}", "Unsupported data type: + under key root at 1:27:1"},
		{"INSERT INTO a VALUE {'b':{'c':[?]}}", "Unsupported data type: Parameter under key root.c.0 at 1:32:1"},
		{"INSERT INTO a VALUE {'b':1} RETURNING ALL OLD *", "RETURNING is not supported in INSERT"},
		{"INSERT INTO a VALUE {'b':1} ON CONFLICT WHERE c=1 DO NOTHING", "Unsupported clause: ON CONFLICT"},
		{"INSERT INTO a VALUE {'b':" + strings.Repeat("[", 33) + strings.Repeat("]", 33) + "}",
			"Nesting Levels have exceeded supported limits: Attributes in the item have nested levels beyond supported limit"},

		{"UPDATE a.b SET c=1", "This operation is not supported on an index"},
		{"UPDATE a b SET c=1", "Aliasing is not supported"},
		{"UPDATE a SET b = b * 2", "Unsupported operator in Update Expression. Operator: *"},
		{"UPDATE a SET b = -b", "Incorrect number of operands for operator or function; operator or function: -, number of operands: 1"},
		{"UPDATE a SET b = b + 'c'", "Incorrect operand type for operator or function; operator or function: +, operand type: S"},
		{"UPDATE a SET b = list_append(b, 4)", "Incorrect operand type for operator or function; operator or function: list_append, operand type: N"},
		{"UPDATE a SET b = list_append(b)", "Incorrect number of operands for operator or function; operator or function: list_append, number of operands: 1"},
		{"UPDATE a SET b = size(c)", "The function is not allowed in an update expression; function: size"},
		{"UPDATE a SET b = foo(c)", "Unrecognized function: foo"},
		{"UPDATE a SET b = set_add(c, <<1>>)", "The first argument to SET_ADD must equal the assignment value"},
		{"UPDATE a SET b = set_add(b)", "SET_ADD must have exactly two arguments at 1:18:7"},
		{"UPDATE a SET b = set_delete(b, <<1>>, <<2>>)", "SET_DELETE must have exactly two arguments at 1:18:10"},
		{"UPDATE a SET b = set_delete(b, 1)", "The second argument to SET_DELETE must be a value with type SET at 1:29:1"},
		{"UPDATE a SET b=1, b=2", "Two document paths overlap with each other; must remove or rewrite one of these paths; path one: [b], path two: [b]"},

		{"DELETE FROM a WHERE b=1 RETURNING ALL NEW *", "Invalid returning clause: RETURNING ALL NEW *. Only RETURNING ALL OLD * is allowed in DELETE statements."},
		{"DELETE FROM a WHERE b=1 RETURNING ALL OLD c", "Expected '*' after ( MODIFIED | ALL ) ( NEW | OLD ) in RETURNING clause"},
		{"DELETE FROM a WHERE b=1 RETURNING ALL OLD *, ALL NEW *", "Invalid syntax with multiple returning elements in RETURNING clause"},
	} {
		t.Run(c.text[:min(len(c.text), 50)], func(t *testing.T) {
			if _, err := bind(c.text); message(err) != c.want {
				t.Errorf("%s\n got %s\nwant %s", c.text, message(err), c.want)
			}
		})
	}
}

func TestStatements(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"all of a table", "select * from Abc;", "select Abc"},
		{"names may be quoted, and have any case", `SELECT "Select" FROM "a ""b"`, `select a "b Select=[Select]`},
		{"an index", `SELECT * FROM a."b"`, "select a.b"},
		{"columns take the last name of their path", `SELECT a.b, c[0], d.e[1][2], f['g'], h[i] FROM t`,
			"select t b=[a, b] c[0]=[c, [0]] e[1][2]=[d, e, [1], [2]] g=[f, g] i=[h, i]"},
		{"an order", "SELECT * FROM t WHERE a=1 ORDER BY a, b DESC, c ASC", "select t order [{a false} {b true} {c false}]"},
		{"comments", "SELECT * -- all\nFROM t /* a\n table */", "select t"},
		{"an item of every type", `INSERT INTO t VALUE {'s':'a''b','n':-1.50,'b':true,'z':NULL,'l':[1,['x']],'m':{'k':{}},'ss':<<'b','a'>>,'ns':<<2,1>>}`,
			"insert t {M:{b={BOOL:true}, l={L:[{N:1}, {L:[{S:x}]}]}, m={M:{k={M:{}}}}, n={N:-1.5}, ns={NS:[1, 2]}, s={S:a'b}, ss={SS:[a, b]}, z={NULL:true}}}"},
		{"parameters", `INSERT INTO t VALUE {'a':?,'b':?}`, "insert t {M:{a={S:one}, b={S:two}}}"},
		{"an update", "UPDATE t SET a=1, b.c = d SET e[0] = (e[0] + 1) - i REMOVE f.g REMOVE h[1] WHERE k=1 RETURNING MODIFIED NEW *",
			"update t SET [a] SET [b, c] SET [e, [0]] REMOVE [f, g] REMOVE [h, [1]] returning MODIFIED NEW"},
		{"sets", "UPDATE t SET a=set_add(a, <<1>>), b.c = SET_DELETE(b.c, <<'x'>>)", "update t ADD [a] DELETE [b, c]"},
		{"functions of updates", "UPDATE t SET a=list_append(a, [1]), b=if_not_exists(b, 0) + 1", "update t SET [a] SET [b]"},
		{"a delete", "DELETE FROM t WHERE k=1 RETURNING ALL OLD *", "delete t returning ALL OLD"},
		{"a condition", "EXISTS(SELECT * FROM t WHERE k=1)", "exists t"},
		{"an expression", "a = 1", "exists nothing"},
	} {
		t.Run(c.name, func(t *testing.T) {
			st, err := bind(c.text, item.String("one"), item.String("two"))
			if got := describe(st); err != nil || got != c.want {
				t.Errorf("%s\n got %s, %v\nwant %s", c.text, got, err, c.want)
			}
		})
	}
}

func describe(st Statement) string {
	var b strings.Builder
	switch st := st.(type) {
	case *Select:
		b.WriteString("select " + st.Table)
		if st.Index != "" {
			b.WriteString("." + st.Index)
		}
		for _, c := range st.Columns {
			fmt.Fprintf(&b, " %s=%s", c.Name, c.Path)
		}
		if st.Order != nil {
			fmt.Fprintf(&b, " order %v", st.Order)
		}
	case *Insert:
		fmt.Fprintf(&b, "insert %s %s", st.Table, item.Map(st.Item))
	case *Update:
		b.WriteString("update " + st.Table)
		for _, a := range st.Changes.Actions {
			fmt.Fprintf(&b, " %s %s", a.Verb, a.Path)
		}
		if st.Returning != "" {
			b.WriteString(" returning " + string(st.Returning))
		}
	case *Delete:
		fmt.Fprintf(&b, "delete %s returning %s", st.Table, st.Returning)
	case *Exists:
		if st.Select == nil {
			return "exists nothing"
		}
		b.WriteString("exists " + st.Select.Table)
	}
	return b.String()
}

func TestKeyTests(t *testing.T) {
	for _, c := range []struct{ where, want string }{
		{"k = 1", "[{k = [{N:1}]}]"},
		{"1 = k", "[{k = [{N:1}]}]"},
		{"1 < k", "[{k > [{N:1}]}]"},
		{"a = 1 AND (k >= 1 AND k < 9)", "[{k >= [{N:1}]} {k < [{N:9}]}]"},
		{"k BETWEEN 1 AND 2", "[{k BETWEEN [{N:1} {N:2}]}]"},
		{"k IN (1, 2)", "[{k IN [{N:1} {N:2}]}]"},
		{"begins_with(k, 'a')", "[{k begins_with [{S:a}]}]"},
		{"k = 1 OR a = 1", "[]"},
		{"NOT k = 1", "[]"},
		{"k <> 1", "[]"},
		{"k = a", "[]"},
		{"k.a = 1", "[]"},
		{"size(k) = 1", "[]"},
		{"k IN (1, a)", "[]"},
	} {
		t.Run(c.where, func(t *testing.T) {
			st, err := bind("SELECT * FROM t WHERE " + c.where)
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprint(KeyTests(st.(*Select).Where, "k")); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
}

func TestCache(t *testing.T) {
	c := Cache{expr.NewCache(2)}
	one, err := c.Parse("SELECT * FROM t")
	if err != nil {
		t.Fatal(err)
	}
	if two, _ := c.Parse("SELECT * FROM t"); one != two {
		t.Error("a statement was parsed twice")
	}
	if _, err := c.Parse("SELECT"); err == nil {
		t.Error("a fault was lost")
	}
}

// Every text yields a statement or a fault.
func FuzzBind(f *testing.F) {
	for _, text := range []string{
		"SELECT a.b[0], \"c\" FROM \"t\".\"i\" WHERE k = ? AND NOT (s BETWEEN 1 AND -2e3 OR x IN [1, 'a']) ORDER BY s DESC",
		"INSERT INTO t VALUE {'a': <<1, 2>>, 'b': [true, null, {'c': ?}]}",
		"UPDATE t SET a = a + 1 SET b = set_add(b, <<'x'>>) REMOVE c[1] WHERE k = 'it''s' RETURNING MODIFIED NEW *",
		"DELETE FROM t WHERE k = 1 AND attribute_type(a, 'S') RETURNING ALL OLD *",
		"EXISTS(SELECT * FROM t WHERE k = 1 AND a IS NOT MISSING)",
		"SELECT `x`, @y -- z\n FROM a /* b */ , c LIMIT 1",
		"SELECT * FROM a WHERE ((((-(-1) IN <<>>",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		parsed, err := Parse(text)
		if err != nil {
			return
		}
		st, err := parsed.Bind([]item.Value{item.String("p"), item.Null()})
		if (st == nil) == (err == nil) {
			t.Errorf("%q is %v, %v", text, st, err)
		}
		if s, ok := st.(*Select); ok && err == nil {
			expr.NewCondition(s.Where).Holds(item.Make(map[string]item.Value{"a": item.String("x")}))
			KeyTests(s.Where, "a")
		}
	})
}
