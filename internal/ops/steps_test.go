package ops

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// pageOf is what a page of Query, Scan or ExecuteStatement has.
type pageOf struct {
	Items            []json.RawMessage
	LastEvaluatedKey json.RawMessage
	NextToken        *string
}

// A page ends when its filter has used up its budget of steps, and the next
// pages return the rest: nothing is lost or returned twice. The control is a
// filter that takes few steps, whose page has all items.
func TestPageEndsWithItsSteps(t *testing.T) {
	tt := newStatementTest(t)
	const items = 50
	for i := range items {
		tt.want("ExecuteStatement", statement(fmt.Sprintf(`INSERT INTO "abc" VALUE {'a':'steps','b':%d,'s':'needle %d'}`, i, i)), `{"Items":[]}`)
	}
	const others, batch = 400, 25 // items of another table, for a statement with smaller values
	for i := 0; i < others; i += batch {
		var puts []string
		for n := range batch {
			puts = append(puts, fmt.Sprintf(`{"PutRequest":{"Item":{"a":{"S":"%d"},"s":{"S":"needle"}}}}`, i+n))
		}
		tt.want("BatchWriteItem", `{"RequestItems":{"one":[`+strings.Join(puts, ",")+`]}}`, `{"UnprocessedItems":{}}`)
	}
	filter := strings.Repeat("contains(:w, s) OR ", 100) + "a = :a"
	values := func(bytes int) string {
		return fmt.Sprintf(`"ExpressionAttributeValues":{":w":{"S":"%s"},":a":{"S":"steps"}}`, strings.Repeat("x", bytes))
	}
	parameters := func(bytes int) string {
		return `"Parameters":[` + strings.TrimSuffix(strings.Repeat(fmt.Sprintf(`{"S":"%s"},`, strings.Repeat("x", bytes)), 6), ",") + `]`
	}
	request := func(operation string, bytes int, more string) string {
		switch operation {
		case "Query":
			return `{"TableName":"abc","KeyConditionExpression":"a = :a","FilterExpression":"` + strings.TrimSuffix(filter, " OR a = :a") + ` OR s <> :a",` + values(bytes) + more + `}`
		case "Scan":
			return `{"TableName":"abc","FilterExpression":"` + filter + `",` + values(bytes) + more + `}`
		}
		return statement(`SELECT a FROM "one" WHERE `+strings.Repeat("contains(?, s) OR ", 6)+"s = 'needle'", parameters(bytes)+more)
	}
	for _, operation := range []string{"Query", "Scan", "ExecuteStatement"} {
		t.Run(operation, func(t *testing.T) {
			tt := tt.in(t)
			read := func(bytes int) (found, pages int) {
				more := ""
				for {
					var p pageOf
					if err := json.Unmarshal([]byte(tt.ask(operation, request(operation, bytes, more))), &p); err != nil {
						t.Fatal(err)
					}
					found, pages = found+len(p.Items), pages+1
					switch {
					case p.NextToken != nil:
						more = `,"NextToken":"` + *p.NextToken + `"`
					case p.LastEvaluatedKey != nil:
						more = `,"ExclusiveStartKey":` + string(p.LastEvaluatedKey)
					default:
						return found, pages
					}
				}
			}
			large, want := 1<<20, items
			if operation == "ExecuteStatement" {
				large, want = 340_000, others // six of them have less than 2 MB
			}
			if found, pages := read(large); found != want || pages < 2 {
				t.Errorf("%d items in %d pages, want %d in several", found, pages, want)
			}
			if found, pages := read(100); found != want || pages != 1 {
				t.Errorf("the control: %d items in %d pages, want %d in one", found, pages, want)
			}
		})
	}
}

// A projection of many attributes takes steps, too.
func TestProjectionTakesSteps(t *testing.T) {
	tt := newStatementTest(t)
	const items, batch = 1200, 25
	for i := 0; i < items; i += batch {
		var puts []string
		for n := range batch {
			puts = append(puts, fmt.Sprintf(`{"PutRequest":{"Item":{"a":{"S":"%d"}}}}`, i+n))
		}
		tt.want("BatchWriteItem", `{"RequestItems":{"one":[`+strings.Join(puts, ",")+`]}}`, `{"UnprocessedItems":{}}`)
	}
	names := make([]string, 9000)
	for i := range names {
		names[i] = fmt.Sprintf(`"p%d"`, i)
	}
	for _, c := range []struct {
		names int
		whole bool
	}{{len(names), false}, {100, true}} {
		var p pageOf
		if err := json.Unmarshal([]byte(tt.ask("Scan", `{"TableName":"one","AttributesToGet":[`+strings.Join(names[:c.names], ",")+`]}`)), &p); err != nil {
			t.Fatal(err)
		}
		if whole := len(p.Items) == items && p.LastEvaluatedKey == nil; whole != c.whole || len(p.Items) == 0 {
			t.Errorf("%d attributes: %d items and the last key %s", c.names, len(p.Items), p.LastEvaluatedKey)
		}
	}
}
