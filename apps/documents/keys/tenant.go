// Package keys makes the keys of the table and of the bucket; no other package
// can.
//
// A key of a tenant's data is a method of Tenant, and a Tenant is made by
// ParseTenant, which few functions may call: keys_test.go has the list. So code
// without a tenant has no keys, and a request without a tenant cannot be written.
package keys

import (
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/uuid"
)

// Tenant is the owner of data. The methods of its zero value panic.
type Tenant struct{ v uuid.UUID }

// NewTenant returns a new tenant.
func NewTenant() Tenant { return Tenant{uuid.New()} }

// ParseTenant parses a tenant's id from a trusted source: a verified session, or
// an item of the table.
func ParseTenant(text string) (Tenant, error) {
	v, err := parse(text)
	return Tenant{v}, err
}

func (t Tenant) String() string { return t.v.String() }

// MarshalText implements encoding.TextMarshaler. There is no UnmarshalText, since
// JSON is written by clients, which may not choose a tenant.
func (t Tenant) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// MarshalDynamoDBAttributeValue implements attributevalue.Marshaler.
func (t Tenant) MarshalDynamoDBAttributeValue() (types.AttributeValue, error) {
	return &types.AttributeValueMemberS{Value: t.String()}, nil
}

// UnmarshalDynamoDBAttributeValue implements attributevalue.Unmarshaler.
func (t *Tenant) UnmarshalDynamoDBAttributeValue(v types.AttributeValue) (err error) {
	*t, err = ParseTenant(text(v))
	return err
}

func (t Tenant) key() string { return "TENANT#" + must(t.v) }

// Metadata is the key of the tenant itself.
func (t Tenant) Metadata() Key { return Key{t.key(), "METADATA"} }

// Usages is the range of what the tenant has used in each month.
func (t Tenant) Usages() Range { return Range{pk: t.key(), prefix: "USAGE#"} }

// Usage is the key of what the tenant has used in a month, such as 2026-11.
func (t Tenant) Usage(month string) Key { return Key{t.key(), "USAGE#" + month} }

// Member is the key of a user's membership.
func (t Tenant) Member(u UserID) Key { return Key{t.key(), "USER#" + u.must()} }

// MemberEntry is the index key by which the tenants of a person are found.
func (t Tenant) MemberEntry(u UserID) Entry {
	return Entry{"GSI1", "USER#" + u.must(), t.key()}
}

// Members is the range of all memberships.
func (t Tenant) Members() Range { return Range{pk: t.key(), prefix: "USER#"} }

// Project is the key of a project.
func (t Tenant) Project(p ProjectID) Key { return Key{t.key(), "PROJECT#" + p.must()} }

// Projects is the range of all projects.
func (t Tenant) Projects() Range { return Range{pk: t.key(), prefix: "PROJECT#"} }

// ProjectEntry is the index key of a project, by when it was created.
func (t Tenant) ProjectEntry(created time.Time) Entry {
	return Entry{"GSI1", t.key() + "#PROJECTS", Time(created)}
}

// NewestProjects is the range of the projects, newest first.
func (t Tenant) NewestProjects() Range {
	return Range{index: "GSI1", pk: t.key() + "#PROJECTS", descending: true}
}

func (t Tenant) in(p ProjectID) string { return t.key() + "#PROJECT#" + p.must() }

// Workflow is the key of a workflow.
func (t Tenant) Workflow(p ProjectID, w WorkflowID) Key {
	return Key{t.in(p), "WORKFLOW#" + w.must()}
}

// AllWorkflows is the range of the workflows of a project in the table itself.
func (t Tenant) AllWorkflows(p ProjectID) Range { return Range{pk: t.in(p), prefix: "WORKFLOW#"} }

// WorkflowEntry is the index key of a workflow within its project.
func (t Tenant) WorkflowEntry(p ProjectID, updated time.Time) Entry {
	return Entry{"GSI1", t.in(p), Time(updated)}
}

// Workflows is the range of the workflows of a project, newest change first.
func (t Tenant) Workflows(p ProjectID) Range {
	return Range{index: "GSI1", pk: t.in(p), descending: true}
}

// Batch is the key of a batch.
func (t Tenant) Batch(p ProjectID, b BatchID) Key { return Key{t.in(p), "BATCH#" + b.must()} }

// Batches is the range of the batches of a project.
func (t Tenant) Batches(p ProjectID) Range { return Range{pk: t.in(p), prefix: "BATCH#"} }

// CreatedEntry is the index key of a batch within its project, by when it was created.
func (t Tenant) CreatedEntry(p ProjectID, created time.Time) Entry {
	return Entry{"GSI1", t.in(p) + "#BATCHES", Time(created)}
}

// NewestBatches is the range of the batches of a project, newest first.
func (t Tenant) NewestBatches(p ProjectID) Range {
	return Range{index: "GSI1", pk: t.in(p) + "#BATCHES", descending: true}
}

// BatchEntry is the index key of a batch by its status.
func (t Tenant) BatchEntry(status string, updated time.Time) Entry {
	return Entry{"GSI2", t.key() + "#STATUS#" + status, Time(updated)}
}

// BatchesIn is the range of the batches with a status, newest first.
func (t Tenant) BatchesIn(status string) Range {
	return Range{index: "GSI2", pk: t.key() + "#STATUS#" + status, descending: true}
}

func (t Tenant) of(b BatchID) string { return t.key() + "#BATCH#" + b.must() }

// Document is the key of a document.
func (t Tenant) Document(b BatchID, d DocumentID) Key { return Key{t.of(b), "DOCUMENT#" + d.must()} }

