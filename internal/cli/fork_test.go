package cli

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/stator-db/stator"
)

func TestForkCommands(t *testing.T) {
	d, err := stator.Open(t.Context(), stator.Options{Forks: &stator.ForkOptions{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, rest, _ := strings.Cut(r.Header.Get("Authorization"), "SignedHeaders=")
		if signed, _, _ := strings.Cut(rest, ","); r.Header.Get("X-Stator-Fork") != "" && !slices.Contains(strings.Split(signed, ";"), "x-stator-fork") {
			t.Errorf("the fork of a request is not signed: %s", r.Header.Get("Authorization"))
		}
		d.Handler().ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	for _, c := range []struct {
		command string
		code    int
		want    string
	}{
		{"fork create One", 0, "one\nendpoint URL: " + server.URL + "/fork/one\n"},
		{"fork create one", 1, "cannot make a fork on"},
		{"fork create a/b", 1, "letters, digits and hyphens"},
		{"fork create child --fork one --json", 0, `"ForkOf":"one"`},
		{"fork create a b", 2, "at most one name"},
		{"fork create json --fork one --json", 0, `"Endpoint":"` + server.URL + `/fork/json"}`},
		{"fork list", 0, "child  one  0 B"},
		{"fork list --json", 0, `"ForkName":"child"`},
		{"fork create grandchild --endpoint " + server.URL + "/fork/child --json", 0, `"ForkOf":"child"`},
		{"fork delete grandchild", 0, "deleted"},
		{"fork delete child", 0, "deleted fork child\n"},
		{"fork delete child", 1, "cannot delete fork child on"},
		{"fork delete", 2, "stator fork delete needs the name of a fork"},
		{"snapshot create loaded", 0, "loaded\n"},
		{"snapshot create loaded --fork one --json", 0, `{"Snapshot":{"SnapshotName":"loaded"`},
		{"snapshot list", 0, "loaded"},
		{"rewind loaded --fork one", 0, "rewound to loaded of "},
		{"rewind loaded", 0, "rewound to loaded of "},
		{"rewind other", 1, "Snapshot: other not found"},
		{"snapshot delete loaded", 0, "deleted snapshot loaded\n"},
		{"snapshot list --json", 0, `{"Snapshots":[]}`},
		{"fork create of-snapshot --fork one --snapshot loaded", 0, "of-snapshot\n"},
	} {
		t.Run(c.command, func(t *testing.T) {
			args := strings.Fields(c.command)
			if !slices.Contains(args, "--endpoint") {
				args = append(args, "--endpoint", server.URL)
			}
			code, stdout, stderr := runStator(t, args...)
			if code != c.code || !strings.Contains(stdout+stderr, c.want) {
				t.Errorf("exit code %d, %s%s", code, stdout, stderr)
			}
		})
	}
}

func TestForkFlags(t *testing.T) {
	for _, args := range []string{"--forks -1", "--fork-idle 0s", "--forks-memory 0", "--forks 0 --fork-memory 5"} {
		if code, _, stderr := runStator(t, append([]string{"serve"}, strings.Fields(args)...)...); code != 2 {
			t.Errorf("serve %s: exit code %d, %s", args, code, stderr)
		}
	}
}
