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

// record is one change to deliver.
type record struct {
	index int // within its round
	lane  int // records of one item have the same
	at    stream.Position
	made  time.Time
	text  []byte // the record in Lambda's form
}

// event is a record as Lambda shows it to a function. It differs from that of
// GetRecords in the names of the identity's members.
type event struct {
	AwsRegion      string            `name:"awsRegion"`
	Dynamodb       *api.StreamRecord `name:"dynamodb"`
	EventID        string            `name:"eventID"`
	EventName      string            `name:"eventName"`
	EventSource    string            `name:"eventSource"`
	EventSourceARN string            `name:"eventSourceARN"`
	EventVersion   string            `name:"eventVersion"`
	UserIdentity   *identity         `name:"userIdentity"`
}

type identity struct {
	PrincipalID string `name:"principalId"`
	Type        string `name:"type"`
}

func (t *trigger) event(ctx context.Context, of db.Stream, c *db.Change) []byte {
	told, arn := t.service.TellRecord(ops.WithCaller(ctx, ops.Caller{Region: t.Region}), of, c)
	e := &event{
		AwsRegion: told.AwsRegion, Dynamodb: told.Dynamodb,
		EventID: told.EventID, EventName: told.EventName, EventSource: told.EventSource,
		EventSourceARN: arn, EventVersion: told.EventVersion,
	}
	if told.UserIdentity != nil {
		e.UserIdentity = &identity{told.UserIdentity.PrincipalId, told.UserIdentity.Type}
	}
	return wire.AppendReply(nil, e)
}

// payload is the body of a request with a batch.
func payload(batch []*record) []byte {
	body := []byte(`{"Records":[`)
	for i, r := range batch {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, r.text...)
	}
	return append(body, "]}"...)
}
