// Package documents joins the parts of the document extraction service: tables,
// bucket, sessions, pipeline, ingestion, API and pages.
package documents

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"gocloud.dev/blob"
	_ "gocloud.dev/blob/fileblob" // file://
	_ "gocloud.dev/blob/memblob"  // mem://
	_ "gocloud.dev/blob/s3blob"   // s3://
	"gocloud.dev/pubsub"
	_ "gocloud.dev/pubsub/awssnssqs"    // awssqs://
	_ "gocloud.dev/pubsub/mempubsub"    // mem://
	_ "gocloud.dev/pubsub/natspubsub"   // nats://
	_ "gocloud.dev/pubsub/rabbitpubsub" // rabbit://
	"golang.org/x/sync/errgroup"

	"github.com/stator-db/stator/apps/documents/api"
	"github.com/stator-db/stator/apps/documents/hook"
	"github.com/stator-db/stator/apps/documents/ingest"
	"github.com/stator-db/stator/apps/documents/keys"
	"github.com/stator-db/stator/apps/documents/mail"
	"github.com/stator-db/stator/apps/documents/pipeline"
	"github.com/stator-db/stator/apps/documents/session"
	"github.com/stator-db/stator/apps/documents/table"
	"github.com/stator-db/stator/apps/documents/trial"
	"github.com/stator-db/stator/apps/internal/home"
	"github.com/stator-db/stator/apps/internal/web"
)

// Model is the text of the table's model.
//
//go:embed documents.model.yaml
var Model []byte

// Options configure a System.
type Options struct {
	Home home.Options

	// Bucket is where files are stored: a folder, or a URL that begins with
	// file://, mem:// or s3://. It defaults to the embedded stator's folder with
	// the suffix "-bucket", or to memory.
	Bucket string

	// Notices is the URL of a subscription to notices of new files, in addition to
	// the passes through the inbox. May be empty.
	Notices string

	// ModelService is the URL of the HTTP extractor. May be empty.
	ModelService string

	// Model is the language model that workflows may choose or verify with. May be
	// empty.
	Model LanguageModel

	// OCR is the program that recognises pictures, and OCRLanguages the languages
	// of their text, such as eng+deu.
	OCR, OCRLanguages string

	// JWKS is the URL of the identity provider's keys, and Issuer its name in
	// tokens. They default to the built-in issuer, whose key is in a file next to
	// the embedded stator's folder.
	JWKS, Issuer string

	// OIDC configures the sign-in of people at an identity provider. It is used if
	// it has an issuer, and needs URL.
	OIDC session.ProviderOptions

	// IssuerKey is the file with the key of our own sessions. It defaults to a file
	// next to the embedded stator's folder.
	IssuerKey string

	// Names are the names of the identity provider's claims.
	Names session.Names

	// SMTP is the URL of a mail server, and MailFrom the sender of mails. May be empty.
	SMTP, MailFrom string

	// URL is where people reach the pages, for links in mails. May be empty.
	URL string

	// PrivateHooks allows webhooks at private addresses and without TLS.
	PrivateHooks bool

	Retention time.Duration // how long failed documents and batches are listed by status
	Lease     time.Duration // time after which the work of a crashed processor is taken over
	AtOnce    int           // documents of a batch that are processed concurrently
	Attempts  int           // attempts before a document fails
	Look      time.Duration // how often to look for work and new files

	Log *slog.Logger
	Now func() time.Time
}

// Defaults returns the default options.
func Defaults() Options {
	return Options{
		Home: home.Options{Model: Model},
		OCR:  "tesseract", OCRLanguages: "eng",
		Names:     session.DefaultNames(),
		Retention: table.DefaultRetention,
		Lease:     30 * time.Second,
		AtOnce:    4,
		Attempts:  5,
		Look:      2 * time.Second,
		Log:       slog.New(slog.DiscardHandler),
		Now:       time.Now,
	}
}

// StoreFlags adds the flags of all commands.
func (o *Options) StoreFlags(f *pflag.FlagSet) {
	o.Home.Flags(f)
	f.StringVar(&o.Bucket, "bucket", o.Bucket, "where files are stored: a folder, or a URL such as s3://name (default the folder of --data with the suffix -bucket)")
}

