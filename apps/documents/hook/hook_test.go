package hook

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"
)

// Only addresses of the internet are public.
func TestPublic(t *testing.T) {
	for text, want := range map[string]bool{
		"93.184.216.34": true, "2606:2800:220:1::1": true,
		"127.0.0.1": false, "10.1.2.3": false, "172.16.0.1": false, "172.31.255.255": false, "192.168.1.1": false,
		"169.254.169.254": false, "100.64.0.1": false, "0.0.0.0": false, "0.1.2.3": false, "224.0.0.1": false, "255.255.255.255": false, "198.18.0.1": false,
		"::1": false, "::": false, "fe80::1": false, "fc00::1": false, "fd00:ec2::254": false, "::ffff:127.0.0.1": false, "::ffff:169.254.169.254": false,
		"64:ff9b::7f00:1": false, "2002:7f00:1::": false, "ff02::1": false, "::ffff:93.184.216.34": true,
	} {
		if got := public(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s is public: %v, want %v", text, got, want)
		}
	}
}

// URLs that could reach the operator's own network are refused: by their text, and by
// the address that a name resolves to, and by a redirect.
func TestPrivateAddressesAreRefused(t *testing.T) {
	reached := false
	inside := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	defer inside.Close()
	s := NewSender(false)
	for _, u := range []string{
		inside.URL, "https://127.0.0.1/", "https://localhost/", "https://[::1]/", "https://169.254.169.254/latest", "https://10.0.0.1", "ftp://example.com", "https://",
		"file:///etc/passwd", "https://a:b@example.com", "nonsense", "https://LOCALHOST./",
	} {
		if err := s.Check(u); err == nil {
			t.Errorf("%s is accepted", u)
		}
		if err := s.Send(t.Context(), u, "secret", "d", time.Now(), nil); err == nil {
			t.Errorf("a message is sent to %s", u)
		}
	}
	// A name that resolves to an inside address passes the check of the text, and
	// is refused when it is dialled.
	_, port, err := net.SplitHostPort(strings.TrimPrefix(inside.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	dial := s.client.Transport.(*http.Transport).DialContext
	if _, err := dial(t.Context(), "tcp", "localhost:"+port); !errors.Is(err, ErrPrivate) {
		t.Errorf("a name that resolves to an inside address: %v", err)
	}
	// The address is not shown.
	named := NewSender(false)
	named.client.Transport.(*http.Transport).DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return dial(ctx, network, "localhost:"+port)
	}
	if err := named.Send(t.Context(), "https://db.example/", "secret", "d", time.Now(), nil); !errors.Is(err, ErrPrivate) || strings.Contains(err.Error(), port) {
		t.Errorf("a name that resolves to an inside address: %v", err)
	}
	if reached {
		t.Error("the inside server was reached")
	}
	// The control: with private addresses allowed it is reached.
	if err := NewSender(true).Send(t.Context(), inside.URL, "secret", "d", time.Now(), nil); err != nil || !reached {
		t.Errorf("%v, %v", err, reached)
	}
	elsewhere := httptest.NewServer(http.RedirectHandler(inside.URL, http.StatusTemporaryRedirect))
	defer elsewhere.Close()
	reached = false
	if err := NewSender(true).Send(context.Background(), elsewhere.URL, "secret", "d", time.Now(), nil); err == nil || reached {
		t.Errorf("a redirect is followed: %v, %v", err, reached)
	}
}

// A receiver verifies the signature; another secret, body or time does not pass.
func TestSignatures(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	var signature string
	var body []byte
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		signature = r.Header.Get(SignatureHeader)
		body, _ = io.ReadAll(r.Body)
	}))
	defer receiver.Close()
	if err := NewSender(true).Send(t.Context(), receiver.URL, "secret", "d", now, []byte(`{"a":1}`)); err != nil {
		t.Fatal(err)
	}
	if err := Verify("secret", signature, now.Add(time.Minute), 5*time.Minute, body); err != nil {
		t.Error(err)
	}
	// The value that any HMAC program gives, such as openssl dgst -sha256 -hmac.
	if want := "t=1800000000,v1=440dfbb83aabca24d9e5027629cfd81cb45254690f8d410bb28f1cc17c990dbc"; signature != want {
		t.Errorf("%s", signature)
	}
	for name, err := range map[string]error{
		"another secret": Verify("other", signature, now, time.Minute, body),
		"another body":   Verify("secret", signature, now, time.Minute, []byte(`{"a":2}`)),
		"another time":   Verify("secret", strings.Replace(signature, "t=1800000000", "t=1800000001", 1), now, time.Minute, body),
		"too late":       Verify("secret", signature, now.Add(2*time.Minute), time.Minute, body),
		"nonsense":       Verify("secret", "x", now, time.Minute, body),
	} {
		if err == nil {
			t.Errorf("%s passes", name)
		}
	}
}
