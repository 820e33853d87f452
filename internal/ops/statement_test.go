package ops

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// newStatementTest creates a table abc with the key a, b and a table one with
// the key a.
func newStatementTest(t *testing.T) *tableTest {
	t.Helper()
	tt := newTableTest(t, 0)
	tt.make(`"TableName":"abc","BillingMode":"PAY_PER_REQUEST",
		"AttributeDefinitions":[{"AttributeName":"a","AttributeType":"S"},{"AttributeName":"b","AttributeType":"N"},{"AttributeName":"g","AttributeType":"S"}],
		"KeySchema":[{"AttributeName":"a","KeyType":"HASH"},{"AttributeName":"b","KeyType":"RANGE"}],
		"GlobalSecondaryIndexes":[{"IndexName":"keys","KeySchema":[{"AttributeName":"g","KeyType":"HASH"}],"Projection":{"ProjectionType":"KEYS_ONLY"}}],
		"LocalSecondaryIndexes":[{"IndexName":"local","KeySchema":[{"AttributeName":"a","KeyType":"HASH"},{"AttributeName":"g","KeyType":"RANGE"}],"Projection":{"ProjectionType":"KEYS_ONLY"}}]`)
	tt.make(`"TableName":"one","BillingMode":"PAY_PER_REQUEST",
		"AttributeDefinitions":[{"AttributeName":"a","AttributeType":"S"}],"KeySchema":[{"AttributeName":"a","KeyType":"HASH"}]`)
	for _, row := range []string{"'a':'x','b':1,'g':'p','n':10", "'a':'x','b':2,'g':'q','n':20", "'a':'x','b':3,'n':30", "'a':'y','b':1,'g':'p'"} {
		tt.want("ExecuteStatement", statement(`INSERT INTO "abc" VALUE {`+row+`}`), `{"Items":[]}`)
	}
	return tt
}

// statement returns the body of a request with a statement and more members.
func statement(text string, more ...string) string {
	quoted, err := json.Marshal(text)
	if err != nil {
		panic(err)
	}
	return `{"Statement":` + string(quoted) + strings.Join(append([]string{""}, more...), ",") + "}"
}

func statements(member string, more string, texts ...string) string {
	var all []string
	for _, text := range texts {
		all = append(all, statement(text))
	}
	return `{"` + member + `":[` + strings.Join(all, ",") + "]" + more + "}"
}

func TestSelect(t *testing.T) {
	tt := newStatementTest(t)
	for _, c := range []struct{ name, text, want string }{
		{"one item", `SELECT n FROM "abc" WHERE a='x' AND b=2`, `20`},
		{"one item that fails the rest", `SELECT n FROM "abc" WHERE a='x' AND b=2 AND n=1`, ``},
		{"a partition", `SELECT n FROM "abc" WHERE a='x'`, `10 20 30`},
		{"a partition, last first", `SELECT n FROM "abc" WHERE a='x' ORDER BY b DESC`, `30 20 10`},
		{"a part of it", `SELECT n FROM "abc" WHERE a='x' AND b > 1 AND b < 3`, `20`},
		{"an empty part", `SELECT n FROM "abc" WHERE a='x' AND b > 3 AND b < 1`, ``},
		{"between", `SELECT n FROM "abc" WHERE a='x' AND b BETWEEN 2 AND 3`, `20 30`},
		{"two conditions on one attribute", `SELECT n FROM "abc" WHERE a='x' AND a='y'`, ``},
		{"several sort keys, in order", `SELECT n FROM "abc" WHERE a='x' AND b IN (3, 1, 9, 3)`, `10 30`},
		{"several partitions, in order", `SELECT b FROM "abc" WHERE a IN ['y','x']`, `1 2 3 1`},
		{"several partitions, last first", `SELECT b FROM "abc" WHERE a IN ['y','x'] ORDER BY a DESC, b DESC`, `1 3 2 1`},
		{"a scan", `SELECT n FROM "abc" WHERE n >= 20 AND n <> 30`, `20`},
		{"alternatives", `SELECT n FROM "abc" WHERE a='x' AND b=1 OR n=30`, `10 30`},
		{"an index", `SELECT b FROM "abc"."keys" WHERE g='q'`, `2`},
		{"a whole index", `SELECT b FROM "abc"."keys" WHERE NOT g='p'`, `2`},
		{"items fetched for a local index", `SELECT n FROM "abc"."local" WHERE a='x' AND g='q'`, `20`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := tt.in(t).ask("ExecuteStatement", statement(c.text))
			var numbers []string
			for part := range strings.SplitSeq(got, `"N":"`) {
				if n, _, ok := strings.Cut(part, `"}`); ok && !strings.HasPrefix(part, "{") {
					numbers = append(numbers, n)
				}
			}
			if strings.Join(numbers, " ") != c.want {
				t.Errorf("%s\n got %s\nwant %s", c.text, got, c.want)
			}
		})
	}
}

