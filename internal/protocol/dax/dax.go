// Package dax reads and writes the binary protocol of DynamoDB Accelerator: its
// requests become those of package api, whose replies it encodes.
//
// It reads from an io.Reader and does no other I/O. Package server/dax has the connections.
// The protocol is described in docs/dax-protocol.md.
package dax

import (
	"github.com/stator-db/stator/internal/data/schema"
)

// Catalog is what decoding and encoding need to know of the server.
type Catalog interface {
	// Key returns the primary key of a table. If there is no such table, the error is
	// an *apierror.Error.
	Key(table string) (schema.Key, error)

	// AttributeNames returns the names of an attribute list that a client refers to. An
	// unknown id is an *apierror.Error. It is not called for EmptyAttributeList.
	AttributeNames(id int64) ([]string, error)

	// AttributeList returns the id of a list of names, which is not EmptyAttributeList, and
	// adds the list if it is new. The list has at least one name, and its order matters:
	// clients sort in different ways. The names and the slice are used again after the call.
	AttributeList(names [][]byte) (id int64, err error)
}

// Request is a decoded request.
type Request struct {
	// Operation is the name of one of the ten operations on items, such as "GetItem", or
	// one of the names below.
	Operation string

	// In is the request: *api.GetItem and so on, *Authorization, *Endpoints, *DefineKeySchema,
	// *DefineAttributeList or *DefineAttributeListID.
	In any

	// What the reply depends on.
	shown   *projectionTree            // of GetItem, Query and Scan
	byTable map[string]*projectionTree // of BatchGetItem
	byItem  []*projectionTree          // of TransactGetItems
}

// The methods that are not operations on items.
const (
	AuthorizeConnection = "authorizeConnection"
	ListEndpoints       = "endpoints"
	KeySchemaOf         = "defineKeySchema"
	AttributeListNames  = "defineAttributeList"
	AttributeListIDOf   = "defineAttributeListId"
)

// Authorization is an authorizeConnection. It has no reply: if it is wrong, the next
// request fails.
type Authorization struct {
	AccessKey    string
	Signature    string
	StringToSign string
	SessionToken string // empty if the client has none
	UserAgent    string
}

// Endpoints asks for the nodes of the cluster. Its reply is an *EndpointsReply.
type Endpoints struct{}

// EndpointsReply has the nodes of the cluster.
type EndpointsReply struct{ Nodes []Endpoint }

// Endpoint is a node of the cluster.
type Endpoint struct {
	ID            int64
	Hostname      string
	Address       []byte // 4 or 16 bytes
	Port          int
	Leader        bool
	Zone          string
	LeaderSession int64
}

// DefineKeySchema asks for the key of a table. AppendReply answers it from the Catalog;
// its reply argument is not used.
type DefineKeySchema struct{ Table string }

// DefineAttributeList asks for the names of an attribute list. AppendReply answers it from
// the Catalog.
type DefineAttributeList struct{ ID int64 }

// DefineAttributeListID asks for the id of a list of names. AppendReply answers it from
// the Catalog.
type DefineAttributeListID struct{ Names []string }
