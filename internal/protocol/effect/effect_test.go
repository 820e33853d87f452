package effect

import (
	"encoding/json"
	"strings"
	"testing"
)

// A request of PartiQL reads only if all that a server may run of it are SELECTs. Each of the
// bodies that change something hides a DELETE from a reader that is not exact.
func TestStatements(t *testing.T) {
	const remove, read = `DELETE FROM T WHERE id = 'a'`, `SELECT * FROM T`
	for _, c := range []struct {
		operation, body string
		want            Effect
	}{
		{"ExecuteStatement", `{"Statement": "` + read + `"}`, Nothing},
		{"ExecuteStatement", `{"Statement": " \n\tselect * from T", "Limit": 5, "Parameters": [{"M": {"statement": {"S": "x"}, "Statement": {"S": "x"}}}]}`, Nothing},
		{"BatchExecuteStatement", `{"Statements": [{"Statement": "` + read + `"}, {"Statement": "SELECT\u0020* FROM T"}]}`, Nothing},
		{"ExecuteTransaction", `{"TransactStatements": [{"Statement": "EXISTS(SELECT * FROM T)"}]}`, Nothing},
		{"ExecuteStatement", `{"Statement": "` + remove + `"}`, Items},
		{"ExecuteStatement", `{"Statement": "` + remove + `", "\u017ftatement": "` + read + `"}`, Items},
		{"ExecuteStatement", `{"Statement": "` + remove + `", "ſtatement": "` + read + `"}`, Items},
		{"ExecuteStatement", `{"Statement": "` + remove + `", "statement": "` + read + `"}`, Items},
		{"ExecuteStatement", `{"\u0053tatement": "` + remove + `", "Statement": "` + read + `"}`, Items},
		{"ExecuteStatement", `{"Statement": "` + remove + `", "Statement": "` + read + `"}`, Items},
		{"ExecuteStatement", `{"Statement": "` + remove + `", "Statements": [{"Statement": "` + read + `"}]}`, Items},
		{"BatchExecuteStatement", `{"Statements": [{"Statement": "` + remove + `"}], "ſtatements": [{"Statement": "` + read + `"}]}`, Items},
		{"BatchExecuteStatement", `{"Statements": [{"Statement": "` + remove + `", "ſtatement": "` + read + `"}]}`, Items},
		{"BatchExecuteStatement", `{"Statements": [{"Statement": "` + read + `"}, {"Statement": "` + remove + `"}]}`, Items},
		{"BatchExecuteStatement", `{"Statements": [{}], "Statement": "` + read + `"}`, Items},
		{"ExecuteTransaction", `{"TransactStatements": [{"Statement": "` + remove + `"}], "tranſactStatements": [{"Statement": "` + read + `"}]}`, Items},
		{"ExecuteStatement", `{"Statement": null}`, Items},
		{"ExecuteStatement", `{"Statement": ["` + read + `"]}`, Items},
		{"ExecuteStatement", `{}`, Items},
		{"ExecuteStatement", ``, Items},
		{"ExecuteStatement", `{"Statement": "` + read + `"} {"Statement": "` + remove + `"}`, Items},
		{"ExecuteStatement", `{"Statement": "SELECTOR"}`, Items},
	} {
		if got := Of(c.operation, []byte(c.body)); got != c.want {
			t.Errorf("%s %s has the effect %d, want %d", c.operation, c.body, got, c.want)
		}
	}
}

// Whatever names a body has, it reads only if its exact members do.
func FuzzStatements(f *testing.F) {
	f.Add("ſtatement", "SELECT 1")
	f.Add("STATEMENT", "SELECT 1")
	f.Add("Statement", "SELECT 1")
	f.Fuzz(func(t *testing.T, name, text string) {
		more, err := json.Marshal(map[string]string{name: text})
		if err != nil {
			return
		}
		body := `{"Statement": "DELETE FROM T", ` + strings.TrimPrefix(string(more), "{")
		if Of("ExecuteStatement", []byte(body)) == Nothing {
			t.Errorf("%s reads", body)
		}
	})
}

// A body that is nested deeply is not read to its end: a stack that overflows ends the process.
func TestNestedBodies(t *testing.T) {
	const levels = 2_500_000 // of a body of 5 MB
	for _, body := range []string{
		strings.Repeat("[", levels), strings.Repeat("[", levels) + strings.Repeat("]", levels),
		`{"Statement": "SELECT * FROM T", "Parameters": ` + strings.Repeat(`[`, levels),
		strings.Repeat(`{"a":`, levels/3),
	} {
		if got := Of("ExecuteStatement", []byte(body)); got != Items {
			t.Errorf("%d bytes of %.20s… have the effect %d", len(body), body, got)
		}
	}
}

func TestOperations(t *testing.T) {
	for operation, want := range map[string]Effect{
		"GetItem": Nothing, "Query": Nothing, "ItemHistory": Nothing, "TransactGetItems": Nothing, "DescribeTable": Nothing,
		"PutItem": Items, "UndoChanges": Items, "CreateTable": Tables, "UpdateTimeToLive": Tables,
		"PutResourcePolicy": Other, "CreateAccessKey": Other, "SetFaults": Other, "getitem": Other, "Get.PutItem": Other, "": Other,
	} {
		if got := Of(operation, []byte("{}")); got != want {
			t.Errorf("%s has the effect %d, want %d", operation, got, want)
		}
	}
}