// WorkFlags adds the flags of commands that process documents.
func (o *Options) WorkFlags(f *pflag.FlagSet) {
	f.StringVar(&o.Notices, "notices", o.Notices, "URL of a subscription to notices of new files, such as awssqs://sqs.eu-west-1.amazonaws.com/123456789012/files?region=eu-west-1, nats://subject or rabbit://queue")
	f.StringVar(&o.ModelService, "model-service", o.ModelService, "URL of an HTTP extractor that workflows may choose")
	f.StringVar(&o.Model.API, "model-api", o.Model.API, "API of a language model that workflows may choose or verify with: openai or bedrock")
	f.StringVar(&o.Model.URL, "model-url", o.Model.URL, "URL of the language model (default for bedrock the endpoint of the region); its key is in "+ModelKey)
	f.StringVar(&o.Model.Name, "model-name", o.Model.Name, "name or id of the language model")
	f.StringVar(&o.OCR, "ocr", o.OCR, "program that recognises pictures and scanned pages")
	f.StringVar(&o.OCRLanguages, "ocr-languages", o.OCRLanguages, "languages of pictures, such as eng+deu; each needs its Tesseract data")
	f.StringVar(&o.SMTP, "smtp", o.SMTP, "URL of a mail server, such as smtp://user:password@host:587")
	f.StringVar(&o.MailFrom, "mail-from", o.MailFrom, "sender of mails, such as documents@example.com")
	f.StringVar(&o.URL, "url", o.URL, "URL at which people reach the pages, for links in mails")
	f.BoolVar(&o.PrivateHooks, "allow-private-webhooks", o.PrivateHooks, "allow webhooks at private addresses and without TLS")
	f.DurationVar(&o.Retention, "retention", o.Retention, "how long failed documents and batches are listed by status")
	f.DurationVar(&o.Lease, "lease", o.Lease, "time after which the work of a crashed processor is taken over")
	f.IntVar(&o.AtOnce, "at-once", o.AtOnce, "documents of a batch that are processed concurrently")
	f.IntVar(&o.Attempts, "attempts", o.Attempts, "attempts before a document fails")
	f.DurationVar(&o.Look, "look", o.Look, "how often to look for work and new files")
}

// SignInFlags adds the flags of the identity provider.
func (o *Options) SignInFlags(f *pflag.FlagSet) {
	f.StringVar(&o.JWKS, "jwks", o.JWKS, "URL of an identity provider's keys, whose tokens are sessions")
	f.StringVar(&o.Issuer, "issuer", o.Issuer, "name of that identity provider in its tokens")
	f.StringVar(&o.OIDC.Issuer, "oidc-issuer", o.OIDC.Issuer, "URL of an OpenID Connect provider where people sign in; needs --url and --oidc-client")
	f.StringVar(&o.OIDC.Client, "oidc-client", o.OIDC.Client, "id of this service at the provider; its secret is in the environment variable DOCUMENTS_OIDC_SECRET")
	f.BoolVar(&o.OIDC.TrustEmail, "oidc-trust-email", o.OIDC.TrustEmail, "accept emails of a provider whose tokens have no claim email_verified")
	f.StringVar(&o.IssuerKey, "session-key", o.IssuerKey, "file with the key of sessions, which is created if it does not exist; several servers need the same (default the folder of --data with the suffix -issuer.pem)")
	f.StringVar(&o.Names.Audience, "audience", o.Names.Audience, "audience of tokens that are sessions")
	f.StringVar(&o.Names.Tenant, "claim-tenant", o.Names.Tenant, "claim with the id of the tenant")
	f.StringVar(&o.Names.Email, "claim-email", o.Names.Email, "claim with the email")
	f.StringVar(&o.Names.Name, "claim-name", o.Names.Name, "claim with the name of the person")
	f.StringVar(&o.Names.Operator, "claim-operator", o.Names.Operator, "claim that is true for people who may create tenants")
}

// System is the whole service.
type System struct {
	Home    *home.Home
	Bucket  *blob.Bucket
	Store   *table.Store
	Machine *pipeline.Machine
	Runner  *pipeline.Runner
	Ingest  *ingest.Ingest
	API     *api.Server

	o       Options
	metrics *prometheus.Registry
	notices *pubsub.Subscription
	stop    context.CancelFunc
}

