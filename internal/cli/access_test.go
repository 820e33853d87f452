package cli

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"

	"github.com/stator-db/stator/internal/logtest"
	"github.com/stator-db/stator/internal/model/apply"
)

// authority issues certificates of a test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	file string // PEM
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{file: filepath.Join(t.TempDir(), "ca.pem")}
	a.cert, a.key = a.certificate(t, "authority", true)
	writePEM(t, a.file, "CERTIFICATE", a.cert.Raw)
	return a
}

var serialNumbers atomic.Int64

func (a *authority) certificate(t *testing.T, name string, isCA bool) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := &x509.Certificate{
		SerialNumber: big.NewInt(serialNumbers.Add(1)), Subject: pkix.Name{CommonName: name}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(30 * 24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: isCA, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	parent, signer := a.cert, a.key
	if parent == nil {
		parent, signer = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	c, err = x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return c, key
}

// issue writes a certificate and its key to files.
func (a *authority) issue(t *testing.T, name, certFile, keyFile string) {
	t.Helper()
	cert, key := a.certificate(t, name, false)
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, certFile, "CERTIFICATE", cert.Raw)
	writePEM(t, keyFile, "EC PRIVATE KEY", der)
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	writePrivate(t, path, string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})))
}

func writePrivate(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

const (
	testKeyID  = "AKIATESTTESTTESTTEST"
	testSecret = "PLANTEDsecretOfTheTests0123456789abcdefg"
)

// keysText is a file with the key of the tests.
const keysText = "keys:\n  - access_key: " + testKeyID + "\n    secret: " + testSecret + "\n"

// securedFlags are flags of a server with keys and TLS. The environment has the key, and trusts the certificate.
func securedFlags(t *testing.T) (*serveFlags, *authority) {
	t.Helper()
	dir := t.TempDir()
	a := newAuthority(t)
	f := &serveFlags{addr: "127.0.0.1:0", inMemory: true, cacheMB: 64, log: "debug", durability: "strict",
		access: accessFlags{keys: accessSource{file: filepath.Join(dir, "keys.yaml")}, tlsCert: filepath.Join(dir, "cert.pem"), tlsKey: filepath.Join(dir, "key.pem")}}
	writePrivate(t, f.access.keys.file, keysText)
	a.issue(t, "first", f.access.tlsCert, f.access.tlsKey)
	t.Setenv("AWS_ACCESS_KEY_ID", testKeyID)
	t.Setenv("AWS_SECRET_ACCESS_KEY", testSecret)
	t.Setenv("AWS_SESSION_TOKEN", "")
	t.Setenv(envCABundle, a.file)
	return f, a
}

// startLogged is startServe with a log of all that the server prints.
func startLogged(t *testing.T, f *serveFlags) (string, *logtest.Log) {
	t.Helper()
	log := new(logtest.Log)
	ctx, cancel := context.WithCancel(t.Context())
	printed, stderr := io.Pipe()
	ended := make(chan error, 1)
	go func() { ended <- serve(ctx, f, io.MultiWriter(log, stderr)) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	scanner := bufio.NewScanner(printed)
	var url string
	for scanner.Scan() && !strings.HasPrefix(scanner.Text(), "data is in ") {
		if _, found, ok := strings.Cut(scanner.Text(), "stator listens on "); ok {
			url = found
		}
	}
	go io.Copy(io.Discard, printed) //nolint:errcheck // it ends with the test
	return url, log
}

// waitFor waits until the log has a text.
func waitFor(t *testing.T, log *logtest.Log, text string) {
	t.Helper()
	for !strings.Contains(log.String(), text) {
		if t.Context().Err() != nil {
			t.Fatalf("the log has no %q", text)
		}
		time.Sleep(time.Millisecond)
	}
}

// hangUp makes the servers of this process read their files again.
func hangUp(t *testing.T) {
	t.Helper()
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
}

const createOrders = `{"TableName":"Orders","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"id","AttributeType":"S"}],"KeySchema":[{"AttributeName":"id","KeyType":"HASH"}]}`

// All commands work with a server that has keys and TLS, and those without the key do not.
func TestSecuredServer(t *testing.T) {
	f, _ := securedFlags(t)
	url, _ := startLogged(t, f)
	if !strings.HasPrefix(url, "https://127.0.0.1:") {
		t.Fatalf("the URL is %s", url)
	}
	client := clientOf(url, "eu-west-1")
	description, err := client.Send(t.Context(), "CreateTable", json.RawMessage(createOrders))
	if err != nil || !strings.Contains(string(description), `"arn:aws:dynamodb:eu-west-1:000000000000:table/Orders"`) {
		t.Fatalf("CreateTable returns %s, %v", description, err)
	}
	for what, send := range map[string]func() ([]byte, error){
		"CloudWatch": func() ([]byte, error) { return client.SendWatch(t.Context(), "ListMetrics", struct{}{}) },
		"streams":    func() ([]byte, error) { return client.SendStreams(t.Context(), "ListStreams", struct{}{}) },
		"own": func() ([]byte, error) {
			return client.SendOwn(t.Context(), "SetThrottling", map[string]string{"TableName": "Orders", "Throttling": "on"})
		},
		"metrics": func() ([]byte, error) { return client.Get(t.Context(), "/metrics") },
		"shapes":  func() ([]byte, error) { return client.Get(t.Context(), "/shapes") },
	} {
		if text, err := send(); err != nil {
			t.Errorf("%s: %s, %v", what, text, err)
		}
	}
	commands := [][]string{
		{"verify", "--endpoint", url}, {"backup", "--endpoint", url, "--to", filepath.Join(t.TempDir(), "backup")},
		{"table", "throttle", "Orders", "off", "--endpoint", url}, {"promote", "--endpoint", url},
	}
	for _, args := range commands {
		if code, out := run(args...); code != exitDone {
			t.Errorf("%v exits with %d:\n%s", args, code, out)
		}
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", "another")
	for _, args := range commands[:3] {
		if code, out := run(args...); code != exitFailed || !strings.Contains(out, "InvalidSignatureException") {
			t.Errorf("with another secret %v exits with %d:\n%s", args, code, out)
		}
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIAOTHER")
	if code, out := run(commands[0]...); code != exitFailed || !strings.Contains(out, "UnrecognizedClientException") {
		t.Errorf("with another key %v exits with %d:\n%s", commands[0], code, out)
	}
	t.Setenv(envCABundle, "")
	if code, out := run(commands[0]...); code != exitFailed || !strings.Contains(out, "certificate") {
		t.Errorf("without the authority %v exits with %d:\n%s", commands[0], code, out)
	}
	t.Setenv(envCABundle, "/does/not/exist")
	if code, out := run(commands[0]...); code != exitFailed || !strings.Contains(out, "cannot use AWS_CA_BUNDLE") {
		t.Errorf("with a wrong AWS_CA_BUNDLE %v exits with %d:\n%s", commands[0], code, out)
	}
}

// TLS 1.2 and 1.3 are accepted, older versions and plain HTTP are not.
func TestTLSVersions(t *testing.T) {
	f, a := securedFlags(t)
	url, _ := startLogged(t, f)
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	for version, ok := range map[uint16]bool{tls.VersionTLS10: false, tls.VersionTLS11: false, tls.VersionTLS12: true, tls.VersionTLS13: true} {
		c, err := tls.Dial("tcp", strings.TrimPrefix(url, "https://"), &tls.Config{RootCAs: pool, MinVersion: version, MaxVersion: version})
		if ok != (err == nil) {
			t.Errorf("%s: %v", tls.VersionName(version), err)
		}
		if err == nil {
			c.Close()
		}
	}
	reply, err := http.Get(strings.Replace(url, "https://", "http://", 1) + "/livez")
	if err == nil {
		reply.Body.Close()
		if reply.StatusCode == http.StatusOK {
			t.Error("plain HTTP is answered")
		}
	}
}

// With --tls-client-ca only clients with a certificate of that authority are connected.
func TestClientCertificates(t *testing.T) {
	f, _ := securedFlags(t)
	clients, others := newAuthority(t), newAuthority(t)
	f.access.tlsClientCA = clients.file
	url, _ := startLogged(t, f)
	dir := t.TempDir()
	for _, c := range []struct {
		name   string
		issuer *authority
		ok     bool
	}{{"none", nil, false}, {"another", others, false}, {"right", clients, true}} {
		if c.issuer != nil {
			cert, key := filepath.Join(dir, c.name+".pem"), filepath.Join(dir, c.name+".key")
			c.issuer.issue(t, c.name, cert, key)
			t.Setenv(envClientCert, cert)
			t.Setenv(envClientKey, key)
		}
		if _, err := clientOf(url, "us-east-1").Send(t.Context(), "ListTables", struct{}{}); c.ok != (err == nil) {
			t.Errorf("with the certificate %s: %v", c.name, err)
		}
	}
}

// On SIGHUP keys and certificates are read again, while requests go on over the same
// connections. Files that cannot be used change nothing.
func TestReload(t *testing.T) {
	f, a := securedFlags(t)
	url, log := startLogged(t, f)
	client := clientOf(url, "us-east-1")
	var opened atomic.Int32
	ctx, stop := context.WithCancel(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) {
		if !i.Reused {
			opened.Add(1)
		}
	}}))
	var running sync.WaitGroup
	var answered atomic.Int32
	const clients = 4
	for range clients {
		running.Go(func() {
			for ctx.Err() == nil {
				if _, err := client.Send(ctx, "ListTables", struct{}{}); err != nil && ctx.Err() == nil {
					t.Error(err)
				}
				answered.Add(1)
			}
		})
	}
	served := func() string {
		c, err := tls.Dial("tcp", strings.TrimPrefix(url, "https://"), &tls.Config{InsecureSkipVerify: true}) //nolint:gosec // it reads the certificate only
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		return c.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	other := &apply.Endpoint{URL: url, Client: client.Client, Sign: func(r *http.Request, body []byte) error {
		return signRequest(r, body, aws.Credentials{AccessKeyID: "AKIASECOND", SecretAccessKey: "the second"}, "us-east-1")
	}}
	secondWorks := func() error {
		_, err := other.Send(t.Context(), "ListTables", struct{}{})
		return err
	}
	if err := secondWorks(); err == nil || served() != "first" {
		t.Errorf("before: %v, %s", err, served())
	}

	writePrivate(t, f.access.keys.file, keysText+"  - access_key: AKIASECOND\n    secret: the second\n")
	a.issue(t, "second", f.access.tlsCert, f.access.tlsKey)
	hangUp(t)
	waitFor(t, log, "the TLS certificates were read again")
	if err := secondWorks(); err != nil || served() != "second" || !strings.Contains(log.String(), "keys=2") {
		t.Errorf("after the reload: %v, %s\n%s", err, served(), log)
	}

	log.Reset()
	writePrivate(t, f.access.keys.file, keysText+"  - access_key: AKIATHIRD\n    secrets: wrong\n")
	writePrivate(t, f.access.tlsCert, "no certificate")
	hangUp(t)
	waitFor(t, log, "the TLS certificates stay as they were")
	if err := secondWorks(); err != nil || served() != "second" || !strings.Contains(log.String(), "keys.yaml:5:5: \\\"secrets\\\" is not a member") {
		t.Errorf("after a reload that failed: %v, %s\n%s", err, served(), log)
	}

	log.Reset()
	writePrivate(t, f.access.keys.file, keysText)
	hangUp(t)
	waitFor(t, log, "keys=1")
	if err := secondWorks(); err == nil || !strings.Contains(err.Error(), "UnrecognizedClientException") {
		t.Errorf("a key that was removed: %v", err)
	}
	stop()
	running.Wait()
	if n := opened.Load(); n > clients || answered.Load() < clients {
		t.Errorf("%d requests of %d clients opened %d connections", answered.Load(), clients, n)
	}
}

// No secret, token or password is printed, whatever is sent.
func TestSecretsAreNotPrinted(t *testing.T) {
	const token = "PLANTEDtokenOfTheTests0123456789"
	f, _ := securedFlags(t)
	f.access.tlsCert, f.access.tlsKey = "", ""
	const temporary = "  - access_key: ASIATEMP\n    secret: " + testSecret + "TEMP\n    session_token: " + token + "\n    expires: 2999-01-01T00:00:00Z\n"
	writePrivate(t, f.access.keys.file, keysText+temporary)
	url, log := startLogged(t, f)
	var text bytes.Buffer
	add := func(what string, reply []byte, err error) { fmt.Fprintf(&text, "%s: %s %v\n", what, reply, err) }
	post := func(change func(r *http.Request)) {
		body := `{"TableName":"None"}`
		r, err := http.NewRequest(http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Amz-Target", "DynamoDB_20120810.DescribeTable")
		r.Header.Set("Content-Type", "application/x-amz-json-1.0")
		if err := signFor("us-east-1")(r, []byte(body)); err != nil {
			t.Fatal(err)
		}
		change(r)
		reply, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer reply.Body.Close()
		got, err := io.ReadAll(reply.Body)
		add(reply.Status, got, err)
	}
	for _, env := range [][3]string{{testKeyID, testSecret, ""}, {testKeyID, testSecret + "x", ""}, {"ASIATEMP", testSecret + "TEMP", token}, {"ASIATEMP", testSecret + "TEMP", token + "x"}, {"ASIATEMP", "wrong", token}, {"AKIANONE", testSecret, token}} {
		t.Setenv("AWS_ACCESS_KEY_ID", env[0])
		t.Setenv("AWS_SECRET_ACCESS_KEY", env[1])
		t.Setenv("AWS_SESSION_TOKEN", env[2])
		post(func(*http.Request) {})
		post(func(r *http.Request) { r.Body, r.ContentLength = io.NopCloser(strings.NewReader("{}")), 2 })
		post(func(r *http.Request) { r.Header.Set("X-Amz-Date", "20200101T000000Z") })
		post(func(r *http.Request) { r.Header.Del("X-Amz-Date") })
		post(func(r *http.Request) { r.Header.Set("Authorization", r.Header.Get("Authorization")+"x") })
		post(func(r *http.Request) { r.URL.RawQuery = "X-Amz-Security-Token=" + token })
		metrics, err := clientOf(url, "us-east-1").Get(t.Context(), "/metrics")
		add("metrics", metrics, err)
	}
	for _, broken := range []string{keysText + "  - secret: " + testSecret + "\n", "keys: [" + testSecret + "\n", keysText + testSecret + "\n", "keys:\n  - access_key: a\n    secret: \"" + testSecret + "\n", keysText + keysText} {
		writePrivate(t, f.access.keys.file, broken)
		hangUp(t)
		waitFor(t, log, "the access keys stay as they were")
		text.WriteString(log.String())
		log.Reset()
		_, stdout, stderr := runStator(t, "key", "list", "--keys", f.access.keys.file)
		text.WriteString(stdout + stderr)
	}
	if strings.Count(text.String(), "x-amz-security-token:[secret]") == 0 || strings.Count(text.String(), "SignatureException") == 0 {
		t.Errorf("the control: wrong signatures are not logged\n%s", &text)
	}
	if i := strings.Index(text.String(), "PLANTED"); i >= 0 {
		t.Errorf("a secret is printed: %s", text.String()[max(0, i-500):min(text.Len(), i+100)])
	}
}

// A standby follows a server with keys and TLS, and takes its place with keys and TLS of its own.
func TestSecuredStandby(t *testing.T) {
	f, a := securedFlags(t)
	f.inMemory, f.data = false, filepath.Join(t.TempDir(), "primary")
	url, _ := startLogged(t, f)
	if _, err := clientOf(url, "us-east-1").Send(t.Context(), "CreateTable", json.RawMessage(createOrders)); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	s := &serveFlags{addr: "127.0.0.1:0", cacheMB: 64, log: "info", data: filepath.Join(dir, "standby"), access: accessFlags{keys: f.access.keys, tlsCert: filepath.Join(dir, "cert.pem"), tlsKey: filepath.Join(dir, "key.pem")}}
	a.issue(t, "standby", s.access.tlsCert, s.access.tlsKey)
	log := new(logtest.Log)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- followServer(ctx, s, url, "us-east-1", log) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	waitFor(t, log, "listens on https://")
	_, own, _ := strings.Cut(log.String(), "listens on ")
	own, _, _ = strings.Cut(own, "\n")
	client := clientOf(own, "us-east-1")
	for {
		text, err := client.Get(t.Context(), "/standby")
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "FOLLOWING") {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if text, err := client.Get(t.Context(), "/metrics"); err != nil {
		t.Errorf("metrics: %s, %v", text, err)
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", "another")
	for _, path := range []string{"/standby", "/metrics"} {
		if _, err := client.Get(t.Context(), path); err == nil || !strings.Contains(err.Error(), "InvalidSignatureException") {
			t.Errorf("%s with another secret: %v", path, err)
		}
	}
	if code, out := run("promote", "--endpoint", own); code != exitFailed || !strings.Contains(out, "InvalidSignatureException") {
		t.Errorf("promote with another secret exits with %d:\n%s", code, out)
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", testSecret)
	if code, out := run("promote", "--endpoint", own); code != exitDone {
		t.Errorf("promote exits with %d:\n%s", code, out)
	}
	if text, err := client.Send(t.Context(), "ListTables", struct{}{}); err != nil || !strings.Contains(string(text), "Orders") {
		t.Errorf("the promoted standby has %s, %v", text, err)
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", "another")
	if _, err := client.Send(t.Context(), "ListTables", struct{}{}); err == nil {
		t.Error("the promoted standby accepts another secret")
	}
}

// A private key that others can read is reported.
func TestModeOfTLSKey(t *testing.T) {
	f, _ := securedFlags(t)
	for mode, open := range map[os.FileMode]bool{0o600: false, 0o400: false, 0o640: true, 0o604: true, 0o620: true} {
		if err := os.Chmod(f.access.tlsKey, mode); err != nil {
			t.Fatal(err)
		}
		log := new(logtest.Log)
		files := &tlsFiles{cert: f.access.tlsCert, key: f.access.tlsKey}
		if err := files.load(slog.New(slog.NewTextHandler(log, nil))); err != nil {
			t.Fatal(err)
		}
		if open != strings.Contains(log.String(), "other users can read the private key") {
			t.Errorf("with the mode %04o the log is %s", mode, log)
		}
	}
}

// Each certificate of a file must be one, not only the first; the error has its line.
func TestMalformedCertificates(t *testing.T) {
	f, a := securedFlags(t)
	log := slog.New(slog.DiscardHandler)
	if err := (&tlsFiles{cert: f.access.tlsCert, key: f.access.tlsKey, clientCA: a.file}).load(log); err != nil {
		t.Fatalf("the control: %v", err)
	}
	for _, c := range []struct{ name, text, want string }{
		{"no certificate in a block", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", "this is not a certificate"},
		{"a block without an end", "-----BEGIN CERTIFICATE-----\nAAAA\n", "this is not a whole block in PEM form"},
		{"a block that is not base64", "-----BEGIN CERTIFICATE-----\n!!!!\n-----END CERTIFICATE-----\n", "this is not a whole block in PEM form"},
	} {
		for _, flag := range []string{"--tls-cert", "--tls-client-ca"} {
			files := &tlsFiles{cert: f.access.tlsCert, key: f.access.tlsKey, clientCA: a.file}
			path := filepath.Join(t.TempDir(), "bad.pem")
			changed := &files.cert
			if flag == "--tls-client-ca" {
				changed = &files.clientCA
			}
			good, err := os.ReadFile(*changed)
			if err != nil {
				t.Fatal(err)
			}
			*changed = path
			writePrivate(t, path, string(good)+c.text)
			want := fmt.Sprintf("%s:%d: %s", path, strings.Count(string(good), "\n")+1, c.want)
			if err := files.load(log); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), flag) {
				t.Errorf("%s in %s: %v, want %s", c.name, flag, err, want)
			}
		}
	}
}

func TestAccessFlags(t *testing.T) {
	f, _ := securedFlags(t)
	dir := t.TempDir()
	open := filepath.Join(dir, "open.yaml")
	writePrivate(t, open, keysText)
	if err := os.Chmod(open, 0o644); err != nil {
		t.Fatal(err)
	}
	wrong := filepath.Join(dir, "wrong.yaml")
	writePrivate(t, wrong, keysText+"    policies: []\n")
	withKeys, withTLS := []string{"--keys", f.access.keys.file}, []string{"--tls-cert", f.access.tlsCert, "--tls-key", f.access.tlsKey}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--addr", "0.0.0.0:0"}, exitFailed, "add --keys FILE (stator key new makes one), --tls-cert FILE and --tls-key FILE, or --allow-anyone"},
		{append([]string{"--addr", "0.0.0.0:0"}, withKeys...), exitFailed, "connections are not encrypted\n        add --tls-cert FILE and --tls-key FILE, or --allow-anyone"},
		{append([]string{"--addr", ":0"}, withTLS...), exitFailed, "signatures are not verified\n        add --keys FILE"},
		{[]string{"--addr", "db.example.org:0"}, exitFailed, "will not listen on db.example.org:0"},
		{withTLS[:2], exitUsage, "--tls-cert and --tls-key must be given together"},
		{withTLS[2:], exitUsage, "--tls-cert and --tls-key must be given together"},
		{[]string{"--tls-client-ca", f.access.tlsCert}, exitUsage, "--tls-client-ca requires --tls-cert and --tls-key"},
		{append([]string{"--tls-client-ca", f.access.tlsKey}, withTLS...), exitUsage, "key.pem has no certificate"},
		{append([]string{"--tls-client-ca", "/does/not/exist"}, withTLS...), exitUsage, "cannot use --tls-client-ca"},
		{[]string{"--tls-cert", f.access.tlsKey, "--tls-key", f.access.tlsCert}, exitUsage, "cannot use --tls-cert"},
		{[]string{"--keys", "/does/not/exist"}, exitUsage, "cannot use --keys"},
		{[]string{"--keys", open}, exitUsage, "run: chmod 600 " + open},
		{[]string{"--keys", wrong}, exitUsage, "wrong.yaml:4:5: \"policies\" is not a member of a key"},
	} {
		for _, command := range [][]string{{"serve", "--in-memory"}, {"standby", "--of", "http://127.0.0.1:1", "--data", filepath.Join(dir, "none")}} {
			args := append(append(command, "--addr", "127.0.0.1:0"), c.args...)
			if code, out := run(args...); code != c.code || !strings.Contains(out, c.want) {
				t.Errorf("%v exits with %d, want %d with %s:\n%s", args, code, c.code, c.want, out)
			}
		}
	}
}

// Keys and TLS together are enough for any address; so is the flag.
func TestOtherAddresses(t *testing.T) {
	for _, f := range []accessFlags{{keys: accessSource{file: "a"}, tlsCert: "b", tlsKey: "c"}, {allowAnyone: true}} {
		for _, addr := range []string{"0.0.0.0:8000", ":8000", "10.0.0.1:8000", "[::]:8000", "db.example.org:443", "127.0.0.1:8000"} {
			if err := f.check(addr); err != nil {
				t.Errorf("%+v on %s: %v", f, addr, err)
			}
		}
	}
}
