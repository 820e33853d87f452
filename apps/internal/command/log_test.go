package command

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
)

func TestLog(t *testing.T) {
	run := func(args string) (code int, out string) {
		var b bytes.Buffer
		root := &cobra.Command{Use: "app"}
		root.SetErr(&b)
		LogFlags(root)
		root.AddCommand(&cobra.Command{Use: "work", RunE: func(cmd *cobra.Command, _ []string) error {
			Logger(cmd).Debug("small")
			Logger(cmd).Info("large", "n", 1, "lease", 90*time.Second)
			return nil
		}})
		return Run(t.Context(), root, strings.Fields(args)), b.String()
	}
	if code, out := run("work"); code != Done || strings.Contains(out, "small") || !strings.Contains(out, "msg=large n=1") {
		t.Errorf("exit code %d, the log is %q", code, out)
	}
	if code, out := run("work --log debug"); code != Done || !strings.Contains(out, "small") {
		t.Errorf("exit code %d, the log is %q", code, out)
	}
	if code, out := run("work --log error"); code != Done || out != "" {
		t.Errorf("exit code %d, the log is %q", code, out)
	}
	code, out := run("work --log-json")
	var line struct {
		Msg   string
		N     int
		Lease string
	}
	if err := json.Unmarshal([]byte(out), &line); err != nil || code != Done || line.Msg != "large" || line.N != 1 || line.Lease != "1m30s" {
		t.Errorf("exit code %d, the log is %q, %v", code, out, err)
	}
	if code, out := run("work --log loud"); code != WrongUsage || !strings.Contains(out, `--log is "loud"`) {
		t.Errorf("exit code %d, the output is %q", code, out)
	}
}
