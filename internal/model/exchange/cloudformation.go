package exchange

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/stator-db/stator/internal/model"
)

// readCloudFormation reads the tables of a template.
func readCloudFormation(file string, root *sourceTree, vars map[string]string) (*Design, error) {
	c := &cloudFormationReader{file: file, root: root, vars: vars}
	if t := root.get("Description"); t != nil && t.kind == treeString {
		c.description = t.text
	}
	resources := root.get("Resources")
	if resources.kind != treeMap {
		return nil, Faults{{File: file, At: resources.at, Message: "Resources is not a mapping"}}
	}
	for _, m := range resources.members {
		c.resource(m)
	}
	for _, m := range resources.members {
		c.scaling(m)
	}
	if len(c.faults) > 0 {
		return nil, c.faults
	}
	tables, faults := toTables(c.tables)
	if len(faults) > 0 {
		return nil, faults
	}
	return &Design{Description: c.description, Source: "CloudFormation, " + filepath.Base(file), Tables: tables, Omitted: c.omitted}, nil
}

// cloudFormationReader reads one CloudFormation template.
type cloudFormationReader struct {
	file        string
	root        *sourceTree
	vars        map[string]string
	description string
	tables      []*describedTable
	faults      Faults
	omitted     []Omission
	steps       int // functions evaluated so far
}

func (c *cloudFormationReader) fault(at model.Position, format string, args ...any) {
	if len(c.faults) < maxFaults {
		c.faults = append(c.faults, Fault{c.file, at, fmt.Sprintf(format, args...)})
	}
}

// properties are the properties of a resource, with a description of it for
// messages.
type properties struct {
	c    *cloudFormationReader
	tree *sourceTree
	what string
}

// value returns a property with its functions evaluated. It returns nil if the
// property is absent, or cannot be evaluated, which is a fault.
func (p properties) value(names ...string) *sourceTree {
	t := p.tree
	for _, name := range names {
		if t = t.get(name); t == nil {
			return nil
		}
		var err error
		if t, err = p.c.resolve(t, 0); err != nil {
			p.c.fault(t.at, "%s of %s cannot be evaluated: %v", strings.Join(names, "."), p.what, err)
			return nil
		}
		if t.kind == treeNull {
			return nil
		}
	}
	return t
}

func (p properties) text(names ...string) string {
	t := p.value(names...)
	if t == nil {
		return ""
	}
	if t.kind == treeList || t.kind == treeMap {
		p.c.fault(t.at, "%s of %s is %s, not text", strings.Join(names, "."), p.what, t.kind)
		return ""
	}
	return t.text
}

func (p properties) flag(names ...string) bool { return strings.EqualFold(p.text(names...), "true") }

// number returns a non-negative whole number.
func (p properties) number(names ...string) int {
	text := p.text(names...)
	if text == "" {
		return 0
	}
	f, err := strconv.ParseFloat(text, 64)
	if err != nil || f < 0 || f > 1e9 || f != float64(int(f)) {
		p.c.fault(p.value(names...).at, "%s of %s is %q, not a whole number of units", strings.Join(names, "."), p.what, text)
		return 0
	}
	return int(f)
}

// list returns the elements of a list.
func (p properties) list(names ...string) (all []properties) {
	t := p.value(names...)
	if t == nil {
		return nil
	}
	what := names[len(names)-1] + " of " + p.what
	if t.kind != treeList {
		p.c.fault(t.at, "%s is %s, not a list", what, t.kind)
		return nil
	}
	for _, e := range t.list {
		e, err := p.c.resolve(e, 0)
		if err != nil {
			p.c.fault(e.at, "%s cannot be evaluated: %v", what, err)
			continue
		}
		if e.kind != treeNull {
			all = append(all, properties{p.c, e, what})
		}
	}
	return all
}

// in returns the properties of a nested property.
func (p properties) in(names ...string) properties {
	t := p.value(names...)
	if t == nil {
		t = new(sourceTree)
	}
	return properties{p.c, t, p.what}
}

// The resource types that are tables.
const (
	tableType       = "AWS::DynamoDB::Table"
	globalTableType = "AWS::DynamoDB::GlobalTable"
	simpleTableType = "AWS::Serverless::SimpleTable"
)

func isTableType(kind string) bool {
	return kind == tableType || kind == globalTableType || kind == simpleTableType
}

// mayContainTables are the resources that create resources of other templates.
var mayContainTables = map[string]string{
	"AWS::CloudFormation::Stack":    "nested stacks are not read; import their templates",
	"AWS::CloudFormation::StackSet": "stack sets are not read; import their templates",
	"AWS::Serverless::Application":  "nested applications are not read; import their templates",
}

// omit records a resource that may contain tables and is not read.
func (c *cloudFormationReader) omit(m treeMember, reason string) {
	if len(c.omitted) < maxOmissions {
		c.omitted = append(c.omitted, Omission{c.file, m.at, m.name, reason})
	}
}

