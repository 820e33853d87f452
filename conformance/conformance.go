// Package conformance describes what a customer of DynamoDB sees, as
// transcripts: requests and their replies.
//
// They are tests of stator on every engine (go test ./conformance), and can
// be run against any other server (stator conform --endpoint). A transcript
// is a text file, <operation>/<topic>.txt:
//
//	# A comment: a claim in one sentence.
//	> PutItem {"TableName": "Orders", "Item": {"id": {"S": "1"}}}
//	< {}
//
//	> PutItem {"TableName": "Orders", "ReturnValues": "SOME"}
//	< ValidationException: 2 validation errors detected: …
//
// # Requests
//
// A > is followed by the operation and the body, which is sent as it is,
// valid JSON or not. Lines that begin with a space continue the line before
// them. Lines that begin with | and follow a request replace the usual
// headers; without a value the header is omitted. A name with a dot in it is
// the whole X-Amz-Target.
//
// # Replies
//
// A < is followed by the reply, in one of these forms:
//
//	< {"Item": {…}}         status 200 and this JSON
//	< Code: message         status 400 and this error
//	< 500 Code: message     another status
//	<! 404 text             exactly this body, but for space around it
//
// An error's other members follow on a separate line, as JSON. JSON is
// compared by value: members have no order, neither do the elements of SS, NS
// and BS; 1 and 1.0 are equal. When a message joins several validation
// errors, they may be in any order.
//
// # Wildcards
//
//	"…"                 any value
//	"begin…end"         any text with this beginning and end; in messages too
//	{"…": "…", …}       the object may have further members
//	["any order", …]    these elements, in any order
//
// # Macros
//
// In requests and replies, innermost first:
//
//	«x*400»                 the text x, 400 times
//	«1..25 {"N": "%d"}»     the text with each of these numbers, comma between
//
// # Tables
//
// A transcript creates the tables that it needs; it depends on no other.
// Names of tables begin with a capital letter, and are not used for anything
// else in the file: a run prepends a prefix to the names that the file
// creates, and removes it again from replies, so that runs do not disturb
// each other on a shared server. For the same reason ARNs are written with
// region us-east-1 and account 000000000000. A run waits until a table has
// settled before it continues, and deletes its tables at the end.
package conformance

import (
	"embed"
	"fmt"
	"io/fs"
	"strings"
)

//go:embed */*.txt
var files embed.FS

// All returns all transcripts, in order of their names.
func All() ([]*Transcript, error) {
	names, err := fs.Glob(files, "*/*.txt")
	if err != nil {
		return nil, err
	}
	var all []*Transcript
	for _, name := range names {
		text, err := files.ReadFile(name)
		if err != nil {
			return nil, err
		}
		t, err := Parse(name, string(text))
		if err != nil {
			return nil, fmt.Errorf("conformance/%w", err)
		}
		all = append(all, t)
	}
	return all, nil
}

// Topic is the transcript's name without its ending: "put_item/order".
func (t *Transcript) Topic() string { return strings.TrimSuffix(t.Name, ".txt") }