// Open opens the tables and the bucket and connects the parts. Run, Process and
// Serve start them.
func Open(ctx context.Context, o Options) (*System, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	s := &System{o: o, metrics: web.Registry()}
	// The keys of sessions are refreshed until the system is closed.
	ctx, s.stop = context.WithCancel(ctx)
	if err := s.open(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (o *Options) check() error {
	switch {
	case (o.JWKS == "") != (o.Issuer == ""):
		return errors.New("--jwks and --issuer must be set together: the URL of an identity provider's keys, and its name")
	case !o.Model.valid():
		return errors.New("--model-api must be openai or bedrock, with --model-name and, for openai, --model-url")
	case o.OIDC.Issuer != "" && (o.OIDC.Client == "" || o.URL == ""):
		return errors.New("--oidc-issuer needs --oidc-client, the id of this service there, and --url, where people reach the pages")
	case (o.SMTP == "") != (o.MailFrom == ""):
		return errors.New("--smtp and --mail-from must be set together: the URL of a mail server, and the sender of mails")
	case o.AtOnce < 1 || o.AtOnce > 256:
		return fmt.Errorf("--at-once is %d, but must be 1 to 256", o.AtOnce)
	case o.Attempts < 1:
		return fmt.Errorf("--attempts is %d, but must be 1 or more", o.Attempts)
	case o.Retention <= 0 || o.Lease < 300*time.Millisecond || o.Look <= 0:
		return errors.New("--retention and --look must be positive, and --lease at least 300ms")
	}
	return nil
}

func (s *System) open(ctx context.Context) (err error) {
	o := s.o
	o.Home.Log = o.Log
	if s.Home, err = home.Open(ctx, o.Home); err != nil {
		return err
	}
	if s.Bucket, err = openBucket(ctx, o.bucket()); err != nil {
		return err
	}
	if o.Notices != "" {
		if s.notices, err = o.subscribe(ctx); err != nil {
			return err
		}
	}
	extractors, err := o.extractors(ctx, o.reader())
	if err != nil {
		return err
	}
	// Pages and trials have a reader of their own: they do not wait for the pipeline.
	reader := o.reader()
	trials := &trial.Trials{Reader: reader, Now: o.Now}
	if trials.Extractors, err = o.extractors(ctx, reader); err != nil {
		return err
	}
	var sender *mail.Sender
	if o.SMTP != "" {
		if sender, err = mail.New(o.SMTP, o.MailFrom, o.Now); err != nil {
			return err
		}
	}
	hooks := hook.NewSender(o.PrivateHooks)
	url := strings.TrimSuffix(o.URL, "/")
	s.Store = table.New(s.Home.DB)
	s.Store.Retention, s.Store.Now = o.Retention, o.Now
	results := &pipeline.Results{Bucket: s.Bucket}
	metrics := pipeline.NewMetrics(s.metrics)
	s.Machine = &pipeline.Machine{
		Store: s.Store, Results: results, Files: s.Bucket, Extractors: extractors,
		AtOnce: o.AtOnce, Attempts: o.Attempts, Within: time.Minute,
		Changed: func(t keys.Tenant) { s.API.Notify(t) }, Metrics: metrics, Log: o.Log,
	}
	reports := &pipeline.Reporter{Store: s.Store, Results: results, Hooks: hooks, Mail: sender, URL: url, Attempts: 12, Sent: metrics.Reports, Log: o.Log}
	s.Runner = &pipeline.Runner{Store: s.Store, Machine: s.Machine, Reports: reports, AtOnce: 4, Lease: o.Lease, Every: o.Look, Metrics: metrics, Log: o.Log}
	s.Ingest = &ingest.Ingest{Store: s.Store, Bucket: s.Bucket, Every: o.Look, Wake: s.Runner.Wake, Files: ingest.NewMetrics(s.metrics), Log: o.Log}
	s.API = &api.Server{Store: s.Store, Bucket: s.Bucket, Results: results, Reader: reader, Trials: trials, Methods: slices.Sorted(maps.Keys(extractors)), Hooks: hooks, Mail: sender, URL: url, Wake: s.Runner.Wake, Log: o.Log}
	return s.openSessions(ctx)
}

func (s *System) openSessions(ctx context.Context) (err error) {
	o := s.o
	var remote *session.Verifier
	if o.JWKS != "" {
		if remote, err = session.Remote(ctx, o.JWKS, o.Issuer, o.Names, o.Now); err != nil {
			return err
		}
	}
	if o.OIDC.Issuer == "" && remote != nil {
		s.API.Verifier = remote
		return nil
	}
	file := ""
	if o.Home.Data != "" {
		file = filepath.Clean(o.Home.Data) + "-issuer.pem"
	}
	if o.IssuerKey != "" {
		file = o.IssuerKey
	}
	if s.API.Issuer, err = session.NewIssuer(file, o.Now); err != nil {
		return err
	}
	if s.API.Verifier, err = s.API.Issuer.Verifier(); err != nil {
		return err
	}
	if s.API.Trusting = o.OIDC.Issuer == ""; s.API.Trusting {
		return nil
	}
	if remote != nil {
		s.API.Verifier = s.API.Verifier.Or(remote)
	}
	provider := o.OIDC
	provider.Names, provider.Now, provider.Redirect = o.Names, o.Now, s.API.URL+"/signin/callback"
	s.API.Provider, err = session.NewProvider(ctx, provider)
	return err
}

func (o *Options) bucket() string {
	switch {
	case o.Bucket != "":
		return o.Bucket
	case o.Home.Data != "":
		return filepath.Clean(o.Home.Data) + "-bucket"
	}
	return "mem://"
}

// openBucket opens a folder or a URL.
func openBucket(ctx context.Context, where string) (*blob.Bucket, error) {
	url := where
	if !strings.Contains(where, "://") {
		folder, err := filepath.Abs(where)
		if err != nil {
			return nil, fmt.Errorf("find the bucket's folder %s: %w", where, err)
		}
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return nil, fmt.Errorf("make the bucket's folder: %w", err)
		}
		url = "file://" + filepath.ToSlash(folder) + "?metadata=skip&no_tmp_dir=true"
	}
	b, err := blob.OpenBucket(ctx, url)
	if err != nil {
		return nil, fmt.Errorf("open the bucket %s: %w", where, err)
	}
	return b, nil
}

func (o *Options) subscribe(ctx context.Context) (*pubsub.Subscription, error) {
	notices, err := pubsub.OpenSubscription(ctx, o.Notices)
	if err != nil {
		return nil, fmt.Errorf("subscribe to notices at %s: %w", o.Notices, err)
	}
	return notices, nil
}

// Process ingests files from the inbox and processes batches, until the context
// ends.
func (s *System) Process(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.Runner.Run(ctx) })
	group.Go(func() error { return s.Ingest.Run(ctx) })
	if s.notices != nil {
		group.Go(func() error {
			s.Ingest.Follow(ctx, s.notices, s.o.subscribe)
			return nil
		})
	}
	return group.Wait()
}

// Handler serves the API, the pages, /metrics and /healthz.
func (s *System) Handler() http.Handler {
	mux := http.NewServeMux()
	s.API.Handle(mux)
	web.Operate(mux, s.metrics, s.healthy)
	return mux
}

// healthy checks that the table answers, by the query that looks for work.
func (s *System) healthy(ctx context.Context) error {
	_, err := s.Store.DueJobs(ctx, 0)
	return err
}

// Serve serves requests until the context ends. It processes documents too, unless
// other processes do.
func (s *System) Serve(ctx context.Context, listener net.Listener, process bool) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return web.Serve(ctx, listener, s.Handler(), s.o.Log) })
	if process {
		group.Go(func() error { return s.Process(ctx) })
	} else {
		group.Go(func() error { return s.API.NotifyAll(ctx, 2*time.Second) })
	}
	return group.Wait()
}

// Close closes what was opened.
func (s *System) Close() error {
	s.stop()
	var err error
	if s.notices != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		err = s.notices.Shutdown(ctx)
	}
	if s.Bucket != nil {
		err = errors.Join(err, s.Bucket.Close())
	}
	if s.Home != nil {
		err = errors.Join(err, s.Home.Close())
	}
	return err
}
