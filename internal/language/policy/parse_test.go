package policy

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// statementWith returns a document with one statement, whose members replace or add to those of a
// valid one.
func statementWith(members string) string {
	return `{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "dynamodb:GetItem", "Resource": "*", ` + members + `}}`
}

// Each fault has a place and says what is wrong.
func TestParseFaults(t *testing.T) {
	condition := func(c string) string { return statementWith(`"Condition": ` + c) }
	for _, c := range []struct {
		name, text, want string
	}{
		{"nothing", "", "1:1: this is not JSON: unexpected end of JSON input"},
		{"no JSON", "{\n  \"Version\": yes}", "2:14: this is not JSON: invalid character 'y' looking for beginning of value"},
		{"a comma too many", `{"Statement": [],}`, "1:18: this is not JSON: invalid character '}' looking for beginning of object key string"},
		{"text after the end", `{} {}`, "1:4: this is not JSON: invalid character '{' after top-level value"},
		{"no UTF-8", "{\"Id\": \"a\xff\"}", "1:10: this is not JSON: the text is not UTF-8"},
		{"too deep", strings.Repeat("[", 11) + strings.Repeat("]", 11), "1:11: the text is nested too deeply for a policy"},
		{"too large", `{"Id": "` + strings.Repeat("a", MaxBytes) + `"}`, "1:1: the document has 65546 bytes, but may have 65536"},
		{"a list", `[]`, "1:1: a policy is an object, but this is a list"},
		{"an unknown member", `{"version": "2012-10-17"}`, `1:2: a policy has no member "version"; did you mean Version?`},
		{"a duplicate member", `{"Id": "a", "Id": "b", "Statement": []}`, "1:13: the member Id is there twice"},
		{"an unknown version", `{"Version": "2012-10-18", "Statement": [{"Effect": "Deny", "Action": "*", "Resource": "*"}]}`, `1:13: Version is "2012-10-18", but must be 2012-10-17 or 2008-10-17`},
		{"a version that is no string", `{"Version": 2012, "Statement": []}`, "1:13: Version must be a string, but is a number or a boolean"},
		{"no statement", `{"Version": "2012-10-17"}`, "1:1: the policy has no Statement"},
		{"an empty list of statements", `{"Statement": []}`, "1:1: the policy has no Statement"},
		{"a statement that is a string", `{"Statement": "Allow"}`, "1:15: Statement must be a list of objects, but is a string"},
		{"a list of strings", `{"Statement": ["Allow"]}`, "1:16: a statement is an object, but this is a string"},
		{"a misspelt member of a statement", `{"Statement": {"Effect": "Allow", "Actions": "*", "Resource": "*"}}`, `1:35: a statement has no member "Actions"; did you mean Action?`},
		{"no effect", `{"Statement": {"Action": "*", "Resource": "*"}}`, "1:15: Effect is missing"},
		{"another effect", `{"Statement": {"Effect": "allow", "Action": "*", "Resource": "*"}}`, `1:26: Effect is "allow", but must be Allow or Deny`},
		{"an effect that is null", `{"Statement": {"Effect": null, "Action": "*", "Resource": "*"}}`, "1:26: Effect must be a string, but is null"},
		{"no action", `{"Statement": {"Effect": "Allow", "Resource": "*"}}`, "1:15: Action is missing"},
		{"no resource", `{"Statement": {"Effect": "Allow", "Action": "*"}}`, "1:15: Resource is missing"},
		{"an action and its negation", statementWith(`"NotAction": "*"`), "a statement has Action or NotAction, not both"},
		{"a resource and its negation", statementWith(`"NotResource": "*"`), "a statement has Resource or NotResource, not both"},
		{"an empty list of actions", `{"Statement": {"Effect": "Allow", "Action": [], "Resource": "*"}}`, "1:45: Action is an empty list"},
		{"a number as an action", `{"Statement": {"Effect": "Allow", "Action": ["*", 1], "Resource": "*"}}`, "1:51: Action must be a string or a list of strings, but has a number or a boolean"},
		{"an action without a service", `{"Statement": {"Effect": "Allow", "Action": "GetItem", "Resource": "*"}}`, `the action "GetItem" is not of the form service:Action`},
		{"an action with a variable", `{"Statement": {"Effect": "Allow", "Action": "dynamodb:${a:b}", "Resource": "*"}}`, `the action "dynamodb:${a:b}" is not of the form`},
		{"a wildcard as the service", `{"Statement": {"Effect": "Allow", "Action": "dynamo*:GetItem", "Resource": "*"}}`, `the action "dynamo*:GetItem" is not of the form`},
		{"a resource that is no ARN", `{"Statement": {"Effect": "Allow", "Action": "*", "Resource": "Orders"}}`, `the resource "Orders" is neither an ARN`},
		{"a resource with too few fields", `{"Statement": {"Effect": "Allow", "Action": "*", "Resource": "arn:aws:dynamodb:table/Orders"}}`, "is neither an ARN"},
		{"a principal in an identity policy", statementWith(`"Principal": "*"`), "only resource-based policies name principals"},
		{"a Sid with a blank", statementWith(`"Sid": "a b"`), `the Sid "a b" may have letters and digits only`},
		{"a Sid twice", `{"Statement": [{"Sid": "a", "Effect": "Deny", "Action": "*", "Resource": "*"},` + "\n" + `{"Sid": "a", "Effect": "Deny", "Action": "*", "Resource": "*"}]}`, `2:9: the Sid "a" is already that of the statement in line 1`},
		{"a condition that is a list", condition(`[]`), "Condition must be an object, but is a list"},
		{"an unknown operator", condition(`{"StringEqual": {"aws:username": "a"}}`), `there is no condition operator "StringEqual"; did you mean StringEquals?`},
		{"an operator in another case", condition(`{"stringlike": {"aws:username": "a"}}`), `; did you mean StringLike?`},
		{"an unknown prefix", condition(`{"ForEachValue:StringEquals": {"aws:username": "a"}}`), "there is no condition operator"},
		{"Null with IfExists", condition(`{"NullIfExists": {"aws:username": "true"}}`), "there is no condition operator"},
		{"an operator twice", condition(`{"Bool": {"aws:SecureTransport": true}, "Bool": {"aws:SecureTransport": true}}`), "the member Bool is there twice"},
		{"an operator without keys", condition(`{"Bool": true}`), "Bool must be an object of condition keys, but is a number or a boolean"},
		{"a key without a service", condition(`{"StringEquals": {"username": "a"}}`), `the condition key "username" is not of the form service:Key`},
		{"a key twice", condition(`{"StringEquals": {"aws:username": "a", "aws:UserName": "b"}}`), `the condition key "aws:UserName" is there twice`},
		{"a value that is an object", condition(`{"StringEquals": {"aws:username": {}}}`), "a value of aws:username must be a string, a number or a boolean, but is an object"},
		{"a value that is null", condition(`{"StringEquals": {"aws:username": [null]}}`), "a value of aws:username must be a string, a number or a boolean, but is null"},
		{"no number", condition(`{"NumericEquals": {"aws:username": "1e3"}}`), `NumericEquals: "1e3" is not a number`},
		{"an empty number", condition(`{"NumericLessThan": {"aws:username": ""}}`), `"" is not a number`},
		{"no date", condition(`{"DateLessThan": {"aws:CurrentTime": "18.11.2026"}}`), `"18.11.2026" is not a date`},
		{"a date that does not exist", condition(`{"DateLessThan": {"aws:CurrentTime": "2026-02-30"}}`), `"2026-02-30" is not a date`},
		{"a date without a zone", condition(`{"DateLessThan": {"aws:CurrentTime": "2026-02-03T10:00:00"}}`), "is not a date"},
		{"no boolean", condition(`{"Bool": {"aws:SecureTransport": "yes"}}`), `"yes" is not true or false`},
		{"no boolean for Null", condition(`{"Null": {"aws:SecureTransport": "0"}}`), `"0" is not true or false`},
		{"no address", condition(`{"IpAddress": {"aws:SourceIp": "10.0.0"}}`), `"10.0.0" is not an IP address or a range`},
		{"an address beyond its bytes", condition(`{"IpAddress": {"aws:SourceIp": "10.0.0.256"}}`), "is not an IP address"},
		{"a range beyond its bits", condition(`{"IpAddress": {"aws:SourceIp": "10.0.0.0/33"}}`), "is not an IP address"},
		{"an address of IPv6 that is too long", condition(`{"IpAddress": {"aws:SourceIp": "1:2:3:4:5:6:7:8:9"}}`), "is not an IP address"},
		{"an address of IPv6 with two gaps", condition(`{"IpAddress": {"aws:SourceIp": "1::2::3"}}`), "is not an IP address"},
		{"no ARN", condition(`{"ArnLike": {"aws:PrincipalArn": "arn:aws:iam:role/a"}}`), `"arn:aws:iam:role/a" is not an ARN`},
		{"no base64", condition(`{"BinaryEquals": {"aws:username": "a"}}`), `"a" is not binary in base64`},
		{"a variable without an end", condition(`{"StringEquals": {"aws:username": "x${aws:username"}}`), "the variable ${aws:username has no closing brace"},
		{"a variable without a service", statementWith(`"NotPrincipal": 1, "Sid": "${"`), "may have letters and digits only"},
		{"an empty variable", condition(`{"StringEquals": {"aws:username": "${}"}}`), "the variable ${} does not name a condition key"},
		{"a variable that is no key", condition(`{"StringEquals": {"aws:username": "${name}"}}`), "the variable ${name} does not name a condition key"},
		{"a default without quotes", condition(`{"StringEquals": {"aws:username": "${aws:username, none}"}}`), "must be in single quotes"},
		{"a default with a quote too many", condition(`{"StringEquals": {"aws:username": "${aws:username, 'a'b'}"}}`), "must be in single quotes"},
		{"a variable in a resource", `{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "*", "Resource": "arn:aws:dynamodb:us-east-1:111122223333:table/${"}}`, "has no closing brace"},
		{"a variable in a number", condition(`{"NumericEquals": {"aws:username": "${aws:username}"}}`), "is not a number"},
	} {
		t.Run(c.name, func(t *testing.T) {
			doc, err := Parse(Identity, []byte(c.text))
			var syntax *SyntaxError
			if !errors.As(err, &syntax) || doc != nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("Parse(%.200s) = %v, want an error with %q", c.text, err, c.want)
			}
		})
	}
}

