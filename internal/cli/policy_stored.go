package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/internal/language/policy"
	"github.com/stator-db/stator/internal/protocol/api"
)

// storedPolicyFlags are the flags of all commands about policies in the database of a server.
type storedPolicyFlags struct {
	endpointFlags
	json bool
}

func (f *storedPolicyFlags) add(cmd *cobra.Command) {
	f.endpointFlags.add(cmd, "URL of a server with --policies database")
	cmd.Flags().BoolVar(&f.json, "json", false, "print as JSON")
}

// print prints a reply as JSON, or the text.
func (f *storedPolicyFlags) print(w io.Writer, reply any, format string, args ...any) error {
	if f.json {
		return json.NewEncoder(w).Encode(reply)
	}
	_, err := fmt.Fprintf(w, format, args...)
	return err
}

// storedChange is a change of a principal, as it is printed.
type storedChange struct {
	Principal string `json:"principal"`
	Revision  string `json:"revision,omitempty"`
	Deleted   bool   `json:"deleted,omitempty"`
}

// expectedRevision adds the flag of the revision that a change is based on.
func expectedRevision(cmd *cobra.Command, revision *string) {
	cmd.Flags().StringVar(revision, "expected-revision", "", "fail if the stored principal does not have this revision, which get and list print; NO_POLICY if there must be none")
}

func policyPutCommand() *cobra.Command {
	var f storedPolicyFlags
	var files, tags, sessions []string
	var boundary, revision string
	cmd := &cobra.Command{
		Use:   "put PRINCIPAL",
		Short: "Store the policies of a principal in the database of a server",
		Long: `Store the policies of a principal, a user or a role, in the database of a server with
--policies database. They replace all that is stored of the principal. All servers of the
database use them when the command returns.

  stator policy put arn:aws:iam::000000000000:user/alice --policy alice.json \
    --tag tenant=blue --endpoint http://127.0.0.1:8000`,
		Args: arguments(1, "the ARN of a user or a role"),
		RunE: func(cmd *cobra.Command, args []string) error {
			in, err := principalOf(args[0], files, boundary, tags, sessions)
			if err != nil {
				return err
			}
			if revision != "" {
				in.ExpectedRevisionId = &revision
			}
			var reply api.PutPrincipalReply
			if err := sendOwn(cmd.Context(), &f.endpointFlags, "PutPrincipal", in, &reply); err != nil {
				return fmt.Errorf("cannot store the policies of %s on %s: %w", args[0], f.endpoint, err)
			}
			return f.print(cmd.OutOrStdout(), storedChange{Principal: args[0], Revision: reply.RevisionId},
				"stored %s as revision %s; all servers of the database use it\n", args[0], reply.RevisionId)
		},
	}
	f.add(cmd)
	flags := cmd.Flags()
	flags.StringArrayVar(&files, "policy", nil, "file with a policy of the principal; can be repeated")
	flags.StringVar(&boundary, "boundary", "", "file with the permissions boundary of the principal")
	flags.StringArrayVar(&tags, "tag", nil, "tag of the principal as KEY=VALUE, the value of aws:PrincipalTag/KEY; can be repeated")
	flags.StringArrayVar(&sessions, "session", nil, "session of a role with a policy of its own, as NAME=FILE; can be repeated, also for several policies of a session")
	expectedRevision(cmd, &revision)
	return cmd
}

// principalOf returns the request to store a principal. Its files are checked, so that mistakes are
// reported with their paths.
func principalOf(arn string, files []string, boundary string, tags, sessions []string) (*api.PutPrincipal, error) {
	in := &api.PutPrincipal{PrincipalArn: &arn, Tags: make(map[string]string)}
	for _, file := range files {
		p, err := policyOf(policy.Identity, file)
		if err != nil {
			return nil, err
		}
		in.Policies = append(in.Policies, p)
	}
	if boundary != "" {
		p, err := policyOf(policy.Boundary, boundary)
		if err != nil {
			return nil, err
		}
		in.Boundary = &p
	}
	for _, tag := range tags {
		key, value, ok := strings.Cut(tag, "=")
		if !ok || key == "" {
			return nil, usageError{fmt.Errorf("--tag is %q, but must be KEY=VALUE", tag)}
		}
		in.Tags[key] = value
	}
	for _, session := range sessions {
		name, file, ok := strings.Cut(session, "=")
		if !ok || name == "" {
			return nil, usageError{fmt.Errorf("--session is %q, but must be NAME=FILE", session)}
		}
		p, err := policyOf(policy.Session, file)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(in.Sessions, func(s api.PrincipalSession) bool { return *s.Name == name })
		if i < 0 {
			i = len(in.Sessions)
			in.Sessions = append(in.Sessions, api.PrincipalSession{Name: &name})
		}
		in.Sessions[i].Policies = append(in.Sessions[i].Policies, p)
	}
	return in, nil
}

// policyOf reads a policy, which is named after its file.
func policyOf(kind policy.Kind, file string) (api.PrincipalPolicy, error) {
	_, text, err := readPolicy(kind, file)
	if err != nil {
		return api.PrincipalPolicy{}, err
	}
	name, document := filepath.Base(file), string(text)
	return api.PrincipalPolicy{Name: &name, Document: &document}, nil
}

func policyGetCommand() *cobra.Command {
	var f storedPolicyFlags
	cmd := &cobra.Command{
		Use:   "get PRINCIPAL",
		Short: "Print the policies of a principal in the database of a server",
		Args:  arguments(1, "the ARN of a user or a role"),
		RunE: func(cmd *cobra.Command, args []string) error {
			var reply api.GetPrincipalReply
			if err := sendOwn(cmd.Context(), &f.endpointFlags, "GetPrincipal", map[string]string{"PrincipalArn": args[0]}, &reply); err != nil {
				return fmt.Errorf("cannot get the policies of %s on %s: %w", args[0], f.endpoint, err)
			}
			if f.json {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(shownPrincipalOf(&reply))
			}
			return printPrincipal(cmd.OutOrStdout(), &reply)
		},
	}
	f.add(cmd)
	return cmd
}

