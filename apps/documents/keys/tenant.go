// Package keys makes the keys of the table, and of the bucket, and is the only
// one that can.
//
// A key of a tenant's data is a method of Tenant, and a Tenant comes out of
// ParseTenant, which few may call: keys_test.go has the list. So a reader who
// has no tenant has no key, and a request that does not name a tenant cannot be
// written down.
package keys

import (
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/uuid"
)

// Tenant is who the data belongs to. Its zero value is no tenant, and makes no
// keys: it panics.
type Tenant struct{ v uuid.UUID }

// NewTenant makes a tenant that nobody is yet.
func NewTenant() Tenant { return Tenant{uuid.New()} }

// ParseTenant takes a tenant's id from a place that is trusted with it: a
// verified session, an item of the table.
func ParseTenant(text string) (Tenant, error) {
	v, err := parse(text)
	return Tenant{v}, err
}

func (t Tenant) String() string { return t.v.String() }

// MarshalText writes a tenant's id into JSON. There is no way back: JSON comes
// from those who may not choose a tenant.
func (t Tenant) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// MarshalDynamoDBAttributeValue writes a tenant's id into an item.
func (t Tenant) MarshalDynamoDBAttributeValue() (types.AttributeValue, error) {
	return &types.AttributeValueMemberS{Value: t.String()}, nil
}

// UnmarshalDynamoDBAttributeValue reads the tenant of an item.
func (t *Tenant) UnmarshalDynamoDBAttributeValue(v types.AttributeValue) (err error) {
	*t, err = ParseTenant(text(v))
	return err
}

func (t Tenant) key() string { return "TENANT#" + must(t.v) }

// Metadata is the key of the tenant itself.
func (t Tenant) Metadata() Key { return Key{t.key(), "METADATA"} }

// Member is the key of a user's membership.
func (t Tenant) Member(u UserID) Key { return Key{t.key(), "USER#" + u.must()} }

// Members are all memberships.
func (t Tenant) Members() Range { return Range{pk: t.key(), prefix: "USER#"} }

// Project is the key of a project.
func (t Tenant) Project(p ProjectID) Key { return Key{t.key(), "PROJECT#" + p.must()} }

// Projects are all projects.
func (t Tenant) Projects() Range { return Range{pk: t.key(), prefix: "PROJECT#"} }

func (t Tenant) in(p ProjectID) string { return t.key() + "#PROJECT#" + p.must() }

// Workflow is the key of a workflow.
func (t Tenant) Workflow(p ProjectID, w WorkflowID) Key {
	return Key{t.in(p), "WORKFLOW#" + w.must()}
}

// WorkflowEntry is where a workflow stands among those of its project.
func (t Tenant) WorkflowEntry(p ProjectID, updated time.Time) Entry {
	return Entry{"GSI1", t.in(p), Time(updated)}
}

// Workflows are those of a project, newest change first.
func (t Tenant) Workflows(p ProjectID) Range {
	return Range{index: "GSI1", pk: t.in(p), descending: true}
}

// Batch is the key of a batch.
func (t Tenant) Batch(p ProjectID, b BatchID) Key { return Key{t.in(p), "BATCH#" + b.must()} }

// Batches are those of a project.
func (t Tenant) Batches(p ProjectID) Range { return Range{pk: t.in(p), prefix: "BATCH#"} }

// BatchEntry is where a batch stands among those of its status.
func (t Tenant) BatchEntry(status string, updated time.Time) Entry {
	return Entry{"GSI2", t.key() + "#STATUS#" + status, Time(updated)}
}

// BatchesIn are the batches in a status, the newest first.
func (t Tenant) BatchesIn(status string) Range {
	return Range{index: "GSI2", pk: t.key() + "#STATUS#" + status, descending: true}
}

func (t Tenant) of(b BatchID) string { return t.key() + "#BATCH#" + b.must() }

// Document is the key of a document.
func (t Tenant) Document(b BatchID, d DocumentID) Key { return Key{t.of(b), "DOCUMENT#" + d.must()} }

// Documents are those of a batch.
func (t Tenant) Documents(b BatchID) Range { return Range{pk: t.of(b), prefix: "DOCUMENT#"} }

// DocumentEntry is where a document stands among those of its status.
func (t Tenant) DocumentEntry(b BatchID, status string, updated time.Time) Entry {
	return Entry{"GSI2", t.of(b) + "#STATUS#" + status, Time(updated)}
}

// DocumentsIn are the documents of a batch in a status, the oldest first.
func (t Tenant) DocumentsIn(b BatchID, status string) Range {
	return Range{index: "GSI2", pk: t.of(b) + "#STATUS#" + status}
}

// Token is the key of something that is short-lived, such as an invitation.
func (t Tenant) Token(id TokenID) Key { return Key{t.key() + "#TOKEN#" + id.must(), "TOKEN"} }

// Job is the key of work that is to be done for a batch.
func (t Tenant) Job(b BatchID, kind string) Key { return Key{t.key() + "#JOB#" + b.must(), kind} }

// Upload is where a file lies that was sent and is no document yet.
func (t Tenant) Upload(id TokenID) Object {
	return Object{"tenants/" + must(t.v) + "/uploads/" + id.must()}
}

// File is where a document's file lies that came by the bucket.
func (t Tenant) File(b BatchID, d DocumentID) Object {
	return Object{"tenants/" + must(t.v) + "/documents/" + b.must() + "/" + d.must()}
}

// Result is where a document's result lies that is too large for its item. Each
// version has a place of its own, since an item may go back to an earlier one.
func (t Tenant) Result(b BatchID, d DocumentID, version string) Object {
	return Object{"tenants/" + must(t.v) + "/results/" + b.must() + "/" + d.must() + "/" + version}
}

// Own is an object of the tenant by its name, as an item has it. A name of
// another place is an error.
func (t Tenant) Own(key string) (Object, error) {
	if !strings.HasPrefix(key, "tenants/"+must(t.v)+"/") || strings.Contains(key, "..") {
		return Object{}, fmt.Errorf("the object %.200q is not the tenant's", key)
	}
	return Object{key}, nil
}
