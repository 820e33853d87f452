package command

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		args string
		code int
		want string
	}{
		{"work", Done, ""},
		{"work --fail", Failed, "app: it failed\n"},
		{"work --wrong", WrongUsage, "app: --wrong is wrong\n     `app --help` lists"},
		{"work more", WrongUsage, `app work takes no arguments, but has "more"`},
		{"read", WrongUsage, "app read takes a file, but has 0 arguments"},
		{"read file", Done, ""},
		{"work --what", WrongUsage, "unknown flag"},
		{"dance", WrongUsage, "unknown command"},
	} {
		var out bytes.Buffer
		if code := Run(t.Context(), application(&out), strings.Fields(c.args)); code != c.code || !strings.Contains(out.String(), c.want) {
			t.Errorf("app %s: exit code %d, output %q, want %d and %q", c.args, code, &out, c.code, c.want)
		}
	}
}

func application(out *bytes.Buffer) *cobra.Command {
	root := &cobra.Command{Use: "app"}
	root.SetOut(out)
	root.SetErr(out)
	var fail, wrong bool
	work := &cobra.Command{Use: "work", Args: NoArgs, RunE: func(*cobra.Command, []string) error {
		switch {
		case fail:
			return errors.New("it failed")
		case wrong:
			return Usagef("--wrong is wrong")
		}
		return nil
	}}
	work.Flags().BoolVar(&fail, "fail", false, "")
	work.Flags().BoolVar(&wrong, "wrong", false, "")
	read := &cobra.Command{Use: "read FILE", Args: Args(1, "a file"), RunE: func(*cobra.Command, []string) error { return nil }}
	root.AddCommand(work, read)
	return root
}