func TestStatementFaults(t *testing.T) {
	tt := newStatementTest(t)
	for _, c := range []struct{ name, text, want string }{
		{"no such table", `SELECT * FROM "none" WHERE a='x'`, "ResourceNotFoundException: Requested resource not found"},
		{"no such index", `SELECT * FROM "abc"."none"`, "ValidationException: The table does not have the specified index"},
		{"a key of another type", `SELECT * FROM "abc" WHERE a=1`, "ValidationException: Key attribute's data type should match its data type in table's schema: Key a"},
		{"an empty key", `SELECT * FROM "abc" WHERE a=''`, "ValidationException: One or more parameter values are not valid. The AttributeValue for a key attribute cannot contain an empty string value. Key: a"},
		{"an attribute that an index lacks", `SELECT n, n FROM "abc"."keys"`, "ValidationException: Duplicate identifiers in select clause: n"},
		{"attributes that an index lacks", `SELECT n, m.o FROM "abc"."keys"`, "ValidationException: One or more parameter values were invalid: Global secondary index keys does not project [n, m]"},
		{"a filter on an attribute that an index lacks", `SELECT a FROM "abc"."keys" WHERE g='p' AND NOT n=1`,
			"ValidationException: One or more parameter values were invalid: Secondary index keys does not project one or more filter attributes: [n]"},
		{"an order without a condition", `SELECT * FROM "abc" ORDER BY a`, "ValidationException: Must have WHERE clause in the statement when using ORDER BY clause."},
		{"an order by another attribute", `SELECT * FROM "abc" WHERE a='x' ORDER BY n`, "ValidationException: Variable reference n in ORDER BY clause must be part of the primary key"},
		{"an order over partitions", `SELECT * FROM "abc" WHERE n=1 ORDER BY b`,
			"ValidationException: Must have at least one non-optional hash key condition in WHERE clause when using ORDER BY clause."},
		{"an insert without a key", `INSERT INTO "abc" VALUE {'a':'x'}`, "ValidationException: Key attribute should be present in the item: Key b"},
		{"an insert of another type", `INSERT INTO "abc" VALUE {'a':1}`, "ValidationException: Key attribute's data type should match its data type in table's schema: Key a"},
		{"an insert that does not fit an index", `INSERT INTO "abc" VALUE {'a':'x','b':9,'g':1}`,
			"ValidationException: One or more parameter values were invalid: Type mismatch for Index Key g Expected: S Actual: N IndexName: local"},
		{"an insert of an existing item", `INSERT INTO "abc" VALUE {'a':'x','b':1}`, "DuplicateItemException: Duplicate primary key exists in table"},
		{"an update without a key", `UPDATE "abc" SET n=1`, "ValidationException: Where clause does not contain a mandatory equality on all key attributes"},
		{"an update without a key of a missing table", `UPDATE "none" SET n=1`, "ValidationException: Where clause does not contain a mandatory equality on all key attributes"},
		{"an update of a partition", `UPDATE "abc" SET n=1 WHERE a='x'`, "ValidationException: Where clause does not contain a mandatory equality on all key attributes"},
		{"an update of one or the other", `UPDATE "abc" SET n=1 WHERE a='x' AND b=1 OR n=1`, "ValidationException: Where clause does not contain a mandatory equality on all key attributes"},
		{"an update of two", `DELETE FROM "abc" WHERE a='x' AND b=1 AND b=2`, "ValidationException: Multiple conditions on same key b. Only single item Update/Insert/Delete are supported"},
		{"an update of a missing item", `UPDATE "abc" SET n=1 WHERE a='x' AND b=99`, "ConditionalCheckFailedException: The conditional request failed"},
		{"an update whose condition fails", `UPDATE "abc" SET n=1 WHERE a='x' AND b=1 AND n=99`, "ConditionalCheckFailedException: The conditional request failed"},
		{"an update of the key", `UPDATE "abc" SET b=1 WHERE a='x' AND b=1`, "ValidationException: One or more parameter values were invalid: Cannot update attribute b. This attribute is part of the key"},
		{"an update with a missing attribute", `UPDATE "abc" SET n=z+1 WHERE a='x' AND b=1`, "ValidationException: The provided expression refers to an attribute that does not exist in the item"},
		{"a delete whose condition fails", `DELETE FROM "abc" WHERE a='x' AND b=1 AND n=99`, "ConditionalCheckFailedException: The conditional request failed"},
		{"a delete of a missing item", `DELETE FROM "abc" WHERE a='x' AND b=99 AND n=99`, `{"Items":[]}`},
		{"a condition", `EXISTS(SELECT * FROM "abc" WHERE a='x' AND b=1 AND n=10)`, "ValidationException: EXISTS can only be used in ExecuteTransaction write requests."},
	} {
		t.Run(c.name, func(t *testing.T) { tt.in(t).want("ExecuteStatement", statement(c.text), c.want) })
	}
	tt.want("ExecuteStatement", statement(`SELECT * FROM "abc"."keys"`, `"ConsistentRead":true`),
		"ValidationException: Strongly consistent read is not supported on Global Secondary Indexes")
	tt.want("ExecuteStatement", statement(`SELECT * FROM "abc"`, `"Limit":0`),
		"ValidationException: 1 validation error detected: Value '0' at 'limit' failed to satisfy constraint: Member must have value greater than or equal to 1")
}

