package policy

import "testing"

// The canonical form is that of the service.
func TestCanonical(t *testing.T) {
	const want = `{"Version":"2008-10-17","Statement":[{"Sid":"s","Effect":"Allow","Principal":{"AWS":"arn:aws:iam::111122223333:root"},"Action":"dynamodb:GetItem","Resource":"*"}]}`
	for _, text := range []string{
		want,
		`{"Statement": {"Sid": "s", "Effect": "allow", "Principal": {"AWS": "111122223333"}, "Action": "dynamodb:GetItem", "Resource": "*"}}`,
		"{\n\t\"Statement\": [{\"Resource\": [\"*\"], \"Action\": [\"dynamodb:GetItem\"], \"Principal\": {\"AWS\": [\"arn:aws:iam::111122223333:root\"]}, \"Effect\": \"ALLOW\", \"Sid\": \"s\"}],\n\"Version\": \"2008-10-17\"}",
	} {
		if got := string(mustParse(t, Resource, text).Canonical()); got != want {
			t.Errorf("the canonical form of\n%s\nis\n%s\nwant\n%s", text, got, want)
		}
	}
	for _, c := range []struct{ name, text, want string }{
		{"conditions by operator and key",
			`{"Version": "2012-10-17", "Id": "i", "Statement": [{"Effect": "deny", "NotPrincipal": "*", "NotAction": ["a:b", "c:d"], "NotResource": "*", "Condition": {"StringEquals": {"aws:z": ["2", "1"], "aws:a": "x"}, "Bool": {"aws:SecureTransport": true}}}]}`,
			`{"Version":"2012-10-17","Id":"i","Statement":[{"Effect":"Deny","NotPrincipal":"*","NotAction":["a:b","c:d"],"NotResource":"*","Condition":{"Bool":{"aws:SecureTransport":"true"},"StringEquals":{"aws:a":"x","aws:z":["2","1"]}}}]}`},
		{"characters that HTML escapes, and those that JSON does",
			`{"Statement": {"Effect": "Deny", "Principal": {"Service": "s", "AWS": ["*", "444455556666"]}, "Action": "*", "Resource": "*", "Condition": {"StringLike": {"aws:x": "<&>\"\\\u00e9\n"}}}}`,
			`{"Version":"2008-10-17","Statement":[{"Effect":"Deny","Principal":{"AWS":["*","arn:aws:iam::444455556666:root"],"Service":"s"},"Action":"*","Resource":"*","Condition":{"StringLike":{"aws:x":"<&>\"\\é\n"}}}]}`},
	} {
		doc := mustParse(t, Resource, c.text)
		if got := string(doc.Canonical()); got != c.want {
			t.Errorf("%s: the canonical form is\n%s\nwant\n%s", c.name, got, c.want)
		}
	}
}

// What differs in more than form is not equal.
func TestEqual(t *testing.T) {
	base := mustParse(t, Resource, `{"Statement": {"Effect": "Allow", "Principal": {"AWS": "111122223333"}, "Action": ["dynamodb:GetItem", "dynamodb:PutItem"], "Resource": "*"}}`)
	for _, text := range []string{
		`{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Principal": {"AWS": "111122223333"}, "Action": ["dynamodb:GetItem", "dynamodb:PutItem"], "Resource": "*"}}`,
		`{"Statement": {"Effect": "Deny", "Principal": {"AWS": "111122223333"}, "Action": ["dynamodb:GetItem", "dynamodb:PutItem"], "Resource": "*"}}`,
		`{"Statement": {"Effect": "Allow", "NotPrincipal": {"AWS": "111122223333"}, "Action": ["dynamodb:GetItem", "dynamodb:PutItem"], "Resource": "*"}}`,
		`{"Statement": {"Effect": "Allow", "Principal": {"AWS": "111122223333"}, "Action": ["dynamodb:GetItem"], "Resource": "*"}}`,
		`{"Statement": {"Sid": "s", "Effect": "Allow", "Principal": {"AWS": "111122223333"}, "Action": ["dynamodb:GetItem", "dynamodb:PutItem"], "Resource": "*"}}`,
	} {
		if base.Equal(mustParse(t, Resource, text)) {
			t.Errorf("%s is equal to %s", text, base.Canonical())
		}
	}
}
