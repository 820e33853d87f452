// Package model evaluates a table design by its access patterns: it computes
// the requests, their cost and the load of each partition, with the code that
// the server itself charges by.
//
// It does no I/O and reads no clock. Parse reads the text of a file, Check
// reports how each access pattern is served and what is wrong, Cost computes
// the cost, and Scenario makes items and requests that a server can confirm.
package model

import (
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
)

// Version is the version of the format, the value of the field "model".
const Version = 1

// Model is the content of one file.
type Model struct {
	Location
	Version     int        `yaml:"model,required" doc:"version of the format: 1"`
	Name        string     `yaml:"name" doc:"name of the design"`
	Description string     `yaml:"description" doc:"what the design is for"`
	Horizon     Duration   `yaml:"horizon" doc:"how far ahead growth is projected; defaults to 1y"`
	Tables      []*Table   `yaml:"tables,named,required" doc:"the tables, by name"`
	Entities    []*Entity  `yaml:"entities,named,required" doc:"the kinds of items, by name"`
	Machines    []*Machine `yaml:"machines,named" doc:"status machines, by name"`
	Patterns    []*Pattern `yaml:"patterns,required" doc:"the access patterns"`
	Rules       []*Rule    `yaml:"rules" doc:"attributes that every key or item must contain"`
	Budgets     *Budgets   `yaml:"budgets" doc:"limits on the cost of the whole model"`
}

// Table is one table.
type Table struct {
	Location
	Name        string     `yaml:"-"`
	Description string     `yaml:"description" doc:"what the table is for"`
	Key         *Key       `yaml:"key,required" doc:"the primary key"`
	Types       []*KeyType `yaml:"types,named" doc:"types of key attributes that are not strings: S, N or B"`
	Indexes     []*Index   `yaml:"indexes,named" doc:"secondary indexes, by name"`
	TTL         string     `yaml:"ttl" doc:"the attribute that holds the expiry time, in epoch seconds"`
	Stream      string     `yaml:"stream" oneof:"KEYS_ONLY NEW_IMAGE OLD_IMAGE NEW_AND_OLD_IMAGES" doc:"what the stream records; defaults to no stream"`
	Readers     *int       `yaml:"readers" doc:"how many programs poll the stream; functions that the service calls do not count; defaults to 1"`
	Recovery    bool       `yaml:"recovery" doc:"point-in-time recovery"`
	Billing     string     `yaml:"billing" oneof:"on-demand provisioned" doc:"defaults to on-demand"`
	Read        *Capacity  `yaml:"read" doc:"provisioned read units"`
	Write       *Capacity  `yaml:"write" doc:"provisioned write units"`

	schema *schema.Table
}

// Key is the primary key of a table.
type Key struct {
	Location
	Partition string `yaml:"partition,required" doc:"partition key attribute"`
	Sort      string `yaml:"sort" doc:"sort key attribute"`
}

// KeyType is the type of a key attribute.
type KeyType struct {
	Location
	Name string `yaml:"-"`
	Type string `yaml:",scalar" oneof:"S N B"`
}

// Index is a secondary index.
type Index struct {
	Location
	Name        string     `yaml:"-"`
	Description string     `yaml:"description" doc:"why the index exists"`
	Partition   Names      `yaml:"partition" doc:"partition key attribute, or up to four; a local index uses the table's"`
	Sort        Names      `yaml:"sort" doc:"sort key attribute, or up to four"`
	Local       bool       `yaml:"local" doc:"a local secondary index"`
	Projection  Projection `yaml:"projection" doc:"ALL, KEYS_ONLY or a list of attributes; defaults to ALL"`
	Read        *Capacity  `yaml:"read" doc:"provisioned read units; defaults to the table's"`
	Write       *Capacity  `yaml:"write" doc:"provisioned write units; defaults to the table's"`

	schema *schema.Index
}

// Capacity is provisioned units: fixed, or scaled between two bounds.
type Capacity struct {
	Location
	Units  int `yaml:"units" doc:"fixed units per second, or the units that scaling starts from"`
	Min    int `yaml:"min" doc:"auto scaling: the fewest units"`
	Max    int `yaml:"max" doc:"auto scaling: the most units"`
	Target int `yaml:"target" doc:"auto scaling: target utilization in percent; defaults to 70"`
}