// The token of a page is where the next one begins; it is valid for the same
// statement only.
func TestStatementPages(t *testing.T) {
	tt := newStatementTest(t)
	for _, c := range []struct{ name, text string }{
		{"a partition", `SELECT b FROM "abc" WHERE a='x'`},
		{"partitions", `SELECT b FROM "abc" WHERE a IN ('x','y','z')`},
		{"items", `SELECT b FROM "abc" WHERE a='x' AND b IN (1,2,9,3)`},
		{"a table", `SELECT b FROM "abc"`},
		{"an index", `SELECT b FROM "abc"."keys"`},
		{"an index with equal keys", `SELECT b FROM "abc"."keys" WHERE g='p'`},
		{"one item", `SELECT b FROM "abc" WHERE a='x' AND b=1`},
	} {
		t.Run(c.name, func(t *testing.T) {
			tt := tt.in(t)
			type reply struct {
				Items     []any
				NextToken string
			}
			page := func(more ...string) (r reply) {
				if err := json.Unmarshal([]byte(tt.ask("ExecuteStatement", statement(c.text, more...))), &r); err != nil {
					t.Fatal(err)
				}
				return r
			}
			want := fmt.Sprint(page().Items)
			var got []any
			p := page(`"Limit":1`)
			for got = p.Items; p.NextToken != ""; got = append(got, p.Items...) {
				p = page(`"Limit":1`, `"NextToken":"`+p.NextToken+`"`)
			}
			if fmt.Sprint(got) != want {
				t.Errorf("page by page %v, in one page %s", got, want)
			}
		})
	}
	first := tt.ask("ExecuteStatement", statement(`SELECT b FROM "abc" WHERE a=?`, `"Limit":1`, `"Parameters":[{"S":"x"}]`))
	_, token, _ := strings.Cut(first, `"NextToken":`)
	token, _, _ = strings.Cut(token, ",")
	for _, c := range []struct{ name, body, want string }{
		{"another parameter", statement(`SELECT b FROM "abc" WHERE a=?`, `"Parameters":[{"S":"y"}]`, `"NextToken":`+token), "NextToken does not match request"},
		{"another statement", statement(`SELECT * FROM "abc" WHERE a=?`, `"Parameters":[{"S":"x"}]`, `"NextToken":`+token), "NextToken does not match request"},
		{"no token", statement(`SELECT * FROM "abc"`, `"NextToken":"junk"`), "Invalid NextToken"},
		{"half a token", statement(`SELECT * FROM "abc"`, `"NextToken":"AQ=="`), "Invalid NextToken"},
	} {
		t.Run(c.name, func(t *testing.T) { tt.in(t).want("ExecuteStatement", c.body, "ValidationException: "+c.want) })
	}
}

