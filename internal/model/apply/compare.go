package apply

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/model"
)

// comparer compares one table of the model with that of the endpoint.
type comparer struct {
	plan  *Plan
	table *model.Table
	live  *liveTable // nil if it does not exist

	scaling  map[scalableID]*liveScaling // of the table and its indexes, also of a deleted table of its name
	scalable bool                        // scaling is known
}

func (c *comparer) change(kind, loses, operation string, body map[string]any, format string, args ...any) {
	body["TableName"] = c.table.Name
	c.plan.Changes = append(c.plan.Changes, &Change{
		Table: c.table.Name, Kind: kind, Text: fmt.Sprintf(format, args...), Loses: loses,
		Request: model.Request{Operation: operation, Body: body},
	})
}

func (c *comparer) fault(try, format string, args ...any) {
	c.plan.Faults = append(c.plan.Faults, &Fault{Table: c.table.Name, Message: fmt.Sprintf(format, args...), Try: try})
}

func (c *comparer) note(format string, args ...any) {
	c.plan.Notes = append(c.plan.Notes, fmt.Sprintf(format, args...))
}

// create adds the creation of a table that does not exist.
func (c *comparer) create() {
	body := Body(c.table)
	var indexes []string
	for _, x := range c.table.Indexes {
		indexes = append(indexes, x.Name)
	}
	text := "create the table with the key " + schemaKeyText(c.table.Schema().Key)
	if len(indexes) > 0 {
		text += " and the indexes " + strings.Join(indexes, ", ")
	}
	c.change(CreateTable, "", "CreateTable", body, "%s", text)
	c.unscale()
	c.scale()
	if c.table.TTL != "" {
		c.enableTTL()
	}
	if c.table.Recovery {
		c.recovery()
	}
}

// compare adds the changes that an existing table needs.
func (c *comparer) compare() {
	c.checkImmutable()
	c.unscale()
	c.removeIndexes()
	c.billing()
	c.addIndexes()
	c.scale()
	c.stream()
	c.ttl()
	if c.table.Recovery && !c.live.supportsRecovery {
		c.fault("remove recovery from the model", "the endpoint does not support point-in-time recovery")
	} else if c.table.Recovery != c.live.recovery {
		c.recovery()
	}
}

const tryNewTable = "create a table with another name and move the items, or change the model"

// checkImmutable reports differences in what is fixed when a table is created.
func (c *comparer) checkImmutable() {
	s := c.table.Schema()
	if is, want := c.live.keyText(c.live.KeySchema), schemaKeyText(s.Key); is != want {
		c.fault(tryNewTable, "its key is %s, but the model's is %s: a table's key cannot be changed", is, want)
	}
	for i := range s.Indexes {
		x := &s.Indexes[i]
		if x.Global {
			continue
		}
		is := find(c.live.LocalSecondaryIndexes, x.Name)
		switch {
		case is == nil:
			c.fault(tryNewTable, "it lacks the local index %s: local indexes are created with their table", x.Name)
		case c.live.keyText(is.KeySchema) != schemaKeyText(x.Key) || !is.projects(x.Projection):
			c.fault(tryNewTable, "its local index %s differs from the model's: local indexes cannot be changed", x.Name)
		}
	}
	for _, is := range c.live.LocalSecondaryIndexes {
		if x, ok := s.Index(is.IndexName); !ok || x.Global {
			c.fault(tryNewTable, "it has the local index %s, which the model does not have: local indexes cannot be removed", is.IndexName)
		}
	}
}

// keeps reports whether a global index stays as it is.
func (c *comparer) keeps(is *liveIndex) bool {
	x, ok := c.table.Schema().Index(is.IndexName)
	return ok && x.Global && c.live.keyText(is.KeySchema) == schemaKeyText(x.Key) && is.projects(x.Projection)
}

func (c *comparer) removeIndexes() {
	for _, is := range c.live.GlobalSecondaryIndexes {
		if c.keeps(is) {
			continue
		}
		loses, text := "its queries fail from then on", fmt.Sprintf("remove the index %s", is.IndexName)
		if _, ok := c.table.Index(is.IndexName); ok {
			loses, text = "its queries fail until it is rebuilt", text+", which differs from the model's"
		}
		part := map[string]any{"Delete": map[string]any{"IndexName": is.IndexName}}
		c.change(RemoveIndex, loses, "UpdateTable", map[string]any{"GlobalSecondaryIndexUpdates": []any{part}}, "%s", text)
	}
}

func (c *comparer) addIndexes() {
	s := c.table.Schema()
	for i := range s.Indexes {
		x := &s.Indexes[i]
		if is := find(c.live.GlobalSecondaryIndexes, x.Name); !x.Global || is != nil && c.keeps(is) {
			continue
		}
		body := map[string]any{
			"AttributeDefinitions":        definitions(x.Key.All()),
			"GlobalSecondaryIndexUpdates": []any{map[string]any{"Create": indexBody(c.table, x)}},
		}
		c.change(AddIndex, "", "UpdateTable", body, "add the index %s with the key %s", x.Name, schemaKeyText(x.Key))
	}
}

