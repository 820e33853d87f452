package trigger

import (
	"context"
	"time"

	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/db/stream"
	"github.com/stator-db/stator/internal/ops"
	"github.com/stator-db/stator/internal/protocol/api"
	"github.com/stator-db/stator/internal/protocol/wire"
)

// pendingRecord is a change to deliver.
type pendingRecord struct {
	index   int // within its round
	lane    int // records of one item have the same lane
	at      stream.Position
	created time.Time
	text    []byte // the record in Lambda's format
}

// lambdaEvent is a record in the format that Lambda passes to a function. It differs
// from a record of GetRecords in the names of the identity's members.
type lambdaEvent struct {
	AwsRegion      string            `name:"awsRegion"`
	Dynamodb       *api.StreamRecord `name:"dynamodb"`
	EventID        string            `name:"eventID"`
	EventName      string            `name:"eventName"`
	EventSource    string            `name:"eventSource"`
	EventSourceARN string            `name:"eventSourceARN"`
	EventVersion   string            `name:"eventVersion"`
	UserIdentity   *lambdaIdentity   `name:"userIdentity"`
}

type lambdaIdentity struct {
	PrincipalID string `name:"principalId"`
	Type        string `name:"type"`
}

func (t *trigger) event(ctx context.Context, of db.Stream, c *db.Change) []byte {
	record, arn := t.service.StreamRecord(ops.WithCaller(ctx, ops.Caller{Region: t.Region}), of, c)
	e := &lambdaEvent{
		AwsRegion: record.AwsRegion, Dynamodb: record.Dynamodb,
		EventID: record.EventID, EventName: record.EventName, EventSource: record.EventSource,
		EventSourceARN: arn, EventVersion: record.EventVersion,
	}
	if record.UserIdentity != nil {
		e.UserIdentity = &lambdaIdentity{record.UserIdentity.PrincipalId, record.UserIdentity.Type}
	}
	return wire.AppendReply(nil, e)
}

// payload is the body of the request for a batch.
func payload(batch []*pendingRecord) []byte {
	body := []byte(`{"Records":[`)
	for i, r := range batch {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, r.text...)
	}
	return append(body, "]}"...)
}
