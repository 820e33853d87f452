package stream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/aws"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

// Kafka is how a Kafka cluster is reached.
type Kafka struct {
	// Brokers are addresses. If one has the prefix tls://, TLS is used for all.
	Brokers []string

	SASL     string // plain, scram-sha-256, scram-sha-512, aws-iam, or empty for none
	User     string
	Password string

	CA        string // file with the certificates of authorities; the default is the system's
	Cert, Key string // files of a client certificate, or empty

	more []kgo.Opt // of tests, for a broker of an old version
}

// At returns the Kafka at addresses, without authentication.
func At(brokers ...string) Kafka { return Kafka{Brokers: brokers} }

// Mechanisms are the supported values of SASL.
var Mechanisms = []string{"plain", "scram-sha-256", "scram-sha-512", "aws-iam"}

// Check reports settings that contradict each other.
func (k *Kafka) Check() error {
	needsUser := false
	switch k.SASL {
	case "", "aws-iam":
	case "plain", "scram-sha-256", "scram-sha-512":
		needsUser = true
	default:
		return fmt.Errorf("the SASL mechanism is %.40q, but must be one of %s", k.SASL, strings.Join(Mechanisms, ", "))
	}
	switch {
	case needsUser && (k.User == "" || k.Password == ""):
		return fmt.Errorf("SASL %s needs a user and a password", k.SASL)
	case !needsUser && k.User != "":
		return errors.New("a Kafka user is set, but no SASL mechanism that has users")
	case (k.Cert == "") != (k.Key == ""):
		return errors.New("the client certificate and its key must be set together")
	case !k.secured() && (k.CA != "" || k.Cert != ""):
		return errors.New("certificates are set, but no address of Kafka begins with tls://")
	case k.exposed() && !k.local():
		return fmt.Errorf("SASL %s would send credentials in plain text: write the addresses as tls://host:port", k.SASL)
	}
	return nil
}

// exposed reports whether credentials are sent in plain text.
func (k *Kafka) exposed() bool { return !k.secured() && (k.SASL == "plain" || k.SASL == "aws-iam") }

const dialTimeout = 10 * time.Second

// onlyLocal rejects connections to other machines. A broker on this one, such as a
// tunnel, may name others, to which the client connects.
func onlyLocal(_ context.Context, _, address string, _ syscall.RawConn) error {
	if to, err := netip.ParseAddrPort(address); err != nil || !to.Addr().Unmap().IsLoopback() {
		return fmt.Errorf("the broker of Kafka at %s is on another machine, to which credentials would be sent in plain text: write the addresses as tls://host:port", address)
	}
	return nil
}

func (k *Kafka) secured() bool {
	for _, b := range k.Brokers {
		if strings.HasPrefix(strings.TrimSpace(b), "tls://") {
			return true
		}
	}
	return false
}

// local reports whether all brokers are on this machine.
func (k *Kafka) local() bool {
	for _, b := range k.Brokers {
		host, _, _ := strings.Cut(strings.TrimSpace(b), ":")
		if host != "127.0.0.1" && host != "localhost" {
			return false
		}
	}
	return true
}

// options returns the client options.
func (k *Kafka) options() ([]kgo.Opt, error) {
	if err := k.Check(); err != nil {
		return nil, err
	}
	var addresses []string
	for _, b := range k.Brokers {
		addresses = append(addresses, strings.TrimPrefix(strings.TrimSpace(b), "tls://"))
	}
	options := append([]kgo.Opt{kgo.SeedBrokers(addresses...)}, k.more...)
	if k.secured() {
		settings, err := k.tls()
		if err != nil {
			return nil, err
		}
		options = append(options, kgo.DialTLSConfig(settings))
	}
	if k.exposed() {
		options = append(options, kgo.Dialer((&net.Dialer{Timeout: dialTimeout, ControlContext: onlyLocal}).DialContext))
	}
	if m := k.mechanism(); m != nil {
		options = append(options, kgo.SASL(m))
	}
	return options, nil
}

func (k *Kafka) tls() (*tls.Config, error) {
	settings := &tls.Config{MinVersion: tls.VersionTLS12}
	if k.CA != "" {
		text, err := os.ReadFile(k.CA)
		if err != nil {
			return nil, fmt.Errorf("read the certificates of Kafka's authority: %w", err)
		}
		settings.RootCAs = x509.NewCertPool()
		if !settings.RootCAs.AppendCertsFromPEM(text) {
			return nil, fmt.Errorf("%s has no certificate in PEM", k.CA)
		}
	}
	if k.Cert != "" {
		pair, err := tls.LoadX509KeyPair(k.Cert, k.Key)
		if err != nil {
			return nil, fmt.Errorf("read the client certificate for Kafka: %w", err)
		}
		settings.Certificates = []tls.Certificate{pair}
	}
	return settings, nil
}

func (k *Kafka) mechanism() sasl.Mechanism {
	user := scram.Auth{User: k.User, Pass: k.Password}
	switch k.SASL {
	case "plain":
		return plain.Auth{User: k.User, Pass: k.Password}.AsMechanism()
	case "scram-sha-256":
		return user.AsSha256Mechanism()
	case "scram-sha-512":
		return user.AsSha512Mechanism()
	case "aws-iam":
		return aws.ManagedStreamingIAM(iam)
	}
	return nil
}

// iam returns the credentials of AWS's environment variables, files or roles. It is
// called for each connection, since temporary ones expire.
func iam(ctx context.Context) (aws.Auth, error) {
	settings, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return aws.Auth{}, fmt.Errorf("read AWS's configuration: %w", err)
	}
	c, err := settings.Credentials.Retrieve(ctx)
	if err != nil {
		return aws.Auth{}, fmt.Errorf("get AWS credentials for Kafka: %w", err)
	}
	return aws.Auth{AccessKey: c.AccessKeyID, SecretKey: c.SecretAccessKey, SessionToken: c.SessionToken, UserAgent: "goals"}, nil
}

// open returns a client. It does not connect yet.
func (k *Kafka) open(more ...kgo.Opt) (*kgo.Client, error) {
	options, err := k.options()
	if err != nil {
		return nil, err
	}
	client, err := kgo.NewClient(append(options, more...)...)
	if err != nil {
		return nil, fmt.Errorf("create a Kafka client: %w", err)
	}
	return client, nil
}
