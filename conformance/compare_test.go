package conformance

import (
	"strings"
	"testing"
)

// Compare finds each difference: the replies are compared with answers that
// differ from them in one point each.
func TestDifferencesAreFound(t *testing.T) {
	for _, c := range []struct {
		name, want string
		status     int
		got, why   string
	}{
		{"the same", `< {"Item": {"a": {"S": "1"}}}`, 200, `{"Item":{"a":{"S":"1"}}}`, ""},
		{"members have no order", `< {"a": 1, "b": 2}`, 200, `{"b":2,"a":1}`, ""},
		{"sets have no order", `< {"a": {"SS": ["x", "y"]}}`, 200, `{"a":{"SS":["y","x"]}}`, ""},
		{"numbers are compared by value", `< {"a": 1}`, 200, `{"a":1.0}`, ""},
		{"an empty body is an empty reply", `< {}`, 200, "", ""},
		{"another value", `< {"Item": {"a": {"S": "1"}}}`, 200, `{"Item":{"a":{"S":"2"}}}`, `Item.a.S is "2", not "1"`},
		{"another type", `< {"a": "1"}`, 200, `{"a":1}`, `a is 1, not "1"`},
		{"a member missing", `< {"a": 1, "b": 2}`, 200, `{"a":1}`, "the reply has no b"},
		{"a member too many", `< {"a": 1}`, 200, `{"a":1,"b":2}`, "the reply has b, which it should not"},
		{"lists have an order", `< {"a": [1, 2]}`, 200, `{"a":[2,1]}`, "a[0] is 2, not 1"},
		{"an element too many", `< {"a": [1]}`, 200, `{"a":[1,2]}`, "a has 2 elements, not 1"},
		{"another element of a set", `< {"a": {"NS": ["1", "2"]}}`, 200, `{"a":{"NS":["1","3"]}}`, `a.NS has no element "2"`},
		{"no twins in a set", `< {"a": {"SS": ["x", "y"]}}`, 200, `{"a":{"SS":["x","x"]}}`, `a.SS has no element "y"`},
		{"not JSON", `< {}`, 200, "<html>", "the body is not a JSON object"},

		{"an error", "< Oops: no", 400, `{"__type":"com.x#Oops","message":"no"}`, ""},
		{"the other spelling", "< Oops: no", 400, `{"__type":"com.x#Oops","Message":"no"}`, ""},
		{"an error without a message", "< Oops", 400, `{"__type":"com.x#Oops"}`, ""},
		{"another code", "< Oops: no", 400, `{"__type":"com.x#Other","message":"no"}`, `the code is "Other", not "Oops"`},
		{"another message", "< Oops: no", 400, `{"__type":"com.x#Oops","message":"no."}`, "the message is another"},
		{"another status", "< Oops: no", 500, `{"__type":"com.x#Oops","message":"no"}`, "the status is 500, not 400"},
		{"success, not an error", "< Oops: no", 200, `{}`, "the status is 200, not 400"},
		{"an error, not success", "< {}", 400, `{"__type":"com.x#Oops"}`, "the status is 400, not 200"},
		{"an error's members", "< Oops: no\n  {\"Item\": {\"a\": {\"S\": \"1\"}}}", 400, `{"__type":"com.x#Oops","message":"no","Item":{"a":{"S":"1"}}}`, ""},
		{"an error's member too many", "< Oops: no", 400, `{"__type":"com.x#Oops","message":"no","Item":{}}`, "the reply has Item, which it should not"},
		{"errors joined in another order", "< Oops: 2 validation errors detected: a; b", 400, `{"__type":"com.x#Oops","message":"2 validation errors detected: b; a"}`, ""},
		{"another of the errors joined", "< Oops: 2 validation errors detected: a; b", 400, `{"__type":"com.x#Oops","message":"2 validation errors detected: b; c"}`, "the message is another"},

		{"anything", `< {"a": "…"}`, 200, `{"a":{"b":[1]}}`, ""},
		{"anything, but something", `< {"a": "…"}`, 200, `{}`, "the reply has no a"},
		{"any end", `< {"a": "arn:…"}`, 200, `{"a":"arn:x"}`, ""},
		{"any end of another text", `< {"a": "arn:…"}`, 200, `{"a":"urn:x"}`, `a is "urn:x", not "arn:…"`},
		{"any middle", "< Oops: a […] b", 400, `{"__type":"com.x#Oops","message":"a [x, y] b"}`, ""},
		{"any middle, another end", "< Oops: a […] b", 400, `{"__type":"com.x#Oops","message":"a [x, y] c"}`, "the message is another"},
		{"further members", `< {"a": 1, "…": "…"}`, 200, `{"a":1,"b":2}`, ""},
		{"further members, one wrong", `< {"a": 1, "…": "…"}`, 200, `{"a":2,"b":2}`, "a is 2, not 1"},
		{"any order", `< {"a": ["any order", 1, 2]}`, 200, `{"a":[2,1]}`, ""},
		{"any order, another element", `< {"a": ["any order", 1, 2]}`, 200, `{"a":[2,3]}`, "a has no element 1"},

		{"exactly", `<! 404 <x/>`, 404, "<x/>\n", ""},
		{"not exactly", `<! {"a":1}`, 200, `{"a": 1}`, "the body is another"},
	} {
		t.Run(c.name, func(t *testing.T) {
			parsed, err := Parse("test.txt", "> Do {}\n"+c.want)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if err := Compare(parsed.Steps[0].Want, Answer{Status: c.status, Body: c.got}); err != nil {
				got = err.Error()
			}
			if got != c.why {
				t.Errorf("Compare says %q, want %q", got, c.why)
			}
		})
	}
}