func TestReturning(t *testing.T) {
	tt := newStatementTest(t)
	for _, c := range []struct{ text, want string }{
		{`UPDATE "abc" SET n=11, m={'l':[1,2]} WHERE a='x' AND b=1 RETURNING ALL OLD *`, `{"a":{"S":"x"},"b":{"N":"1"},"g":{"S":"p"},"n":{"N":"10"}}`},
		{`UPDATE "abc" SET m.l[2]=3 WHERE a='x' AND b=1 RETURNING MODIFIED NEW *`, `{"m":{"M":{"l":{"L":[{"N":"3"}]}}}}`},
		{`UPDATE "abc" SET m.l[0]=0, m.l[2]=9 WHERE a='x' AND b=1 RETURNING MODIFIED OLD *`, `{"m":{"M":{"l":{"L":[{"N":"1"},{"N":"3"}]}}}}`},
		{`UPDATE "abc" REMOVE m WHERE a='x' AND b=1 RETURNING ALL NEW *`, `{"a":{"S":"x"},"b":{"N":"1"},"g":{"S":"p"},"n":{"N":"11"}}`},
		{`UPDATE "abc" REMOVE m WHERE a='x' AND b=1 RETURNING MODIFIED NEW *`, ``},
		{`UPDATE "abc" SET s=set_add(s, <<'b','a'>>) WHERE a='x' AND b=1 RETURNING MODIFIED NEW *`, `{"s":{"SS":["a","b"]}}`},
		{`UPDATE "abc" SET s=set_delete(s, <<'b','a'>>) WHERE a='x' AND b=1 RETURNING MODIFIED OLD *`, `{"s":{"SS":["a","b"]}}`},
		{`DELETE FROM "abc" WHERE a='x' AND b=1 RETURNING ALL OLD *`, `{"a":{"S":"x"},"b":{"N":"1"},"g":{"S":"p"},"n":{"N":"11"}}`},
		{`DELETE FROM "abc" WHERE a='x' AND b=1 RETURNING ALL OLD *`, ``},
	} {
		t.Run(c.text, func(t *testing.T) { tt.in(t).want("ExecuteStatement", statement(c.text), `{"Items":[`+c.want+`]}`) })
	}
}

// The size limit of an item written by a statement does not include its actions,
// unlike that of an UpdateItem.
func TestStatementItemSize(t *testing.T) {
	tt := newStatementTest(t)
	fill := func(n int) string { return `[{"S":"` + strings.Repeat("x", n) + `"}]` }
	const most = 400 << 10
	rest := most - len("a") - len("k") - len("v")
	tt.want("ExecuteStatement", statement(`INSERT INTO "one" VALUE {'a':'k','v':?}`, `"Parameters":`+fill(rest+1)),
		"ValidationException: Item size has exceeded the maximum allowed size")
	tt.want("ExecuteStatement", statement(`INSERT INTO "one" VALUE {'a':'k'}`), `{"Items":[]}`)
	tt.want("ExecuteStatement", statement(`UPDATE "one" SET v=? WHERE a='k'`, `"Parameters":`+fill(rest+1)),
		"ValidationException: Item size to update has exceeded the maximum allowed size")
	tt.want("ExecuteStatement", statement(`UPDATE "one" SET v=? WHERE a='k'`, `"Parameters":`+fill(rest)), `{"Items":[]}`)
}

