// Package session authenticates requests: it reads the person and the tenant from
// a signed token.
//
// A request's tenant is taken only from a token whose signature was verified.
package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/MicahParks/keyfunc/v3"
	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/time/rate"

	"github.com/stator-db/stator/apps/documents/keys"
)

// Audience is the default audience of tokens.
const Audience = "documents"

// Names are the names of an identity provider's claims, and its audience for us.
type Names struct {
	Audience string
	Tenant   string
	Email    string
	Name     string
	Operator string
}

// DefaultNames returns the names that the built-in issuer uses.
func DefaultNames() Names {
	return Names{Audience: Audience, Tenant: "tenant", Email: "email", Name: "name", Operator: "operator"}
}

// Person is an authenticated person, without a tenant.
type Person struct {
	User     keys.UserID
	Email    string
	Name     string
	Operator bool // may create tenants

	// Issuer and Subject identify the person at the identity provider. They are
	// empty for a person of the built-in issuer.
	Issuer, Subject string

	// Until is the end of the token that identified the person. It is zero for a
	// person that has just signed in.
	Until time.Time
}

// Session is a person authenticated for a tenant.
type Session struct {
	Person
	Tenant keys.Tenant
}

// claims are the claims of a token of the built-in issuer.
type claims struct {
	jwt.RegisteredClaims
	Tenant   string `json:"tenant,omitempty"`
	Email    string `json:"email,omitempty"`
	Name     string `json:"name,omitempty"`
	Operator bool   `json:"operator,omitempty"`

	// The person at the identity provider where the person has signed in.
	Provider string `json:"provider,omitempty"`
	Person   string `json:"provider_sub,omitempty"`
}

// algorithms are the accepted signature algorithms: only asymmetric ones, and not
// "none".
var algorithms = []string{"EdDSA", "ES256", "ES384", "RS256", "RS384", "RS512", "PS256"}

// maxToken is the maximum length of a token, in bytes.
const maxToken = 8 << 10

// Verifier verifies tokens.
type Verifier struct {
	keys   keyfunc.Keyfunc
	parser *jwt.Parser
	names  Names
	issuer string
	other  *Verifier // tried if a token is not valid here
}

// Or returns a verifier that accepts the tokens of both.
func (v *Verifier) Or(other *Verifier) *Verifier {
	both := *v
	both.other = other
	return &both
}

// Remote verifies with the keys at a URL. They are fetched every hour, and when a
// token names an unknown key, at most once in ten seconds. issuer is the required
// issuer of tokens.
func Remote(ctx context.Context, url, issuer string, names Names, now func() time.Time) (*Verifier, error) {
	wait := false // for the first reply, so that a wrong URL is reported at once
	k, err := keyfunc.NewDefaultOverrideCtx(ctx, []string{url}, keyfunc.Override{
		HTTPTimeout:               10 * time.Second,
		NoErrorReturnFirstHTTPReq: &wait,
		RefreshInterval:           time.Hour,
		RefreshUnknownKID:         rate.NewLimiter(rate.Every(10*time.Second), 1),
		RateLimitWaitMax:          2 * time.Second, // limit for that
	})
	if err != nil {
		return nil, fmt.Errorf("fetch the keys that sessions are verified with from %s: %w", url, err)
	}
	return verifier(k, issuer, names, now), nil
}

// local verifies with known keys.
func local(set json.RawMessage, issuer string, now func() time.Time) (*Verifier, error) {
	k, err := keyfunc.NewJWKSetJSON(set)
	if err != nil {
		return nil, err
	}
	return verifier(k, issuer, DefaultNames(), now), nil
}

func verifier(k keyfunc.Keyfunc, issuer string, names Names, now func() time.Time) *Verifier {
	return &Verifier{keys: k, names: names, issuer: issuer, parser: jwt.NewParser(
		jwt.WithValidMethods(algorithms),
		jwt.WithExpirationRequired(),
		jwt.WithIssuer(issuer),
		jwt.WithAudience(names.Audience),
		jwt.WithTimeFunc(now),
		jwt.WithLeeway(5*time.Second),
		jwt.WithStrictDecoding(),
	)}
}

// ErrInvalid is returned for an invalid token. The reason is for the log.
var ErrInvalid = errors.New("the session is invalid")

// verified returns the person and the tenant, or "", of a token.
func (v *Verifier) verified(ctx context.Context, token string) (Person, string, error) {
	if len(token) > maxToken {
		return Person{}, "", fmt.Errorf("%w: the token has %d bytes", ErrInvalid, len(token))
	}
	c := make(jwt.MapClaims)
	if _, err := v.parser.ParseWithClaims(token, c, v.keys.KeyfuncCtx(ctx)); err != nil {
		if v.other != nil {
			return v.other.verified(ctx, token)
		}
		return Person{}, "", fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	subject, err := c.GetSubject()
	if err != nil || subject == "" {
		return Person{}, "", fmt.Errorf("%w: the token has no subject", ErrInvalid)
	}
	end, err := c.GetExpirationTime()
	if err != nil || end == nil {
		return Person{}, "", fmt.Errorf("%w: the token does not expire", ErrInvalid)
	}
	p := personOf(c, v.names, v.issuer, subject)
	p.Until = end.Time
	if verified, said := emailVerified(c); said && !verified {
		p.Email = "" // it could be that of another person
	}
	if v.issuer == builtin {
		p.Issuer, p.Subject = textOf(c, "provider"), textOf(c, "provider_sub")
	}
	return p, textOf(c, v.names.Tenant), nil
}

// personOf returns the person of the claims of an issuer.
func personOf(c map[string]any, names Names, issuer, subject string) Person {
	operator, _ := c[names.Operator].(bool)
	return Person{
		User: userID(issuer, subject), Email: textOf(c, names.Email), Name: textOf(c, names.Name), Operator: operator,
		Issuer: issuer, Subject: subject,
	}
}

// emailVerified returns whether claims say that the email is verified, and whether they
// say anything about that. Some issuers say it in text.
func emailVerified(c map[string]any) (verified, said bool) {
	switch v := c["email_verified"].(type) {
	case nil:
		return false, false
	case bool:
		return v, true
	case string:
		return v == "true", true
	}
	return false, true
}

func textOf(c map[string]any, name string) string {
	text, _ := c[name].(string)
	return text
}

// userID returns our id of an issuer's subject.
func userID(issuer, subject string) keys.UserID {
	if id, err := keys.ParseID[keys.UserID](subject); err == nil {
		return id
	}
	return keys.DeriveID[keys.UserID](issuer, subject)
}

// Person verifies a token that needs no tenant.
func (v *Verifier) Person(ctx context.Context, token string) (Person, error) {
	p, _, err := v.verified(ctx, token)
	return p, err
}

// Session verifies a token for a tenant.
func (v *Verifier) Session(ctx context.Context, token string) (Session, error) {
	p, tenant, err := v.verified(ctx, token)
	if err != nil {
		return Session{}, err
	}
	t, err := keys.ParseTenant(tenant)
	if err != nil {
		return Session{}, fmt.Errorf("%w: it has no tenant: %w", ErrInvalid, err)
	}
	return Session{p, t}, nil
}
