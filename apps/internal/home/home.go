// Package home opens the tables of an application: in an embedded stator, at an
// endpoint, or on AWS.
package home

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/aws/smithy-go/middleware"
	"github.com/spf13/pflag"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/tablemodel"
)

// Options configure where the tables are.
type Options struct {
	// Endpoint is the URL of a server, or "aws" for AWS as configured by its
	// environment variables and files. It defaults to an embedded stator.
	Endpoint string

	// Data is the embedded stator's folder; empty means in memory.
	Data string

	// DynamoDB is an additional address on which the embedded stator listens, so
	// that the AWS CLI and other processes can access the tables. May be empty.
	DynamoDB string

	// CacheBytes is the size of the embedded stator's cache; 0 is its default.
	CacheBytes int64

	// Apply changes tables that exist to match the model. Without it they stay as an
	// operator has set them.
	Apply bool

	// LookOnly makes Open fail if a table does not exist, and changes nothing.
	LookOnly bool

	// Guard makes the embedded stator verify signatures and evaluate policies. Without it the
	// embedded stator allows everything.
	Guard *Guard

	Model []byte           // the text of the application's *.model.yaml
	Log   *slog.Logger     // reports how tables differ, and warnings of the embedded stator
	Now   func() time.Time // clock of the embedded stator; defaults to time.Now
}

// Flags adds the flags that all applications have.
func (o *Options) Flags(f *pflag.FlagSet) {
	f.StringVar(&o.Endpoint, "endpoint", o.Endpoint, `URL of a DynamoDB server, or "aws"; the default is an embedded stator`)
	f.StringVar(&o.Data, "data", o.Data, "folder of the embedded stator; the default is in memory")
	if !o.LookOnly {
		f.BoolVar(&o.Apply, "apply", o.Apply, "change tables that exist to match the application's model; the default is to report the differences")
	}
	f.StringVar(&o.DynamoDB, "dynamodb", o.DynamoDB, "address on which the embedded stator listens for DynamoDB requests, such as 127.0.0.1:8000")
}

// Guard has the keys and policies of an embedded stator, and who uses it.
type Guard struct {
	Access *stator.Access

	Application   aws.CredentialsProvider // sends the requests of the application
	Administrator aws.CredentialsProvider // creates the tables

	// Denied is called for each request of the application that the policies deny. May be nil.
	Denied func(error)
}

// watch makes a client report the requests that are denied.
func (g *Guard) watch(s *middleware.Stack) error {
	return s.Initialize.Add(middleware.InitializeMiddlewareFunc("Denied", func(ctx context.Context, in middleware.InitializeInput, next middleware.InitializeHandler) (middleware.InitializeOutput, middleware.Metadata, error) {
		out, meta, err := next.HandleInitialize(ctx, in)
		if g.Denied != nil && isDenied(err) {
			g.Denied(err)
		}
		return out, meta, err
	}), middleware.Before)
}

// Home gives access to an application's tables, which exist.
type Home struct {
	DB      *dynamodb.Client
	Streams *dynamodbstreams.Client

	// Stator is the embedded stator, or nil.
	Stator *stator.DB

	// Address is where the embedded stator listens, or "".
	Address string

	server *http.Server
}

// Open connects to the tables, or opens the embedded stator, and creates the tables that
// do not exist. It fails if a table that exists lacks what the application needs.
func Open(ctx context.Context, o Options) (*Home, error) {
	m, err := tablemodel.Parse("the application's model", o.Model)
	if err != nil {
		return nil, err
	}
	h := new(Home)
	settings, err := h.settings(ctx, o)
	if err != nil {
		return nil, err
	}
	settings.Retryer = func() aws.Retryer { return Retries() }
	db := dynamodb.NewFromConfig(settings)
	if h.Stator != nil && o.Guard != nil {
		administrator := dynamodb.New(db.Options(), func(d *dynamodb.Options) { d.Credentials = o.Guard.Administrator })
		if err := o.ensureTables(ctx, administrator, m); err != nil {
			return nil, errors.Join(err, h.Close())
		}
		settings.APIOptions = append(settings.APIOptions, o.Guard.watch)
	}
	if err := o.ensureTables(ctx, db, m); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	h.DB = dynamodb.NewFromConfig(settings)
	h.Streams = dynamodbstreams.NewFromConfig(settings)
	return h, nil
}