// Documents is the range of the documents of a batch in the table itself. It is read
// backwards, which is the order of PlacedID: those that were added last first.
func (t Tenant) Documents(b BatchID) Range {
	return Range{pk: t.of(b), prefix: "DOCUMENT#", descending: true}
}

// maxPlace is the last place among the documents that arrive together.
const maxPlace = 999_999

// ArrivalEntry is the index key of a document in a batch of the inbox, by when it arrived.
// In descending order, those that arrived at the same time are in the order of their places.
func (t Tenant) ArrivalEntry(b BatchID, arrived time.Time, place int) Entry {
	return Entry{"GSI1", t.of(b) + "#DOCUMENTS", fmt.Sprintf("%s#%06d", Time(arrived), max(0, maxPlace-place))}
}

// NewestArrivals is the range of the documents in a batch of the inbox, newest first.
func (t Tenant) NewestArrivals(b BatchID) Range {
	return Range{index: "GSI1", pk: t.of(b) + "#DOCUMENTS", descending: true}
}

// DocumentEntry is the index key of a document by its status.
func (t Tenant) DocumentEntry(b BatchID, status string, updated time.Time) Entry {
	return Entry{"GSI2", t.of(b) + "#STATUS#" + status, Time(updated)}
}

// DocumentsIn is the range of the documents of a batch with a status, oldest first.
func (t Tenant) DocumentsIn(b BatchID, status string) Range {
	return Range{index: "GSI2", pk: t.of(b) + "#STATUS#" + status}
}

// NewestIn is DocumentsIn, newest first.
func (t Tenant) NewestIn(b BatchID, status string) Range {
	r := t.DocumentsIn(b, status)
	r.descending = true
	return r
}

// Token is the key of something short-lived, such as an invitation.
func (t Tenant) Token(id TokenID) Key { return Key{t.key() + "#TOKEN#" + id.must(), "TOKEN"} }

// InvitationEntry is the index key of an invitation, by when it was made.
func (t Tenant) InvitationEntry(made time.Time) Entry {
	return Entry{"GSI1", t.key() + "#INVITATIONS", Time(made)}
}

// Invitations is the range of the open invitations, newest first.
func (t Tenant) Invitations() Range {
	return Range{index: "GSI1", pk: t.key() + "#INVITATIONS", descending: true}
}

// Job is the key of a job of a batch.
func (t Tenant) Job(b BatchID, kind string) Key { return Key{t.key() + "#JOB#" + b.must(), kind} }

// Upload is the object of an uploaded file that is not a document yet.
func (t Tenant) Upload(id TokenID) Object {
	return Object{"tenants/" + must(t.v) + "/uploads/" + id.must()}
}

// UploadOf is the object of a document's file that was uploaded. Documents of one upload have
// files of their own.
func (t Tenant) UploadOf(id TokenID, d DocumentID) Object {
	return Object{t.Upload(id).String() + "." + d.must()}
}

// UploadsOf is the beginning of the names of UploadOf of all documents.
func (t Tenant) UploadsOf(id TokenID) string { return t.Upload(id).String() + "." }

// FilesOf returns the objects to delete with a document whose file is an object of the
// tenant: the file, and the upload that it is a copy of.
func (t Tenant) FilesOf(o Object) []string {
	upload, _, copied := strings.Cut(strings.TrimPrefix(o.key, "tenants/"+must(t.v)+"/uploads/"), ".")
	if !copied || !strings.HasPrefix(o.key, "tenants/"+must(t.v)+"/uploads/") {
		return []string{o.key}
	}
	return []string{o.key, "tenants/" + must(t.v) + "/uploads/" + upload}
}

// File is the object of a document's file that was ingested from the bucket.
func (t Tenant) File(b BatchID, d DocumentID) Object {
	return Object{"tenants/" + must(t.v) + "/documents/" + b.must() + "/" + d.must()}
}

// Result is the object of a document's result that is too large for its item. Each
// version has its own object, since an item may be restored to an earlier one.
func (t Tenant) Result(b BatchID, d DocumentID, version string) Object {
	return Object{"tenants/" + must(t.v) + "/results/" + b.must() + "/" + d.must() + "/" + version}
}

// FoldersOf returns the folders with the files and results of a batch.
func (t Tenant) FoldersOf(b BatchID) []string {
	return []string{"tenants/" + must(t.v) + "/documents/" + b.must() + "/", "tenants/" + must(t.v) + "/results/" + b.must() + "/"}
}

// ObjectsOf returns the names, or beginnings of names, of the objects of a document
// that are not uploads.
func (t Tenant) ObjectsOf(b BatchID, d DocumentID) []string {
	return []string{t.File(b, d).String(), "tenants/" + must(t.v) + "/results/" + b.must() + "/" + d.must() + "/"}
}

// FoldersIn returns the folders with files that were sent to a project.
func (t Tenant) FoldersIn(p ProjectID) []string {
	return []string{"inbox/" + must(t.v) + "/" + p.must() + "/", "rejected/" + must(t.v) + "/" + p.must() + "/"}
}

// Folders returns all folders of the bucket that belong to the tenant.
func (t Tenant) Folders() []string {
	return []string{"tenants/" + must(t.v) + "/", "inbox/" + must(t.v) + "/", "rejected/" + must(t.v) + "/"}
}

// Own returns the object of the tenant with a name, as stored in an item. A name
// of another tenant is an error.
func (t Tenant) Own(key string) (Object, error) {
	if !strings.HasPrefix(key, "tenants/"+must(t.v)+"/") || strings.Contains(key, "..") {
		return Object{}, fmt.Errorf("the object %.200q does not belong to the tenant", key)
	}
	return Object{key}, nil
}
