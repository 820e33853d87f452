package session

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"github.com/stator-db/stator/apps/documents/keys"
)

var begin = time.Date(2026, 11, 15, 9, 0, 0, 0, time.UTC)

// clock is a clock that a test sets.
type clock struct{ now atomic.Int64 }

func (c *clock) Now() time.Time       { return begin.Add(time.Duration(c.now.Load())) }
func (c *clock) Pass(d time.Duration) { c.now.Add(int64(d)) }

func newIssuer(t *testing.T, c *clock) *Issuer {
	t.Helper()
	i, err := NewIssuer("", c.Now)
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// A token identifies a person and a tenant, until it expires.
func TestSession(t *testing.T) {
	c := new(clock)
	i := newIssuer(t, c)
	v, err := i.Verifier()
	if err != nil {
		t.Fatal(err)
	}
	tenant := keys.NewTenant()
	p := i.Person("ann@example.com", "Ann")
	token, err := i.Issue(p, &tenant)
	if err != nil {
		t.Fatal(err)
	}
	s, err := v.Session(t.Context(), token)
	if err != nil || s.Tenant != tenant || s.User != p.User || s.Email != "ann@example.com" {
		t.Fatalf("session %+v, %v", s, err)
	}
	c.Pass(Life + time.Minute)
	if _, err := v.Session(t.Context(), token); !errors.Is(err, ErrInvalid) {
		t.Errorf("an expired session: %v", err)
	}
}

// A token is only a session if it is signed with the issuer's key, for our audience,
// for the current time, and for a tenant.
func TestForgedSessions(t *testing.T) {
	c := new(clock)
	i := newIssuer(t, c)
	v, err := i.Verifier()
	if err != nil {
		t.Fatal(err)
	}
	tenant := keys.NewTenant()
	good := func() claims {
		return claims{RegisteredClaims: jwt.RegisteredClaims{
			Issuer: builtin, Subject: keys.NewID[keys.UserID]().String(), Audience: jwt.ClaimStrings{Audience},
			ExpiresAt: jwt.NewNumericDate(begin.Add(time.Hour)),
		}, Tenant: tenant.String()}
	}
	sign := func(method jwt.SigningMethod, key any, kid string, c claims) string {
		token := jwt.NewWithClaims(method, c)
		if kid != "" {
			token.Header["kid"] = kid
		}
		signed, err := token.SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return signed
	}
	own := func(change func(*claims)) string {
		c := good()
		change(&c)
		return sign(jwt.SigningMethodEdDSA, i.key, i.id, c)
	}
	_, other, _ := ed25519.GenerateKey(rand.Reader)
	curve, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	public := i.key.Public().(ed25519.PublicKey)
	whole := own(func(*claims) {})
	parts := strings.Split(whole, ".")
	changed := good()
	changed.Tenant = keys.NewTenant().String()
	body, _ := json.Marshal(changed)

	if _, err := v.Session(t.Context(), whole); err != nil {
		t.Fatalf("the control is rejected: %v", err)
	}
	for name, token := range map[string]string{
		"nothing":                    "",
		"no token":                   "abc",
		"huge":                       strings.Repeat("a", 1<<20),
		"without a signature":        parts[0] + "." + parts[1] + ".",
		"algorithm none":             sign(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, i.id, good()),
		"another key":                sign(jwt.SigningMethodEdDSA, other, i.id, good()),
		"another key of its own id":  sign(jwt.SigningMethodEdDSA, other, "x", good()),
		"another key without id":     sign(jwt.SigningMethodEdDSA, other, "", good()),
		"another algorithm":          sign(jwt.SigningMethodES256, curve, i.id, good()),
		"the public key as a secret": sign(jwt.SigningMethodHS256, []byte(public), i.id, good()),
		"tenant changed":             parts[0] + "." + base64.RawURLEncoding.EncodeToString(body) + "." + parts[2],
		"expired":                    own(func(c *claims) { c.ExpiresAt = jwt.NewNumericDate(begin.Add(-time.Minute)) }),
		"without expiry":             own(func(c *claims) { c.ExpiresAt = nil }),
		"not yet":                    own(func(c *claims) { c.NotBefore = jwt.NewNumericDate(begin.Add(time.Hour)) }),
		"another issuer":             own(func(c *claims) { c.Issuer = "somebody" }),
		"for another audience":       own(func(c *claims) { c.Audience = jwt.ClaimStrings{"others"} }),
		"without a subject":          own(func(c *claims) { c.Subject = "" }),
		"no tenant":                  own(func(c *claims) { c.Tenant = "" }),
		"two tenants":                own(func(c *claims) { c.Tenant = tenant.String() + "#PROJECT#x" }),
		"tenant in another form":     own(func(c *claims) { c.Tenant = strings.ToUpper(tenant.String()) }),
	} {
		t.Run(name, func(t *testing.T) {
			if s, err := v.Session(t.Context(), token); !errors.Is(err, ErrInvalid) {
				t.Errorf("it is accepted: %+v, %v", s, err)
			}
		})
	}
}

// Keys are fetched from a URL, new ones too; an unknown key does not block.
func TestRemoteKeys(t *testing.T) {
	c := new(clock)
	first, second, stranger := newIssuer(t, c), newIssuer(t, c), newIssuer(t, c)
	var set atomic.Pointer[json.RawMessage]
	set.Store(&first.set)
	fetched := new(atomic.Int64)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fetched.Add(1)
		w.Write(*set.Load())
	}))
	defer server.Close()
	v, err := Remote(t.Context(), server.URL, builtin, DefaultNames(), c.Now)
	if err != nil {
		t.Fatal(err)
	}
	tenant := keys.NewTenant()
	session := func(i *Issuer) error {
		token, err := i.Issue(i.Person("ann@example.com", "Ann"), &tenant)
		if err != nil {
			t.Fatal(err)
		}
		_, err = v.Session(t.Context(), token)
		return err
	}
	if err := session(first); err != nil {
		t.Errorf("the first key: %v", err)
	}
	set.Store(&second.set)
	if err := session(second); err != nil {
		t.Errorf("a key that was added later: %v", err)
	}
	before := fetched.Load()
	for range 50 {
		if err := session(stranger); !errors.Is(err, ErrInvalid) {
			t.Errorf("an unknown key: %v", err)
		}
	}
	if n := fetched.Load() - before; n > 2 {
		t.Errorf("50 forged key ids fetched the keys %d times", n)
	}
	if _, err := Remote(t.Context(), server.URL+"\x00", builtin, DefaultNames(), c.Now); err == nil {
		t.Error("a wrong URL is not reported")
	}
}

