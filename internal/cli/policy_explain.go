package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/internal/language/policy"
	"github.com/stator-db/stator/internal/ops"
	"github.com/stator-db/stator/internal/protocol/api"
	"github.com/stator-db/stator/internal/protocol/principals"
)

// explainFlags are the flags of stator policy explain.
type explainFlags struct {
	endpointFlags
	requestID string

	principal, operation, request    string
	policies, boundary               string
	identity, session                []string
	tags                             map[string]string
	schema                           string
	definitions, resource            []string
	account, sourceIP, agent, moment string
	secure                           bool

	json, all bool
}

func policyExplainCommand() *cobra.Command {
	var f explainFlags
	cmd := &cobra.Command{
		Use:   "explain",
		Short: "Show why policies allow or deny a request",
		Long: `Show which permissions a request needs, and for each one the statement that decides,
its conditions with the values of the request, and the message of the
AccessDeniedException. The request is not sent: it is decided by the code of the
server, in memory.

  stator policy explain --policies policies.yaml --schema shop.model.yaml \
      --principal arn:aws:iam::000000000000:user/ana --operation PutItem --request put.json

With --request-id it is a request that a server has denied, by its x-amzn-RequestId:

  stator policy explain --request-id ID --endpoint http://127.0.0.1:8000

The exit code is 0 if the request is allowed, 1 if it is denied, and 2 if that cannot be
decided, because of a file, a request or a server.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.check(cmd); err != nil {
				return err
			}
			return f.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.principal, "principal", "", "ARN of the user, the session of a role, or the root user that makes the request")
	flags.StringVar(&f.operation, "operation", "", "name of the operation, such as PutItem, or of an action of stator that has none, such as GetModel")
	flags.StringVar(&f.request, "request", "", "JSON file with the body of the request; - is standard input")
	flags.StringVar(&f.policies, "policies", "", "YAML file of principals with their policies, as for stator serve")
	flags.StringArrayVar(&f.identity, "policy", nil, "policy of the principal, in place of --policies; may be repeated")
	flags.StringVar(&f.boundary, "boundary", "", "permissions boundary of the principal, with --policy")
	flags.StringArrayVar(&f.session, "session-policy", nil, "policy of the principal's session, with --policy; may be repeated")
	flags.StringToStringVar(&f.tags, "principal-tag", nil, "tag of the principal as KEY=VALUE, with --policy; may be repeated")
	flags.StringArrayVar(&f.resource, "resource-policy", nil, "policy of the table that the request names, or TABLE=FILE; may be repeated")
	flags.StringVar(&f.schema, "schema", "", "model with the keys of the tables")
	flags.StringArrayVar(&f.definitions, "table-definition", nil, "JSON file with the CreateTable request of a table, or with the reply of DescribeTable; may be repeated")
	f.add(cmd, "URL of the server that has the tables, or with --request-id that denied the request")
	flags.StringVar(&f.requestID, "request-id", "", "id of a request that the server of --endpoint has denied")
	flags.StringVar(&f.account, "account", "", "account of the tables (default 000000000000, that of a stator)")
	flags.StringVar(&f.sourceIP, "source-ip", "127.0.0.1", "address of the client, aws:SourceIp")
	flags.StringVar(&f.agent, "user-agent", "", "aws:UserAgent")
	flags.StringVar(&f.moment, "time", "", "time of the request, such as 2026-03-01T12:00:00Z (default now)")
	flags.BoolVar(&f.secure, "secure-transport", false, "the connection has TLS, aws:SecureTransport")
	flags.BoolVar(&f.all, "all", false, "also print statements about other actions and resources")
	flags.BoolVar(&f.json, "json", false, "print as JSON")
	return cmd
}

// check checks that the flags fit together.
func (f *explainFlags) check(cmd *cobra.Command) error {
	changed := func(names ...string) string {
		for _, name := range names {
			if cmd.Flags().Changed(name) {
				return name
			}
		}
		return ""
	}
	if f.requestID != "" {
		if other := changed("principal", "operation", "request", "policies", "policy", "boundary", "session-policy", "principal-tag", "resource-policy", "schema",
			"table-definition", "account", "source-ip", "user-agent", "time", "secure-transport"); other != "" {
			return usageError{fmt.Errorf("--%s describes a request, but with --request-id the server knows it", other)}
		}
		return nil
	}
	bare := ops.IsAction(f.operation) // it has no request
	if f.principal == "" || f.operation == "" || f.request == "" && !bare && ops.Known(f.operation) {
		return usageError{errors.New("a request has --principal, --operation and --request; for one that a server has denied give --request-id and --endpoint")}
	}
	if f.account != "" && (len(f.account) != 12 || strings.Trim(f.account, "0123456789") != "") {
		return usageError{fmt.Errorf("--account is %q, but must have twelve digits", f.account)}
	}
	if _, err := netip.ParseAddr(f.sourceIP); err != nil {
		return usageError{fmt.Errorf("--source-ip is %q, but must be an address such as 192.0.2.7", f.sourceIP)}
	}
	if bare && f.request != "" {
		return usageError{fmt.Errorf("%s has no --request: only its action stator:%s decides", f.operation, f.operation)}
	}
	if !bare && !ops.Known(f.operation) {
		return usageError{fmt.Errorf("there is no operation %q: --operation is a name such as PutItem or Query", f.operation)}
	}
	switch other := changed("policy", "boundary", "session-policy", "principal-tag"); {
	case f.policies != "" && other != "":
		return usageError{fmt.Errorf("--%s is in place of --policies, whose file has all that belongs to a principal", other)}
	case f.policies == "" && other == "" && len(f.resource) == 0:
		return usageError{errors.New("give the policies: --policies with a file of principals, or --policy with those of this one")}
	}
	return nil
}

func (f *explainFlags) run(ctx context.Context, stdin io.Reader, stdout io.Writer) error {
	decide := func() (*explainedRequest, error) { return f.decide(ctx, stdin) }
	if f.requestID != "" {
		decide = func() (*explainedRequest, error) { return f.ask(ctx) }
	}
	found, err := decide()
	if err != nil {
		return err
	}
	if f.json {
		out := json.NewEncoder(stdout)
		out.SetIndent("", "  ")
		out.SetEscapeHTML(false)
		err = out.Encode(found)
	} else {
		err = printExplained(stdout, found, f.all)
	}
	if err == nil && !found.Allowed {
		err = fmt.Errorf("%s is denied", found.Operation)
	}
	return err
}

// explainedRequest is a request with the decision about it, as JSON.
type explainedRequest struct {
	Allowed     bool                  `json:"allowed"`
	RequestID   string                `json:"requestId,omitempty"`
	Time        string                `json:"time,omitempty"`
	Operation   string                `json:"operation"`
	Principal   string                `json:"principal"`
	Message     string                `json:"message,omitempty"` // of the AccessDeniedException
	Permissions []explainedPermission `json:"permissions"`
	Notes       []string              `json:"notes,omitempty"`
}

// explainedPermission is a permission that a request needs.
type explainedPermission struct {
	Action     string                  `json:"action"`
	Resource   string                  `json:"resource"`
	Allowed    bool                    `json:"allowed"`
	Reason     string                  `json:"reason"`
	Message    string                  `json:"message,omitempty"` // of the AccessDeniedException
	Statements []policy.StatementTrace `json:"statements"`
}

// decide decides about the request of the flags.
func (f *explainFlags) decide(ctx context.Context, stdin io.Reader) (*explainedRequest, error) {
	id, err := f.readIdentity()
	if err != nil {
		return nil, err
	}
	now := time.Now
	if f.moment != "" {
		at, err := time.Parse(time.RFC3339, f.moment)
		if err != nil {
			return nil, usageError{fmt.Errorf("--time is %q, but must be a time such as 2026-03-01T12:00:00Z", f.moment)}
		}
		now = func() time.Time { return at }
	}
	r, err := f.readRequest(stdin)
	if err != nil {
		return nil, err
	}
	d, err := openDecider(ctx, f, now)
	if err != nil {
		return nil, err
	}
	defer d.Close()
	explained, err := d.explain(ctx, ops.Caller{Region: f.region, Identity: id, SourceIP: f.sourceIP, UserAgent: f.agent, Secure: f.secure}, r)
	if err == nil && f.policies != "" && !id.Listed && id.Principal.Kind != policy.Root {
		explained.note("%s does not have the principal %s: only policies of resources can allow something", f.policies, f.principal)
	}
	return explained, err
}

// readRequest returns the request that is decided about.
func (f *explainFlags) readRequest(stdin io.Reader) (ops.Request, error) {
	if ops.IsAction(f.operation) {
		return ops.ActionRequest(f.operation), nil
	}
	body, err := readBody(f.request, stdin)
	if err != nil {
		return ops.Request{}, fileError{fmt.Errorf("cannot read the request: %w", err)}
	}
	if err := json.Unmarshal(body, new(json.RawMessage)); err != nil {
		return ops.Request{}, fileError{fmt.Errorf("%s: the request is not JSON: %w", f.requestFile(), err)}
	}
	r, err := ops.Read(f.operation, body)
	if err != nil {
		err = f.rejected(err)
	}
	return r, err
}

// rejected returns the error of a request that a server rejects before it decides.
func (f *explainFlags) rejected(err error) error {
	return fileError{fmt.Errorf("%s: a server rejects the request before it decides: %w", f.requestFile(), err)}
}

// requestFile returns where the request comes from.
func (f *explainFlags) requestFile() string {
	if f.request == "-" {
		return "standard input"
	}
	return f.request
}

func readBody(path string, stdin io.Reader) ([]byte, error) {
	if path == "-" {
		return io.ReadAll(stdin)
	}
	return os.ReadFile(path) //nolint:gosec // the user names it
}

// readIdentity returns the principal with its policies.
func (f *explainFlags) readIdentity() (*principals.Identity, error) {
	set := new(principals.Set)
	if f.policies != "" {
		var err error
		if set, err = principals.Read(f.policies); err != nil {
			return nil, fileError{fmt.Errorf("cannot use --policies: %w", err)}
		}
	}
	id, err := set.Identity(f.principal)
	if err != nil {
		return nil, usageError{fmt.Errorf("--principal: %w", err)}
	}
	if f.policies != "" {
		return id, nil
	}
	id.Tags = f.tags
	for _, file := range f.identity {
		if id.Policies.Identity, err = appendPolicy(id.Policies.Identity, policy.Identity, file); err != nil {
			return nil, err
		}
	}
	for _, file := range f.session {
		if id.Policies.Session, err = appendPolicy(id.Policies.Session, policy.Session, file); err != nil {
			return nil, err
		}
	}
	if f.boundary != "" {
		if id.Policies.Boundary, _, err = readPolicy(policy.Boundary, f.boundary); err != nil {
			return nil, err
		}
	}
	return id, nil
}

func appendPolicy(all []*policy.Document, kind policy.Kind, file string) ([]*policy.Document, error) {
	d, _, err := readPolicy(kind, file)
	return append(all, d), err
}

// readPolicy reads a policy, and returns its text as well.
func readPolicy(kind policy.Kind, file string) (*policy.Document, []byte, error) {
	text, err := os.ReadFile(file) //nolint:gosec // the user names it
	if err != nil {
		return nil, nil, fileError{fmt.Errorf("cannot read the policy: %w", err)}
	}
	d, err := policy.Parse(kind, text)
	if err != nil {
		return nil, nil, fileError{fmt.Errorf("%s:%w", file, err)}
	}
	d.File = file
	return d, text, nil
}

// ask asks a server why it has denied a request.
func (f *explainFlags) ask(ctx context.Context) (*explainedRequest, error) {
	server, err := f.open()
	if err != nil {
		return nil, err
	}
	text, err := server.SendOwn(ctx, "ExplainDenial", map[string]string{"RequestId": f.requestID})
	if err != nil {
		return nil, fileError{fmt.Errorf("%s does not explain the request: %w", f.endpoint, err)}
	}
	var reply api.ExplainDenialReply
	if err := json.Unmarshal(text, &reply); err != nil {
		return nil, fileError{fmt.Errorf("read the reply of %s: %w", f.endpoint, err)}
	}
	p := explainedPermission{Action: reply.Action, Resource: reply.Resource, Reason: reply.Reason, Message: reply.Message, Statements: []policy.StatementTrace{}}
	for _, s := range reply.Statements {
		p.Statements = append(p.Statements, traceOf(&s))
	}
	return &explainedRequest{RequestID: reply.RequestId, Time: reply.Time, Operation: reply.Operation, Principal: reply.Principal, Message: reply.Message,
		Permissions: []explainedPermission{p}}, nil
}

// traceOf returns a statement of a reply.
func traceOf(s *api.ExplainedStatement) policy.StatementTrace {
	t := policy.StatementTrace{
		Policy: s.Policy, Document: s.Document, File: s.File, Statement: s.Statement, Line: s.Line, Sid: s.Sid, Effect: s.Effect, Decided: s.Decided, Nearest: s.Nearest,
		Matches: s.Matches, Principal: s.Principal, Action: s.Action, Resource: s.Resource, Notes: s.Notes,
	}
	for _, c := range s.Conditions {
		t.Conditions = append(t.Conditions, policy.ConditionTrace{Operator: c.Operator, Key: c.Key, Values: append([]string{}, c.Values...), Resolved: c.Resolved,
			Present: c.Present, Request: append([]string{}, c.Request...), Holds: c.Holds, Note: c.Note})
	}
	return t
}
