package tablemodel

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/stator-db/stator/internal/model/apply"
)

// Option changes how Compare and Ensure reach the services.
type Option func(*settings)

type settings struct{ scalingURL string }

// ScalingEndpoint sets the URL of Application Auto Scaling. It defaults to the endpoint of the
// client, or to that of the client's region on AWS.
func ScalingEndpoint(url string) Option { return func(s *settings) { s.scalingURL = url } }

// configured is a client that tells its configuration, as a *dynamodb.Client does.
type configured interface{ Options() dynamodb.Options }

// scalingWith returns a function that sends requests of Application Auto Scaling with the
// region, the credentials and the HTTP client of an SDK client.
func scalingWith(client Client, s settings) apply.Send {
	c, ok := client.(configured)
	if !ok {
		return func(context.Context, string, any) ([]byte, error) { return nil, apply.ErrNoScaling }
	}
	return func(ctx context.Context, operation string, body any) ([]byte, error) {
		o := c.Options()
		url, err := endpointOf(ctx, &o)
		if err != nil {
			return nil, err
		}
		e := &apply.Endpoint{URL: url, ScalingURL: s.scalingURL, Client: o.HTTPClient, Sign: signWith(&o)}
		return e.Send(ctx, operation, body)
	}
}

// endpointOf returns the URL that a client sends requests to.
func endpointOf(ctx context.Context, o *dynamodb.Options) (string, error) {
	if o.BaseEndpoint != nil {
		return *o.BaseEndpoint, nil
	}
	found, err := dynamodb.NewDefaultEndpointResolverV2().ResolveEndpoint(ctx, dynamodb.EndpointParameters{Region: &o.Region})
	if err != nil {
		return "", fmt.Errorf("find the endpoint of region %q: %w", o.Region, err)
	}
	return found.URI.String(), nil
}

// signWith returns a function that signs requests of Application Auto Scaling.
func signWith(o *dynamodb.Options) func(*http.Request, []byte) error {
	return func(r *http.Request, body []byte) error {
		if o.Credentials == nil {
			return errors.New("the client has no credentials")
		}
		credentials, err := o.Credentials.Retrieve(r.Context())
		if err != nil {
			return fmt.Errorf("read the credentials of the client: %w", err)
		}
		if aws.IsCredentialsProvider(o.Credentials, aws.AnonymousCredentials{}) {
			return nil
		}
		sum := sha256.Sum256(body)
		return v4.NewSigner().SignHTTP(r.Context(), credentials, r, hex.EncodeToString(sum[:]), "application-autoscaling", o.Region, time.Now())
	}
}
