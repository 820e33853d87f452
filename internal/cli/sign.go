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
		return signRequest(r, body, environmentCredentials(), region)
	}
}

func signRequest(r *http.Request, body []byte, with aws.Credentials, region string) error {
	sum := sha256.Sum256(body)
	return v4.NewSigner().SignHTTP(r.Context(), with, r, hex.EncodeToString(sum[:]), signedService(r), region, time.Now())
}

// signedService returns the service that a request is signed for: that of its operation.
func signedService(r *http.Request) string {
	service, _, _ := strings.Cut(r.Header.Get("X-Amz-Target"), ".")
	switch {
	case service == "GraniteServiceVersion20100801":
		return "monitoring"
	case service == "AnyScaleFrontendService":
		return "application-autoscaling"
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