// Entity is one kind of item.
type Entity struct {
	Location
	Name        string       `yaml:"-"`
	Description string       `yaml:"description" doc:"what one item is"`
	Table       string       `yaml:"table" doc:"the table it is in; defaults to the only table"`
	Keys        []*Template  `yaml:"keys,named" doc:"templates of key attributes, by attribute"`
	Attributes  []*Attribute `yaml:"attributes,named" doc:"the other attributes, by name"`
	Example     *Literal     `yaml:"example" doc:"an example item; its attributes need no declaration"`
	Size        *Sizes       `yaml:"size" doc:"the size of the whole item, when its attributes do not determine it"`
	Count       Count        `yaml:"count" doc:"how many items exist"`
	Growth      Rate         `yaml:"growth" doc:"how many items are added, such as 10/day"`
	Keep        Duration     `yaml:"keep" doc:"how long items are kept before TTL or a delete removes them"`

	table  *Table
	fields []*Field
	byName map[string]*Field
}

// Template is the template of a key attribute.
type Template struct {
	Location
	Name     string     `yaml:"-"`
	Text     string     `yaml:"template,required,short" doc:"text that contains {attribute}"`
	When     []*Setting `yaml:"when,named" doc:"present when these attributes have one of these values, and only then"`
	template template
}

// Attribute is one attribute of an entity.
type Attribute struct {
	Location
	Name     string     `yaml:"-"`
	Type     string     `yaml:"type,short" oneof:"S N B BOOL NULL SS NS BS L M" doc:"defaults to S"`
	Size     Bytes      `yaml:"size" doc:"typical bytes of the value, or of each member"`
	Largest  Bytes      `yaml:"largest" doc:"the most bytes; defaults to size. If it is given and equals size, all values have that length"`
	Digits   int        `yaml:"digits" doc:"typical digits of a number; defaults to 4"`
	Count    int        `yaml:"count" doc:"typical number of members of a set or list; defaults to 3"`
	Most     int        `yaml:"most" doc:"the most members; defaults to count"`
	Format   string     `yaml:"format" oneof:"uuid iso8601 iso8601-ms hour date week month year sequence epoch-seconds epoch-millis ulid ksuid" doc:"the form of the values"`
	Values   []string   `yaml:"values" doc:"all possible values"`
	Mix      []*Setting `yaml:"mix,named" doc:"the share of stored items that have each value; defaults to an even spread"`
	Template string     `yaml:"template" doc:"the attribute is built from other attributes"`
	Shards   int        `yaml:"shards" doc:"the attribute is a shard number from 0: the number of shards"`
	Of       string     `yaml:"of" doc:"the attribute whose hash gives the shard number; defaults to random"`
	Distinct Count      `yaml:"distinct" doc:"how many distinct values occur; defaults to one for each item"`
	Hottest  float64    `yaml:"hottest" doc:"share of the traffic that the busiest value receives, or the busiest values if hot is given"`
	Hot      int        `yaml:"hot" doc:"how many values receive the share of hottest together, each the same; defaults to 1"`
	When     []*Setting `yaml:"when,named" doc:"present when these attributes have one of these values, and only then"`
	Stored   *bool      `yaml:"stored" doc:"false for an attribute that is used only in templates"`
	Example  *Literal   `yaml:"example" doc:"an example value"`
}

// Sizes is the size of a whole item.
type Sizes struct {
	Location
	Typical Bytes `yaml:"typical,required" doc:"typical bytes of an item"`
	Largest Bytes `yaml:"largest" doc:"the most bytes of an item"`
}

// Machine is a status machine: the values that an attribute may have, and the
// transitions between them.
type Machine struct {
	Location
	Name        string        `yaml:"-"`
	Description string        `yaml:"description" doc:"what the machine is for"`
	Entity      string        `yaml:"entity,required" doc:"the entity that has a status"`
	Attribute   string        `yaml:"attribute,required" doc:"the attribute that holds the status"`
	Initial     Names         `yaml:"initial,required" doc:"the initial status, or several"`
	Transitions []*Transition `yaml:"transitions,required" doc:"the allowed changes"`

	entity *Entity
	field  *Field
}

// Transition is one change that a machine allows.
type Transition struct {
	Location
	From      Names      `yaml:"from,required" doc:"the status before, or several"`
	To        string     `yaml:"to,required" doc:"the status after"`
	Condition string     `yaml:"condition" doc:"what must hold in addition to the status before"`
	Values    []*Setting `yaml:"values,named" doc:"values of the condition's placeholders"`
}

// Pattern is one access pattern.
type Pattern struct {
	Location
	Name        string  `yaml:"name,required" doc:"name"`
	Description string  `yaml:"description" doc:"what the pattern is for"`
	Group       string  `yaml:"group" doc:"patterns of one group are also summed up"`
	Rate        Rate    `yaml:"rate,required" doc:"average rate: 500/s, 10/min, 60/h, 33/day, 5/month"`
	Peak        Rate    `yaml:"peak" doc:"highest rate; defaults to rate"`
	Budget      *Budget `yaml:"budget" doc:"the most units that one run may use"`
	Action
	Transact []*Action `yaml:"transact" doc:"a transaction of these actions"`
	Batch    []*Action `yaml:"batch" doc:"a batch of these actions"`
}