func TestParse(t *testing.T) {
	text := `# A comment.
> Do {"a": "«x*3»",
    "b": [«1..3 {"n": "%d"}»]}
| X-Extra: yes
< {"c":
    1}

> Again {
< Oops: no
`
	parsed, err := Parse("test.txt", text)
	if err != nil {
		t.Fatal(err)
	}
	s := parsed.Steps[0]
	if want := "{\"a\": \"xxx\",\n    \"b\": [{\"n\": \"1\"}, {\"n\": \"2\"}, {\"n\": \"3\"}]}"; s.Body != want {
		t.Errorf("the body is %s, want %s", s.Body, want)
	}
	if s.Operation != "Do" || s.Line != 2 || s.Headers[0] != [2]string{"X-Extra", "yes"} {
		t.Errorf("the request is %+v", s)
	}
	if s := parsed.Steps[1]; s.Body != "{" || s.Want.Code != "Oops" || s.Want.Message != "no" {
		t.Errorf("the second step is %+v", s)
	}
}

func TestFaultyTranscripts(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"a request without a reply", "> Do {}\n", "test.txt:1: the request has no reply"},
		{"two replies", "> Do {}\n< {}\n< {}\n", "test.txt:3: is neither"},
		{"a reply to nothing", "< {}\n", "test.txt:1: is neither"},
		{"a stray line", "> Do {}\nnonsense\n< {}\n", "test.txt:2: is neither"},
		{"an unknown macro", "> Do «x»\n< {}\n", "test.txt:1: «x» is not a macro"},
		{"an open macro", "> Do «x*3\n< {}\n", "test.txt:1: a « has no »"},
		{"an invalid reply", "> Do {}\n< [1]\n", "test.txt:2: is neither JSON nor an error"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if _, err := Parse("test.txt", c.text); err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("Parse says %v, want %s", err, c.want)
			}
		})
	}
}

func TestNames(t *testing.T) {
	parsed, err := Parse("test.txt", `> CreateTable {"TableName": "Orders"}
< {}
`)
	if err != nil {
		t.Fatal(err)
	}
	n := newNames(parsed, "cf0-")
	for _, c := range [][2]string{
		{`{"TableName": "Orders"}`, `{"TableName": "cf0-Orders"}`},
		{`{"Orders": 1, "Orders2": 2, "My-Orders": 3}`, `{"cf0-Orders": 1, "Orders2": 2, "My-Orders": 3}`},
		{`"arn:aws:dynamodb:us-east-1:000000000000:table/Orders/index/x"`, `"arn:aws:dynamodb:us-east-1:000000000000:table/cf0-Orders/index/x"`},
	} {
		if got := n.out(c[0]); got != c[1] {
			t.Errorf("out makes %s of %s, want %s", got, c[0], c[1])
		}
		if got := n.in(c[1]); got != c[0] {
			t.Errorf("in makes %s of %s, want %s", got, c[1], c[0])
		}
	}
	sent := `{"TableArn": "arn:aws:dynamodb:eu-west-1:123456789012:table/cf0-Orders"}`
	here := `{"TableArn": "arn:aws:dynamodb:us-east-1:000000000000:table/Orders"}`
	if got := n.in(sent); got != here {
		t.Errorf("in makes %s of %s", got, sent)
	}
	if got := n.out(here); got != sent {
		t.Errorf("out makes %s of %s", got, here)
	}
}

// Rewrite replaces the replies that differ and keeps the others.
func TestRewrite(t *testing.T) {
	text := "# One.\n> Do {}\n< {\"a\": \"…\"}\n\n# Two.\n> Do {}\n< {\"b\":\n    2}\n\n# Three.\n> Do {}\n< Oops\n"
	parsed, err := Parse("test.txt", text)
	if err != nil {
		t.Fatal(err)
	}
	got := parsed.Rewrite([]Failure{
		{Step: &parsed.Steps[1], Got: Answer{200, `{"b":3}`}},
		{Step: &parsed.Steps[2], Got: Answer{400, `{"__type":"x#Oops","message":"` + strings.Repeat("y", 200) + `","Item":{}}`}},
	})
	want := "# One.\n> Do {}\n< {\"a\": \"…\"}\n\n# Two.\n> Do {}\n< {\"b\": 3}\n\n# Three.\n> Do {}\n< Oops: «y*200»\n  {\"Item\": {}}\n"
	if got != want {
		t.Errorf("Rewrite makes %s, want %s", got, want)
	}
}
