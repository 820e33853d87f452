package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/internal/language/policy"
	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/iam"
)

type modelPolicyFlags struct {
	iam.PolicyOptions
	role                string
	explain, json       bool
	out, tenantVariable string
}

func modelPolicyCommand() *cobra.Command {
	var f modelPolicyFlags
	cmd := &cobra.Command{
		Use:   "policy FILE",
		Short: "Write the IAM policy that allows what the access patterns need, and nothing else",
		Long: `Write an identity policy in the language of IAM that allows the requests of the access
patterns of a model on its tables and indexes, and nothing else. What the model proves is
a condition: attributes, if all patterns that use an index have a projection, and the
enclosing transaction of actions that occur in transactions only. A table whose stream
programs poll has a statement for them.

--role restricts the policy to the patterns that read or write, or to the readers of
streams; --group to the patterns of a group. --tenant-key restricts it to partitions
whose key begins with an attribute that has the value of a variable of the caller. It
fails if a pattern needs other partitions, and says which.

  stator model policy shop.model.yaml --region eu-west-1 --account 111122223333
  stator model policy shop.model.yaml --explain`,
		Args: arguments(1, "one file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.write(args[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.Region, "region", "*", "region of the tables")
	flags.StringVar(&f.Account, "account", "000000000000", "account of the tables; the default is that of a stator")
	flags.StringVar(&f.role, "role", string(iam.All), "all, reader, writer or consumer (of streams)")
	flags.StringArrayVar(&f.Groups, "group", nil, "only patterns of this group; can be repeated")
	flags.StringVar(&f.TenantKey, "tenant-key", "", "attribute that all partition keys begin with; only partitions with the caller's value are allowed")
	flags.StringVar(&f.tenantVariable, "tenant-variable", iam.DefaultTenantVariable, "variable with the caller's value of --tenant-key")
	flags.BoolVar(&f.Setup, "with-setup", false, "also allow DescribeTable")
	flags.BoolVar(&f.explain, "explain", false, "print which pattern needs which action, instead of the policy")
	flags.BoolVar(&f.json, "json", false, "with --explain: print the policy and the reasons as JSON; a policy always is JSON")
	flags.StringVarP(&f.out, "output", "o", "", "file to write; defaults to standard output")
	return cmd
}

var (
	regionForm   = regexp.MustCompile(`^(\*|[a-z]{2}(-[a-z]+)+-[0-9]+)$`)
	accountForm  = regexp.MustCompile(`^(\*|[0-9]{12})$`)
	variableForm = regexp.MustCompile(`^[A-Za-z0-9.:/_-]+$`)
)

// check returns the error of flags that have no meaning for a model.
func (f *modelPolicyFlags) check(m *model.Model) error {
	f.Role = iam.Role(f.role)
	f.TenantVariable = strings.TrimSuffix(strings.TrimPrefix(f.tenantVariable, "${"), "}")
	switch {
	case !slices.Contains(iam.Roles, f.Role):
		return usageError{fmt.Errorf("--role is %q, but must be all, reader, writer or consumer", f.role)}
	case f.Role == iam.Consumer && len(f.Groups) > 0:
		return usageError{errors.New("--role consumer cannot be combined with --group, which names access patterns")}
	case !regionForm.MatchString(f.Region):
		return usageError{fmt.Errorf("--region is %q, but must be a region such as us-east-1, or *", f.Region)}
	case !accountForm.MatchString(f.Account):
		return usageError{fmt.Errorf("--account is %q, but must have 12 digits, or be *", f.Account)}
	case !variableForm.MatchString(f.TenantVariable):
		return usageError{fmt.Errorf("--tenant-variable is %q, but must be a variable such as %s", f.tenantVariable, iam.DefaultTenantVariable)}
	case f.TenantKey == "" && f.tenantVariable != iam.DefaultTenantVariable:
		return usageError{errors.New("--tenant-variable requires --tenant-key")}
	case f.TenantKey != "" && !slices.ContainsFunc(m.Entities, func(e *model.Entity) bool { _, ok := e.Field(f.TenantKey); return ok }):
		return usageError{fmt.Errorf("--tenant-key is %q, but no entity of the model has that attribute", f.TenantKey)}
	}
	var groups []string
	for _, p := range m.Patterns {
		if p.Group != "" && !slices.Contains(groups, p.Group) {
			groups = append(groups, p.Group)
		}
	}
	for _, g := range f.Groups {
		if !slices.Contains(groups, g) {
			known := "it has no groups"
			if len(groups) > 0 {
				known = "its groups are " + strings.Join(groups, ", ")
			}
			return usageError{fmt.Errorf("--group is %q, but no access pattern of the model has that group; %s", g, known)}
		}
	}
	return nil
}

func (f *modelPolicyFlags) write(file string, stdout, stderr io.Writer) error {
	m, err := readModel(file)
	if err != nil {
		return err
	}
	if err := f.check(m); err != nil {
		return err
	}
	g, err := iam.Generate(m, f.PolicyOptions)
	var tenant *iam.TenantError
	switch {
	case errors.As(err, &tenant):
		return fmt.Errorf("%s: not all partition keys begin with {%s}; these prevent a policy for one tenant:\n        %s", file, tenant.Attribute,
			strings.ReplaceAll(err.Error(), "\n", "\n        "))
	case err != nil:
		return fmt.Errorf("cannot write a policy for %s: %s", file, strings.ReplaceAll(err.Error(), "\n", "\n        "))
	}
	var text bytes.Buffer
	if err := encodeIndented(&text, g.Policy); err != nil {
		return err
	}
	if err := f.note(stderr, g, text.Bytes()); err != nil {
		return err
	}
	render := func(w io.Writer) error {
		switch {
		case f.explain && f.json:
			return encodeIndented(w, g)
		case f.explain:
			return printNeeds(w, g)
		}
		_, err := w.Write(text.Bytes())
		return err
	}
	if f.out != "" {
		return writeDocument(f.out, render)
	}
	return render(stdout)
}

// maxManagedPolicy is how many characters other than white space a managed policy of AWS can have.
const maxManagedPolicy = 6144

// note prints what is worth knowing about a policy.
func (f *modelPolicyFlags) note(w io.Writer, g *iam.Generated, text []byte) error {
	doc, err := policy.Parse(policy.Identity, text)
	if err != nil {
		return fmt.Errorf("the policy would be invalid: %w", err)
	}
	for _, found := range policy.Check(doc) {
		fmt.Fprintf(w, "%-9s%s: %s\n", found.Severity, found.Sid, found.Text)
	}
	for _, n := range g.Needs {
		if n.Operation == "Scan" {
			fmt.Fprintf(w, "%-9s%q needs dynamodb:Scan, which reads all items\n", "note", n.Pattern)
		}
	}
	if size := len(strings.Join(strings.Fields(string(text)), "")); size > maxManagedPolicy {
		fmt.Fprintf(w, "%-9sthe policy has %d characters without white space; a managed policy of AWS can have %d: write one for each --group or --role\n", "note", size, maxManagedPolicy)
	}
	return nil
}

// printNeeds prints which pattern needs which action.
func printNeeds(w io.Writer, g *iam.Generated) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "PATTERN\tREQUEST\tACTION\tRESOURCE\tSTATEMENT")
	last := ""
	for _, n := range g.Needs {
		who, request := n.Pattern, n.Operation
		if who == "" {
			who = "(" + n.For + ")"
		}
		if who == last {
			who, request = "", ""
		} else {
			last = who
		}
		if n.Pattern == "" {
			request = n.Operation
		}
		_, resource, _ := strings.Cut(n.Resource, ":table/")
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\n", who, request, strings.TrimPrefix(n.Action, "dynamodb:"), "table/"+resource, n.Statement)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	actions := make(map[string]bool)
	patterns := make(map[string]bool)
	for _, n := range g.Needs {
		actions[n.Action] = true
		if n.Pattern != "" {
			patterns[n.Pattern] = true
		}
	}
	_, err := fmt.Fprintf(w, "\n%s%s need %s in %s\n", painterFor(w).status(model.StatusOK), plural(len(patterns), "access pattern"),
		plural(len(actions), "action"), plural(len(g.Policy.Statement), "statement"))
	return err
}
