// Package session tells from a signed token who is asking, and for which tenant.
//
// A tenant is taken from a token whose signature was verified, and from nowhere
// else that a request reaches.
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

// Audience is whom our tokens are for.
const Audience = "documents"

// Person is somebody who was signed in, for no tenant.
type Person struct {
	User     keys.UserID
	Email    string
	Name     string
	Operator bool // may create tenants
}

// Session is a person signed in for a tenant.
type Session struct {
	Person
	Tenant keys.Tenant
}

// claims are what a token says.
type claims struct {
	jwt.RegisteredClaims
	Tenant   string `json:"tenant,omitempty"`
	Email    string `json:"email,omitempty"`
	Name     string `json:"name,omitempty"`
	Operator bool   `json:"operator,omitempty"`
}

// algorithms are those whose public keys can be given away. Anything symmetric,
// and "none", is not among them.
var algorithms = []string{"EdDSA", "ES256", "ES384", "RS256", "RS384", "RS512", "PS256"}

// maxToken is how long a token may be, in bytes.
const maxToken = 8 << 10

// Verifier verifies tokens.
type Verifier struct {
	keys   keyfunc.Keyfunc
	parser *jwt.Parser
}

// Remote verifies by the keys at a URL, which are fetched anew each hour, and
// when a token names one that is not known, though not more than once in ten
// seconds. issuer is who must have made the tokens.
func Remote(ctx context.Context, url, issuer string, now func() time.Time) (*Verifier, error) {
	wait := false // for the first answer, so that a wrong URL is told at once
	k, err := keyfunc.NewDefaultOverrideCtx(ctx, []string{url}, keyfunc.Override{
		HTTPTimeout:               10 * time.Second,
		NoErrorReturnFirstHTTPReq: &wait,
		RefreshInterval:           time.Hour,
		RefreshUnknownKID:         rate.NewLimiter(rate.Every(10*time.Second), 1),
		RateLimitWaitMax:          2 * time.Second, // for that, and no more
	})
	if err != nil {
		return nil, fmt.Errorf("fetch the keys that sessions are verified with from %s: %w", url, err)
	}
	return verifier(k, issuer, now), nil
}

// local verifies by keys that are known.
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

// ErrInvalid is the error of a token that proves nothing. Why is for the log.
var ErrInvalid = errors.New("the session is not valid")

func (v *Verifier) claims(ctx context.Context, token string) (claims, Person, error) {
	var c claims
	if len(token) > maxToken {
		return c, Person{}, fmt.Errorf("%w: the token has %d bytes", ErrInvalid, len(token))
	}
	if _, err := v.parser.ParseWithClaims(token, &c, v.keys.KeyfuncCtx(ctx)); err != nil {
		return c, Person{}, fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	if c.Subject == "" {
		return c, Person{}, fmt.Errorf("%w: the token says nothing of who it is for", ErrInvalid)
	}
	return c, Person{User: userID(c.Issuer, c.Subject), Email: c.Email, Name: c.Name, Operator: c.Operator}, nil
}

// userID is our id of an issuer's subject.
func userID(issuer, subject string) keys.UserID {
	if id, err := keys.ParseID[keys.UserID](subject); err == nil {
		return id
	}
	return keys.DeriveID[keys.UserID](issuer, subject)
}

// Person verifies a token that need not be for a tenant.
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
		return Session{}, fmt.Errorf("%w: it is for no tenant: %w", ErrInvalid, err)
	}
	return Session{p, t}, nil
}
