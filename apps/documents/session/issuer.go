package session

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/MicahParks/jwkset"
	"github.com/golang-jwt/jwt/v5"

	"github.com/stator-db/stator/apps/documents/keys"
)

// Name is the name of the built-in issuer in its tokens.
const builtin = "documents"

// Life is how long a session of the built-in issuer lasts.
const Life = 8 * time.Hour

// Issuer issues sessions: to people that have signed in at an identity provider, or,
// for trying the system without one, to everybody. In the second case it trusts every
// email, so other machines must not be able to reach it.
type Issuer struct {
	key ed25519.PrivateKey
	id  string
	set json.RawMessage
	now func() time.Time
}

// NewIssuer returns an issuer with the key in a file, which is created if it does
// not exist; without a file the key lives as long as the process.
func NewIssuer(file string, now func() time.Time) (*Issuer, error) {
	key, err := issuerKey(file)
	if err != nil {
		return nil, err
	}
	public := key.Public().(ed25519.PublicKey)
	sum := sha256.Sum256(public)
	i := &Issuer{key: key, id: hex.EncodeToString(sum[:8]), now: now}
	jwk, err := jwkset.NewJWKFromKey(public, jwkset.JWKOptions{Metadata: jwkset.JWKMetadataOptions{ALG: jwkset.AlgEdDSA, KID: i.id, USE: jwkset.UseSig}})
	if err != nil {
		return nil, fmt.Errorf("describe the issuer's key: %w", err)
	}
	store := jwkset.NewMemoryStorage()
	if err := store.KeyWrite(context.Background(), jwk); err != nil {
		return nil, fmt.Errorf("describe the issuer's key: %w", err)
	}
	if i.set, err = store.JSONPublic(context.Background()); err != nil {
		return nil, fmt.Errorf("describe the issuer's key: %w", err)
	}
	return i, nil
}

func issuerKey(file string) (ed25519.PrivateKey, error) {
	if file != "" {
		text, err := os.ReadFile(file)
		if err == nil {
			return readKey(file, text)
		}
		if !errors.Is(err, os.ErrNotExist) {
			return nil, fmt.Errorf("read the session key: %w", err)
		}
	}
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil || file == "" {
		return key, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})
	switch err := createWhole(file, text); {
	case errors.Is(err, os.ErrExist): // another server that starts now was faster
		if text, err = os.ReadFile(file); err != nil {
			return nil, fmt.Errorf("read the session key: %w", err)
		}
		return readKey(file, text)
	case err != nil:
		return nil, fmt.Errorf("store the session key: %w", err)
	}
	return key, nil
}

// createWhole creates a file with a text at once. It returns os.ErrExist if the file
// exists.
func createWhole(file string, text []byte) error {
	temporary, err := os.CreateTemp(filepath.Dir(file), filepath.Base(file)+".*")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(temporary.Name()) }() // a leftover is a key that nobody uses
	if _, err := temporary.Write(text); err != nil {
		return errors.Join(err, temporary.Close())
	}
	if err := errors.Join(temporary.Sync(), temporary.Close()); err != nil {
		return err
	}
	return os.Link(temporary.Name(), file)
}

func readKey(file string, text []byte) (ed25519.PrivateKey, error) {
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s has no key: remove it to create a new one, which ends all sessions", file)
	}
	key, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if own, ok := key.(ed25519.PrivateKey); ok {
		return own, nil
	}
	return nil, errors.Join(fmt.Errorf("%s has no Ed25519 key: remove it to create a new one, which ends all sessions", file), err)
}

// Person returns the person with an email.
func (i *Issuer) Person(email, name string) Person {
	return Person{User: keys.DeriveID[keys.UserID](builtin, email), Email: email, Name: name}
}

// Issue issues a session. Without a tenant it only identifies the person. It does not
// last longer than the session that identified the person, so that a person must sign
// in again after that, whatever happens meanwhile.
func (i *Issuer) Issue(p Person, tenant *keys.Tenant) (string, error) {
	now := i.now()
	end := now.Add(Life)
	if !p.Until.IsZero() && p.Until.Before(end) {
		end = p.Until
	}
	c := claims{
		RegisteredClaims: jwt.RegisteredClaims{
			Issuer: builtin, Subject: p.User.String(), Audience: jwt.ClaimStrings{Audience},
			IssuedAt: jwt.NewNumericDate(now), ExpiresAt: jwt.NewNumericDate(end),
		},
		Email: p.Email, Name: p.Name, Operator: p.Operator, Provider: p.Issuer, Person: p.Subject,
	}
	if tenant != nil {
		c.Tenant = tenant.String()
	}
	token := jwt.NewWithClaims(jwt.SigningMethodEdDSA, c)
	token.Header["kid"] = i.id
	signed, err := token.SignedString(i.key)
	if err != nil {
		return "", fmt.Errorf("sign a session: %w", err)
	}
	return signed, nil
}

// KeySet returns the public key as a JWK set.
func (i *Issuer) KeySet() json.RawMessage { return i.set }

// Verifier verifies the sessions of this issuer.
func (i *Issuer) Verifier() (*Verifier, error) { return local(i.set, builtin, i.now) }
