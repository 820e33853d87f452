package ops

import (
	"context"
	"strings"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/db/stream"
	"github.com/stator-db/stator/internal/protocol/api"
)

func (s *Service) streams() *stream.Reader { return &stream.Reader{DB: s.DB} }

// streamARN returns the ARN of a stream in the caller's region.
func (s *Service) streamARN(ctx context.Context, table, label string) string {
	return s.tableARN(ctx, table) + "/stream/" + label
}

var streamARNText = pattern(`^arn:aws[a-z-]*:dynamodb:[a-z0-9-]+:[0-9]{12}:table/([a-zA-Z0-9_.-]{3,255})/stream/([^/]+)$`)

// splitStreamARN returns the table and the label in the ARN of a stream.
func splitStreamARN(arn string) (table, label string, err error) {
	m := streamARNText().FindStringSubmatch(arn)
	if m == nil {
		return "", "", apierror.Validation("Invalid StreamArn")
	}
	return m[1], m[2], nil
}

// stream returns the stream that an ARN names.
func (s *Service) stream(ctx context.Context, arn string) (db.Stream, error) {
	table, label, err := splitStreamARN(arn)
	if err != nil {
		return db.Stream{}, err
	}
	found, ok := s.DB.Stream(table, label)
	if !ok || arn != s.streamARN(ctx, table, label) {
		return db.Stream{}, apierror.NotFound("Requested resource not found: Stream: %s not found", arn)
	}
	return found, nil
}

// iteratorMark follows the ARN of the stream in an iterator, as in DynamoDB's.
const iteratorMark = "|1|"

func joinIterator(arn string, it stream.Iterator) string { return arn + iteratorMark + it.Encode(arn) }

func splitIterator(text string) (arn string, it stream.Iterator, err error) {
	arn, rest, ok := strings.Cut(text, iteratorMark)
	if _, _, err := splitStreamARN(arn); !ok || err != nil {
		return "", stream.Iterator{}, apierror.Validation("Invalid ShardIterator")
	}
	it, err = stream.DecodeIterator(arn, rest)
	return arn, it, err
}

// addStream adds a table's stream to its description. The label and the ARN of
// the latest stream remain after it is disabled.
func (s *Service) addStream(ctx context.Context, desc *api.TableDescription, t *schema.Table) {
	if len(t.Streams) == 0 {
		return
	}
	last := t.Streams[len(t.Streams)-1]
	desc.LatestStreamLabel = last.Label
	desc.LatestStreamArn = s.streamARN(ctx, t.Name, last.Label)
	if _, on := t.Stream(); on {
		desc.StreamSpecification = &api.StreamSpecification{StreamEnabled: &on, StreamViewType: &last.View}
	}
}
