package stream

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
)

// authority makes certificates of its own.
type authority struct {
	*testing.T
	folder string
	key    *ecdsa.PrivateKey
	cert   *x509.Certificate
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{T: t, folder: t.TempDir()}
	a.cert, a.key = a.issue("ca", &x509.Certificate{IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// issue writes name.pem and name.key.
func (a *authority) issue(name string, c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	a.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		a.Fatal(err)
	}
	c.SerialNumber, c.Subject = big.NewInt(time.Now().UnixNano()), pkix.Name{CommonName: name}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		a.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		a.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		a.Fatal(err)
	}
	for file, block := range map[string]*pem.Block{name + ".pem": {Type: "CERTIFICATE", Bytes: der}, name + ".key": {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(a.file(file), pem.EncodeToMemory(block), 0o600); err != nil {
			a.Fatal(err)
		}
	}
	return made, key
}

func (a *authority) file(name string) string { return filepath.Join(a.folder, name) }

// server returns the settings of a broker that asks clients for a certificate if mutual.
func (a *authority) server(mutual bool) *tls.Config {
	a.Helper()
	a.issue("broker", &x509.Certificate{IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
	pair, err := tls.LoadX509KeyPair(a.file("broker.pem"), a.file("broker.key"))
	if err != nil {
		a.Fatal(err)
	}
	c := &tls.Config{Certificates: []tls.Certificate{pair}, ClientCAs: x509.NewCertPool()}
	c.ClientCAs.AddCert(a.cert)
	if mutual {
		c.ClientAuth = tls.RequireAndVerifyClientCert
	}
	return c
}

// A deposit goes through a broker with each kind of authentication; with a wrong
// password, an unknown authority or without a certificate it does not.
func TestAuthentication(t *testing.T) {
	a := newAuthority(t)
	a.issue("client", &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}})
	const user, password = "goals", "a secret, with = and ,"
	for _, c := range []struct {
		name   string
		broker []kfake.Opt
		right  func(*Kafka)
		wrong  func(*Kafka)
	}{
		{"PLAIN over TLS", []kfake.Opt{kfake.EnableSASL(), kfake.Superuser("PLAIN", user, password), kfake.TLS(a.server(false))},
			func(k *Kafka) { k.SASL, k.User, k.Password, k.CA = "plain", user, password, a.file("ca.pem") },
			func(k *Kafka) { k.Password = "another" }},
		{"SCRAM-SHA-256", []kfake.Opt{kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-256", user, password)},
			func(k *Kafka) { k.SASL, k.User, k.Password = "scram-sha-256", user, password },
			func(k *Kafka) { k.Password = "another" }},
		{"SCRAM-SHA-512 over TLS", []kfake.Opt{kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-512", user, password), kfake.TLS(a.server(false))},
			func(k *Kafka) { k.SASL, k.User, k.Password, k.CA = "scram-sha-512", user, password, a.file("ca.pem") },
			func(k *Kafka) { k.CA = "" }},
		{"a client certificate", []kfake.Opt{kfake.TLS(a.server(true))},
			func(k *Kafka) {
				k.CA, k.Cert, k.Key = a.file("ca.pem"), a.file("client.pem"), a.file("client.key")
			},
			func(k *Kafka) { k.Cert, k.Key = "", "" }},
		{"no authentication where it is required", []kfake.Opt{kfake.EnableSASL(), kfake.Superuser("SCRAM-SHA-256", user, password)},
			func(k *Kafka) { k.SASL, k.User, k.Password = "scram-sha-256", user, password },
			func(k *Kafka) { k.SASL, k.User, k.Password = "", "", "" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, err := startBroker("", "", DefaultTopics, c.broker...)
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			kafka := b.Kafka()
			c.right(&kafka)
			if kafka.CA != "" {
				kafka.Brokers[0] = "tls://" + kafka.Brokers[0]
			}
			s := settingAt(t, b, kafka)
			defer s.start()()
			if err := s.producer.Send(t.Context(), event(100, time.Now())); err != nil {
				t.Fatal(err)
			}
			s.until("the event is written", func() bool { return s.outcomes("written") == 1 })
			c.wrong(&kafka)
			trying, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			if p, err := NewProducer(trying, kafka, DefaultTopics); err == nil {
				p.Close()
				t.Error("the broker accepts a client that it must not")
			}
		})
	}
}

// The signed message for AWS MSK names the key of the environment and the broker.
func TestIAM(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_SESSION_TOKEN", "token")
	t.Setenv("AWS_REGION", "eu-west-1")
	k := Kafka{Brokers: []string{"tls://b-1.goals.abc.c2.kafka.eu-west-1.amazonaws.com:9098"}, SASL: "aws-iam"}
	if err := k.Check(); err != nil {
		t.Fatal(err)
	}
	m := k.mechanism()
	_, first, err := m.Authenticate(t.Context(), "b-1.goals.abc.c2.kafka.eu-west-1.amazonaws.com:9098")
	if err != nil || m.Name() != "AWS_MSK_IAM" {
		t.Fatal(m.Name(), err)
	}
	for _, want := range []string{"AKIDEXAMPLE", "kafka-cluster:Connect", "/eu-west-1/kafka-cluster/aws4_request", `"x-amz-security-token":"token"`, "b-1.goals"} {
		if !strings.Contains(string(first), want) {
			t.Errorf("the message does not have %q: %s", want, first)
		}
	}
}

func TestKafkaSettingsThatMakeNoSense(t *testing.T) {
	for _, c := range []struct {
		name string
		k    Kafka
		want string
	}{
		{"an unknown mechanism", Kafka{SASL: "kerberos"}, "must be one of"},
		{"no password", Kafka{SASL: "plain", User: "u"}, "needs a user and a password"},
		{"a user without a mechanism", Kafka{User: "u"}, "no SASL mechanism"},
		{"half a certificate", Kafka{Brokers: []string{"tls://b:1"}, Cert: "x"}, "together"},
		{"certificates without TLS", Kafka{Brokers: []string{"b:1"}, CA: "x"}, "tls://"},
		{"a password in plain text", Kafka{Brokers: []string{"b:1"}, SASL: "plain", User: "u", Password: "p"}, "plain text"},
		{"IAM in plain text", Kafka{Brokers: []string{"b:1"}, SASL: "aws-iam"}, "plain text"},
		{"a file that does not exist", Kafka{Brokers: []string{"tls://b:1"}, CA: "/missing"}, "/missing"},
	} {
		if _, err := c.k.options(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