func (c *cloudFormationReader) resource(m treeMember) {
	if strings.HasPrefix(m.name, "Fn::") {
		c.omit(m, "resources that a function generates are not read")
		return
	}
	kind := textOf(m.value.get("Type"))
	if !isTableType(kind) {
		reason := mayContainTables[kind]
		if strings.HasSuffix(kind, "::MODULE") {
			reason = "modules of a registry are not read"
		}
		if reason != "" && c.exists(m) {
			c.omit(m, reason)
		}
		return
	}
	if !c.exists(m) {
		return
	}
	props, err := c.resolve(orNull(m.value.get("Properties")), 0)
	if err != nil {
		c.fault(props.at, "Properties of %s cannot be evaluated: %v", m.name, err)
		return
	}
	p := properties{c, props, m.name}
	t := &describedTable{file: c.file, at: m.at, what: m.name, name: p.text("TableName")}
	if p.tree.get("TableName") == nil {
		t.name = m.name
		t.notes = append(t.notes, "CloudFormation generates its name; this is the name of the resource.")
	}
	if kind == simpleTableType {
		c.simpleTable(t, p)
	} else {
		c.fullTable(t, p, kind)
	}
	t.dropped = append(t.dropped, c.dropped(p)...)
	c.tables = append(c.tables, t)
}

// fullTable reads the properties of a table or a global table.
func (c *cloudFormationReader) fullTable(t *describedTable, p properties, kind string) {
	t.stream = p.text("StreamSpecification", "StreamViewType")
	if p.text("TimeToLiveSpecification", "Enabled") == "" || p.flag("TimeToLiveSpecification", "Enabled") {
		t.ttl = p.text("TimeToLiveSpecification", "AttributeName")
	}
	for _, a := range p.list("AttributeDefinitions") {
		t.types = append(t.types, attributeType{a.text("AttributeName"), a.text("AttributeType")})
	}
	t.key = keyOf(p)
	switch mode := p.text("BillingMode"); mode {
	case "PAY_PER_REQUEST":
		t.onDemand = true
	case "PROVISIONED", "":
	default:
		c.fault(t.at, "BillingMode of %s is %q, not PROVISIONED or PAY_PER_REQUEST", t.what, mode)
	}
	if kind == tableType {
		c.table(t, p)
	} else {
		c.globalTable(t, p)
	}
}

// simpleTable reads a table of a serverless application: one partition key,
// which defaults to the string id, and billing on demand without units.
func (c *cloudFormationReader) simpleTable(t *describedTable, p properties) {
	name, kind := cmp.Or(p.text("PrimaryKey", "Name"), "id"), cmp.Or(p.text("PrimaryKey", "Type"), "String")
	types := map[string]string{"String": "S", "Number": "N", "Binary": "B"}
	if types[kind] == "" {
		c.fault(t.at, "the type of the PrimaryKey of %s is %q, not String, Number or Binary", t.what, kind)
		return
	}
	t.key = []keyPart{{name, "HASH"}}
	t.types = []attributeType{{name, types[kind]}}
	t.onDemand = p.value("ProvisionedThroughput") == nil
	c.table(t, p)
}

func orNull(t *sourceTree) *sourceTree {
	if t == nil {
		return new(sourceTree)
	}
	return t
}

// exists reports whether a resource's condition holds.
func (c *cloudFormationReader) exists(m treeMember) bool {
	name := m.value.get("Condition")
	if name == nil {
		return true
	}
	holds, err := c.condition(name.text, 0)
	if err != nil {
		c.fault(name.at, "Condition of %s cannot be evaluated: %v", m.name, err)
	}
	return holds
}

func keyOf(p properties) (key []keyPart) {
	for _, e := range p.list("KeySchema") {
		key = append(key, keyPart{e.text("AttributeName"), e.text("KeyType")})
	}
	return key
}

func (c *cloudFormationReader) table(t *describedTable, p properties) {
	t.recovery = p.flag("PointInTimeRecoverySpecification", "PointInTimeRecoveryEnabled")
	units := func(p properties, read, write *model.Capacity) {
		if !t.onDemand {
			read.Units, write.Units = p.number("ProvisionedThroughput", "ReadCapacityUnits"), p.number("ProvisionedThroughput", "WriteCapacityUnits")
		}
	}
	units(p, &t.read, &t.write)
	for _, x := range p.list("GlobalSecondaryIndexes") {
		index := indexOf(x, false)
		units(x, &index.read, &index.write)
		t.indexes = append(t.indexes, index)
	}
	for _, x := range p.list("LocalSecondaryIndexes") {
		t.indexes = append(t.indexes, indexOf(x, true))
	}
}

