package keys

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/uuid"
)

// ID is an id of one kind. It is always a UUID, so that no text of a request can
// add another part to a key, and an id of one kind cannot be used for another.
type ID[kind any] struct{ v uuid.UUID }

type (
	user     struct{}
	project  struct{}
	workflow struct{}
	batch    struct{}
	document struct{}
	token    struct{}
)

type (
	// UserID identifies a person.
	UserID = ID[user]
	// ProjectID identifies a project.
	ProjectID = ID[project]
	// WorkflowID identifies a workflow.
	WorkflowID = ID[workflow]
	// BatchID identifies a batch.
	BatchID = ID[batch]
	// DocumentID identifies a document.
	DocumentID = ID[document]
	// TokenID identifies something short-lived: an invitation, an upload.
	TokenID = ID[token]
)

// NewID returns a new id, which is unique and sorts by time: a UUID of version 7.
func NewID[T ID[kind], kind any]() T { return T(ID[kind]{uuid.Must(uuid.NewV7())}) }

// DeriveID derives an id from the parts that identify a thing, so that the same
// parts always give the same id.
func DeriveID[T ID[kind], kind any](parts ...string) T {
	v := uuid.NameSpaceOID
	for _, part := range parts {
		v = uuid.NewSHA1(v, []byte(part))
	}
	return T(ID[kind]{v})
}

// InboxBatchID derives the id of the batch of a folder in the inbox.
func InboxBatchID(t Tenant, p ProjectID, w WorkflowID, folder string) BatchID {
	return DeriveID[BatchID](t.String(), "inbox", p.String(), w.String(), folder)
}

// InboxID derives the id of the document of a file in the inbox, which is identified by its
// name in its batch, whenever and however often it arrives.
func InboxID(b BatchID, file string) DocumentID {
	return DeriveID[DocumentID](b.String(), "inbox", file)
}

// PlacedID derives an id as DeriveID does, which sorts by a place in a list: in
// descending order of ids, place 0 is before place 1.
func PlacedID[T ID[kind], kind any](place int, parts ...string) T {
	id := ID[kind](DeriveID[T, kind](parts...))
	putUint48(&id.v, 1<<40-1-uint64(place)) // smaller than all times of TimedID
	return T(id)
}

// TimedID derives an id as DeriveID does, which sorts by the time in another id: that
// of NewID.
func TimedID[T ID[kind], kind any, other any](of ID[other], parts ...string) T {
	id := ID[kind](DeriveID[T, kind](parts...))
	copy(id.v[:6], of.v[:6])
	return T(id)
}

func putUint48(v *uuid.UUID, n uint64) {
	for i := range 6 {
		v[i] = byte(n >> (8 * (5 - i)))
	}
}

// ParseID parses an id as String formats it.
func ParseID[T ID[kind], kind any](text string) (T, error) {
	v, err := parse(text)
	return T(ID[kind]{v}), err
}

// parse accepts only the canonical form of a UUID, since two texts for one id
// would be two keys.
func parse(text string) (uuid.UUID, error) {
	v, err := uuid.Parse(text)
	if err != nil || v.String() != text || v == uuid.Nil {
		return uuid.Nil, fmt.Errorf("%.60q is not an id such as 8c8d9f4e-2f5b-4a53-9d0a-1c6f0c7f2f11", text)
	}
	return v, nil
}

// IsZero reports whether the id is the zero value.
func (id ID[kind]) IsZero() bool { return id.v == uuid.Nil }

func (id ID[kind]) String() string { return id.v.String() }

// must returns the id as a part of a key.
func (id ID[kind]) must() string { return must(id.v) }

func must(v uuid.UUID) string {
	if v == uuid.Nil {
		panic("a key is made with the zero id")
	}
	return v.String()
}

// MarshalText implements encoding.TextMarshaler.
func (id ID[kind]) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (id *ID[kind]) UnmarshalText(text []byte) (err error) {
	*id, err = ParseID[ID[kind]](string(text))
	return err
}

// MarshalDynamoDBAttributeValue implements attributevalue.Marshaler.
func (id ID[kind]) MarshalDynamoDBAttributeValue() (types.AttributeValue, error) {
	return &types.AttributeValueMemberS{Value: id.String()}, nil
}

// UnmarshalDynamoDBAttributeValue implements attributevalue.Unmarshaler.
func (id *ID[kind]) UnmarshalDynamoDBAttributeValue(v types.AttributeValue) (err error) {
	*id, err = ParseID[ID[kind]](text(v))
	return err
}

func text(v types.AttributeValue) string {
	if s, ok := v.(*types.AttributeValueMemberS); ok {
		return s.Value
	}
	return ""
}
