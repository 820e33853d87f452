// Package home gives an application its tables: in a stator of its own, at an
// endpoint, or on AWS.
package home

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodbstreams"
	"github.com/spf13/pflag"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/tablemodel"
)

// Options say where the tables are.
type Options struct {
	// Endpoint is the URL of a server, or "aws" for what AWS's own environment
	// and configuration files say. Unless set, a stator is embedded.
	Endpoint string

	// Data is the embedded stator's folder; without one it is in memory.
	Data string

	// DynamoDB is an address on which the embedded stator listens too, so that
	// the AWS CLI and other processes can reach the tables; none unless set.
	DynamoDB string

	Model []byte           // the text of the application's *.model.yaml
	Log   *slog.Logger     // of the embedded stator; nothing is logged unless set
	Now   func() time.Time // the embedded stator's clock; the system's unless set
}

// Flags are the options that every application has on its command line.
func (o *Options) Flags(f *pflag.FlagSet) {
	f.StringVar(&o.Endpoint, "endpoint", o.Endpoint, `URL of a DynamoDB server, or "aws"; without it a stator is embedded`)
	f.StringVar(&o.Data, "data", o.Data, "folder of the embedded stator; without it the tables are in memory")
	f.StringVar(&o.DynamoDB, "dynamodb", o.DynamoDB, "address on which the embedded stator listens too, such as 127.0.0.1:8000")
}

// Home is where an application's tables are. They are there, and are what the
// model says.
type Home struct {
	DB      *dynamodb.Client
	Streams *dynamodbstreams.Client

	// Stator is the embedded one, or nil.
	Stator *stator.DB

	// Address is where the embedded stator listens, or "".
	Address string

	server *http.Server
}

// Open finds the tables' home and makes the tables what the model says. Tables
// that are there and need no change are left as they are.
func Open(ctx context.Context, o Options) (*Home, error) {
	h := new(Home)
	settings, err := h.settings(ctx, o)
	if err != nil {
		return nil, err
	}
	h.DB = dynamodb.NewFromConfig(settings)
	h.Streams = dynamodbstreams.NewFromConfig(settings)
	if err := h.ensureTables(ctx, o.Model); err != nil {
		return nil, errors.Join(err, h.Close())
	}
	return h, nil
}

// settings opens the embedded stator if there is to be one, and tells how to
// reach the tables.
func (h *Home) settings(ctx context.Context, o Options) (aws.Config, error) {
	switch {
	case o.Endpoint != "" && (o.Data != "" || o.DynamoDB != ""):
		return aws.Config{}, errors.New("--endpoint names a server elsewhere, so --data and --dynamodb, which are of the embedded one, have no meaning: leave them out")
	case o.Endpoint == "aws":
		settings, err := config.LoadDefaultConfig(ctx)
		if err != nil {
			return aws.Config{}, fmt.Errorf("read AWS's configuration: %w", err)
		}
		return settings, nil
	case o.Endpoint != "":
		return elsewhere(ctx, o.Endpoint)
	}
	if o.Data != "" {
		stator.SpareThreads()
	}
	s, err := stator.Open(ctx, stator.Options{Dir: o.Data, Log: o.Log, Now: o.Now})
	if err != nil {
		return aws.Config{}, fmt.Errorf("open the embedded stator: %w", err)
	}
	h.Stator = s
	if o.DynamoDB != "" {
		if err := h.listen(o.DynamoDB); err != nil {
			return aws.Config{}, errors.Join(err, s.Close())
		}
	}
	return local("http://stator.invalid", s.Client()), nil
}

// elsewhere are the settings for a server at a URL. Credentials come from AWS's
// environment; local servers take any, so there need not be some.
func elsewhere(ctx context.Context, url string) (aws.Config, error) {
	if !strings.HasPrefix(url, "http://") && !strings.HasPrefix(url, "https://") {
		return aws.Config{}, fmt.Errorf(`the endpoint is %q, but must be a URL such as http://127.0.0.1:8000, or "aws"`, url)
	}
	// A server elsewhere is not AWS: nothing is asked of the machine we are on.
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

// local are the settings for a server that takes any credentials.
func local(url string, client aws.HTTPClient) aws.Config {
	return aws.Config{
		BaseEndpoint: aws.String(url),
		Region:       "us-east-1",
		Credentials:  credentials.NewStaticCredentialsProvider("app", "app", ""),
		HTTPClient:   client,
	}
}

// ensureTables creates and changes the tables to match the model. It makes no
// change that loses data: an operator does that with `stator model apply`.
func (h *Home) ensureTables(ctx context.Context, text []byte) error {
	m, err := tablemodel.Parse("the application's model", text)
	if err != nil {
		return err
	}
	return tablemodel.Ensure(ctx, h.DB, m)
}

// Close closes the embedded stator, if there is one, when requests to its own
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
