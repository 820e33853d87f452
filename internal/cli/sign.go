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

	"github.com/stator-db/stator/internal/model/apply"
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
	return v4.NewSigner().SignHTTP(r.Context(), with, r, hex.EncodeToString(sum[:]), signedService(r.Header.Get("X-Amz-Target")), region, time.Now())
}

// signedService returns the service that requests with a target are signed for. A stator has
// all of them on one port.
func signedService(target string) string {
	switch {
	case strings.HasPrefix(target, apply.TargetWatch):
		return "monitoring"
	case strings.HasPrefix(target, apply.TargetScaling):
		return "application-autoscaling"
	case strings.HasPrefix(target, "AmazonDAXV3."):
		return "dax"
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
