package tablemodel

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/model/apply"
)

// Client is the part of the AWS SDK's client that the package uses. A
// *dynamodb.Client implements it. To register auto scaling, the package also needs the
// method Options of that type, for the region, the credentials and the HTTP client; a
// Client without it leaves auto scaling out, which Plan.Notes says.
type Client interface {
	CreateTable(context.Context, *dynamodb.CreateTableInput, ...func(*dynamodb.Options)) (*dynamodb.CreateTableOutput, error)
	UpdateTable(context.Context, *dynamodb.UpdateTableInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateTableOutput, error)
	UpdateTimeToLive(context.Context, *dynamodb.UpdateTimeToLiveInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateTimeToLiveOutput, error)
	UpdateContinuousBackups(context.Context, *dynamodb.UpdateContinuousBackupsInput, ...func(*dynamodb.Options)) (*dynamodb.UpdateContinuousBackupsOutput, error)
	DescribeTable(context.Context, *dynamodb.DescribeTableInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTableOutput, error)
	DescribeTimeToLive(context.Context, *dynamodb.DescribeTimeToLiveInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeTimeToLiveOutput, error)
	DescribeContinuousBackups(context.Context, *dynamodb.DescribeContinuousBackupsInput, ...func(*dynamodb.Options)) (*dynamodb.DescribeContinuousBackupsOutput, error)
}

// sendWith returns a function that sends requests through an SDK client.
func sendWith(client Client, s settings) apply.Send {
	scaling := scalingWith(client, s)
	calls := map[string]func(ctx context.Context, body []byte) ([]byte, error){
		"CreateTable":               callJSON(client.CreateTable),
		"UpdateTable":               callJSON(client.UpdateTable),
		"UpdateTimeToLive":          callJSON(client.UpdateTimeToLive),
		"UpdateContinuousBackups":   callJSON(client.UpdateContinuousBackups),
		"DescribeTable":             callJSON(client.DescribeTable),
		"DescribeTimeToLive":        callJSON(client.DescribeTimeToLive),
		"DescribeContinuousBackups": callJSON(client.DescribeContinuousBackups),
	}
	return func(ctx context.Context, operation string, body any) ([]byte, error) {
		if apply.IsScaling(operation) {
			return scaling(ctx, operation, body)
		}
		call, ok := calls[operation]
		if !ok {
			panic(fmt.Sprintf("operation %s has no call of the SDK", operation))
		}
		text, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encode %s: %w", operation, err)
		}
		return call(ctx, text)
	}
}

// callJSON turns a method of the SDK into one that takes and returns JSON. The
// fields of the SDK's inputs and outputs have the names of the API's members, so
// encoding/json converts between them.
func callJSON[In, Out any](method func(context.Context, *In, ...func(*dynamodb.Options)) (*Out, error)) func(context.Context, []byte) ([]byte, error) {
	return func(ctx context.Context, body []byte) ([]byte, error) {
		in := new(In)
		decoder := json.NewDecoder(bytes.NewReader(body))
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(in); err != nil {
			return nil, fmt.Errorf("convert a request into %T: %w", in, err)
		}
		out, err := method(ctx, in)
		if err != nil {
			return nil, withCode(err)
		}
		return json.Marshal(out)
	}
}

// withCode adds an *apierror.Error to an error that the endpoint reported, so
// that package apply can tell by its code what it means.
func withCode(err error) error {
	var reported interface {
		error
		ErrorCode() string
		ErrorMessage() string
	}
	if !errors.As(err, &reported) {
		return err
	}
	return &endpointError{&apierror.Error{Code: reported.ErrorCode(), Message: reported.ErrorMessage()}, err}
}

// endpointError is an error that the endpoint reported. It unwraps into the
// SDK's error as well, so that users find the SDK's types in it.
type endpointError struct {
	reported *apierror.Error
	cause    error
}

func (e *endpointError) Error() string   { return e.reported.Error() }
func (e *endpointError) Unwrap() []error { return []error{e.reported, e.cause} }