// Retries returns which requests are sent again: those of the SDK, and writes of a single item that conflict
// with a transaction, which the SDK leaves to its callers.
func Retries(change ...func(*retry.StandardOptions)) aws.Retryer {
	return retry.AddWithErrorCodes(retry.NewStandard(change...), new(types.TransactionConflictException).ErrorCode())
}

// settings opens the embedded stator if there is no endpoint, and returns the SDK
// configuration for the tables.
func (h *Home) settings(ctx context.Context, o Options) (aws.Config, error) {
	switch {
	case o.Endpoint != "" && (o.Data != "" || o.DynamoDB != ""):
		return aws.Config{}, errors.New("--endpoint cannot be combined with --data or --dynamodb, which configure the embedded stator: leave them out")
	case o.Endpoint == "aws":
		settings, err := config.LoadDefaultConfig(ctx)
		if err != nil {
			return aws.Config{}, fmt.Errorf("read AWS's configuration: %w", err)
		}
		return settings, nil
	case o.Endpoint != "":
		return elsewhere(ctx, o.Endpoint)
	}
	if o.LookOnly {
		if _, err := os.Stat(o.Data); err != nil {
			return aws.Config{}, fmt.Errorf("there are no tables in --data: %w", err)
		}
	}
	if o.Data != "" {
		stator.SpareThreads()
	}
	opened := stator.Options{Dir: o.Data, CacheBytes: o.CacheBytes, Log: quiet(o.Log), Now: o.Now}
	if o.Guard != nil {
		opened.Access = o.Guard.Access
	}
	s, err := stator.Open(ctx, opened)
	if err != nil {
		return aws.Config{}, fmt.Errorf("open the embedded stator: %w", err)
	}
	h.Stator = s
	if o.DynamoDB != "" {
		if err := h.listen(o.DynamoDB); err != nil {
			return aws.Config{}, errors.Join(err, s.Close())
		}
	}
	if o.Guard == nil {
		return local(inProcess, s.Client()), nil
	}
	guarded := local(inProcess, stator.HandlerClient(s.Handler()))
	guarded.Credentials = o.Guard.Application
	return guarded, nil
}

// quiet drops messages of the embedded stator below the level of warnings, unless those for debugging are wanted.
func quiet(log *slog.Logger) *slog.Logger {
	if log == nil || log.Enabled(context.Background(), slog.LevelDebug) {
		return log
	}
	return slog.New(warnings{log.Handler()})
}

type warnings struct{ slog.Handler }

func (w warnings) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= slog.LevelWarn && w.Handler.Enabled(ctx, l)
}
func (w warnings) WithAttrs(a []slog.Attr) slog.Handler { return warnings{w.Handler.WithAttrs(a)} }
func (w warnings) WithGroup(name string) slog.Handler   { return warnings{w.Handler.WithGroup(name)} }

// inProcess is the URL of the embedded stator, which needs no network.
const inProcess = "http://stator.invalid"

// elsewhere returns the configuration for a server at a URL. Credentials are read
// from AWS's environment; local servers accept any, so they are optional.
func elsewhere(ctx context.Context, url string) (aws.Config, error) {
	if !strings.HasPrefix(url, "http://") && !strings.HasPrefix(url, "https://") {
		return aws.Config{}, fmt.Errorf(`the endpoint is %q, but must be a URL such as http://127.0.0.1:8000, or "aws"`, url)
	}
	// The server is not AWS, so EC2's metadata service is not asked.
	settings, err := config.LoadDefaultConfig(ctx, config.WithEC2IMDSClientEnableState(imds.ClientDisabled))
	if err != nil {
		return aws.Config{}, fmt.Errorf("read AWS's configuration: %w", err)
	}
	own := local(url, settings.HTTPClient)
	if settings.Region != "" {
		own.Region = settings.Region
	}
	if _, err := settings.Credentials.Retrieve(ctx); err == nil {
		own.Credentials = settings.Credentials
	}
	return own, nil
}

// local returns the configuration for a server that accepts any credentials.
func local(url string, client aws.HTTPClient) aws.Config {
	return aws.Config{
		BaseEndpoint: aws.String(url),
		Region:       "us-east-1",
		Credentials:  credentials.NewStaticCredentialsProvider("app", "app", ""),
		HTTPClient:   client,
	}
}

// Close closes the embedded stator, if there is one, after the requests to its
// address have ended.
func (h *Home) Close() error {
	var err error
	if h.server != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err = h.server.Shutdown(ctx); err != nil {
			err = errors.Join(err, h.server.Close())
		}
	}
	if h.Stator != nil {
		err = errors.Join(err, h.Stator.Close())
	}
	return err
}
