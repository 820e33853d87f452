package cli

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsconfig "github.com/aws/aws-sdk-go-v2/config"
	"github.com/spf13/cobra"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/console"
	"github.com/stator-db/stator/internal/console/workbench"
	"github.com/stator-db/stator/internal/model/apply"
)

// consoleFlags are the flags of stator console.
type consoleFlags struct{ endpoint, region, addr, mode, model string }

func consoleCommand() *cobra.Command {
	var f consoleFlags
	cmd := &cobra.Command{
		Use:   "console",
		Short: "Serve the console for an endpoint: a stator, AWS, or another server of the DynamoDB API",
		Long: `Serve the console for an endpoint: a stator, AWS, or another server of the DynamoDB API.

Requests are signed with your credentials, which are found as by the AWS CLI. Open
the address that it prints; its token lets only you use them:

  stator console --endpoint http://127.0.0.1:8000
  stator console --endpoint https://dynamodb.eu-west-1.amazonaws.com --mode write

A stator that is started with --console needs no command of its own.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return f.run(cmd.Context(), cmd.ErrOrStderr()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&f.endpoint, "endpoint", "", "URL of the server, such as http://127.0.0.1:8000")
	flags.StringVar(&f.region, "region", "", "region to sign requests for; defaults to that of the endpoint, of your AWS configuration, or us-east-1")
	flags.StringVar(&f.addr, "addr", "127.0.0.1:8002", "loopback address to listen on; port 0 chooses a free port")
	flags.StringVar(&f.model, "model", "", "file of an access-pattern model that the console shows")
	flags.StringVar(&f.mode, "mode", string(console.ReadOnly), "read lets you see data, write change it")
	return cmd
}

func (f *consoleFlags) run(ctx context.Context, stderr io.Writer) error {
	endpoint, err := f.open(ctx)
	if err != nil {
		return err
	}
	if f.mode != string(console.ReadOnly) && f.mode != string(console.ReadWrite) {
		return usageError{fmt.Errorf("--mode is %q, but must be read or write", f.mode)}
	}
	if err := checkConsoleModel(f.mode, f.model); err != nil {
		return err
	}
	if host, _, err := net.SplitHostPort(f.addr); err != nil || !isLoopbackName(host) {
		return usageError{fmt.Errorf("--addr is %q, but must be a loopback address such as 127.0.0.1:8002: whoever reaches it could use your credentials", f.addr)}
	}
	listener, err := net.Listen("tcp", f.addr)
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w\n        stop the program that uses it, or choose another address with --addr", f.addr, err)
	}
	pages := console.New(console.Options{
		Endpoint: endpoint, Mode: console.Mode(f.mode), Version: version().Version, Workbench: workbench.New(f.model),
		AcceptsHost: func(host string) bool {
			name, _, err := net.SplitHostPort(host)
			return err == nil && isLoopbackName(name)
		},
	})
	mux := http.NewServeMux()
	mux.Handle(console.Base, pages)
	mux.Handle("GET /{$}", http.RedirectHandler(console.Base, http.StatusTemporaryRedirect))
	web := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 3 * time.Minute, MaxHeaderBytes: 32 << 10, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)}
	stop := context.AfterFunc(ctx, func() { _ = web.Close() })
	defer stop()
	fmt.Fprintf(stderr, "the console of %s, signed for %s, is at\n  http://%s%s#token=%s\n", f.endpoint, endpoint.region, listener.Addr(), console.Base, endpoint.token)
	if err := web.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func isLoopbackName(host string) bool {
	at, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && at.IsLoopback()
}

// metadataDisabled is the ClientDisabled of the SDK's package imds. The credentials of a machine in AWS are
// for AWS alone, and elsewhere the question for them takes time.
const metadataDisabled = 1

// open returns the endpoint of the flags.
func (f *consoleFlags) open(ctx context.Context) (*remoteEndpoint, error) {
	u, err := url.Parse(f.endpoint)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, usageError{fmt.Errorf("--endpoint is %q, but must be a URL such as http://127.0.0.1:8000", f.endpoint)}
	}
	e := &remoteEndpoint{url: u, client: serverClient(time.Minute), aws: strings.HasSuffix(u.Hostname(), ".amazonaws.com")}
	var options []func(*awsconfig.LoadOptions) error
	if !e.aws {
		options = append(options, awsconfig.WithEC2IMDSClientEnableState(metadataDisabled))
	}
	settings, err := awsconfig.LoadDefaultConfig(ctx, options...)
	if err != nil {
		return nil, fmt.Errorf("cannot read the AWS configuration: %w", err)
	}
	e.region = cmp.Or(f.region, e.regionOfHost(), settings.Region, "us-east-1")
	e.credentials = settings.Credentials
	if _, err := e.credentials.Retrieve(ctx); err != nil {
		if e.aws {
			return nil, fmt.Errorf("found no AWS credentials: %w\n        set AWS_PROFILE or AWS_ACCESS_KEY_ID, or run aws sso login", err)
		}
		e.credentials = aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return environmentCredentials(), nil })
	}
	var random [24]byte
	rand.Read(random[:]) // it never fails
	e.token = base64.RawURLEncoding.EncodeToString(random[:])
	return e, nil
}

// remoteEndpoint sends the requests of a console to another server.
type remoteEndpoint struct {
	url         *url.URL
	aws         bool
	region      string
	credentials aws.CredentialsProvider
	client      *http.Client
	token       string                        // with which a person signs in
	ahead       atomic.Pointer[time.Duration] // of the clock here, when it last answered; nil for unknown
}

// regionOfHost returns the region in the name of an endpoint of AWS; empty if there is none.
func (e *remoteEndpoint) regionOfHost() string {
	if parts := strings.Split(e.url.Hostname(), "."); e.aws && len(parts) == 4 {
		return parts[1]
	}
	return ""
}

// Asks returns what a person must give to sign in.
func (*remoteEndpoint) Asks() console.SignIn { return console.SignInToken }

// About returns what the page shows.
func (e *remoteEndpoint) About() console.About {
	about := console.About{URL: e.url.String(), Region: e.region, AWS: e.aws}
	if e.aws {
		about.Notice = "This is AWS: requests are signed with your credentials and cost money. Tables of region " + e.region + " are shown."
	}
	return about
}

// Now returns the time of the endpoint as its last reply had it.
func (e *remoteEndpoint) Now() time.Time {
	ahead := e.ahead.Load()
	if ahead == nil {
		return time.Time{}
	}
	return time.Now().Add(*ahead)
}

// Identify accepts the token that the command has printed.
func (e *remoteEndpoint) Identify(_ context.Context, c console.Credentials, _ console.Client) (console.Identity, error) {
	given, want := sha256.Sum256([]byte(c.Secret)), sha256.Sum256([]byte(e.token))
	if subtle.ConstantTimeCompare(given[:], want[:]) != 1 {
		return console.Identity{}, console.ErrCredentials
	}
	return console.Identity{}, nil
}

// Permit permits everything: what the console answers itself is of the person who has started it.
func (*remoteEndpoint) Permit(context.Context, console.Identity, console.Request, string) (string, error) {
	return "", nil
}

// maxRemoteReply is the size limit of a reply: BatchGetItem has up to 16 MB.
const maxRemoteReply = 32 << 20

// Do signs a request and sends it.
func (e *remoteEndpoint) Do(ctx context.Context, _ console.Identity, r console.Request) (console.Reply, error) {
	address, ok := e.addressOf(r.Target)
	if !ok {
		return console.Reply{}, apierror.UnknownOperation()
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, address, bytes.NewReader(r.Body))
	if err != nil {
		return console.Reply{}, err
	}
	request.Header.Set("X-Amz-Target", r.Target)
	request.Header.Set("Content-Type", "application/x-amz-json-1.0")
	if signedService(r.Target) == "application-autoscaling" || signedService(r.Target) == "dax" {
		request.Header.Set("Content-Type", "application/x-amz-json-1.1")
	}
	with, err := e.credentials.Retrieve(ctx)
	if err != nil {
		return console.Reply{}, fmt.Errorf("your credentials cannot be read any more: %w", err)
	}
	if err := signRequest(request, r.Body, with, e.region); err != nil {
		return console.Reply{}, err
	}
	response, err := e.client.Do(request)
	if err != nil {
		return console.Reply{}, err
	}
	defer response.Body.Close()
	if at, err := http.ParseTime(response.Header.Get("Date")); err == nil {
		ahead := time.Until(at)
		e.ahead.Store(&ahead)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxRemoteReply))
	if err != nil {
		return console.Reply{}, err
	}
	return console.Reply{Status: response.StatusCode, ID: response.Header.Get("X-Amzn-Requestid"), Body: body}, nil
}

// addressOf returns where requests with a target are sent. AWS has a host for each service, and
// no operations of ours.
func (e *remoteEndpoint) addressOf(target string) (string, bool) {
	if !e.aws {
		return e.url.String(), true
	}
	at := *e.url
	switch service, _, _ := strings.Cut(target, "."); {
	case service == "DynamoDBStreams_20120810":
		at.Host = "streams." + at.Host
	case strings.HasPrefix(target, apply.TargetWatch):
		at.Host = "monitoring." + e.region + ".amazonaws.com"
	case strings.HasPrefix(target, apply.TargetScaling):
		at.Host = "application-autoscaling." + e.region + ".amazonaws.com"
	case service != "DynamoDB_20120810":
		return "", false
	}
	return at.String(), true
}