// All faults of a document are reported, in the order of the text, up to a limit.
func TestParseReportsAllFaults(t *testing.T) {
	_, err := Parse(Identity, []byte("{\"Statement\": [\n{\"Effect\": \"No\", \"Action\": \"x\", \"Resource\": \"*\"},\n{\"Effect\": \"Allow\"}]}"))
	want := "2:12: Effect is \"No\", but must be Allow or Deny\n" +
		"2:28: the action \"x\" is not of the form service:Action, such as dynamodb:GetItem, nor *\n" +
		"3:1: Action is missing\n3:1: Resource is missing"
	if err == nil || err.Error() != want {
		t.Errorf("the error is\n%v\nwant\n%s", err, want)
	}
	_, err = Parse(Identity, []byte(`{"Statement": [1`+strings.Repeat(", 1", 500)+`]}`))
	var syntax *SyntaxError
	if !errors.As(err, &syntax) || len(syntax.Faults) != maxFaults {
		t.Errorf("%d faults, want %d", len(syntax.Faults), maxFaults)
	}
}

// A string and a list of one are the same, as are a statement and a list of one.
func TestParseForms(t *testing.T) {
	one := mustParse(t, Identity, `{"Version": "2012-10-17", "Id": "x", "Statement": {"Sid": "a", "Effect": "Deny", "Action": "dynamodb:*", "Resource": "*", "Condition": {"Bool": {"aws:SecureTransport": false}, "NumericEquals": {"aws:PrincipalTag/n": -1.5}}}}`)
	list := mustParse(t, Identity, `{"Version": "2012-10-17", "Id": "x", "Statement": [{"Sid": "a", "Effect": "Deny", "Action": ["dynamodb:*"], "Resource": ["*"], "Condition": {"Bool": {"aws:SecureTransport": ["false"]}, "NumericEquals": {"aws:PrincipalTag/n": ["-1.5"]}}}]}`)
	if !one.Equal(list) {
		t.Errorf("%s and %s differ", one.Canonical(), list.Canonical())
	}
}

