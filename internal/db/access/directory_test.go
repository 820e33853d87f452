package access

import (
	"errors"
	"strings"
	"testing"
)

// A record that is no directory is not used: a key without a secret would be everybody's, and a principal
// that is missing would end all servers.
func TestDamagedRecords(t *testing.T) {
	const key = `{"accessKey":"A","secret":"planted","principal":"arn:aws:iam::000000000000:user/a","created":"2026-01-02T03:04:05Z"}`
	principal := func(arn string) string { return `{"arn":"arn:aws:iam::000000000000:user/` + arn + `","revision":1}` }
	good := `{"revision":3,"keys":[` + key + `],"principals":[` + principal("a") + `,` + principal("b") + `]}`
	if d, err := decodeDirectory([]byte("\x01" + good)); err != nil || len(d.Keys) != 1 || len(d.Principals) != 2 {
		t.Fatalf("the control: %+v, %v", d, err)
	}
	for _, bad := range []string{
		``, `null`, `[]`, `{"revision":`, good + `{}`,
		`{"revision":3,"keys":[null]}`, `{"revision":3,"principals":[null]}`,
		`{"revision":3,"keys":[` + strings.Replace(key, `"planted"`, `""`, 1) + `]}`,
		`{"revision":3,"keys":[` + strings.Replace(key, `"secret":"planted",`, ``, 1) + `]}`,
		`{"revision":3,"keys":[` + strings.Replace(key, `"A"`, `""`, 1) + `]}`,
		`{"revision":3,"keys":[` + key + `,` + key + `]}`,
		`{"revision":3,"principals":[` + principal("b") + `,` + principal("a") + `]}`,
		`{"revision":3,"principals":[` + principal("a") + `,` + principal("a") + `]}`,
	} {
		d, err := decodeDirectory([]byte("\x01" + bad))
		if !errors.Is(err, errUnreadable) || strings.Contains(err.Error(), "planted") {
			t.Errorf("%s: %+v, %v", bad, d, err)
		}
	}
}
