package cli

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator"
)

// The commands show, set, advance, freeze and run the clock of a server.
func TestClockCommands(t *testing.T) {
	d, err := stator.Open(t.Context(), stator.Options{TestClock: stator.NewTestClock(time.Unix(1_800_000_000, 0)), TestClockRequests: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	server := httptest.NewServer(d.Handler())
	t.Cleanup(server.Close)
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"show", 0, "2027-01-15T08:00:00Z  frozen\n"},
		{"show --json", 0, `{"mode":"frozen","time":"2027-01-15T08:00:00Z"}`},
		{"advance 25h", 0, "2027-01-16T09:00:00Z  frozen\n"},
		{"set 2027-01-17T00:00:00Z", 0, "2027-01-17T00:00:00Z  frozen\n"},
		{"set 1800144001", 0, "2027-01-17T00:00:01Z  frozen\n"},
		{"set 2027-01-16T00:00:00Z", 1, "cannot be set back to 2027-01-16T00:00:00Z"},
		{"advance 900d", 1, "advance it in several steps"},
		{"advance -1h", 2, ""},
		{"advance soon", 2, `the duration is "soon", but must be one such as 90s, 25h or 40d`},
		{"set tomorrow", 2, "the time"},
		{"set 1h", 2, `the time is "1h", but must be one such as`},
		{"advance", 2, ""},
		{"run", 0, "  running\n"},
		{"freeze", 0, "  frozen\n"},
	} {
		code, stdout, stderr := runStator(t, append([]string{"clock"}, append(strings.Fields(c.args), "--endpoint", server.URL)...)...)
		if code != c.code || !strings.Contains(stdout+stderr, c.want) {
			t.Errorf("clock %s: exit code %d, %s%s, want %d and %q", c.args, code, stdout, stderr, c.code, c.want)
		}
	}
}

// The flags of the clock are for a database in memory.
func TestClockFlags(t *testing.T) {
	for args, want := range map[string]string{
		"--test-clock":                        "requires --in-memory",
		"--in-memory --test-clock-signatures": "requires --test-clock",
		"--in-memory --test-clock=yesterday":  `"yesterday"`,
	} {
		if code, _, stderr := runStator(t, append([]string{"serve"}, strings.Fields(args)...)...); code != 2 || !strings.Contains(stderr, want) {
			t.Errorf("serve %s: exit code %d, %s", args, code, stderr)
		}
	}
	f := testClockFlags{at: "2026-01-01T00:00:00Z"}
	if err := f.check(true); err != nil || f.clock == nil || !f.clock.Running() || f.clock.Now().Year() != 2026 {
		t.Errorf("the clock is %+v, %v", f.clock, err)
	}
}
