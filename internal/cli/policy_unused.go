package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/internal/language/policy"
	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/iam"
	"github.com/stator-db/stator/internal/workload"
)

type policyUnusedFlags struct {
	driftFlags // the endpoint, and the files with counts
	policies   []string
}

func policyUnusedCommand() *cobra.Command {
	var f policyUnusedFlags
	cmd := &cobra.Command{
		Use:   "unused",
		Short: "Compare policies with the requests that a stator has served",
		Long: `A stator counts the requests that it serves by shape (stator model drift). The command
compares these counts with the identity policies of an application: it reports the actions, tables and
indexes of Allow statements that no request needed, and requests that the policies would refuse.
It fails when it finds any of these. Region and account of resources are ignored.

The counts are those of all clients of the server since it started, or since they were
reset. Requests to tables and streams are not counted, and what allows them is not judged.

  stator policy unused --policy app.json --endpoint http://127.0.0.1:8000
  stator policy unused --policy app.json --shapes shapes.json`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.compare(cmd.Context(), cmd.OutOrStdout())
		},
	}
	f.add(cmd, "URL of the stator")
	cmd.Flags().StringArrayVar(&f.policies, "policy", nil, "file with a policy; can be repeated for the policies of one identity")
	cmd.Flags().StringArrayVar(&f.traffic, "shapes", nil, "file with counts from /shapes, or folder with such files, in place of --endpoint; can be repeated")
	cmd.Flags().BoolVar(&f.json, "json", false, "print as JSON")
	cmd.Flags().BoolVar(&f.allowed.Unused, "allow-unused", false, "do not fail for what is unused")
	return cmd
}

// policyUseResult is the result of unused as JSON.
type policyUseResult struct {
	OK bool `json:"ok"`
	*iam.PolicyUse
}

func (f *policyUnusedFlags) compare(ctx context.Context, stdout io.Writer) error {
	switch {
	case len(f.policies) == 0:
		return usageError{errors.New("--policy must name a file with a policy")}
	case len(f.traffic) > 0 && f.endpoint != "":
		return usageError{errors.New("--shapes cannot be combined with --endpoint, which asks a server")}
	}
	var files []*iam.PolicyFile
	for _, name := range f.policies {
		text, err := os.ReadFile(name)
		if err != nil {
			return fileError{fmt.Errorf("cannot read the policy: %w", err)}
		}
		file, err := iam.ParseFile(name, text)
		var syntax *policy.SyntaxError
		if errors.As(err, &syntax) {
			return fileError{indentedError{fmt.Errorf("%s: the policy is invalid\n%w", name, err)}}
		}
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	traffic, err := f.counts(ctx)
	if err != nil {
		return err
	}
	use := iam.CompareTraffic(files, traffic)
	unused := len(use.Unused) > 0 && !f.allowed.Unused
	ok := !unused && len(use.Denied) == 0
	if f.json {
		err = encodeIndented(stdout, policyUseResult{ok, use})
	} else {
		err = f.print(stdout, use)
	}
	switch {
	case err != nil:
		return err
	case !ok:
		return fmt.Errorf("%s: the policy differs from the requests since %s: %s, %s", strings.Join(f.policies, ", "), use.Since.Format("2006-01-02 15:04:05 MST"),
			plural(len(use.Unused), "unused part"), plural(len(use.Denied), "refused action"))
	}
	return nil
}

func (f *policyUnusedFlags) counts(ctx context.Context) (workload.Report, error) {
	if len(f.traffic) > 0 {
		return savedTraffic(f.traffic)
	}
	e, err := f.open()
	if err != nil {
		return workload.Report{}, err
	}
	return f.serverTraffic(ctx, e)
}

// print prints what is unused and what is refused.
func (f *policyUnusedFlags) print(w io.Writer, use *iam.PolicyUse) error {
	paint := painterFor(w)
	if len(use.Unused) > 0 {
		out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(out, "WHERE\tSTATEMENT\tUNUSED\tTEXT")
		for _, u := range use.Unused {
			text := u.Text
			if u.Kind == iam.UnusedPart {
				text += ": only " + strings.Join(u.Only, ", ") + " of it"
			}
			fmt.Fprintf(out, "%s:%d:%d\t%s\t%s\t%s\n", u.File, u.Line, u.Column, textOrDash(u.Sid), u.Kind, text)
		}
		if err := out.Flush(); err != nil {
			return err
		}
		fmt.Fprintln(w)
	}
	for _, u := range use.Denied {
		fmt.Fprintf(w, "%sthe policy refuses %s on %s%s: %s\n", paint.status(model.StatusFault), u.Action, u.On(), enclosedBy(u), plural(int(u.Requests), "request"))
	}
	for _, u := range use.Undecided {
		fmt.Fprintf(w, "%-9swhether the policy allows %s on %s%s depends on conditions whose values are not counted: %s\n", "note", u.Action, u.On(), enclosedBy(u), plural(int(u.Requests), "request"))
	}
	if len(use.Unknown) > 0 {
		var actions []string
		for _, u := range use.Unknown {
			actions = append(actions, u.Text)
		}
		fmt.Fprintf(w, "%-9snot judged, because servers do not count such requests: %s\n", "note", strings.Join(actions, ", "))
	}
	if use.Uncounted > 0 {
		fmt.Fprintf(w, "%-9s%s had more shapes than the server counts separately, and may use what is listed as unused\n", "note", plural(int(use.Uncounted), "request"))
	}
	status := model.StatusOK
	if len(use.Denied) > 0 || len(use.Unused) > 0 && !f.allowed.Unused {
		status = model.StatusFault
	}
	_, err := fmt.Fprintf(w, "%s%s, %s since %s\n", paint.status(status), plural(len(use.Unused), "unused part"),
		plural(len(use.Denied), "refused action"), use.Since.Format("2006-01-02 15:04:05 MST"))
	return err
}

func enclosedBy(u *iam.Used) string {
	if u.Enclosing == "" {
		return ""
	}
	return " in " + u.Enclosing
}