// The key survives a restart in its file.
func TestIssuerKey(t *testing.T) {
	c := new(clock)
	file := filepath.Join(t.TempDir(), "key.pem")
	a, err := NewIssuer(file, c.Now)
	if err != nil {
		t.Fatal(err)
	}
	b, err := NewIssuer(file, c.Now)
	if err != nil || a.id != b.id {
		t.Errorf("keys %s and %s, %v", a.id, b.id, err)
	}
}

// Servers that start at once use the same key.
func TestIssuerKeyOfManyServers(t *testing.T) {
	for range 20 {
		file := filepath.Join(t.TempDir(), "key.pem")
		ids := make(chan string)
		for range 8 {
			go func() {
				i, err := NewIssuer(file, new(clock).Now)
				if err != nil {
					ids <- err.Error()
					return
				}
				ids <- i.id
			}()
		}
		first := <-ids
		for range 7 {
			if id := <-ids; id != first {
				t.Fatalf("the keys are %s and %s", first, id)
			}
		}
	}
}

// A file with other content is an error, and is not changed.
func TestDamagedIssuerKey(t *testing.T) {
	for name, text := range map[string]string{
		"nothing":     "",
		"no PEM":      "key",
		"another key": "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
	} {
		file := filepath.Join(t.TempDir(), "key.pem")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := NewIssuer(file, new(clock).Now); err == nil || !strings.Contains(err.Error(), "remove it") {
			t.Errorf("%s: %v", name, err)
		}
		if now, err := os.ReadFile(file); err != nil || string(now) != text {
			t.Errorf("%s: the file is now %q, %v", name, now, err)
		}
	}
}