func TestBatchExecuteStatement(t *testing.T) {
	tt := newStatementTest(t)
	batch := func(texts ...string) string {
		return tt.ask("BatchExecuteStatement", statements("Statements", `,"ReturnConsumedCapacity":"INDEXES"`, texts...))
	}
	for _, c := range []struct {
		name  string
		texts []string
		want  string
	}{
		{"reads", []string{`SELECT n FROM "abc" WHERE a='x' AND b=1`, `SELECT n FROM "abc" WHERE b=9 AND a='x'`},
			`{"Responses":[{"TableName":"abc","Item":{"n":{"N":"10"}}},{"TableName":"abc"}],"ConsumedCapacity":[{"TableName":"abc","CapacityUnits":1.0,"Table":{"CapacityUnits":1.0}}]}`},
		{"faults of statements", []string{`SLECT * FROM "abc"`, `SELECT * FROM "abc"`, `SELECT * FROM "abc"."keys" WHERE a='x' AND b=1`, `SELECT * FROM "none" WHERE a='x'`, `SELECT COUNT(*) FROM "abc"`},
			`{"Responses":[{"Error":{"Code":"ValidationError","Message":"Statement wasn't well formed, can't be processed: Expected data manipulation"}},` +
				`{"Error":{"Code":"ValidationError","Message":"Select statements within BatchExecuteStatement must specify the primary key in the where clause."}},` +
				`{"Error":{"Code":"ValidationError","Message":"Select statements within BatchExecuteStatement must specify the primary key in the where clause."}},` +
				`{"Error":{"Code":"ResourceNotFound","Message":"Requested resource not found"},"TableName":"none"},` +
				`{"Error":{"Code":"ValidationError","Message":"Unexpected path component at 1:8:5"}}]}`},
		{"reads and writes", []string{`SELECT * FROM "abc" WHERE a='x' AND b=1`, `DELETE FROM "abc" WHERE a='x' AND b=1`},
			"ValidationException: Read and write requests together in the same batch is not supported."},
		{"one item twice", []string{`DELETE FROM "abc" WHERE a='x' AND b=1`, `INSERT INTO "abc" VALUE {'a':'x','b':1}`},
			"ValidationException: Provided list of item keys contains duplicates"},
		{"writes, of which some fail", []string{
			`INSERT INTO "one" VALUE {'a':'k'}`, `INSERT INTO "abc" VALUE {'a':'x','b':1}`, `UPDATE "abc" SET n=1 WHERE a='x' AND b=9`,
			`UPDATE "abc" SET n=21 WHERE a='x' AND b=2 RETURNING MODIFIED NEW *`, `DELETE FROM "abc" WHERE a='x' AND b=3 RETURNING ALL NEW *`},
			`{"Responses":[{"TableName":"one"},{"Error":{"Code":"DuplicateItem","Message":"Duplicate primary key exists in table"},"TableName":"abc"},` +
				`{"Error":{"Code":"ConditionalCheckFailed","Message":"The conditional request failed"},"TableName":"abc"},` +
				`{"TableName":"abc","Item":{"n":{"N":"21"}}},` +
				`{"Error":{"Code":"ValidationError","Message":"Invalid returning clause: RETURNING ALL NEW *. Only RETURNING ALL OLD * is allowed in DELETE statements."}}],` +
				`"ConsumedCapacity":[{"TableName":"abc","CapacityUnits":3.0,"Table":{"CapacityUnits":1.0}},{"TableName":"one","CapacityUnits":1.0,"Table":{"CapacityUnits":1.0}}]}`},
		{"writes that all fail cost nothing", []string{`INSERT INTO "one" VALUE {'a':'k'}`},
			`{"Responses":[{"Error":{"Code":"DuplicateItem","Message":"Duplicate primary key exists in table"},"TableName":"one"}]}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := batch(c.texts...); got != c.want {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

func TestExecuteTransaction(t *testing.T) {
	tt := newStatementTest(t)
	const prefix = "ValidationException: Validation failed in TransactStatements[0]: "
	const cancelled = "TransactionCanceledException: Transaction cancelled, please refer cancellation reasons for specific reasons "
	for _, c := range []struct {
		name  string
		texts []string
		want  string
	}{
		{"reads", []string{`SELECT n FROM "abc" WHERE a='x' AND b=1`, `SELECT * FROM "one" WHERE a='k'`}, `{"Responses":[{"Item":{"n":{"N":"10"}}},{}]}`},
		{"writes and a condition", []string{
			`EXISTS(SELECT * FROM "abc" WHERE a='x' AND b=1 AND n=10)`, `INSERT INTO "one" VALUE {'a':'k'}`, `UPDATE "abc" SET n=21 WHERE a='x' AND b=2`, `DELETE FROM "abc" WHERE a='x' AND b=99`},
			`{"Responses":[]}`},
		{"all or none", []string{`EXISTS(SELECT * FROM "abc" WHERE a='x' AND b=1 AND n=99)`, `INSERT INTO "one" VALUE {'a':'k'}`, `INSERT INTO "one" VALUE {'a':'l'}`},
			cancelled + "[ConditionalCheckFailed, DuplicateItem, None]"},
		{"keys of another type are reasons", []string{`UPDATE "one" SET n=1 WHERE a=1`, `INSERT INTO "one" VALUE {'a':'l'}`}, cancelled + "[ValidationError, None]"},
		{"keys of a type that no key has are not", []string{`UPDATE "one" SET n=1 WHERE a=[1]`}, prefix + "Key value must be of type S, N, or B. Key name: a, Key type: L"},
		{"reads and writes", []string{`SELECT * FROM "one" WHERE a='k'`, `INSERT INTO "one" VALUE {'a':'l'}`},
			"ValidationException: ExecuteTransaction API does not support both read and write operations in the same request."},
		{"one item twice", []string{`DELETE FROM "one" WHERE a='k'`, `INSERT INTO "one" VALUE {'a':'k'}`},
			"ValidationException: Transaction request cannot include multiple operations on one item"},
		{"one item read twice", []string{`SELECT * FROM "one" WHERE a='k'`, `SELECT * FROM "one" WHERE a='k'`},
			"ValidationException: Transaction request cannot include multiple operations on one item"},
		{"syntax", []string{`SLECT * FROM "one"`}, "ValidationException: Statement wasn't well formed, can't be processed: Expected data manipulation"},
		{"an expression", []string{`1 = 1`}, "ValidationException: Unsupported operation in transaction."},
		{"a count", []string{`SELECT COUNT(*) FROM "one"`}, prefix + "Unexpected path component at 1:8:5"},
		{"many items", []string{`SELECT * FROM "one"`}, prefix + "Select statements within ExecuteTransaction must specify the primary key in the where clause."},
		{"an index", []string{`SELECT * FROM "abc"."keys" WHERE g='p'`}, prefix + "Reads on indices are not supported within transactions."},
		{"returning", []string{`DELETE FROM "one" WHERE a='k' RETURNING ALL OLD *`}, prefix + "RETURNING clause is not supported in ExecuteTransaction."},
		{"a condition without one", []string{`EXISTS(SELECT * FROM "one" WHERE a='k')`}, prefix + "EXISTS() must contain a single item read with additional condition"},
		{"no such table", []string{`DELETE FROM "none" WHERE a='k'`}, "ResourceNotFoundException: Requested resource not found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			tt.in(t).want("ExecuteTransaction", statements("TransactStatements", "", c.texts...), c.want)
		})
	}
}

// A token makes a transaction idempotent; repeating it consumes a read.
func TestExecuteTransactionToken(t *testing.T) {
	tt := newStatementTest(t)
	send := func(text string) string {
		return tt.ask("ExecuteTransaction", statements("TransactStatements", `,"ClientRequestToken":"t","ReturnConsumedCapacity":"TOTAL"`, text))
	}
	for _, c := range []struct{ name, text, want string }{
		{"the first", `UPDATE "abc" SET n=n+1 WHERE a='x' AND b=1`, `{"Responses":[],"ConsumedCapacity":[{"TableName":"abc","CapacityUnits":2.0,"WriteCapacityUnits":2.0}]}`},
		{"the same again", `UPDATE "abc" SET n=n+1 WHERE a='x' AND b=1`, `{"Responses":[],"ConsumedCapacity":[{"TableName":"abc","CapacityUnits":2.0,"ReadCapacityUnits":2.0}]}`},
		{"another", `UPDATE "abc" SET n=n+2 WHERE a='x' AND b=1`, "IdempotentParameterMismatchException: The provided client token is already in use with different parameters."},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := send(c.text); got != c.want {
				t.Errorf("got %s, want %s", got, c.want)
			}
		})
	}
	tt.want("ExecuteStatement", statement(`SELECT n FROM "abc" WHERE a='x' AND b=1`), `{"Items":[{"n":{"N":"11"}}]}`)
}

// The parameters of a statement have at most 2 MB in total. The item of an INSERT has a
// lower limit, and its own error.
func TestSizesOfParameters(t *testing.T) {
	tt := newStatementTest(t)
	parameter := func(bytes int) string { return `"Parameters":[{"S":"` + strings.Repeat("x", bytes) + `"},{"S":"y"}]` }
	const most = 2<<20 - 1
	const tooLarge = "ValidationException: Parameters exceeds max size"
	for _, c := range []struct {
		text  string
		bytes int
		want  string
	}{
		{`SELECT * FROM "abc" WHERE contains(?, g) AND a=?`, most, `{"Items":[]}`},
		{`SELECT * FROM "abc" WHERE contains(?, g) AND a=?`, most + 1, tooLarge},
		{`UPDATE "abc" SET n=? WHERE a=? AND b=1`, most + 1, tooLarge},
		{`DELETE FROM "abc" WHERE n=? AND a=? AND b=1`, most + 1, tooLarge},
		{`INSERT INTO "abc" VALUE {'n':?,'a':?,'b':99}`, most + 1, "ValidationException: Item size has exceeded the maximum allowed size"},
	} {
		tt.want("ExecuteStatement", statement(c.text, parameter(c.bytes)), c.want)
	}
}

// A set that is too large for every request is rejected, wherever it is: the decoder
// keeps only the first members of it. The control is a large set that is allowed.
func TestLargeSetsAreRejected(t *testing.T) {
	tt := newStatementTest(t)
	set := func(members int) string {
		var texts []string
		for i := range members {
			texts = append(texts, fmt.Sprintf(`"%07d"`, i))
		}
		return `{"SS":[` + strings.Join(texts, ",") + `]}`
	}
	const key = `"Key":{"a":{"S":"q"}}`
	const tooLarge, itemTooLarge = "ValidationException: Item size to update has exceeded the maximum allowed size", "ValidationException: Item size has exceeded the maximum allowed size"
	for _, c := range []struct{ operation, format, want, control string }{
		{"PutItem", `{"TableName":"one","Item":{"a":{"S":"q"},"s":%s}}`, itemTooLarge, itemTooLarge},
		{"UpdateItem", `{"TableName":"one",` + key + `,"AttributeUpdates":{"s":{"Action":"DELETE","Value":%s}}}`, tooLarge, "{}"},
		{"UpdateItem", `{"TableName":"one",` + key + `,"AttributeUpdates":{"s":{"Action":"ADD","Value":%s}}}`, tooLarge, tooLarge},
		{"UpdateItem", `{"TableName":"one",` + key + `,"UpdateExpression":"DELETE s :s","ExpressionAttributeValues":{":s":%s}}`, "ValidationException: ExpressionAttributeValues exceeds max size", "{}"},
		{"PutItem", `{"TableName":"one","Item":{"a":{"S":"q"}},"Expected":{"s":{"ComparisonOperator":"NE","AttributeValueList":[%s]}}}`, "{}", "{}"},
	} {
		tt.want(c.operation, fmt.Sprintf(c.format, set(400_000)), c.want)
		tt.want(c.operation, fmt.Sprintf(c.format, set(200_000)), c.control)
	}
}

// A request that is rejected may have any number of statements: no more are parsed than are asked for.
func TestTablesOfManyStatements(t *testing.T) {
	h := newTableTest(t, 0)
	for _, c := range []struct {
		operation, member string
		statements, most  int
		want              int
	}{
		{"BatchExecuteStatement", "Statements", 25, 32, 25},
		{"BatchExecuteStatement", "Statements", 5000, 32, 32},
		{"ExecuteTransaction", "TransactStatements", 100, maxStatements, 100},
		{"ExecuteTransaction", "TransactStatements", 5000, maxStatements, 100},
	} {
		var all []string
		for i := range c.statements {
			all = append(all, fmt.Sprintf(`{"Statement":"SELECT * FROM T%d WHERE a = 1"}`, i))
		}
		r, _ := Read(c.operation, []byte(`{"`+c.member+`":[`+strings.Join(all, ",")+`]}`))
		if got := h.s.Tables(r, c.most); len(got) != c.want {
			t.Errorf("%s with %d statements has %d tables, want %d", c.operation, c.statements, len(got), c.want)
		}
	}
}
