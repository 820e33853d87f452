package ops

import (
	"context"
	"crypto/sha256"
	"fmt"
	"strings"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/protocol/api"
)

func encryptionFits(e *api.SSESpecification) error {
	switch {
	case e == nil:
	case e.Enabled != nil && !*e.Enabled && e.SSEType != nil:
		return apierror.InvalidValues("SSEType can not be specified if Enabled is false")
	case e.Enabled != nil && !*e.Enabled && e.KMSMasterKeyId != nil:
		return apierror.InvalidValues("KMSMasterKeyId can not be specified if Enabled is false")
	case isSet(e.SSEType, "AES256"):
		return apierror.InvalidValues("SSEType AES256 is not supported")
	case e.KMSMasterKeyId != nil && e.SSEType == nil:
		return apierror.InvalidValues("SSEType KMS is required if KMSMasterKeyId is specified")
	}
	return nil
}

// encryption returns a table's encryption settings; zero for the default key. They decide what
// DescribeTable shows; whether data is encrypted is an option of the server.
func (s *Service) encryption(ctx context.Context, table string, e *api.SSESpecification) schema.Encryption {
	if e == nil || !orZero(e.Enabled) && e.SSEType == nil {
		return schema.Encryption{}
	}
	if s.unencrypted != nil {
		s.unencrypted(table)
	}
	return schema.Encryption{Enabled: true, KeyARN: s.keyARN(ctx, e.KMSMasterKeyId)}
}

// keyARN returns the ARN of a key. An alias is not resolved, since there is no
// key service; without an id it is the key that AWS manages for the account.
func (s *Service) keyARN(ctx context.Context, id *string) string {
	region := callerOf(ctx).Region
	prefix := "arn:aws:kms:" + region + ":" + s.account + ":"
	switch {
	case id == nil || *id == "alias/aws/dynamodb":
		sum := sha256.Sum256([]byte("aws/dynamodb " + region + " " + s.account))
		return fmt.Sprintf("%skey/%x-%x-%x-%x-%x", prefix, sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
	case strings.HasPrefix(*id, "arn:"):
		return *id
	case strings.HasPrefix(*id, "alias/"):
		return prefix + *id
	}
	return prefix + "key/" + *id
}

// The classes of tables. A table without a class is standard.
const (
	classStandard   = "STANDARD"
	classInfrequent = "STANDARD_INFREQUENT_ACCESS"
)

func knownClass(class *string) error {
	if class == nil || isSet(class, classStandard) || isSet(class, classInfrequent) {
		return nil
	}
	return apierror.Validation("Invalid table-class parameter provided. Please try again with a valid table-class value: [%s, %s].",
		classStandard, classInfrequent)
}