// An email that an issuer says it has not verified does not count.
func TestEmailVerified(t *testing.T) {
	c := new(clock)
	i := newIssuer(t, c)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(i.KeySet()) }))
	defer server.Close()
	v, err := Remote(t.Context(), server.URL, "https://idp.example", DefaultNames(), c.Now)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		claim          any
		verified, said bool
		email          string
	}{
		{nil, false, false, "ann@acme.example"}, {true, true, true, "ann@acme.example"}, {"true", true, true, "ann@acme.example"},
		{false, false, true, ""}, {"false", false, true, ""}, {0, false, true, ""},
	} {
		m := jwt.MapClaims{"iss": "https://idp.example", "sub": "user|1", "aud": DefaultNames().Audience, "exp": begin.Add(time.Hour).Unix(), "email": "ann@acme.example"}
		if test.claim != nil {
			m["email_verified"] = test.claim
		}
		if verified, said := emailVerified(m); verified != test.verified || said != test.said {
			t.Errorf("%v: verified %v, said %v", test.claim, verified, said)
		}
		made := jwt.NewWithClaims(jwt.SigningMethodEdDSA, m)
		made.Header["kid"] = i.id
		token, err := made.SignedString(i.key)
		if err != nil {
			t.Fatal(err)
		}
		if p, err := v.Person(t.Context(), token); err != nil || p.Email != test.email {
			t.Errorf("%v: the email is %q, %v", test.claim, p.Email, err)
		}
	}
}

// The names of claims and the audience are those of the provider.
func TestNames(t *testing.T) {
	c := new(clock)
	i := newIssuer(t, c)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.Write(i.KeySet()) }))
	defer server.Close()
	names := Names{Audience: "api://documents", Tenant: "https://acme.example/org", Email: "mail", Name: "display", Operator: "root"}
	v, err := Remote(t.Context(), server.URL, "https://idp.example", names, c.Now)
	if err != nil {
		t.Fatal(err)
	}
	tenant := keys.NewTenant()
	token := func(change func(jwt.MapClaims)) string {
		m := jwt.MapClaims{
			"iss": "https://idp.example", "sub": "user|1", "aud": []string{"x", "api://documents"}, "exp": begin.Add(time.Hour).Unix(),
			"https://acme.example/org": tenant.String(), "mail": "ann@acme.example", "display": "Ann", "root": true, "tenant": keys.NewTenant().String(), "email": "eve@example.com",
		}
		change(m)
		made := jwt.NewWithClaims(jwt.SigningMethodEdDSA, m)
		made.Header["kid"] = i.id
		text, err := made.SignedString(i.key)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	s, err := v.Session(t.Context(), token(func(jwt.MapClaims) {}))
	if err != nil || s.Tenant != tenant || s.Email != "ann@acme.example" || s.Name != "Ann" || !s.Operator || s.Subject != "user|1" || s.Issuer != "https://idp.example" {
		t.Errorf("%+v, %v", s, err)
	}
	for name, text := range map[string]string{
		"another audience": token(func(m jwt.MapClaims) { m["aud"] = "documents" }),
		"another issuer":   token(func(m jwt.MapClaims) { m["iss"] = builtin }),
		"no tenant":        token(func(m jwt.MapClaims) { delete(m, names.Tenant) }),
	} {
		if _, err := v.Session(t.Context(), text); err == nil {
			t.Errorf("a token of %s is accepted", name)
		}
	}
}

// A session that is issued to the person of another one ends with it.
func TestReissuedSession(t *testing.T) {
	c := new(clock)
	i := newIssuer(t, c)
	v, err := i.Verifier()
	if err != nil {
		t.Fatal(err)
	}
	tenant := keys.NewTenant()
	p := i.Person("ann@example.com", "Ann")
	for range 3 {
		token, err := i.Issue(p, &tenant)
		if err != nil {
			t.Fatal(err)
		}
		if p, err = v.Person(t.Context(), token); err != nil {
			t.Fatal(err)
		}
		c.Pass(Life / 4)
	}
	last, err := i.Issue(p, &tenant)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := v.Session(t.Context(), last); err != nil {
		t.Errorf("before the end: %v", err)
	}
	c.Pass(Life/4 + time.Minute)
	if _, err := v.Session(t.Context(), last); !errors.Is(err, ErrInvalid) {
		t.Errorf("after the end of the first session: %v", err)
	}
}
