package session

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"
)

// Provider signs people in at an identity provider, by OpenID Connect with the
// authorization code flow and PKCE.
type Provider struct {
	oauth  oauth2.Config
	verify *oidc.IDTokenVerifier
	names  Names
	issuer string
	client *http.Client

	trustEmail bool
}

// ProviderOptions configure a Provider.
type ProviderOptions struct {
	Issuer   string // URL of the provider
	Client   string // our id there
	Secret   string // our secret there; empty for a public client
	Redirect string // the URL of our page where people return
	Names    Names  // the audience is not used: it is the client
	Now      func() time.Time

	// TrustEmail accepts emails of a provider whose tokens do not say whether an
	// email was verified.
	TrustEmail bool
}

// NewProvider reads the provider's configuration. Its keys are fetched while the
// context lives.
func NewProvider(ctx context.Context, o ProviderOptions) (*Provider, error) {
	client := &http.Client{Timeout: 10 * time.Second}
	found, err := oidc.NewProvider(oidc.ClientContext(ctx, client), o.Issuer)
	if err != nil {
		return nil, fmt.Errorf("read the configuration of the identity provider %s: %w", o.Issuer, err)
	}
	return &Provider{
		oauth: oauth2.Config{
			ClientID: o.Client, ClientSecret: o.Secret, Endpoint: found.Endpoint(), RedirectURL: o.Redirect,
			Scopes: []string{oidc.ScopeOpenID, "email", "profile"},
		},
		verify: found.Verifier(&oidc.Config{ClientID: o.Client, SupportedSigningAlgs: algorithms, Now: o.Now}),
		names:  o.Names, issuer: o.Issuer, client: client, trustEmail: o.TrustEmail,
	}, nil
}

// Attempt is one sign-in, which the browser of the person keeps until its end.
type Attempt struct {
	State, Nonce, Verifier string
}

// Begin returns the URL at which the person signs in.
func (p *Provider) Begin() (string, Attempt) {
	a := Attempt{State: rand.Text(), Nonce: rand.Text(), Verifier: oauth2.GenerateVerifier()}
	return p.oauth.AuthCodeURL(a.State, oidc.Nonce(a.Nonce), oauth2.S256ChallengeOption(a.Verifier)), a
}

// Finish returns the person that has returned with a state and a code, and the tenant
// that the provider names, or "".
func (p *Provider) Finish(ctx context.Context, a Attempt, state, code string) (Person, string, error) {
	if a.State == "" || subtle.ConstantTimeCompare([]byte(a.State), []byte(state)) != 1 {
		return Person{}, "", errors.New("the sign-in was not begun in this browser")
	}
	ctx = oidc.ClientContext(ctx, p.client)
	tokens, err := p.oauth.Exchange(ctx, code, oauth2.VerifierOption(a.Verifier))
	if err != nil {
		return Person{}, "", fmt.Errorf("exchange the code of a sign-in: %w", err)
	}
	raw, _ := tokens.Extra("id_token").(string)
	if len(raw) > maxToken {
		return Person{}, "", fmt.Errorf("the identity provider's token has %d bytes", len(raw))
	}
	token, err := p.verify.Verify(ctx, raw)
	if err != nil {
		return Person{}, "", fmt.Errorf("verify the identity provider's token: %w", err)
	}
	if subtle.ConstantTimeCompare([]byte(token.Nonce), []byte(a.Nonce)) != 1 {
		return Person{}, "", errors.New("the identity provider's token is of another sign-in")
	}
	var c map[string]any
	if err := token.Claims(&c); err != nil {
		return Person{}, "", fmt.Errorf("read the identity provider's token: %w", err)
	}
	person := personOf(c, p.names, p.issuer, token.Subject)
	// An email that the provider has not verified could be that of another person.
	if verified, said := emailVerified(c); !verified && (said || !p.trustEmail) {
		person.Email = ""
	}
	return person, textOf(c, p.names.Tenant), nil
}
