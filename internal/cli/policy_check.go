package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/internal/language/policy"
)

// policyKinds are the values of --kind. A permissions boundary and a session policy have
// the form of an identity policy.
var policyKinds = map[string]policy.Kind{"identity": policy.Identity, "resource": policy.Resource}

func policyCheckCommand() *cobra.Command {
	var kind string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "check FILE...",
		Short: "Find statements of policies that do not do what they seem to do",
		Long: `Check the syntax of IAM policies, and find actions and condition keys that do not
exist, statements that match no request, conditions that some actions never have, and
wildcards that allow more than their names suggest. docs/policies.md lists the rules.

The exit code is 1 if an error or a warning is found, and 2 if a file is no policy.

  stator policy check app.json tables/*.policy.json`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError{fmt.Errorf("%s needs at least one file", cmd.CommandPath())}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, files []string) error {
			if _, ok := policyKinds[kind]; !ok && kind != "" {
				return usageError{fmt.Errorf("--kind is %q, but must be identity or resource", kind)}
			}
			result := policyResult{OK: true}
			var faulty error
			for _, file := range files {
				checked, err := checkPolicyFile(file, kind)
				if err != nil {
					return err
				}
				result.add(checked)
				faulty = worse(faulty, checked.err())
			}
			out := cmd.OutOrStdout()
			var err error
			if asJSON {
				err = printPoliciesJSON(out, &result)
			} else {
				err = printPolicies(out, &result)
			}
			return errors.Join(err, faulty)
		},
	}
	cmd.Flags().StringVar(&kind, "kind", "", "identity or resource; by default a policy that names principals is a resource policy")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

// policyResult is the result of check as JSON.
type policyResult struct {
	OK    bool            `json:"ok"` // there is no error and no warning
	Files []checkedPolicy `json:"files"`
}

// checkedPolicy is what was found in one file.
type checkedPolicy struct {
	File       string            `json:"file"`
	Kind       string            `json:"kind"`
	OK         bool              `json:"ok"`
	Statements int               `json:"statements"`
	Findings   []*policy.Finding `json:"findings"`

	invalid bool
}

func (r *policyResult) add(c *checkedPolicy) {
	r.Files = append(r.Files, *c)
	r.OK = r.OK && c.OK
}

// checkPolicyFile checks one file. The error is that of a file that cannot be read.
func checkPolicyFile(file, kindName string) (*checkedPolicy, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fileError{fmt.Errorf("cannot read the policy: %w", err)}
	}
	kind, ok := policyKinds[kindName]
	if !ok {
		kind = policy.DetectKind(text)
	}
	c := &checkedPolicy{File: file, Kind: "identity"}
	if kind == policy.Resource {
		c.Kind = "resource"
	}
	doc, err := policy.Parse(kind, text)
	var syntax *policy.SyntaxError
	switch {
	case errors.As(err, &syntax):
		c.invalid = true
		try := ""
		if ext := filepath.Ext(file); ext == ".yaml" || ext == ".yml" {
			try = "policies are JSON: if this is a file of principals, check the policies that it names"
		}
		for _, f := range syntax.Faults {
			c.Findings = append(c.Findings, &policy.Finding{Position: f.Position, Rule: "syntax", Severity: policy.SeverityError, Statement: -1, Text: f.Message, Try: try})
		}
		return c, nil
	case err != nil:
		return nil, err
	}
	c.Statements, c.Findings = len(doc.Statements), policy.Check(doc)
	c.OK = c.count(policy.SeverityError)+c.count(policy.SeverityWarning) == 0
	return c, nil
}

func (c *checkedPolicy) count(s policy.Severity) int {
	n := 0
	for _, f := range c.Findings {
		if f.Severity == s {
			n++
		}
	}
	return n
}

// summary says how much was found.
func (c *checkedPolicy) summary() string {
	var parts []string
	for _, s := range []policy.Severity{policy.SeverityError, policy.SeverityWarning, policy.SeverityNote} {
		if n := c.count(s); n > 0 {
			parts = append(parts, plural(n, string(s)))
		}
	}
	if len(parts) == 0 {
		return "nothing found"
	}
	return strings.Join(parts, ", ")
}

// err returns the error that sets the exit code.
func (c *checkedPolicy) err() error {
	switch {
	case c.invalid:
		return fileError{fmt.Errorf("%s: the policy is invalid", c.File)}
	case !c.OK:
		return fmt.Errorf("%s: %s", c.File, c.summary())
	default:
		return nil
	}
}

// worse returns the error of an invalid file before that of findings, and the first of
// two others.
func worse(a, b error) error {
	var file fileError
	if a == nil || b != nil && !errors.As(a, &file) && errors.As(b, &file) {
		return b
	}
	return a
}

func printPoliciesJSON(w io.Writer, r *policyResult) error {
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	out.SetEscapeHTML(false)
	return out.Encode(r)
}

// printPolicies prints a table of the findings, and a line for each file.
func printPolicies(w io.Writer, r *policyResult) error {
	found := 0
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range r.Files {
		for _, f := range c.Findings {
			if found++; found == 1 {
				fmt.Fprintln(out, "WHERE\tSEVERITY\tRULE\tFINDING")
			}
			fmt.Fprintf(out, "%s:%d:%d\t%s\t%s\t%s\n", c.File, f.Line, f.Column, f.Severity, f.Rule, f.Text)
			if f.Try != "" {
				fmt.Fprintf(out, "\t\t\t%s\n", f.Try)
			}
		}
	}
	if found > 0 {
		fmt.Fprintln(out)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	paint := painterFor(w)
	for _, c := range r.Files {
		word := "ok"
		if !c.OK {
			word = "fault"
		}
		what := c.Kind + " policy"
		if c.invalid {
			what = "invalid"
		} else {
			what += " with " + plural(c.Statements, "statement")
		}
		if _, err := fmt.Fprintf(w, "%s%s: %s: %s\n", paint.status(word), c.File, what, c.summary()); err != nil {
			return err
		}
	}
	return nil
}