// All operators with all prefixes and suffixes are known.
func TestParseOperators(t *testing.T) {
	values := map[family]string{familyNumber: "1", familyDate: "2026-11-18", familyBool: "true", familyNull: "true", familyIP: "10.0.0.1", familyARN: "arn:aws:iam::111122223333:user/a"}
	all := allOperators()
	if want := 26*6 + 1; len(all) != want {
		t.Errorf("there are %d operators, want %d", len(all), want)
	}
	for _, name := range all {
		o, _, _, ok := parseOperator(name)
		if !ok {
			t.Errorf("%s is unknown", name)
		}
		mustParse(t, Identity, statementWith(fmt.Sprintf(`"Condition": {%q: {"aws:PrincipalTag/x": %q}}`, name, values[o.family])))
	}
}

// Principals of resource policies.
func TestParsePrincipals(t *testing.T) {
	for _, c := range []struct{ principal, want string }{
		{`"*"`, ""},
		{`{"AWS": "*"}`, ""},
		{`{"AWS": ["111122223333", "arn:aws:iam::111122223333:root"]}`, ""},
		{`{"AWS": "arn:aws:iam::111122223333:user/path/ana"}`, ""},
		{`{"AWS": "arn:aws-cn:iam::111122223333:role/app"}`, ""},
		{`{"AWS": "arn:aws:sts::111122223333:assumed-role/app/s"}`, ""},
		{`{"AWS": "AIDACKCEVSQ6C2EXAMPLE"}`, ""},
		{`{"Service": "replication.dynamodb.amazonaws.com", "Federated": "cognito-identity.amazonaws.com", "CanonicalUser": "79a5"}`, ""},
		{`"111122223333"`, "Principal must be"},
		{`{}`, "Principal is empty"},
		{`{"AWS": []}`, "AWS is an empty list"},
		{`{"aws": "*"}`, "did you mean AWS?"},
		{`{"AWS": "ana"}`, `"ana" is not a principal`},
		{`{"AWS": "12345"}`, `"12345" is not a principal`},
		{`{"AWS": "arn:aws:iam::111122223333:user/*"}`, "has a wildcard"},
		{`{"AWS": "arn:aws:iam::111122223333:user/"}`, "is not the ARN of an account, a user"},
		{`{"AWS": "arn:aws:iam::111122223333:group/g"}`, "is not the ARN of an account, a user"},
		{`{"AWS": "arn:aws:iam::1:user/ana"}`, "is not a principal"},
		{`{"Service": ""}`, "the principal is empty"},
	} {
		_, err := Parse(Resource, []byte(statementWith(`"Principal": `+c.principal)))
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("Principal %s: %v, want %q", c.principal, err, c.want)
		}
	}
	if _, err := Parse(Resource, []byte(statementWith(`"Sid": "a b"`))); err == nil || !strings.Contains(err.Error(), "Principal is missing") {
		t.Errorf("without a principal: %v", err)
	}
}