// billing adds a change of the billing mode or of the units.
func (c *comparer) billing() {
	switch {
	case c.table.OnDemand() && !c.live.onDemand():
		c.change(Billing, "", "UpdateTable", map[string]any{"BillingMode": "PAY_PER_REQUEST"}, "switch to on-demand billing")
		return
	case c.table.OnDemand():
		return
	}
	s := c.table.Schema()
	body, all := map[string]any{}, c.live.onDemand()
	var texts []string
	if u := c.unitsOf(c.live.ProvisionedThroughput, s.Throughput, c.table.Read, c.table.Write); all || !c.live.ProvisionedThroughput.are(u) {
		body["ProvisionedThroughput"] = throughput(u)
		texts = append(texts, fmt.Sprintf("%d read and %d write units", u.Read, u.Write))
	}
	var updates []any
	for _, is := range c.live.GlobalSecondaryIndexes {
		if !c.keeps(is) {
			continue
		}
		x, _ := c.table.Index(is.IndexName)
		u := c.unitsOf(is.ProvisionedThroughput, x.Schema().Throughput, cmp.Or(x.Read, c.table.Read), cmp.Or(x.Write, c.table.Write))
		if !all && is.ProvisionedThroughput.are(u) {
			continue
		}
		updates = append(updates, map[string]any{"Update": map[string]any{"IndexName": x.Name, "ProvisionedThroughput": throughput(u)}})
		texts = append(texts, fmt.Sprintf("%d and %d of the index %s", u.Read, u.Write, x.Name))
	}
	if len(updates) > 0 {
		body["GlobalSecondaryIndexUpdates"] = updates
	}
	switch {
	case all:
		body["BillingMode"] = "PROVISIONED"
		c.change(Billing, "", "UpdateTable", body, "switch to provisioned billing with %s", strings.Join(texts, ", "))
	case len(texts) > 0:
		c.change(Units, "", "UpdateTable", body, "provision %s", strings.Join(texts, ", "))
	}
}

// stream adds a change of the stream. A stream with another view type is a new
// stream.
func (c *comparer) stream() {
	if c.live.stream() == c.table.Stream {
		return
	}
	if is := c.live.stream(); is != "" {
		c.change(Stream, "its consumers must read it to the end, and then the next stream if there is one", "UpdateTable",
			map[string]any{"StreamSpecification": map[string]any{"StreamEnabled": false}}, "end the stream of %s", is)
	}
	if c.table.Stream != "" {
		c.change(Stream, "", "UpdateTable", map[string]any{"StreamSpecification": streamBody(c.table)}, "start a stream of %s", c.table.Stream)
	}
}

func (c *comparer) ttl() {
	if c.live.ttl == c.table.TTL {
		return
	}
	if is := c.live.ttl; is != "" {
		c.change(TimeToLive, "items no longer expire by it", "UpdateTimeToLive", ttlBody(is, false), "stop expiry by %s", is)
	}
	if c.table.TTL != "" {
		c.enableTTL()
	}
}

func (c *comparer) enableTTL() {
	c.change(TimeToLive, "", "UpdateTimeToLive", ttlBody(c.table.TTL, true), "expire items by %s", c.table.TTL)
}

func ttlBody(attribute string, on bool) map[string]any {
	return map[string]any{"TimeToLiveSpecification": map[string]any{"AttributeName": attribute, "Enabled": on}}
}

func (c *comparer) recovery() {
	body := map[string]any{"PointInTimeRecoverySpecification": map[string]any{"PointInTimeRecoveryEnabled": c.table.Recovery}}
	if c.table.Recovery {
		c.change(Recovery, "", "UpdateContinuousBackups", body, "enable point-in-time recovery")
		return
	}
	c.change(Recovery, "the history that it could restore", "UpdateContinuousBackups", body, "disable point-in-time recovery")
}

// Body returns the CreateTable request of a table.
func Body(t *model.Table) map[string]any {
	s := t.Schema()
	body := map[string]any{"TableName": t.Name, "AttributeDefinitions": definitions(s.Attributes), "KeySchema": keySchema(s.Key)}
	if t.OnDemand() {
		body["BillingMode"] = "PAY_PER_REQUEST"
	} else {
		body["BillingMode"], body["ProvisionedThroughput"] = "PROVISIONED", throughput(s.Throughput)
	}
	for i := range s.Indexes {
		x := &s.Indexes[i]
		member := "LocalSecondaryIndexes"
		if x.Global {
			member = "GlobalSecondaryIndexes"
		}
		list, _ := body[member].([]any)
		body[member] = append(list, indexBody(t, x))
	}
	if t.Stream != "" {
		body["StreamSpecification"] = streamBody(t)
	}
	return body
}

func indexBody(t *model.Table, x *schema.Index) map[string]any {
	projection := map[string]any{"ProjectionType": x.Projection.Kind}
	if len(x.Projection.Names) > 0 {
		projection["NonKeyAttributes"] = x.Projection.Names
	}
	body := map[string]any{"IndexName": x.Name, "KeySchema": keySchema(x.Key), "Projection": projection}
	if x.Global && !t.OnDemand() {
		body["ProvisionedThroughput"] = throughput(x.Throughput)
	}
	return body
}

func streamBody(t *model.Table) map[string]any {
	return map[string]any{"StreamEnabled": true, "StreamViewType": t.Stream}
}

func throughput(u schema.Throughput) map[string]any {
	return map[string]any{"ReadCapacityUnits": u.Read, "WriteCapacityUnits": u.Write}
}

func definitions(list []schema.Attribute) (parts []any) {
	for _, a := range list {
		parts = append(parts, map[string]any{"AttributeName": a.Name, "AttributeType": a.Type.String()})
	}
	return parts
}

func keySchema(k schema.Key) (parts []any) {
	for i, a := range k.All() {
		parts = append(parts, map[string]any{"AttributeName": a.Name, "KeyType": keyType(k, i)})
	}
	return parts
}
