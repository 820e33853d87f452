package cli

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/internal/process"
)

// accessFlags say who may send requests to a server, and how connections are protected.
type accessFlags struct {
	keys        accessSource
	policies    accessSource
	region      string
	tlsCert     string
	tlsKey      string
	tlsClientCA string
	allowAnyone bool
}

// inDatabase is the value of --keys and --policies that stands for the database.
const inDatabase = "database"

// accessSource is where keys or policies are: in a file, in the database, or in both.
type accessSource struct {
	file     string
	database bool
}

// Set adds a source.
func (s *accessSource) Set(text string) error {
	switch {
	case text == inDatabase:
		s.database = true
	case text == "":
		return errors.New("it is empty")
	case s.file != "":
		return fmt.Errorf("there are two files, %s and %s", s.file, text)
	default:
		s.file = text
	}
	return nil
}

// String returns the sources.
func (s *accessSource) String() string {
	list := []string{}
	if s.file != "" {
		list = append(list, s.file)
	}
	if s.database {
		list = append(list, inDatabase)
	}
	return strings.Join(list, ", ")
}

// Type is that of flags that can be repeated.
func (s *accessSource) Type() string { return "stringArray" }

// given reports whether there is a source.
func (s *accessSource) given() bool { return s.file != "" || s.database }

func (f *accessFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.Var(&f.keys, "keys", "YAML file of access keys, with which requests must be signed, or database for those that stator key new --endpoint stores there; can be repeated for both. The file is read again on SIGHUP. Without it any credentials are accepted")
	flags.Var(&f.policies, "policies", "YAML file of principals with their IAM policies, which say what the keys of --keys may do, or database for those that stator policy put stores there; can be repeated for both. The files are read again on SIGHUP. Without it each key may do everything")
	flags.StringVar(&f.region, "policy-region", "", "region that requests must be signed for with --policies, which name it; defaults to "+stator.DefaultRegion)
	flags.StringVar(&f.tlsCert, "tls-cert", "", "PEM file with the certificate for TLS, and those of its issuers; read again on SIGHUP")
	flags.StringVar(&f.tlsKey, "tls-key", "", "PEM file with the private key of --tls-cert")
	flags.StringVar(&f.tlsClientCA, "tls-client-ca", "", "PEM file with the certificates that sign those of clients; requires each client to have one")
	flags.BoolVar(&f.allowAnyone, "allow-anyone", false, "accept an --addr that other machines can reach without --keys or TLS: anyone there could read and change all data")
}

// check returns the error of flags that do not fit together.
func (f *accessFlags) check(addr string) error {
	host, _, err := net.SplitHostPort(addr)
	switch {
	case err != nil:
		return usageError{fmt.Errorf("--addr is %q, but must be host:port", addr)}
	case (f.tlsCert == "") != (f.tlsKey == ""):
		return usageError{errors.New("--tls-cert and --tls-key must be given together")}
	case f.region != "" && !f.policies.given():
		return usageError{errors.New("--policy-region requires --policies: without them all regions are accepted")}
	case f.policies.given() && !f.keys.given():
		return usageError{errors.New("--policies requires --keys: without verified signatures nobody is known")}
	case f.tlsClientCA != "" && f.tlsCert == "":
		return usageError{errors.New("--tls-client-ca requires --tls-cert and --tls-key")}
	}
	if ip, err := netip.ParseAddr(host); f.allowAnyone || host == "localhost" || err == nil && ip.IsLoopback() {
		return nil
	}
	const ways = "\n        add %s, or --allow-anyone to listen without"
	const makeKeys, makeTLS = "--keys FILE (stator key new makes one)", "--tls-cert FILE and --tls-key FILE"
	switch {
	case !f.keys.given() && f.tlsCert == "":
		return fmt.Errorf("will not listen on %s: any machine that can reach it could read and change all data"+ways, addr, makeKeys+", "+makeTLS)
	case !f.keys.given():
		return fmt.Errorf("will not listen on %s: any machine that can reach it could read and change all data, because signatures are not verified"+ways, addr, makeKeys)
	case f.tlsCert == "":
		return fmt.Errorf("will not listen on %s: any machine between it and its clients could read all data, because connections are not encrypted"+ways, addr, makeTLS)
	}
	return nil
}

// accessFiles has the keys and certificates of a server.
type accessFiles struct {
	flags  *accessFlags
	access *stator.Access // nil without --keys
	tls    *tlsFiles      // nil without --tls-cert
	hups   chan os.Signal // nil if there is nothing to read again
	done   sync.WaitGroup
	log    *slog.Logger
}

// open reads the files that the flags name. The caller closes it.
func (f *accessFlags) open(log *slog.Logger) (*accessFiles, error) {
	a := &accessFiles{flags: f, log: log}
	if f.keys.given() {
		var err error
		a.access, err = stator.OpenAccess(stator.AccessOptions{Keys: f.keys.file, Policies: f.policies.file, DatabaseKeys: f.keys.database, DatabasePolicies: f.policies.database, Log: log})
		if err != nil {
			return nil, fileError{fmt.Errorf("cannot use %s: %w", f.used(), err)}
		}
	}
	if f.tlsCert != "" {
		a.tls = &tlsFiles{cert: f.tlsCert, key: f.tlsKey, clientCA: f.tlsClientCA}
		if err := a.tls.load(log); err != nil {
			return nil, fileError{err}
		}
	}
	if a.access != nil || a.tls != nil {
		a.hups = make(chan os.Signal, 1)
		signal.Notify(a.hups, syscall.SIGHUP)
		a.done.Go(func() {
			for range a.hups {
				a.reload()
			}
		})
	}
	return a, nil
}

