package cli

import (
	"cmp"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/stator-db/stator/internal/language/policy"
)

// printExplained prints the decision, the permissions, and the statements that matter for
// those that are denied, or, of a request that is allowed, for all of them.
func printExplained(w io.Writer, r *explainedRequest, all bool) error {
	what := r.Operation + " by " + r.Principal
	if r.RequestID != "" {
		what += " at " + r.Time + ", request " + r.RequestID
	}
	paint := painterFor(w)
	if r.Allowed {
		fmt.Fprintf(w, "%s%s\n", paint.status("allowed"), what)
	} else {
		fmt.Fprintf(w, "%s%s\n         AccessDeniedException: %s\n", paint.status("denied"), what, r.Message)
	}
	for _, note := range r.Notes {
		fmt.Fprintf(w, "%s%s\n", paint.status("note"), note)
	}
	if len(r.Permissions) > 0 {
		out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(out, "\nNEEDS\tON\tVERDICT\tBECAUSE")
		for i := range r.Permissions {
			p := &r.Permissions[i]
			fmt.Fprintf(out, "%s\t%s\t%s\t%s\n", p.Action, p.Resource, verdictWord(p.Allowed), p.because())
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
	for i := range r.Permissions {
		if p := &r.Permissions[i]; all || r.Allowed || !p.Allowed {
			p.print(w, r, all)
		}
	}
	return nil
}

func verdictWord(allowed bool) string {
	if allowed {
		return "allowed"
	}
	return "denied"
}

// because says what decided.
func (p *explainedPermission) because() string {
	for i := range p.Statements {
		if s := &p.Statements[i]; s.Decided {
			return verb(s) + " by " + whereOf(s)
		}
	}
	reason := strings.TrimPrefix(p.Reason, "because ")
	return strings.Replace(reason, "the requested action", "it", 1)
}

func verb(s *policy.StatementTrace) string {
	if s.Effect == policy.Deny.String() {
		return "explicitly denied"
	}
	return "allowed"
}

// whereOf names a statement by its file, line and Sid.
func whereOf(s *policy.StatementTrace) string {
	where := fmt.Sprintf("%s %d, statement %d", s.Policy, s.Document+1, s.Statement+1)
	if s.File != "" {
		where = fmt.Sprintf("%s:%d", s.File, s.Line)
	}
	if s.Sid != "" {
		where += " (" + s.Sid + ")"
	}
	return where
}

// print prints the statements of a permission: the one that decided or that comes nearest,
// and others about the action and the resource.
func (p *explainedPermission) print(w io.Writer, of *explainedRequest, all bool) {
	fmt.Fprintf(w, "\n%s on %s: %s\n", p.Action, p.Resource, verdictWord(p.Allowed))
	if p.Message != of.Message {
		fmt.Fprintf(w, "  %s\n", p.Message)
	}
	other := 0
	for i := range p.Statements {
		s := &p.Statements[i]
		if !all && !s.Decided && !s.Nearest && !(s.Action && s.Resource) {
			other++
			continue
		}
		printStatement(w, s)
	}
	switch {
	case len(p.Statements) == 0:
		fmt.Fprintln(w, "  no policy applies to the principal or to the resource")
	case other > 0:
		fmt.Fprintf(w, "  %s about other actions or resources: --all prints them\n", plural(other, "statement"))
	}
}

// printStatement prints a statement with its conditions.
func printStatement(w io.Writer, s *policy.StatementTrace) {
	fmt.Fprintf(w, "  %s, %s in the %s: %s\n", whereOf(s), s.Effect, s.Policy, compared(s))
	for _, note := range s.Notes {
		fmt.Fprintf(w, "    %s\n", note)
	}
	if len(s.Conditions) == 0 {
		return
	}
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "    CONDITION\tKEY\tREQUEST\tSTATEMENT\tHOLDS")
	for i := range s.Conditions {
		c := &s.Conditions[i]
		request, holds := "-", "no"
		if c.Present {
			request = listed(c.Request)
		}
		if c.Holds {
			holds = "yes"
		}
		if c.Note != "" {
			holds += ": " + c.Note
		}
		statement := listed(c.Values)
		if len(c.Resolved) > 0 {
			statement = listed(c.Resolved) + ", from " + statement
		}
		fmt.Fprintf(out, "    %s\t%s\t%s\t%s\t%s\n", c.Operator, c.Key, request, statement, holds)
	}
	_ = out.Flush() // the errors of w come again
}

// compared says how a statement compares with the request.
func compared(s *policy.StatementTrace) string {
	text := ""
	switch {
	case s.Matches && s.Effect == policy.Deny.String():
		text = "denies it"
	case s.Matches:
		text = "allows it"
	}
	if s.Decided {
		return text + ", and decides"
	}
	if s.Matches {
		return text
	}
	var missing []string
	for _, element := range []struct {
		matches bool
		name    string
	}{{s.Principal, "principal"}, {s.Action, "action"}, {s.Resource, "resource"}} {
		if !element.matches {
			missing = append(missing, "another "+element.name)
		}
	}
	failing := 0
	for i := range s.Conditions {
		if !s.Conditions[i].Holds {
			failing++
		}
	}
	if failing > 0 {
		missing = append(missing, plural(failing, "false condition"))
	}
	text = "does not match: " + cmp.Or(strings.Join(missing, ", "), "see below")
	if s.Nearest {
		return "nearest to allow it, but " + text
	}
	return text
}

// listed returns values in quotes; of many the first ones.
func listed(values []string) string {
	const most = 10
	var quoted []string
	for i, v := range values {
		if i == most {
			quoted = append(quoted, fmt.Sprintf("and %d more", len(values)-most))
			break
		}
		quoted = append(quoted, fmt.Sprintf("%q", v))
	}
	return cmp.Or(strings.Join(quoted, " "), "none")
}
