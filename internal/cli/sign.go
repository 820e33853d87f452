package cli

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
)

// signFor returns a function that signs requests for a region with AWS Signature
// Version 4.
func signFor(region string) func(r *http.Request, body []byte) error {
	return func(r *http.Request, body []byte) error {
		sum := sha256.Sum256(body)
		return v4.NewSigner().SignHTTP(r.Context(), environmentCredentials(), r, hex.EncodeToString(sum[:]), signedService(r.URL.Host), region, time.Now())
	}
}

// signedService returns the service that requests to a host are signed for. A stator has
// all of them on one port.
func signedService(host string) string {
	if strings.HasPrefix(host, "monitoring.") {
		return "monitoring"
	}
	return "dynamodb"
}

// environmentCredentials are the credentials in the environment. Without any they
// are a pair that local servers accept.
func environmentCredentials() aws.Credentials {
	c := aws.Credentials{
		AccessKeyID:     os.Getenv("AWS_ACCESS_KEY_ID"),
		SecretAccessKey: os.Getenv("AWS_SECRET_ACCESS_KEY"),
		SessionToken:    os.Getenv("AWS_SESSION_TOKEN"),
	}
	if c.AccessKeyID == "" {
		return aws.Credentials{AccessKeyID: "stator", SecretAccessKey: "stator"}
	}
	return c
}
