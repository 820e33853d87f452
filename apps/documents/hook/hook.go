// Package hook sends signed messages to the webhooks of tenants.
//
// A tenant chooses the URL, so the sender connects only to public addresses, follows
// no redirect and uses no proxy.
package hook

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// The headers of a message. The signature is t=SECONDS,v1=HEX, where HEX is the
// HMAC-SHA256 of SECONDS, a dot and the body, with the secret of the webhook.
const (
	SignatureHeader = "Documents-Signature"
	DeliveryHeader  = "Documents-Delivery" // the same for all attempts
)

// Sender sends messages.
type Sender struct {
	client  *http.Client
	private bool
}

// NewSender returns a sender. With private, webhooks may be at private addresses and
// without TLS.
func NewSender(private bool) *Sender {
	dialer := &net.Dialer{Timeout: 5 * time.Second}
	if !private {
		// The address is checked after the name was resolved, at each connection.
		dialer.Control = func(_, address string, _ syscall.RawConn) error {
			a, err := netip.ParseAddrPort(address)
			if err != nil || !public(a.Addr()) {
				return fmt.Errorf("%w: %s", ErrPrivate, address)
			}
			return nil
		}
	}
	return &Sender{private: private, client: &http.Client{
		Timeout:       15 * time.Second,
		Transport:     &http.Transport{DialContext: dialer.DialContext, TLSHandshakeTimeout: 5 * time.Second, DisableKeepAlives: true, MaxResponseHeaderBytes: 64 << 10},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// ErrPrivate is returned for a webhook at an address that is not public.
var ErrPrivate = errors.New("the address is not public, and webhooks at such addresses are not allowed")

// reserved are the ranges, beyond those that netip knows, that are not public.
var reserved = func() (all []netip.Prefix) {
	for _, text := range []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "240.0.0.0/4",
		"64:ff9b::/96", "64:ff9b:1::/48", "100::/64", "2001::/23", "2001:db8::/32", "2002::/16", "fec0::/10",
	} {
		all = append(all, netip.MustParsePrefix(text))
	}
	return all
}()

// public reports whether an address is one of the internet.
func public(a netip.Addr) bool {
	a = a.Unmap()
	if !a.IsGlobalUnicast() || a.IsPrivate() || a.Zone() != "" {
		return false
	}
	for _, r := range reserved {
		if r.Contains(a) {
			return false
		}
	}
	return true
}

// Check validates the URL of a webhook.
func (s *Sender) Check(text string) error {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Opaque != "" || u.User != nil || u.Fragment != "" || len(text) > 500 || (u.Scheme != "https" && u.Scheme != "http") {
		return errors.New("the URL of a webhook must be one such as https://example.com/documents, without a password")
	}
	if u.Scheme != "https" && !s.private {
		return errors.New("the URL of a webhook must begin with https://")
	}
	host := strings.TrimSuffix(u.Hostname(), ".")
	if a, err := netip.ParseAddr(host); !s.private && (err == nil && !public(a) || strings.EqualFold(host, "localhost")) {
		return ErrPrivate
	}
	return nil
}

// Send sends a message. An error is worth a retry.
func (s *Sender) Send(ctx context.Context, to, secret, delivery string, at time.Time, body []byte) error {
	if err := s.Check(to); err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("call the webhook: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("User-Agent", "documents-webhook")
	r.Header.Set(DeliveryHeader, delivery)
	r.Header.Set(SignatureHeader, Sign(secret, at, body))
	answer, err := s.client.Do(r)
	if errors.Is(err, ErrPrivate) {
		return ErrPrivate // without the address, which a tenant must not learn
	}
	if err != nil {
		return fmt.Errorf("call the webhook: %w", err)
	}
	defer answer.Body.Close()
	if _, err := io.Copy(io.Discard, io.LimitReader(answer.Body, 64<<10)); err != nil {
		return fmt.Errorf("read the webhook's reply: %w", err)
	}
	if answer.StatusCode < 200 || answer.StatusCode > 299 {
		return fmt.Errorf("the webhook replies %s", answer.Status)
	}
	return nil
}

// NewSecret returns a new secret.
func NewSecret() string { return rand.Text() + rand.Text() }

// Sign returns the signature of a body.
func Sign(secret string, at time.Time, body []byte) string {
	seconds := strconv.FormatInt(at.Unix(), 10)
	return "t=" + seconds + ",v1=" + hex.EncodeToString(sum(secret, seconds, body))
}

func sum(secret, seconds string, body []byte) []byte {
	h := hmac.New(sha256.New, []byte(secret))
	io.WriteString(h, seconds+".")
	h.Write(body)
	return h.Sum(nil)
}

// Verify checks the signature of a body, as a receiver does. A signature that is
// older than the age is refused, so that a copied message cannot be sent again later.
func Verify(secret, signature string, now time.Time, age time.Duration, body []byte) error {
	t, v1, ok := strings.Cut(strings.TrimPrefix(signature, "t="), ",v1=")
	seconds, err := strconv.ParseInt(t, 10, 64)
	got, err2 := hex.DecodeString(v1)
	if !ok || err != nil || err2 != nil {
		return errors.New("the signature is not t=SECONDS,v1=HEX")
	}
	if d := now.Sub(time.Unix(seconds, 0)); d > age || d < -age {
		return fmt.Errorf("the signature is from %s ago", d)
	}
	if !hmac.Equal(got, sum(secret, t, body)) {
		return errors.New("the signature is wrong")
	}
	return nil
}
