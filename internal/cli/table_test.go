package cli

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stator-db/stator"
)

func TestTableThrottle(t *testing.T) {
	d, err := stator.Open(t.Context(), stator.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	server := httptest.NewServer(d.Handler())
	t.Cleanup(server.Close)
	if _, err := clientOf(server.URL, "us-east-1").Send(t.Context(), "CreateTable", map[string]any{
		"TableName": "Orders", "BillingMode": "PAY_PER_REQUEST",
		"AttributeDefinitions": []any{map[string]any{"AttributeName": "id", "AttributeType": "S"}},
		"KeySchema":            []any{map[string]any{"AttributeName": "id", "KeyType": "HASH"}},
	}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"on", []string{"Orders", "on"}, 0, "throttling of table Orders: on\n"},
		{"as JSON", []string{"Orders", "default", "--json"}, 0, `{"TableName":"Orders","Throttling":"default"}`},
		{"a missing table", []string{"Nowhere", "on"}, 1, "cannot set the throttling of table Nowhere"},
		{"another setting", []string{"Orders", "often"}, 2, "on, off or default"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := runStator(t, append([]string{"table", "throttle", "--endpoint", server.URL}, c.args...)...)
			if code != c.code || !strings.Contains(stdout+stderr, c.want) {
				t.Errorf("exit code %d, %s%s", code, stdout, stderr)
			}
		})
	}
}
