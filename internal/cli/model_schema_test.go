package cli

import (
	"os"
	"testing"
)

// The command prints the schema that the documentation has.
func TestModelSchema(t *testing.T) {
	want, err := os.ReadFile("../../docs/model.schema.json")
	if err != nil {
		t.Fatal(err)
	}
	code, out, errs := runStator(t, "model", "schema")
	if code != 0 || out != string(want) {
		t.Errorf("exit code %d, %d bytes of %d\n%s", code, len(out), len(want), errs)
	}
	if code, _, _ := runStator(t, "model", "schema", "more"); code != 2 {
		t.Errorf("with an argument the exit code is %d", code)
	}
}
