package cli

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator"
)

// read reads a configuration file together with flags.
func read(t *testing.T, text string, args ...string) (value func(flag string) string, triggers []stator.Trigger, err error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "stator.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := serveCommand()
	if err := cmd.ParseFlags(args); err != nil {
		t.Fatal(err)
	}
	triggers, err = readConfig(path, cmd)
	return func(flag string) string { return cmd.Flags().Lookup(flag).Value.String() }, triggers, err
}

// The members of a file are flags, and the command line takes precedence.
func TestConfigSetsFlags(t *testing.T) {
	for _, c := range []struct {
		name, text, args, flag, want string
	}{
		{"a text", "addr: 127.0.0.1:9000", "", "addr", "127.0.0.1:9000"},
		{"a text in quotes", `data: "my data"`, "", "data", "my data"},
		{"a switch", "hide-expired: true", "", "hide-expired", "true"},
		{"a duration", "ttl-interval: 1m30s", "", "ttl-interval", "1m30s"},
		{"the command line wins", "log: debug", "--log=warn", "log", "warn"},
		{"the command line wins even with the default", "log: debug", "--log=info", "log", "info"},
		{"--in-memory wins over data", "data: here", "--in-memory", "data", "stator-data"},
		{"--data wins over in-memory", "in-memory: true", "--data=there", "in-memory", "false"},
		{"an empty file sets nothing", "", "", "addr", "127.0.0.1:8000"},
		{"nor do comments", "# addr: here\n", "", "addr", "127.0.0.1:8000"},
	} {
		t.Run(c.name, func(t *testing.T) {
			value, _, err := read(t, c.text, strings.Fields(c.args)...)
			if err != nil || value(c.flag) != c.want {
				t.Errorf("%s is %q, %v, want %q", c.flag, value(c.flag), err, c.want)
			}
		})
	}
}

const exampleTrigger = `
triggers:
  - name: orders
    table: Orders
    url: https://user:secret@example.org/hook?key=secret
    headers:
      Authorization: Bearer secret
`

// A trigger can have all its members, and filters as JSON text or as YAML.
func TestConfigTriggers(t *testing.T) {
	_, triggers, err := read(t, exampleTrigger+`
    starting-position: TRIM_HORIZON
    batch-size: 10
    batch-window: 5s
    parallelism: 2
    timeout: 3s
    region: eu-central-1
    bisect-on-error: true
    report-batch-item-failures: true
    maximum-retry-attempts: 0
    maximum-record-age: 1h
    dead-letter: dead.jsonl
    filters:
      - '{"eventName": ["INSERT"]}'
      - {"dynamodb": {"NewImage": {"n": {"N": [{"numeric": [">", 5]}]}}}}
      - dynamodb:
          Keys:
            id: {S: [a, b]}
`)
	if err != nil {
		t.Fatal(err)
	}
	got := triggers[0]
	if *got.MaxRetries != 0 || got.MaxAge != time.Hour || got.BatchWindow != 5*time.Second || got.BatchSize != 10 || !got.Bisect || got.Headers["Authorization"] != "Bearer secret" {
		t.Errorf("the trigger is %+v", got)
	}
	for i, want := range []string{`{"eventName": ["INSERT"]}`, `{"dynamodb": {"NewImage": {"n": {"N": [{"numeric": [">", 5]}]}}}}`, `{"dynamodb": {"Keys": {"id": {"S": ["a", "b"]}}}}`} {
		if strings.Join(strings.Fields(string(got.Filters[i])), " ") != want {
			t.Errorf("filter %d is %s, want %s", i, got.Filters[i], want)
		}
	}
	if text := got.String(); strings.Contains(text, "secret") || !strings.Contains(text, `"endpoint":"https://example.org"`) {
		t.Errorf("the trigger is printed as %s", text)
	}
}

// The example in docs/triggers.md is valid, and the table there lists every member
// of a trigger.
func TestDocumentedConfig(t *testing.T) {
	document, err := os.ReadFile("../../docs/triggers.md")
	if err != nil {
		t.Fatal(err)
	}
	_, example, _ := strings.Cut(string(document), "```yaml\n")
	example, _, _ = strings.Cut(example, "```")
	value, triggers, err := read(t, example)
	if err != nil || len(triggers) != 1 || value("data") != "stator-data" {
		t.Errorf("the example gives %v, %v", triggers, err)
	}
	for _, field := range reflect.VisibleFields(reflect.TypeFor[stator.Trigger]()) {
		if member := field.Tag.Get("yaml"); !strings.Contains(string(document), "\n| `"+member+"` |") {
			t.Errorf("the member %s is not in the table", member)
		}
	}
}

// Errors contain the line and the column, and no secrets.
func TestConfigFaults(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"an unknown member", "addr: x\nadr: y", ":2:1: adr is neither a flag of serve nor triggers"},
		{"a file within a file", "config: other.yaml", ":1:1: config is neither a flag of serve nor triggers"},
		{"a value of another type", "table-delay: soon", ":1:14: table-delay must be a duration"},
		{"a negative duration", "table-delay: -1s", ":1:14: table-delay must not be negative"},
		{"a list for a value", "addr: [a, b]", ":1:7: addr must have one value"},
		{"no value", "addr:", ":1:7: addr must have one value"},
		{"two that cannot be combined", "data: x\nin-memory: true", ":2:1: data and in-memory cannot be combined"},
		{"a member twice", "log: info\nlog: warn", ":2:1: mapping key \"log\" already defined"},
		{"not YAML", "addr: [", ":1:7: "},
		{"a list", "- addr", ":1:1: the file must be a mapping"},
		{"triggers that are not a list", "triggers: {name: x}", ":1:11: triggers must be a list"},
		{"an unknown member of a trigger", exampleTrigger + "    retries: 5", `:8:5: unknown field "retries"`},
		{"a text for a number", exampleTrigger + "    batch-size: many", ":8:17: "},
		{"a number out of bounds", exampleTrigger + "    batch-size: 10001", ":8:17: batch-size must be from 1 to 10000"},
		{"a missing member", "triggers:\n  - name: x\n    table: Orders", "url must be an http or https URL"},
		{"another scheme", "triggers:\n  - name: x\n    table: Orders\n    url: ftp://secret", ":4:10: url must be an http or https URL"},
		{"a filter", exampleTrigger + "    filters:\n      - '{}'\n", ":9:9: filters[0] must be an object with at least one member"},
		{"a limit without a dead-letter file", exampleTrigger + "    maximum-retry-attempts: 3", "dead-letter must name a file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, _, err := read(t, c.text)
			if err == nil || !strings.Contains(err.Error(), "stator.yaml:") || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want %s", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "secret") {
				t.Errorf("the error contains a secret: %v", err)
			}
		})
	}
}