func indexOf(p properties, local bool) *describedIndex {
	x := &describedIndex{name: p.text("IndexName"), local: local, key: keyOf(p), projection: p.text("Projection", "ProjectionType")}
	if p.value("Projection", "NonKeyAttributes") != nil {
		for _, e := range p.list("Projection", "NonKeyAttributes") {
			x.names = append(x.names, e.tree.text)
		}
	}
	return x
}

// globalTable reads the properties of a global table that differ from those of
// a table: writes are declared for all regions, the rest for each region. The
// first region is used.
func (c *cloudFormationReader) globalTable(t *describedTable, p properties) {
	var replica properties
	replicas := p.list("Replicas")
	if len(replicas) > 0 {
		replica = replicas[0]
	} else {
		replica = properties{c, new(sourceTree), p.what}
	}
	if len(replicas) > 1 {
		t.dropped = append(t.dropped, replicaNote(len(replicas)-1))
	}
	t.recovery = replica.flag("PointInTimeRecoverySpecification", "PointInTimeRecoveryEnabled")
	readOf := func(p properties) model.Capacity {
		read := p.in("ReadProvisionedThroughputSettings")
		units := read.number("ReadCapacityUnits")
		if read.value("ReadCapacityAutoScalingSettings") == nil {
			return model.Capacity{Units: units}
		}
		return scalingOf(read.in("ReadCapacityAutoScalingSettings"))
	}
	writeOf := func(p properties) model.Capacity {
		return scalingOf(p.in("WriteProvisionedThroughputSettings", "WriteCapacityAutoScalingSettings"))
	}
	if !t.onDemand {
		t.read, t.write = readOf(replica), writeOf(p)
	}
	for _, x := range p.list("GlobalSecondaryIndexes") {
		index := indexOf(x, false)
		if !t.onDemand {
			index.write = writeOf(x)
			for _, r := range replica.list("GlobalSecondaryIndexes") {
				if r.text("IndexName") == index.name {
					index.read = readOf(r)
				}
			}
		}
		t.indexes = append(t.indexes, index)
	}
	for _, x := range p.list("LocalSecondaryIndexes") {
		t.indexes = append(t.indexes, indexOf(x, true))
	}
}

func scalingOf(p properties) model.Capacity {
	return model.Capacity{
		Units: p.number("SeedCapacity"), Min: p.number("MinCapacity"), Max: p.number("MaxCapacity"),
		Target: wholePerCent(p.float("TargetTrackingScalingPolicyConfiguration", "TargetValue")),
	}
}

func (p properties) float(names ...string) float64 {
	f, err := strconv.ParseFloat(p.text(names...), 64)
	if err != nil {
		return 0
	}
	return f
}

// scaling applies the auto scaling resources to the capacities that they scale.
func (c *cloudFormationReader) scaling(m treeMember) {
	kind := m.value.get("Type")
	if kind == nil || !strings.HasPrefix(kind.text, "AWS::ApplicationAutoScaling::") || !c.exists(m) {
		return
	}
	p := properties{c, orNull(m.value.get("Properties")), m.name}
	switch kind.text {
	case "AWS::ApplicationAutoScaling::ScalableTarget":
		if p.text("ServiceNamespace") != "dynamodb" {
			return
		}
		if x := findCapacity(c.tables, p.text("ResourceId"), p.text("ScalableDimension")); x != nil {
			x.Min, x.Max = p.number("MinCapacity"), p.number("MaxCapacity")
		}
	case "AWS::ApplicationAutoScaling::ScalingPolicy":
		id, dimension := p, p
		if target := p.tree.get("ScalingTargetId", "Ref"); target != nil {
			props := c.root.get("Resources", target.text, "Properties")
			id = properties{c, orNull(props), target.text}
			dimension = id
		} else if p.tree.get("ResourceId") == nil {
			return
		}
		if id.text("ServiceNamespace") != "dynamodb" {
			return
		}
		if x := findCapacity(c.tables, id.text("ResourceId"), dimension.text("ScalableDimension")); x != nil {
			x.Target = wholePerCent(p.float("TargetTrackingScalingPolicyConfiguration", "TargetValue"))
		}
	}
}

// dropped returns the properties that a model cannot represent. Those that
// cannot be evaluated are ignored.
func (c *cloudFormationReader) dropped(p properties) (all []string) {
	before := c.faults
	defer func() { c.faults = before }()
	var tags []string
	for _, t := range p.list("Tags") {
		tags = append(tags, t.text("Key")+"="+t.text("Value"))
	}
	if len(tags) > 0 {
		all = append(all, "tags "+strings.Join(tags, ", "))
	}
	if class := p.text("TableClass"); class != "" && class != "STANDARD" {
		all = append(all, "table class "+class)
	}
	if p.flag("DeletionProtectionEnabled") {
		all = append(all, "deletion protection")
	}
	if p.value("SSESpecification") != nil {
		all = append(all, "server-side encryption")
	}
	return all
}
