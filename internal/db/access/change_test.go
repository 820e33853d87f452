package access

import (
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/protocol/principals"
)

// Names that are stored are printed on the terminals of other administrators, whom control characters
// could deceive.
func TestNamesCanBePrinted(t *testing.T) {
	const allow = `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"dynamodb:GetItem","Resource":"*"}}`
	define := func(arn, policy, boundary, session, key, value string) error {
		return checkDefinition(&principals.Definition{
			ARN: "arn:aws:iam::000000000000:role/" + arn, Policies: []principals.NamedPolicy{{Name: policy, Document: allow}},
			Boundary: &principals.NamedPolicy{Name: boundary, Document: allow}, Tags: map[string]string{key: value},
			Sessions: []principals.SessionPolicies{{Name: session, Policies: []principals.NamedPolicy{{Name: "s.json", Document: allow}}}},
		})
	}
	good := []string{"reports", "get.json", "boundary.json", "nightly", "team", "blue and \u00fc"}
	if err := define(good[0], good[1], good[2], good[3], good[4], good[5]); err != nil {
		t.Fatalf("the control: %v", err)
	}
	for i := range good {
		for _, bad := range []string{"\x1b[31m", "\n", "\x00", "\x7f", "\u202e", "\xff"} {
			with := append([]string(nil), good...)
			with[i] += bad
			if err := define(with[0], with[1], with[2], with[3], with[4], with[5]); err == nil || strings.Contains(err.Error(), bad) {
				t.Errorf("%q: the error is %v", with[i], err)
			}
		}
	}
}
