package cli

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

var durationFlag = regexp.MustCompile(`--([a-z-]+) duration`)

// Every duration flag of every command refuses a negative value as a usage error.
// A control sets the same flag to a duration that is not negative.
func TestNegativeDurationsAreUsageErrors(t *testing.T) {
	found := 0
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
		for _, match := range durationFlag.FindAllStringSubmatch(cmd.Flags().FlagUsages(), -1) {
			f := cmd.Flags().Lookup(match[1])
			found++
			if err := f.Value.Set("0s"); err != nil {
				t.Errorf("%s --%s 0s: %v", cmd.CommandPath(), f.Name, err)
			}
			if err := f.Value.Set("-1s"); err == nil || f.Value.String() != "0s" {
				t.Errorf("%s --%s -1s is accepted", cmd.CommandPath(), f.Name)
			}
		}
	}
	visit(rootCommand())
	if found < 4 {
		t.Errorf("%d duration flags are found, want at least 4", found)
	}
	for _, args := range [][]string{
		{"serve", "--in-memory", "--ttl-interval", "-1s"},
		{"serve", "--in-memory", "--table-delay=-1s"},
		{"serve", "--in-memory", "--shard-duration=-1ns"},
		{"model", "prove", "x.yaml", "--load", "1x", "--for=-1s"},
	} {
		var stdout, stderr bytes.Buffer
		if code := Run(args, &stdout, &stderr); code != exitUsage || !strings.Contains(stderr.String(), "must not be negative") {
			t.Errorf("%v exits with %d: %s", args, code, stderr.String())
		}
	}
}
