package auth

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/protocol/keys"
)

// signedConnection signs the fixed request of DAX.
func signedConnection(key *keys.Key, region, host string, at time.Time) Connection {
	date := at.UTC().Format(dateFormat)
	canonical := sha256.Sum256(fmt.Appendf(nil, "POST\n/\n\nhost:%s\nx-amz-date:%s\n\nhost;x-amz-date\n%x", host, date, sha256.Sum256(nil)))
	text := fmt.Sprintf("%s\n%s\n%s/%s/dax/aws4_request\n%x", algorithm, date, date[:8], region, canonical)
	k := newSigningKey(signingScope{key: key, day: [8]byte([]byte(date)), region: region, service: serviceDAX})
	return Connection{AccessKey: key.AccessKey, StringToSign: text, Signature: hex.EncodeToString(k.appendSum(nil, []byte(text)))}
}

func TestVerifyConnection(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keys.yaml")
	text := "keys:\n  - access_key: AKIDAX\n    secret: one\n  - access_key: ASIDAX\n    secret: two\n    session_token: tok\n    expires: 2026-01-02T00:00:00Z\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := keys.Read(file)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)
	clock := now
	v := NewVerifier(set, func() time.Time { return clock }, slog.New(slog.NewTextHandler(io.Discard, nil)))
	plain, session := set.Find([]byte("AKIDAX")), set.Find([]byte("ASIDAX"))
	good := func() Connection { return signedConnection(plain, "eu-west-1", "dax.amazonaws.com", now) }
	temporary := func(token string) Connection {
		c := signedConnection(session, "eu-west-1", "dax.amazonaws.com", now)
		c.Token = token
		return c
	}
	change := func(edit func(*Connection)) Connection { c := good(); edit(&c); return c }
	for _, c := range []struct {
		name, want string
		at         time.Time
		in         Connection
	}{
		{"JavaScript's form of the host", "", now, good()},
		{"Go's form of the host", "", now, signedConnection(plain, "eu-west-1", "https://dax.amazonaws.com", now)},
		{"another host", invalidSignature, now, signedConnection(plain, "eu-west-1", "dynamodb.amazonaws.com", now)},
		{"another signature", invalidSignature, now, change(func(c *Connection) { c.Signature = strings.Repeat("0", 64) })},
		{"a short signature", invalidSignature, now, change(func(c *Connection) { c.Signature = "" })},
		{"another key", unrecognizedClient, now, change(func(c *Connection) { c.AccessKey = "AKINOBODY" })},
		{"a key with a slash", incompleteSignature, now, change(func(c *Connection) { c.AccessKey = "AKIDAX/20260101" })},
		{"another service", invalidSignature, now, change(func(c *Connection) { c.StringToSign = strings.Replace(c.StringToSign, "/dax/", "/dynamodb/", 1) })},
		{"another algorithm", incompleteSignature, now, change(func(c *Connection) { c.StringToSign = strings.Replace(c.StringToSign, "AWS4", "AWS5", 1) })},
		{"no string", incompleteSignature, now, change(func(c *Connection) { c.StringToSign = "" })},
		{"more lines", incompleteSignature, now, change(func(c *Connection) { c.StringToSign += "\n" })},
		{"15 minutes later", "", now.Add(15 * time.Minute), good()},
		{"later", invalidSignature, now.Add(15*time.Minute + time.Second), good()},
		{"earlier", invalidSignature, now.Add(-16 * time.Minute), good()},
		{"a session", "", now, temporary("tok")},
		{"a session without its token", unrecognizedClient, now, temporary("")},
		{"a session with another token", unrecognizedClient, now, temporary("other")},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock = c.at
			signer, err := v.VerifyConnection(&c.in)
			switch {
			case c.want == "" && (err != nil || signer.Region != "eu-west-1" || signer.Principal == ""):
				t.Errorf("%+v, %v", signer, err)
			case c.want != "" && (err == nil || !strings.HasPrefix(err.Error(), c.want)):
				t.Errorf("error %v, want %s", err, c.want)
			}
		})
	}
	c := good()
	if got := ReadConnection(&c); string(got.AccessKey) != "AKIDAX" || got.Region != "eu-west-1" {
		t.Errorf("the signer is %+v", got)
	}
	if got := ReadConnection(&Connection{AccessKey: "any", StringToSign: "anything"}); string(got.AccessKey) != "any" {
		t.Errorf("the signer is %+v", got)
	}
}
