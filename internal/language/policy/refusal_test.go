package policy

import "testing"

// The message of a refusal ends as the service's does.
func TestRefusal(t *testing.T) {
	p, err := NewPrincipal("arn:aws:sts::111122223333:assumed-role/app/s1", "")
	if err != nil {
		t.Fatal(err)
	}
	r := &Request{Principal: p, Action: "dynamodb:GetItem", Resource: "arn:aws:dynamodb:us-east-1:111122223333:table/Orders"}
	const start = "User: arn:aws:sts::111122223333:assumed-role/app/s1 is not authorized to perform: dynamodb:GetItem on resource: arn:aws:dynamodb:us-east-1:111122223333:table/Orders "
	for reason, want := range map[Reason]string{
		NoIdentityAllows: "because no identity-based policy allows the dynamodb:GetItem action",
		NoResourceAllows: "because no resource-based policy allows the dynamodb:GetItem action",
		NoBoundaryAllows: "because no permissions boundary allows the dynamodb:GetItem action",
		NoSessionAllows:  "because no session policy allows the dynamodb:GetItem action",
		DeniedByIdentity: "with an explicit deny in an identity-based policy",
		DeniedByResource: "with an explicit deny in a resource-based policy",
		DeniedByBoundary: "with an explicit deny in a permissions boundary",
		DeniedBySession:  "with an explicit deny in a session policy",
	} {
		if got := Refusal(r, Verdict{Reason: reason}); got != start+want {
			t.Errorf("the message is\n%s\nwant\n%s", got, start+want)
		}
	}
}