// The service's texts for resource policies.
func TestServiceText(t *testing.T) {
	const table = caseResource + "table/Orders"
	valid := func(members string) string {
		return `{"Statement": {"Effect": "Allow", "Principal": {"AWS": "111122223333"}, ` + members + `}}`
	}
	for _, c := range []struct{ name, text, want string }{
		{"no JSON", `{`, "Invalid policy document: This policy contains invalid Json"},
		{"no resource", valid(`"Action": "dynamodb:GetItem"`), "Invalid policy document: Missing required field Resource"},
		{"no principal", `{"Statement": {"Effect": "Allow", "Action": "dynamodb:GetItem", "Resource": "*"}}`, "Invalid policy document: Missing required field Principal"},
		{"no statement", `{"Statement": []}`, "Invalid policy document: Could not parse the policy: Statement is empty!"},
		{"a Sid twice", `{"Statement": [{"Sid": "a", "Effect": "Deny", "Principal": "*", "Action": "dynamodb:*", "Resource": "*"}, {"Sid": "a", "Effect": "Deny", "Principal": "*", "Action": "dynamodb:*", "Resource": "*"}]}`, "Invalid policy document: The Statement Ids in the policy are not unique"},
		{"stream actions on a table", valid(`"Action": ["dynamodb:GetRecords", "dynamodb:GetItem", "dynamodb:DescribeStream"], "Resource": "*"`), `Invalid policy document: The following action names are invalid: "dynamodb:GetRecords", "dynamodb:DescribeStream"`},
		{"an action on no resource", valid(`"Action": "dynamodb:ListStreams", "Resource": "*"`), `Invalid policy document: The following action names are invalid: "dynamodb:ListStreams"`},
		{"an action that does not exist", valid(`"Action": "dynamodb:GetItems", "Resource": "*"`), `Invalid policy document: The following action names are invalid: "dynamodb:GetItems"`},
		{"another resource", valid(`"Action": "dynamodb:GetItem", "Resource": "` + caseResource + `tables/Orders"`), `Invalid policy document: The relative-id "tables/Orders" is invalid for ARN "` + caseResource + `tables/Orders"`},
		{"an unknown member", `{"Statement": {"Effekt": "Allow"}}`, "Invalid policy document: Syntax error at position (1,16)"},
		{"an unknown principal", `{"Statement": {"Effect": "Allow", "Principal": {"AWS": "ana"}, "Action": "dynamodb:GetItem", "Resource": "*"}}`, "Invalid principal in policy document."},
		{"everyone", `{"Statement": {"Effect": "Allow", "Principal": "*", "Action": "dynamodb:GetItem", "Resource": "*"}}`, "Resource-based policy grants unbounded access in one or more elements. Please revise the policy to ensure least-privilege form of access"},
		{"everyone else", `{"Statement": {"Effect": "Allow", "NotPrincipal": {"AWS": "111122223333"}, "Action": "dynamodb:GetItem", "Resource": "*"}}`, "Resource-based policy grants unbounded access in one or more elements. Please revise the policy to ensure least-privilege form of access"},
		{"everyone with any address", `{"Statement": {"Effect": "Allow", "Principal": {"AWS": "*"}, "Action": "dynamodb:GetItem", "Resource": "*", "Condition": {"IpAddress": {"aws:SourceIp": "0.0.0.0/0"}}}}`, "Resource-based policy grants unbounded access in one or more elements. Please revise the policy to ensure least-privilege form of access"},
		{"everyone of an organization", `{"Statement": {"Effect": "Allow", "Principal": "*", "Action": "dynamodb:GetItem", "Resource": "*", "Condition": {"StringEquals": {"aws:PrincipalOrgID": "o-1"}}}}`, ""},
		{"too large", `{"Id": "` + strings.Repeat("a", MaxResourceBytes) + `"}`, "Maximum policy size of 20480 bytes exceeded"},
		{"wildcards", valid(`"Action": ["dynamodb:*", "dynamodb:Get*", "*"], "Resource": "` + caseResource + `table/O*"`), ""},
		{"an index and another table", valid(`"Action": "dynamodb:Query", "Resource": ["` + caseResource + `table/Orders/index/i", "` + caseResource + `table/Carts", "` + caseResource + `tab*"]`), ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			doc, err := Parse(Resource, []byte(c.text))
			if err == nil {
				err = doc.CheckTarget(table)
			}
			if got := ServiceText(err); got != c.want {
				t.Errorf("the text is %q, want %q (%v)", got, c.want, err)
			}
		})
	}
	stream := mustParse(t, Resource, valid(`"Action": ["dynamodb:GetRecords", "dynamodb:GetItem"], "Resource": "*"`))
	if got, want := ServiceText(stream.CheckTarget(table+"/stream/1")), `Invalid policy document: The following action names are invalid: "dynamodb:GetItem"`; got != want {
		t.Errorf("on a stream: %q, want %q", got, want)
	}
	if got := ServiceText(errors.New("other")); got != "" {
		t.Errorf("the text of another error is %q", got)
	}
}

