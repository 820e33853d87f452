package stator

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// auditRecord is a part of a record of the audit log.
type auditRecord struct {
	EventName, EventSource, ErrorCode, ErrorMessage, SourceIPAddress string

	UserIdentity        struct{ Type, Arn, AccessKeyId string }
	AdditionalEventData struct{ Fork string }
	TLSDetails          *struct{ TLSVersion, CipherSuite, ClientProvidedHostHeader string }
}

// readAudit returns the text of an audit log, and its records.
func readAudit(t *testing.T, path string) (string, []auditRecord) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var all []auditRecord
	for line := range strings.Lines(string(text)) {
		var r auditRecord
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v: %s", err, line)
		}
		all = append(all, r)
	}
	return string(text), all
}

// A client whose access key and secret are in each other's place sends its secret as the access key.
// It is not written down. A key that was revoked is, since it has the form of an access key.
func TestSecretsInPlaceOfAccessKeysAreNotAudited(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit")
	s := openAccessServer(t, Options{Dir: t.TempDir(), Audit: path}, rootFile(t))
	revoked := s.newKey(rootKey, "alice")
	s.must(rootKey, "DeleteAccessKey", `{"AccessKey":"`+revoked.AccessKey+`"}`)
	for _, with := range []testKey{
		rootKey,
		{rootKey.AccessKey, "planted"},
		{"planted-secret-of-root", "ROOTKEY"},
		{"planted+Aze7Qb1xCq0Yt9Kd2Lf8Mv4Np6Rs5Wu3H", "AKIAIOSFODNN7EXAMPLE"},
		{"planted/ze7Qb1x/q0Yt9Kd2Lf8Mv4Np6Rs5Wu3H", "AKIAIOSFODNN7EXAMPLE"},
		revoked,
	} {
		s.listTables(with)
	}
	s.close()
	text, records := readAudit(t, path)
	if strings.Contains(text, "planted") || strings.Contains(text, revoked.Secret) {
		t.Errorf("a secret is written down:\n%s", text)
	}
	var got []string
	for _, r := range records {
		if r.EventName == "ListTables" {
			got = append(got, strings.Join([]string{r.UserIdentity.Type, r.UserIdentity.AccessKeyId, r.ErrorCode}, " "))
		}
	}
	want := []string{
		"Root ROOTKEY ",
		"Unverified ROOTKEY InvalidSignatureException",
		"Unverified  UnrecognizedClientException",
		"Unverified  UnrecognizedClientException",
		"Unverified  IncompleteSignatureException",
		"Unverified " + revoked.AccessKey + " UnrecognizedClientException",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the records are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
