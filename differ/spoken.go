package main

import (
	"bufio"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"sync"
)

// transcripts is the folder of stator's transcripts.
const transcripts = "../conformance"

// spoken returns the messages of all transcripts without names and values. A
// message of stator that neither witness has must be one of them.
var spoken = sync.OnceValue(func() map[string]bool {
	all, err := readSpoken(os.DirFS(transcripts))
	if err != nil {
		panic(fmt.Sprintf("read the transcripts: %v", err))
	}
	return all
})

var (
	errorLine   = regexp.MustCompile(`^< (?:\d{3} )?([A-Z][A-Za-z]+(?:Exception|Error)(?::.*)?)$`)
	messageText = regexp.MustCompile(`"Message": ?"((?:[^"\\]|\\.)*)"`)
)

// anyText ends the form of a message of which a transcript has only the
// beginning.
const anyText = "…"

// isSpoken reports whether a transcript has an error or a message.
func isSpoken(text string) bool {
	form := spokenForm(text)
	if spoken()[form] {
		return true
	}
	for i := range form {
		if spoken()[form[:i]+anyText] {
			return true
		}
	}
	return false
}

// readSpoken reads the errors of all transcripts in a folder.
func readSpoken(folder fs.FS) (map[string]bool, error) {
	all := make(map[string]bool)
	err := fs.WalkDir(folder, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".txt") {
			return err
		}
		f, err := folder.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 1<<20)
		for lines.Scan() {
			if m := errorLine.FindStringSubmatch(lines.Text()); m != nil {
				m[1] = cutTranscript(m[1])
				all[spokenForm(m[1])] = true
				all[spokenForm(errorCode.ReplaceAllString(m[1], ""))] = true
			}
			for _, m := range messageText.FindAllStringSubmatch(lines.Text(), -1) {
				all[spokenForm(strings.ReplaceAll(m[1], `\"`, `"`))] = true
			}
		}
		return lines.Err()
	})
	return all, err
}

var errorCode = regexp.MustCompile(`^[A-Z][A-Za-z]+(?:Exception|Error)(?:: ?|$)`)

// spokenForm returns an error without its prefix, and the names and values of
// its request.
func spokenForm(text string) string {
	code := errorCode.FindString(text)
	text = strings.TrimSpace(strings.TrimPrefix(text, code))
	text = strings.TrimPrefix(text, envelope)
	text = strings.TrimRight(code, ": ") + " " + statementPrefix.ReplaceAllString(text, "")
	text = ofAll.ReplaceAllString(text, "_(*)")
	text = ofExpression.ReplaceAllString(text, "Invalid Expression: ")         // all have the messages of one library
	text = strings.ReplaceAll(text, "ReadCapacityUnits", "WriteCapacityUnits") // which have the same messages
	text = typeName.ReplaceAllString(text, "; type: _, valid types")
	text, _, _ = strings.Cut(text, "operand type: ")
	text, _, _ = strings.Cut(text, "path one: ") // lists of names in brackets, which may have brackets
	return template("x: " + spokenNames.ReplaceAllString(text, "$1 _"))
}

var statementPrefix = regexp.MustCompile(`^Validation failed in TransactStatements\[\d+\]: `)

// ofAll matches the name of a function that is called with all attributes.
var ofAll = regexp.MustCompile(`\S+\(\*\)`)

var ofExpression = regexp.MustCompile(`\bInvalid (?:Filter|Condition|KeyCondition|Projection|Update)Expression: `)

// typeName matches a name of a type that is none, which may be any text.
var typeName = regexp.MustCompile(`(?s); type: .*, valid types`)

// spokenNames are words before names and values that are not in quotes.
var spokenNames = regexp.MustCompile(`(numeric value:|already exists:|Key:|[Tt]he key|Variable reference|(?:Read|Write)CapacityUnits for index|[Ss]econdary index|index:|index of|Table:|Key found|invalid, (?:Key|Value):|'arn:':|element:|type class|function:|keyword:|operand type:|; type:|data type:|duplicated:|operation:|operator:|for index:? |above the per (?:table|index)|ReadCapacityUnits|WriteCapacityUnits|Operator:|Index Key|Expected:|Actual:|IndexName:|AttributeName is|in NonKeyAttributes:|not found: Index|for table|schema: Key|IndexKey:) ?[^\s,]*`)

// cutTranscript removes what is after an ellipsis of a transcript. A message
// that ends with one has no details.
func cutTranscript(text string) string {
	head, rest, ok := strings.Cut(text, anyText)
	if ok && rest != "" {
		return head + anyText
	}
	return head
}