// Action is one operation of a pattern on one entity. Exactly one of Get,
// Query, Scan, Put, Update, Delete and Check is set.
type Action struct {
	Location
	Get    string `yaml:"get" doc:"read one item of this entity by its key"`
	Query  string `yaml:"query" doc:"read items of this entity in key order"`
	Scan   string `yaml:"scan" doc:"read a whole table for items of this entity"`
	Put    string `yaml:"put" doc:"write an item of this entity"`
	Update string `yaml:"update" doc:"change attributes of an item of this entity"`
	Delete string `yaml:"delete" doc:"remove an item of this entity"`
	Check  string `yaml:"check" doc:"in a transaction: check a condition on an item of this entity"`

	Given      []string   `yaml:"given" doc:"attributes whose values the caller knows"`
	Each       []string   `yaml:"each" doc:"with times: attributes whose values the caller knows and that differ for each item"`
	Where      []*Setting `yaml:"where,named" doc:"attributes that equal a constant"`
	Range      *Range     `yaml:"range" doc:"an attribute that is in a range"`
	Order      string     `yaml:"order" doc:"attribute to order by, followed by desc for descending order"`
	Index      string     `yaml:"index" doc:"the index to use; defaults to the best one"`
	Consistent bool       `yaml:"consistent" doc:"a strongly consistent read"`
	Matches    int        `yaml:"matches" doc:"items that a run returns; defaults to 1"`
	Reads      int        `yaml:"reads" doc:"items that the key condition matches, before a filter"`
	Page       int        `yaml:"page" doc:"items per page; a run reads one page"`
	Returns    []string   `yaml:"returns" doc:"attributes needed; defaults to all"`
	With       []*Setting `yaml:"with,named" doc:"other entities that are read from the same partition, and how many of each"`

	Set       []*Setting `yaml:"set,named" doc:"attributes to write, with their values; {name} is a new value of that attribute"`
	Add       []*Setting `yaml:"add,named" doc:"numbers to add to, and sets to add members to"`
	Append    []*Setting `yaml:"append,named" doc:"lists to append to"`
	Remove    []string   `yaml:"remove" doc:"attributes to remove"`
	From      []*Setting `yaml:"from,named" doc:"values of the item before the write"`
	Condition string     `yaml:"condition" doc:"ConditionExpression; #name stands for the attribute name"`
	Names     []*Setting `yaml:"names,named" doc:"attributes of name placeholders, where they differ from #name"`
	Values    []*Setting `yaml:"values,named" doc:"values of the condition's placeholders; {name} is the item's own value"`
	Replaces  bool       `yaml:"replaces" doc:"put: an item with that key already exists"`
	Creates   bool       `yaml:"creates" doc:"update: no item with that key exists yet"`
	Absent    bool       `yaml:"absent" doc:"check, delete: no item with that key exists"`

	Times int        `yaml:"times" doc:"in a transaction or batch: how many such actions; defaults to 1"`
	Most  int        `yaml:"most" doc:"in a transaction or batch: the most such actions"`
	Skew  []*Setting `yaml:"skew,named" doc:"share of the runs that go to the busiest value of an attribute, or to its hot values"`

	Optional bool `yaml:"optional" doc:"in a transaction: some requests do not have this action; the cost includes it"`

	verb   Verb
	entity *Entity
}

// Range is a condition on an attribute other than equality.
type Range struct {
	Location
	Attribute string `yaml:"attribute,required" doc:"the attribute"`
	Is        string `yaml:"is,required" oneof:"before after from until between begins" doc:"<, >, >=, <=, BETWEEN or begins_with, with a value that the caller knows"`
}

// Rule is a requirement that every key or item must satisfy.
type Rule struct {
	Location
	Name     string `yaml:"name" doc:"name"`
	Every    string `yaml:"every,required" oneof:"partition-key sort-key item" doc:"what the rule applies to"`
	Contains string `yaml:"contains,required" doc:"the attribute that it must contain"`
	Tables   Names  `yaml:"tables" doc:"tables that the rule applies to; defaults to all"`
	Except   Names  `yaml:"except" doc:"entities, or entity.key, that the rule does not apply to"`
	Because  string `yaml:"because" doc:"why there are exceptions"`
}

// Budgets are limits on the cost of the whole model.
type Budgets struct {
	Location
	Read      Rate    `yaml:"read" doc:"the most read units, such as 100/s"`
	Write     Rate    `yaml:"write" doc:"the most write units, such as 33/day"`
	Dollars   float64 `yaml:"dollars" doc:"the most dollars per month"`
	Partition float64 `yaml:"partition" doc:"the largest share of a partition's limit, from 0 to 1"`
}

