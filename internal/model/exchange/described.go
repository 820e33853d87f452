package exchange

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/model"
)

// describedTable is a table in the terms of the service, which all sources
// share.
type describedTable struct {
	file     string
	at       model.Position
	what     string // description for messages
	name     string
	types    []attributeType
	key      []keyPart
	indexes  []*describedIndex
	onDemand bool
	read     model.Capacity
	write    model.Capacity
	ttl      string
	stream   string
	recovery bool
	notes    []string // sentences for readers of the model
	dropped  []string // properties that a model cannot represent
}

type attributeType struct{ name, kind string }

type keyPart struct {
	name string
	kind string // HASH or RANGE
}

type describedIndex struct {
	name        string
	key         []keyPart
	local       bool
	projection  string // ALL, KEYS_ONLY or INCLUDE
	names       []string
	read, write model.Capacity
}

// toTables converts descriptions to tables, or reports what is missing.
func toTables(all []*describedTable) (tables []*Table, faults Faults) {
	for _, d := range all {
		t, err := d.table()
		if err != nil {
			faults = append(faults, Fault{d.file, d.at, fmt.Sprintf("%s: %v", d.what, err)})
			continue
		}
		tables = append(tables, t)
	}
	return tables, faults
}

// table converts a description to the table of a model, or reports what is
// missing.
func (d *describedTable) table() (*Table, error) {
	t := &Table{Notes: d.notes}
	if len(d.dropped) > 0 {
		t.Notes = append(slices.Clip(t.Notes), "Not part of a model: "+strings.Join(d.dropped, "; ")+".")
	}
	t.Name, t.TTL, t.Stream, t.Recovery = d.name, d.ttl, d.stream, d.recovery
	t.Position = d.at
	partition, sort, err := splitKey(d.key)
	if err != nil || len(partition) > 1 || len(sort) > 1 {
		return nil, cmp.Or(err, fmt.Errorf("the key of a table has one HASH attribute and at most one RANGE attribute"))
	}
	t.Key = &model.Key{Partition: partition[0]}
	if len(sort) > 0 {
		t.Key.Sort = sort[0]
	}
	t.Billing = "on-demand"
	if !d.onDemand {
		t.Billing = "provisioned"
		t.Read, t.Write = normalized(d.read), normalized(d.write)
		if t.Read == nil || t.Write == nil {
			return nil, fmt.Errorf("it is provisioned, but its read and write units are not given")
		}
	}
	for _, x := range d.indexes {
		index, err := d.index(t, x)
		if err != nil {
			return nil, fmt.Errorf("index %s: %w", x.name, err)
		}
		if x.name == "" {
			return nil, fmt.Errorf("an index has no name")
		}
		if _, ok := t.Index(x.name); ok {
			return nil, fmt.Errorf("two indexes are named %s", x.name)
		}
		t.Indexes = append(t.Indexes, index)
	}
	return t, d.keyTypes(t)
}

func (d *describedTable) index(t *Table, x *describedIndex) (*model.Index, error) {
	partition, sort, err := splitKey(x.key)
	if err != nil {
		return nil, err
	}
	index := &model.Index{Name: x.name, Local: x.local, Partition: partition, Sort: sort}
	switch x.projection {
	case "ALL", "KEYS_ONLY":
		index.Projection.Kind = x.projection
	case "INCLUDE":
		index.Projection = model.Projection{Kind: "INCLUDE", Names: x.names}
	default:
		return nil, fmt.Errorf("the projection is %q, not ALL, KEYS_ONLY or INCLUDE", x.projection)
	}
	if x.local {
		index.Partition = nil // it is the table's
	} else if !d.onDemand {
		index.Read, index.Write = ownCapacity(normalized(x.read), t.Read), ownCapacity(normalized(x.write), t.Write)
	}
	return index, nil
}

// keyTypes gives the table the types of its key attributes that are not
// strings.
func (d *describedTable) keyTypes(t *Table) error {
	names := []string{t.Key.Partition, t.Key.Sort}
	for _, x := range t.Indexes {
		names = append(append(names, x.Partition...), x.Sort...)
	}
	for i, name := range names {
		if name == "" || slices.Contains(names[:i], name) {
			continue
		}
		at := slices.IndexFunc(d.types, func(a attributeType) bool { return a.name == name })
		if at < 0 {
			return fmt.Errorf("%s is in a key, but its type is not given", name)
		}
		switch kind := d.types[at].kind; kind {
		case "S":
		case "N", "B":
			t.Types = append(t.Types, &model.KeyType{Name: name, Type: kind})
		default:
			return fmt.Errorf("%s is in a key with the type %q, not S, N or B", name, kind)
		}
	}
	return nil
}

// replicaNote describes n replicas.
func replicaNote(n int) string {
	if n == 1 {
		return "a replica in another region"
	}
	return fmt.Sprintf("replicas in %d other regions", n)
}

// splitKey splits a key into partition and sort attributes.
func splitKey(key []keyPart) (partition, sort []string, err error) {
	for _, e := range key {
		if e.name == "" {
			return nil, nil, fmt.Errorf("an attribute of its key has no name")
		}
		switch e.kind {
		case "HASH":
			partition = append(partition, e.name)
		case "RANGE":
			sort = append(sort, e.name)
		default:
			return nil, nil, fmt.Errorf("%s is in the key as %q, not HASH or RANGE", e.name, e.kind)
		}
	}
	if len(partition) == 0 {
		return nil, nil, fmt.Errorf("it has no partition key")
	}
	return partition, sort, nil
}

// normalized is a capacity in its shortest form; nil for none.
func normalized(c model.Capacity) *model.Capacity {
	if c.Target == model.DefaultTarget {
		c.Target = 0
	}
	if c.Max != 0 && c.Units <= c.Min {
		c.Units = 0
	}
	if c.Units == 0 && c.Min == 0 && c.Max == 0 {
		return nil
	}
	c.Location = model.Location{}
	return &c
}

// ownCapacity is an index's capacity, nil if it equals the table's.
func ownCapacity(own, table *model.Capacity) *model.Capacity {
	if own != nil && table != nil && sameCapacity(own, table) {
		return nil
	}
	return own
}

func sameCapacity(a, b *model.Capacity) bool {
	return a.Units == b.Units && a.Min == b.Min && a.Max == b.Max && a.Target == b.Target
}
