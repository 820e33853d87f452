package keys

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/uuid"
)

// ID is the id of one kind of thing. It is a UUID and nothing else, so that no
// text of a request can put another part into a key; and an id of one kind does
// not pass for another.
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
	// UserID is a person's.
	UserID = ID[user]
	// ProjectID is a project's.
	ProjectID = ID[project]
	// WorkflowID is a workflow's.
	WorkflowID = ID[workflow]
	// BatchID is a batch's.
	BatchID = ID[batch]
	// DocumentID is a document's.
	DocumentID = ID[document]
	// TokenID is that of something short-lived: an invitation, an upload.
	TokenID = ID[token]
)

// NewID makes an id that nothing has.
func NewID[T ID[kind], kind any]() T { return T(ID[kind]{uuid.New()}) }

// DeriveID makes an id from what a thing is made of, so that who makes it again
// makes the same.
func DeriveID[T ID[kind], kind any](parts ...string) T {
	v := uuid.NameSpaceOID
	for _, part := range parts {
		v = uuid.NewSHA1(v, []byte(part))
	}
	return T(ID[kind]{v})
}

// ParseID reads an id as String writes it.
func ParseID[T ID[kind], kind any](text string) (T, error) {
	v, err := parse(text)
	return T(ID[kind]{v}), err
}

// parse takes the one usual form of a UUID, since two texts for one id would be
// two keys.
func parse(text string) (uuid.UUID, error) {
	v, err := uuid.Parse(text)
	if err != nil || v.String() != text || v == uuid.Nil {
		return uuid.Nil, fmt.Errorf("%.60q is no id: ids look like 8c8d9f4e-2f5b-4a53-9d0a-1c6f0c7f2f11", text)
	}
	return v, nil
}

// IsZero tells whether it is no id at all.
func (id ID[kind]) IsZero() bool { return id.v == uuid.Nil }

func (id ID[kind]) String() string { return id.v.String() }

// must is the id as a part of a key.
func (id ID[kind]) must() string { return must(id.v) }

func must(v uuid.UUID) string {
	if v == uuid.Nil {
		panic("a key was to be made with an id that is none")
	}
	return v.String()
}

// MarshalText writes an id into JSON.
func (id ID[kind]) MarshalText() ([]byte, error) { return []byte(id.String()), nil }

// UnmarshalText reads an id from JSON.
func (id *ID[kind]) UnmarshalText(text []byte) (err error) {
	*id, err = ParseID[ID[kind]](string(text))
	return err
}

// MarshalDynamoDBAttributeValue writes an id into an item.
func (id ID[kind]) MarshalDynamoDBAttributeValue() (types.AttributeValue, error) {
	return &types.AttributeValueMemberS{Value: id.String()}, nil
}

// UnmarshalDynamoDBAttributeValue reads an id of an item.
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