// used names the flags of keys and policies that are given.
func (f *accessFlags) used() string {
	if f.policies.given() {
		return "--keys and --policies"
	}
	return "--keys"
}

// reload reads the files again. What cannot be used stays as it was.
func (a *accessFiles) reload() {
	if a.access != nil {
		switch read, err := a.access.Reload(); {
		case err != nil && a.flags.policies.given():
			a.log.Error("the access keys and the policies stay as they were: a file cannot be used", "error", err)
		case err != nil:
			a.log.Error("the access keys stay as they were: the file cannot be used", "error", err)
		case a.flags.policies.given():
			a.log.Info("the access keys and the policies were read again", "keys", read.Keys, "files", read.Files)
		default:
			a.log.Info("the access keys were read again", "keys", read.Keys)
		}
	}
	if a.tls != nil {
		if err := a.tls.load(a.log); err != nil {
			a.log.Error("the TLS certificates stay as they were: the files cannot be used", "error", err)
		} else {
			a.log.Info("the TLS certificates were read again")
		}
	}
}

// close ends the reading on SIGHUP.
func (a *accessFiles) close() {
	if a.hups != nil {
		signal.Stop(a.hups)
		close(a.hups)
		a.done.Wait()
	}
}

// listen returns the listener of a server on another one: with TLS if it has certificates.
func (a *accessFiles) listen(l net.Listener) net.Listener {
	if a.tls == nil {
		return l
	}
	return tls.NewListener(l, a.tls.config())
}

// scheme is that of the server's URL.
func (a *accessFiles) scheme() string {
	if a.tls == nil {
		return "http"
	}
	return "https"
}

// tlsFiles are the files of certificates, and what was last read from them.
type tlsFiles struct {
	cert, key, clientCA string
	current             atomic.Pointer[tls.Config]
}

// config returns the configuration of a listener. Each connection uses what was last read.
func (t *tlsFiles) config() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) { return t.current.Load(), nil },
	}
}

// load reads the files. After an error, what was read before stays.
func (t *tlsFiles) load(log *slog.Logger) error {
	cert, err := loadKeyPair(t.cert, t.key)
	if err != nil {
		return fmt.Errorf("cannot use --tls-cert %s with --tls-key %s: %w", t.cert, t.key, err)
	}
	c := &tls.Config{MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}, Certificates: []tls.Certificate{cert}}
	if t.clientCA != "" {
		text, err := os.ReadFile(t.clientCA)
		if err != nil {
			return fmt.Errorf("cannot use --tls-client-ca: %w", err)
		}
		trusted, err := parseCertificates(t.clientCA, text)
		if err != nil {
			return fmt.Errorf("cannot use --tls-client-ca: %w", err)
		}
		if len(trusted) == 0 {
			return fmt.Errorf("cannot use --tls-client-ca: %s has no certificate in PEM form", t.clientCA)
		}
		c.ClientCAs, c.ClientAuth = x509.NewCertPool(), tls.RequireAndVerifyClientCert
		for _, one := range trusted {
			c.ClientCAs.AddCert(one)
		}
	}
	// Some systems that provide private keys do not allow another mode, so that this is no error.
	if info, err := os.Stat(t.key); err == nil && process.Exposed(info) {
		log.Warn("other users can read the private key of --tls-key, or change it: run chmod 600", "file", t.key, "mode", fmt.Sprintf("%04o", info.Mode().Perm()))
	}
	if until := cert.Leaf.NotAfter; time.Until(until) < expiryWarning {
		log.Warn("the TLS certificate expires soon, or has expired: replace it and send SIGHUP", "file", t.cert, "expires", until)
	}
	t.current.Store(c)
	return nil
}

// loadKeyPair reads a certificate, with those of its issuers, and its private key.
func loadKeyPair(certFile, keyFile string) (tls.Certificate, error) {
	cert, err := os.ReadFile(certFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	key, err := os.ReadFile(keyFile)
	if err != nil {
		return tls.Certificate{}, err
	}
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return tls.Certificate{}, err
	}
	_, err = parseCertificates(certFile, cert) // X509KeyPair parses the first one only
	return pair, err
}

// parseCertificates returns all certificates of a PEM file. The standard library ignores those that
// it cannot parse, which clients would miss later.
func parseCertificates(file string, text []byte) (all []*x509.Certificate, err error) {
	const begin = "-----BEGIN "
	line, parts := 1, bytes.Split(text, []byte(begin))
	for i, part := range parts {
		if i > 0 {
			block, _ := pem.Decode(append([]byte(begin), part...))
			if block == nil {
				return nil, fmt.Errorf("%s:%d: this is not a whole block in PEM form", file, line)
			}
			if block.Type == "CERTIFICATE" {
				one, err := x509.ParseCertificate(block.Bytes)
				if err != nil {
					return nil, fmt.Errorf("%s:%d: this is not a certificate: %w", file, line, err)
				}
				all = append(all, one)
			}
		}
		line += bytes.Count(part, []byte("\n"))
	}
	return all, nil
}

// expiryWarning is how long before its end a certificate is reported.
const expiryWarning = 7 * 24 * time.Hour