// shownDefinition is a principal as JSON.
type shownDefinition struct {
	Principal string            `json:"principal"`
	Revision  string            `json:"revision"`
	Tags      map[string]string `json:"tags,omitempty"`
	Policies  []shownPolicy     `json:"policies"`
}

// shownPolicy is a policy of a principal as JSON.
type shownPolicy struct {
	Kind     string          `json:"kind"` // identity, boundary or session
	Session  string          `json:"session,omitempty"`
	Name     string          `json:"name"`
	Document json.RawMessage `json:"document"`
}

func shownPrincipalOf(r *api.GetPrincipalReply) shownDefinition {
	s := shownDefinition{Principal: r.PrincipalArn, Revision: r.RevisionId, Tags: r.Tags, Policies: []shownPolicy{}}
	add := func(kind, session string, list ...api.PrincipalPolicy) {
		for _, p := range list {
			s.Policies = append(s.Policies, shownPolicy{Kind: kind, Session: session, Name: *p.Name, Document: json.RawMessage(*p.Document)})
		}
	}
	add("identity", "", r.Policies...)
	if r.Boundary != nil {
		add("boundary", "", *r.Boundary)
	}
	for _, one := range r.Sessions {
		add("session", *one.Name, one.Policies...)
	}
	return s
}

func printPrincipal(w io.Writer, r *api.GetPrincipalReply) error {
	s := shownPrincipalOf(r)
	fmt.Fprintf(w, "principal  %s\nrevision   %s\n", s.Principal, s.Revision)
	if len(s.Tags) > 0 {
		fmt.Fprintf(w, "tags       %s\n", tagsText(s.Tags))
	}
	for _, p := range s.Policies {
		kind := p.Kind + " policy"
		if p.Kind == "boundary" {
			kind = "permissions boundary"
		}
		if p.Session != "" {
			kind += " of " + p.Session
		}
		fmt.Fprintf(w, "\n%s %s:\n%s\n", kind, p.Name, strings.TrimRight(string(p.Document), "\r\n"))
	}
	return nil
}

func tagsText(tags map[string]string) string {
	var list []string
	for _, key := range slices.Sorted(maps.Keys(tags)) {
		list = append(list, key+"="+tags[key])
	}
	return strings.Join(list, ", ")
}

func policyListCommand() *cobra.Command {
	var f storedPolicyFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List the principals of a server, in its file and in its database",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			var reply api.ListPrincipalsReply
			if err := sendOwn(cmd.Context(), &f.endpointFlags, "ListPrincipals", struct{}{}, &reply); err != nil {
				return fmt.Errorf("cannot list the principals of %s: %w", f.endpoint, err)
			}
			return printPrincipals(cmd.OutOrStdout(), reply.Principals, f.json)
		},
	}
	f.add(cmd)
	return cmd
}

// shownPrincipal is a principal of a list.
type shownPrincipal struct {
	Principal string            `json:"principal"`
	Policies  []string          `json:"policies,omitempty"`
	Boundary  string            `json:"boundary,omitempty"`
	Tags      map[string]string `json:"tags,omitempty"`
	Sessions  []string          `json:"sessions,omitempty"`
	Source    string            `json:"source"`
	Revision  string            `json:"revision,omitempty"`
}

func printPrincipals(w io.Writer, list []api.PrincipalDescription, asJSON bool) error {
	all := []shownPrincipal{}
	for _, p := range list {
		all = append(all, shownPrincipal{p.PrincipalArn, p.Policies, p.Boundary, p.Tags, p.Sessions, p.Source, p.RevisionId})
	}
	if asJSON {
		return json.NewEncoder(w).Encode(all)
	}
	dash := func(text string) string {
		if text == "" {
			return "-"
		}
		return text
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "PRINCIPAL\tPOLICIES\tBOUNDARY\tTAGS\tSESSIONS\tSOURCE\tREVISION")
	for _, p := range all {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", p.Principal, dash(strings.Join(p.Policies, ", ")), dash(p.Boundary), dash(tagsText(p.Tags)), dash(strings.Join(p.Sessions, ", ")), p.Source, dash(p.Revision))
	}
	return table.Flush()
}

func policyDeleteCommand() *cobra.Command {
	var f storedPolicyFlags
	var revision string
	cmd := &cobra.Command{
		Use:   "delete PRINCIPAL",
		Short: "Remove the policies of a principal from the database of a server",
		Long: `Remove the policies of a principal from the database of a server. The principal may do
nothing then, on any server, when the command returns. Its access keys stay.`,
		Args: arguments(1, "the ARN of a user or a role"),
		RunE: func(cmd *cobra.Command, args []string) error {
			in := map[string]string{"PrincipalArn": args[0]}
			if revision != "" {
				in["ExpectedRevisionId"] = revision
			}
			var reply api.DeletePrincipalReply
			if err := sendOwn(cmd.Context(), &f.endpointFlags, "DeletePrincipal", in, &reply); err != nil {
				return fmt.Errorf("cannot delete the policies of %s on %s: %w", args[0], f.endpoint, err)
			}
			return f.print(cmd.OutOrStdout(), storedChange{Principal: args[0], Deleted: true}, "deleted %s; no server of the database uses its policies any more\n", args[0])
		},
	}
	f.add(cmd)
	expectedRevision(cmd, &revision)
	return cmd
}
