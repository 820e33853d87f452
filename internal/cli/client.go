package cli

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"time"
)

// The environment of commands that send requests to a server with TLS. The first is that of
// the AWS CLI and SDKs.
const (
	envCABundle   = "AWS_CA_BUNDLE"
	envClientCert = "STATOR_CLIENT_CERT"
	envClientKey  = "STATOR_CLIENT_KEY"
)

// serverClient returns a client of servers; a timeout of 0 is none.
func serverClient(timeout time.Duration) *http.Client {
	return &http.Client{Timeout: timeout, Transport: serverTransport(func(*http.Transport) {})}
}

// serverTransport returns a transport to servers, after change. It trusts the certificates in
// AWS_CA_BUNDLE, and has the client certificate of STATOR_CLIENT_CERT.
func serverTransport(change func(*http.Transport)) http.RoundTripper {
	config, err := clientTLS()
	if err != nil {
		return brokenTransport{err}
	}
	t := http.DefaultTransport.(*http.Transport).Clone()
	if config != nil {
		t.TLSClientConfig = config
	}
	change(t)
	return t
}

// clientTLS returns the configuration in the environment; nil if there is none.
func clientTLS() (*tls.Config, error) {
	bundle, cert, key := os.Getenv(envCABundle), os.Getenv(envClientCert), os.Getenv(envClientKey)
	if bundle == "" && cert == "" {
		return nil, nil
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12}
	if bundle != "" {
		text, err := os.ReadFile(bundle)
		if err != nil {
			return nil, fmt.Errorf("cannot use %s: %w", envCABundle, err)
		}
		if c.RootCAs = x509.NewCertPool(); !c.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("cannot use %s: %s has no certificate in PEM form", envCABundle, bundle)
		}
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			return nil, fmt.Errorf("cannot use %s with %s: %w", envClientCert, envClientKey, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	return c, nil
}

// brokenTransport answers each request with an error.
type brokenTransport struct{ err error }

func (t brokenTransport) RoundTrip(*http.Request) (*http.Response, error) { return nil, t.err }
