package policy

import (
	"bytes"
	"testing"
)

// No text makes the parser, the canonical form, the checks or an evaluation panic, and
// what parses has a canonical form that parses to the same.
func FuzzParse(f *testing.F) {
	for _, c := range readCases(f) {
		for _, d := range c.texts {
			f.Add([]byte(d.text))
		}
	}
	for _, text := range []string{
		"", "{", "[[[[[[[[[[[[[[[[[[", `{"Statement": [{"Effect": "Allow", "Principal": {"AWS": "111122223333"}, "Action": "*", "Resource": "*"}]}`,
		`{"Version": "2012-10-17", "Statement": {"Effect": "Deny", "NotPrincipal": "*", "NotAction": "*:*", "NotResource": "arn:*:*:*:*:${a:b, ''}${*}${$}{"}}`,
		`{"Statement": [{"\u0045ffect": "\ud800", "Action": "", "Resource": "arn:::::", "Condition": {"Null": {":": [[], {}, null, 1e9]}}}], "Id": "a"}`,
		`{"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "dynamodb:*", "Resource": "*", "Condition": {"IpAddress": {"aws:SourceIp": ["::ffff:1.2.3.4/96", "1::"]}, "DateEquals": {"aws:CurrentTime": ["2026", "-1", "2026-11-18T10:00Z"]}, "ArnNotLike": {"aws:PrincipalArn": "a?n:*:${aws:x}:::*"}, "ForAnyValue:NumericLessThan": {"a:b": ["-0.0", "1"]}}}}`,
	} {
		f.Add([]byte(text))
	}
	f.Add(manyAccounts(700))
	request := readCases(f)[0].request
	f.Fuzz(func(t *testing.T, text []byte) {
		kind := DetectKind(text)
		doc, err := Parse(kind, text)
		if err != nil {
			if ServiceText(err) == "" || err.Error() == "" {
				t.Errorf("an error without a text: %#v", err)
			}
			return
		}
		Check(doc)
		if kind == Resource {
			_ = doc.CheckTarget(request.Resource)
		}
		canonical := doc.Canonical()
		again, err := ParseStored(kind, canonical)
		if err != nil {
			t.Fatalf("the canonical form %.2000s: %v", canonical, err)
		}
		if !bytes.Equal(again.Canonical(), canonical) {
			t.Errorf("%s becomes %s", canonical, again.Canonical())
		}
		var p, q Policies
		p.attach(doc)
		q.attach(again)
		if a, b := p.Evaluate(&request), q.Evaluate(&request); a != b {
			t.Errorf("%s is decided as %v, and its canonical form as %v", text, a, b)
		}
	})
}