// Budget is the limit on the cost of one run of a pattern.
type Budget struct {
	Location
	Read  float64 `yaml:"read" doc:"the most read units per run"`
	Write float64 `yaml:"write" doc:"the most write units per run"`
}

// Setting is a name with a value.
type Setting struct {
	Location
	Name  string  `yaml:"-"`
	Value Literal `yaml:",scalar"`
}

// Verb is the kind of an action.
type Verb string

// The verbs.
const (
	Get    Verb = "get"
	Query  Verb = "query"
	Scan   Verb = "scan"
	Put    Verb = "put"
	Update Verb = "update"
	Delete Verb = "delete"
	Check  Verb = "check"
)

// Writes reports whether the verb writes, or checks within a write.
func (v Verb) Writes() bool { return v == Put || v == Update || v == Delete || v == Check }

// HotValues returns how many values share Hottest.
func (a *Attribute) HotValues() int { return max(1, a.Hot) }

// Verb returns the kind of the action.
func (a *Action) Verb() Verb { return a.verb }

// Entity returns the entity that the action is about.
func (a *Action) Entity() *Entity { return a.entity }

// Actions returns the actions of a pattern: its only one, or those of its
// transaction or batch.
func (p *Pattern) Actions() []*Action {
	switch {
	case p.Transact != nil:
		return p.Transact
	case p.Batch != nil:
		return p.Batch
	}
	return []*Action{&p.Action}
}

// PeakRate returns the highest rate of the pattern.
func (p *Pattern) PeakRate() Rate {
	if p.Peak.Given() {
		return p.Peak
	}
	return p.Rate
}

// Schema returns the table as the server stores it.
func (t *Table) Schema() *schema.Table { return t.schema }

// OnDemand reports whether the table is billed by request.
func (t *Table) OnDemand() bool { return t.Billing != "provisioned" }

// Schema returns the index as the server stores it.
func (x *Index) Schema() *schema.Index { return x.schema }

// TableOf returns the table that the entity is in.
func (e *Entity) TableOf() *Table { return e.table }

// Fields returns all attributes of an entity, the keys first.
func (e *Entity) Fields() []*Field { return e.fields }

// Field returns the attribute with a name.
func (e *Entity) Field(name string) (*Field, bool) {
	f, ok := e.byName[name]
	return f, ok
}

// Field is one attribute of an entity: a key built from a template, or an
// attribute with a value of its own.
type Field struct {
	Name      string
	Type      item.Type
	Key       *Template  // set for a field declared under keys
	Attribute *Attribute // set for a field declared under attributes or in the example
	Stored    bool

	entity   *Entity
	template *template // nil for a field with a value of its own
	when     []*Setting
	requires []*Setting // when, with that of the attributes it depends on
	example  item.Value
	location *Location
}

// Templated reports whether the field is built from other attributes.
func (f *Field) Templated() bool { return f.template != nil }

// Template returns the template text of the field, or {name} if it has a value
// of its own.
func (f *Field) Template() string {
	if f.template == nil {
		return "{" + f.Name + "}"
	}
	return f.template.text
}

// Table returns the table with a name.
func (m *Model) Table(name string) (*Table, bool) { return named(m.Tables, name) }

// Entity returns the entity with a name.
func (m *Model) Entity(name string) (*Entity, bool) { return named(m.Entities, name) }

// Index returns the index with a name.
func (t *Table) Index(name string) (*Index, bool) { return named(t.Indexes, name) }

// EntitiesOf returns the entities in a table.
func (m *Model) EntitiesOf(t *Table) (in []*Entity) {
	for _, e := range m.Entities {
		if e.table == t {
			in = append(in, e)
		}
	}
	return in
}

// MachinesOf returns the status machines of an entity.
func (m *Model) MachinesOf(e *Entity) (of []*Machine) {
	for _, k := range m.Machines {
		if k.entity == e {
			of = append(of, k)
		}
	}
	return of
}

type hasName interface{ name() string }

func (t *Table) name() string    { return t.Name }
func (x *Index) name() string    { return x.Name }
func (e *Entity) name() string   { return e.Name }
func (s *Setting) name() string  { return s.Name }
func (k *KeyType) name() string  { return k.Name }
func (t *Template) name() string { return t.Name }

func named[T hasName](list []T, name string) (T, bool) {
	for _, x := range list {
		if x.name() == name {
			return x, true
		}
	}
	var none T
	return none, false
}

func names[T hasName](list []T) []string {
	all := make([]string, len(list))
	for i, x := range list {
		all[i] = x.name()
	}
	return all
}