// The kind of a document is known by its principals.
func TestDetectKind(t *testing.T) {
	for text, want := range map[string]Kind{
		statementWith(`"Principal": "*"`):                         Resource,
		`{"Statement": [{}, {"NotPrincipal": 1}]}`:                Resource,
		statementWith(`"Sid": "Principal"`):                       Identity,
		`{"Statement": {"Condition": {"a": {"Principal": "x"}}}}`: Identity,
		`[`: Identity, `3`: Identity, strings.Repeat(" ", MaxBytes+1): Identity,
	} {
		if got := DetectKind([]byte(text)); got != want {
			t.Errorf("DetectKind(%.80s) = %v, want %v", text, got, want)
		}
	}
}

// The forms of ARNs of principals.
func TestNewPrincipal(t *testing.T) {
	for _, arn := range []string{"", "ana", "arn:aws:iam::111122223333:group/g", "arn:aws:iam::1:user/a", "arn:aws:sts::111122223333:assumed-role/app", "arn:aws:iam::111122223333:user/", "arn:aws:iam:us-east-1:111122223333:user/a"} {
		if p, err := NewPrincipal(arn, ""); err == nil {
			t.Errorf("NewPrincipal(%q) = %+v", arn, p)
		}
	}
	p, err := NewPrincipal("arn:aws:sts::111122223333:assumed-role/app/s1", "arn:aws:iam::111122223333:role/path/app")
	if err != nil || p.Lookup("aws:principalarn").At(0) != "arn:aws:iam::111122223333:role/path/app" || p.Lookup("aws:username").Present() ||
		p.Lookup("aws:principaltype").At(0) != "AssumedRole" || p.Lookup("aws:principalaccount").At(0) != "111122223333" {
		t.Errorf("%+v, %v", p, err)
	}
	u, err := NewPrincipal("arn:aws:iam::111122223333:user/team/ana", "")
	if err != nil || u.Lookup("aws:username").At(0) != "ana" || u.Lookup("aws:principalarn").At(0) != u.ARN {
		t.Errorf("%+v, %v", u, err)
	}
}

func mustParse(t testing.TB, kind Kind, text string) *Document {
	t.Helper()
	doc, err := Parse(kind, []byte(text))
	if err != nil {
		t.Fatalf("Parse(%s): %v", text, err)
	}
	return doc
}
