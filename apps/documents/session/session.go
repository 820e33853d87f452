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

// Audience is the audience of our tokens.
const Audience = "documents"

// Person is an authenticated person, without a tenant.
type Person struct {
	User     keys.UserID
	Email    string
	Name     string
	Operator bool // may create tenants
}

// Session is a person authenticated for a tenant.
type Session struct {
	Person
	Tenant keys.Tenant
}

// claims are the claims of a token.
type claims struct {
	jwt.RegisteredClaims
	Tenant   string `json:"tenant,omitempty"`
	Email    string `json:"email,omitempty"`
	Name     string `json:"name,omitempty"`
	Operator bool   `json:"operator,omitempty"`
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
}

// Remote verifies with the keys at a URL. They are fetched every hour, and when a
// token names an unknown key, at most once in ten seconds. issuer is the required
// issuer of tokens.
func Remote(ctx context.Context, url, issuer string, now func() time.Time) (*Verifier, error) {
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
	return verifier(k, issuer, now), nil
}

// local verifies with known keys.
func local(set json.RawMessage, issuer string, now func() time.Time) (*Verifier, error) {
	k, err := keyfunc.NewJWKSetJSON(set)
	if err != nil {
		return nil, err
	}
	return verifier(k, issuer, now), nil
}

func verifier(k keyfunc.Keyfunc, issuer string, now func() time.Time) *Verifier {
	return &Verifier{keys: k, parser: jwt.NewParser(
		jwt.WithValidMethods(algorithms),
		jwt.WithExpirationRequired(),
		jwt.WithIssuer(issuer),
		jwt.WithAudience(Audience),
		jwt.WithTimeFunc(now),
		jwt.WithLeeway(5*time.Second),
		jwt.WithStrictDecoding(),
	)}
}

// ErrInvalid is returned for an invalid token. The reason is for the log.
var ErrInvalid = errors.New("the session is invalid")

func (v *Verifier) claims(ctx context.Context, token string) (claims, Person, error) {
	var c claims
	if len(token) > maxToken {
		return c, Person{}, fmt.Errorf("%w: the token has %d bytes", ErrInvalid, len(token))
	}
	if _, err := v.parser.ParseWithClaims(token, &c, v.keys.KeyfuncCtx(ctx)); err != nil {
		return c, Person{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if c.Subject == "" {
		return c, Person{}, fmt.Errorf("%w: the token has no subject", ErrInvalid)
	}
	return c, Person{User: userID(c.Issuer, c.Subject), Email: c.Email, Name: c.Name, Operator: c.Operator}, nil
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
	_, p, err := v.claims(ctx, token)
	return p, err
}

// Session verifies a token for a tenant.
func (v *Verifier) Session(ctx context.Context, token string) (Session, error) {
	c, p, err := v.claims(ctx, token)
	if err != nil {
		return Session{}, err
	}
	t, err := keys.ParseTenant(c.Tenant)
	if err != nil {
		return Session{}, fmt.Errorf("%w: it has no tenant: %w", ErrInvalid, err)
	}
	return Session{p, t}, nil
}
