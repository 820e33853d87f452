// Package daxcluster stores the clusters of DAX that customers describe, with their
// parameter groups, subnet groups and events.
//
// A cluster is a description: package server/dax serves the clients of DAX, and does not
// ask this package. The form of requests and replies, and their checks, are left to
// package ops.
package daxcluster

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/db"
)

// Registry is everything that is stored, in one record, so that a cluster and the groups
// that it names are checked and changed at once (docs/formats/dax.md). The lists are in order
// of names, and the events in order of time.
type Registry struct {
	Clusters        []*Cluster        `json:"clusters,omitempty"`
	ParameterGroups []*ParameterGroup `json:"parameterGroups,omitempty"`
	SubnetGroups    []*SubnetGroup    `json:"subnetGroups,omitempty"`
	Events          []Event           `json:"events,omitempty"`
}

// Cluster is a cluster as a customer described it.
type Cluster struct {
	Name           string    `json:"name"`
	ARN            string    `json:"arn"`
	Created        time.Time `json:"created"`
	Description    *string   `json:"description,omitempty"`
	NodeType       string    `json:"nodeType"`
	Role           string    `json:"role"`
	SubnetGroup    string    `json:"subnetGroup"`
	ParameterGroup string    `json:"parameterGroup"`
	SecurityGroups []string  `json:"securityGroups,omitempty"`
	Maintenance    string    `json:"maintenance"`
	Topic          string    `json:"topic,omitempty"`
	TopicStatus    string    `json:"topicStatus,omitempty"`
	Encrypted      bool      `json:"encrypted,omitempty"` // server-side encryption was asked for
	TLS            bool      `json:"tls,omitempty"`
	NetworkType    string    `json:"networkType"`
	Nodes          []Node    `json:"nodes"`
	Tags           []Tag     `json:"tags,omitempty"`
}

// Node is a node of a cluster.
type Node struct {
	ID      string    `json:"id"`
	Zone    string    `json:"zone"`
	Created time.Time `json:"created"`
}

// HasNode reports whether the cluster has a node of an id.
func (c *Cluster) HasNode(id string) bool {
	return slices.ContainsFunc(c.Nodes, func(n Node) bool { return n.ID == id })
}

// Tag is a tag of a cluster. Its value may be absent.
type Tag struct {
	Key   string  `json:"key"`
	Value *string `json:"value,omitempty"`
}

// ParameterGroup is the times to live that clusters share. A time that is not set is the
// default.
type ParameterGroup struct {
	Name        string  `json:"name"`
	Description *string `json:"description,omitempty"`
	ItemTTL     *int64  `json:"itemTTL,omitempty"`  // in milliseconds
	QueryTTL    *int64  `json:"queryTTL,omitempty"` // in milliseconds
}

// SubnetGroup is subnets of clusters.
type SubnetGroup struct {
	Name        string   `json:"name"`
	Description *string  `json:"description,omitempty"`
	Subnets     []string `json:"subnets"`
}

// Event is something that was done.
type Event struct {
	Source  string    `json:"source"`
	Type    string    `json:"type"`
	Message string    `json:"message"`
	Time    time.Time `json:"time"`
}

// The types of the sources of events.
const (
	OfCluster        = "CLUSTER"
	OfParameterGroup = "PARAMETER_GROUP"
	OfSubnetGroup    = "SUBNET_GROUP"
)

const (
	maxEvents = 500
	eventAge  = 14 * 24 * time.Hour // events are kept for two weeks, as on AWS
)

// Add records an event, and removes old ones.
func (r *Registry) Add(e Event) {
	r.Events = append(r.Events, e)
	r.Events = slices.DeleteFunc(r.Events, func(old Event) bool { return e.Time.Sub(old.Time) > eventAge })
	r.Events = r.Events[max(0, len(r.Events)-maxEvents):]
}

// Cluster returns the cluster of a name, or nil. Names have no case.
func (r *Registry) Cluster(name string) *Cluster {
	return find(r.Clusters, name, func(c *Cluster) string { return c.Name })
}

// ParameterGroup returns the parameter group of a name, or nil.
func (r *Registry) ParameterGroup(name string) *ParameterGroup {
	return find(r.ParameterGroups, name, func(g *ParameterGroup) string { return g.Name })
}

// SubnetGroup returns the subnet group of a name, or nil.
func (r *Registry) SubnetGroup(name string) *SubnetGroup {
	return find(r.SubnetGroups, name, func(g *SubnetGroup) string { return g.Name })
}

func find[T any](list []*T, name string, nameOf func(*T) string) *T {
	for _, x := range list {
		if strings.EqualFold(nameOf(x), name) {
			return x
		}
	}
	return nil
}

// Nodes returns how many nodes all clusters have.
func (r *Registry) Nodes() (n int) {
	for _, c := range r.Clusters {
		n += len(c.Nodes)
	}
	return n
}

// sort brings the lists into the order of names.
func (r *Registry) sort() {
	slices.SortFunc(r.Clusters, func(a, b *Cluster) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(r.ParameterGroups, func(a, b *ParameterGroup) int { return strings.Compare(a.Name, b.Name) })
	slices.SortFunc(r.SubnetGroups, func(a, b *SubnetGroup) int { return strings.Compare(a.Name, b.Name) })
}

// formatRegistry is the format number of the record.
const formatRegistry = 1

// maxRegistryBytes is the largest record. The limits of package ops on what it holds are
// reached before, but for long descriptions and tags.
const maxRegistryBytes = 1 << 20

func encodeRegistry(r *Registry) ([]byte, error) {
	r.sort()
	text := bytes.NewBuffer([]byte{formatRegistry})
	out := json.NewEncoder(text)
	out.SetEscapeHTML(false)
	if err := out.Encode(r); err != nil {
		panic(fmt.Sprintf("the clusters of DAX cannot be encoded as JSON: %v", err))
	}
	if text.Len() > maxRegistryBytes {
		return nil, apierror.DAX("ServiceQuotaExceededException", "The descriptions of all clusters and groups can have at most %d bytes.", maxRegistryBytes)
	}
	return text.Bytes(), nil
}

func decodeRegistry(stored []byte) (*Registry, error) {
	r := new(Registry)
	if len(stored) == 0 {
		return r, nil
	}
	if stored[0] != formatRegistry {
		return nil, errors.New("the clusters of DAX have an unknown format")
	}
	if err := json.Unmarshal(stored[1:], r); err != nil {
		return nil, fmt.Errorf("the clusters of DAX are corrupt: %w", err)
	}
	return r, nil
}

// Read returns everything that is stored.
func Read(ctx context.Context, d *db.DB) (*Registry, error) {
	stored, err := d.DAXClusters(ctx)
	if err != nil {
		return nil, err
	}
	return decodeRegistry(stored)
}

// Change changes what is stored. change may be called more than once. If it returns an
// error, nothing is changed.
func Change(ctx context.Context, d *db.DB, change func(*Registry) error) error {
	return d.ChangeDAXClusters(ctx, func(before []byte) ([]byte, error) {
		r, err := decodeRegistry(before)
		if err != nil {
			return nil, err
		}
		if err := change(r); err != nil {
			return nil, err
		}
		return encodeRegistry(r)
	})
}
