package exchange

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/stator-db/stator/internal/model"
)

// readWorkbench reads a data model of NoSQL Workbench.
func readWorkbench(file string, root *sourceTree) (*Design, error) {
	w := &workbench{file: file}
	d := &Design{Name: textOf(root.get("ModelName")), Description: textOf(root.get("ModelMetadata", "Description")), Source: "NoSQL Workbench, " + filepath.Base(file)}
	tables := root.get("DataModel")
	if tables.kind != treeList {
		return nil, Faults{{File: file, At: tables.at, Message: "DataModel is not a list of tables"}}
	}
	var described []*describedTable
	for _, t := range tables.list {
		described = append(described, w.table(t))
	}
	made, faults := toTables(described)
	if len(faults) > 0 {
		return nil, faults
	}
	d.Tables = made
	s := sampler{file: file, names: make(map[string]bool)}
	for i, t := range tables.list {
		s.table(made[i], t)
		for _, x := range listOrNil(t.get("LocalSecondaryIndexes")) {
			s.omit(x, fmt.Sprintf("local index %s of table %s", textOf(x.get("IndexName")), made[i].Name), "local indexes of a data model are not read")
		}
	}
	d.Entities, d.Omitted = s.entities, s.omitted
	return d, nil
}

type workbench struct{ file string }

func textOf(t *sourceTree) string {
	if t == nil || t.kind != treeString {
		return ""
	}
	return t.text
}

func (w *workbench) table(t *sourceTree) *describedTable {
	d := &describedTable{file: w.file, at: t.at, name: textOf(t.get("TableName")), onDemand: true}
	d.what = "table " + d.name
	d.key = d.keyAttributes(t)
	for _, x := range listOrNil(t.get("GlobalSecondaryIndexes")) {
		index := &describedIndex{name: textOf(x.get("IndexName")), key: d.keyAttributes(x), projection: textOf(x.get("Projection", "ProjectionType"))}
		for _, name := range listOrNil(x.get("Projection", "NonKeyAttributes")) {
			index.names = append(index.names, name.text)
		}
		d.indexes = append(d.indexes, index)
	}
	if settings := t.get("ProvisionedCapacitySettings"); settings != nil && textOf(t.get("BillingMode")) != "PAY_PER_REQUEST" {
		d.onDemand = false
		d.read = workbenchCapacity(settings, "ReadCapacityUnits", "AutoScalingRead")
		d.write = workbenchCapacity(settings, "WriteCapacityUnits", "AutoScalingWrite")
	}
	return d
}

func listOrNil(t *sourceTree) []*sourceTree {
	if t == nil {
		return nil
	}
	return t.list
}

// keyAttributes returns a key, and records the types of its attributes. A key
// of several attributes has lists.
func (d *describedTable) keyAttributes(t *sourceTree) (key []keyPart) {
	for _, part := range []struct{ name, kind string }{{"PartitionKey", "HASH"}, {"SortKey", "RANGE"}} {
		attr := t.get("KeyAttributes", part.name)
		list := listOrNil(attr)
		if attr != nil && attr.kind == treeMap {
			list = []*sourceTree{attr}
		}
		for _, a := range list {
			name := textOf(a.get("AttributeName"))
			key = append(key, keyPart{name, part.kind})
			d.types = append(d.types, attributeType{name, textOf(a.get("AttributeType"))})
		}
	}
	return key
}

func workbenchCapacity(settings *sourceTree, units, scaling string) model.Capacity {
	c := model.Capacity{Units: wholeOf(settings.get("ProvisionedThroughput", units))}
	if s := settings.get(scaling); s != nil {
		c.Min, c.Max = wholeOf(s.get("ScalableTargetRequest", "MinCapacity")), wholeOf(s.get("ScalableTargetRequest", "MaxCapacity"))
		c.Target = min(100, wholeOf(s.get("ScalingPolicyConfiguration", "TargetValue")))
	}
	return c
}

// wholeOf is a number of units; 0 if it is not a valid one.
func wholeOf(t *sourceTree) int {
	if t == nil {
		return 0
	}
	n := 0
	if _, err := fmt.Sscanf(strings.TrimSpace(t.text), "%d", &n); err != nil || n < 0 || n > 1e9 {
		return 0
	}
	return n
}
