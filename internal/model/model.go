// Package model is the workbench: a design with its access patterns becomes
// requests, costs and heat, by the code that the server charges by.
//
// It does no I/O and knows no clock. Parse reads a file's text, Check says how
// each access pattern is served and what is wrong, Cost what it costs, and
// Scenario makes items and requests that show it on a server.
package model

import (
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
)

// Version is the version of the format, the value of the member "model".
const Version = 1

// Model is one file.
type Model struct {
	Place
	Version     int        `yaml:"model,required" doc:"version of the format: 1"`
	Name        string     `yaml:"name" doc:"what the design is called"`
	Description string     `yaml:"description" doc:"what the design is for"`
	Horizon     Duration   `yaml:"horizon" doc:"how far ahead growth is looked at; 1y unless given"`
	Tables      []*Table   `yaml:"tables,named,required" doc:"the tables, by name"`
	Entities    []*Entity  `yaml:"entities,named,required" doc:"what is stored, by name"`
	Machines    []*Machine `yaml:"machines,named" doc:"status machines, by name"`
	Patterns    []*Pattern `yaml:"patterns,required" doc:"the access patterns"`
	Rules       []*Rule    `yaml:"rules" doc:"what every key or item must contain"`
	Budgets     *Budgets   `yaml:"budgets" doc:"what the whole may cost"`
}

// Table is one table.
type Table struct {
	Place
	Name        string     `yaml:"-"`
	Description string     `yaml:"description" doc:"what the table is for"`
	Key         *Key       `yaml:"key,required" doc:"the primary key"`
	Types       []*KeyType `yaml:"types,named" doc:"types of key attributes that are no strings: S, N or B"`
	Indexes     []*Index   `yaml:"indexes,named" doc:"secondary indexes, by name"`
	TTL         string     `yaml:"ttl" doc:"the attribute that holds the second of expiry"`
	Stream      string     `yaml:"stream" oneof:"KEYS_ONLY NEW_IMAGE OLD_IMAGE NEW_AND_OLD_IMAGES" doc:"what the stream shows; no stream unless given"`
	Recovery    bool       `yaml:"recovery" doc:"point-in-time recovery"`
	Billing     string     `yaml:"billing" oneof:"on-demand provisioned" doc:"on-demand unless given"`
	Read        *Capacity  `yaml:"read" doc:"provisioned read units"`
	Write       *Capacity  `yaml:"write" doc:"provisioned write units"`

	schema *schema.Table
}

// Key is the primary key of a table.
type Key struct {
	Place
	Partition string `yaml:"partition,required" doc:"partition key attribute"`
	Sort      string `yaml:"sort" doc:"sort key attribute"`
}

// KeyType is the type of a key attribute.
type KeyType struct {
	Place
	Name string `yaml:"-"`
	Type string `yaml:",scalar" oneof:"S N B"`
}

// Index is a secondary index.
type Index struct {
	Place
	Name        string     `yaml:"-"`
	Description string     `yaml:"description" doc:"why the index exists"`
	Partition   Names      `yaml:"partition" doc:"partition key attribute, or up to four; a local index has the table's"`
	Sort        Names      `yaml:"sort" doc:"sort key attribute, or up to four"`
	Local       bool       `yaml:"local" doc:"a local secondary index"`
	Projection  Projection `yaml:"projection" doc:"ALL, KEYS_ONLY or a list of attributes; ALL unless given"`
	Read        *Capacity  `yaml:"read" doc:"provisioned read units; the table's unless given"`
	Write       *Capacity  `yaml:"write" doc:"provisioned write units; the table's unless given"`

	schema *schema.Index
}

// Capacity is provisioned units: fixed, or scaled between two bounds.
type Capacity struct {
	Place
	Units  int `yaml:"units" doc:"units a second, fixed, or where scaling begins"`
	Min    int `yaml:"min" doc:"scaled: the fewest units"`
	Max    int `yaml:"max" doc:"scaled: the most units"`
	Target int `yaml:"target" doc:"scaled: per cent of the units in use; 70 unless given"`
}

// Entity is one kind of item.
type Entity struct {
	Place
	Name        string       `yaml:"-"`
	Description string       `yaml:"description" doc:"what one is"`
	Table       string       `yaml:"table" doc:"the table it is in; the only one unless given"`
	Keys        []*Template  `yaml:"keys,named" doc:"templates of key attributes, by attribute"`
	Attributes  []*Attribute `yaml:"attributes,named" doc:"the other attributes, by name"`
	Example     *Literal     `yaml:"example" doc:"an example item; attributes in it need no declaration"`
	Size        *Sizes       `yaml:"size" doc:"the size of the whole item, when its attributes do not tell it"`
	Count       Count        `yaml:"count" doc:"how many exist"`
	Growth      Rate         `yaml:"growth" doc:"how many are added, such as 10/day"`
	Keep        Duration     `yaml:"keep" doc:"after what time they go, by TTL or deletion"`

	table  *Table
	fields []*Field
	byName map[string]*Field
}

// Template says what a key attribute is made of.
type Template struct {
	Place
	Name     string     `yaml:"-"`
	Text     string     `yaml:"template,required,short" doc:"text with {attribute} in it"`
	When     []*Setting `yaml:"when,named" doc:"present only when these attributes have one of these values"`
	template template
}

// Attribute is one attribute of an entity.
type Attribute struct {
	Place
	Name     string     `yaml:"-"`
	Type     string     `yaml:"type,short" oneof:"S N B BOOL NULL SS NS BS L M" doc:"S unless given"`
	Size     Bytes      `yaml:"size" doc:"typical bytes of the value, or of each member"`
	Largest  Bytes      `yaml:"largest" doc:"the most bytes; the typical ones unless given"`
	Digits   int        `yaml:"digits" doc:"digits of a number; 4 unless given"`
	Count    int        `yaml:"count" doc:"typical members of a set or list; 3 unless given"`
	Most     int        `yaml:"most" doc:"the most members; the typical ones unless given"`
	Format   string     `yaml:"format" oneof:"uuid iso8601 iso8601-ms date sequence epoch-seconds epoch-millis" doc:"what values look like"`
	Values   []string   `yaml:"values" doc:"all values there are"`
	Mix      []*Setting `yaml:"mix,named" doc:"how the values are spread over what is stored: a share for each; even unless given"`
	Template string     `yaml:"template" doc:"made of other attributes"`
	Shards   int        `yaml:"shards" doc:"a shard number from 0 on: how many there are"`
	Of       string     `yaml:"of" doc:"of a shard: the attribute whose hash it is; random unless given"`
	Distinct Count      `yaml:"distinct" doc:"how many values occur; as many as entities unless given"`
	Hottest  float64    `yaml:"hottest" doc:"share of the traffic that the busiest value takes"`
	When     []*Setting `yaml:"when,named" doc:"present only when these attributes have one of these values"`
	Stored   *bool      `yaml:"stored" doc:"false: used in templates only"`
	Example  *Literal   `yaml:"example" doc:"an example value"`
}

// Sizes is the size of an item.
type Sizes struct {
	Place
	Typical Bytes `yaml:"typical,required" doc:"typical bytes of an item"`
	Largest Bytes `yaml:"largest" doc:"the most bytes of an item"`
}

// Machine is which values an attribute may take after which.
type Machine struct {
	Place
	Name        string        `yaml:"-"`
	Description string        `yaml:"description" doc:"what moves"`
	Entity      string        `yaml:"entity,required" doc:"the entity that has a status"`
	Attribute   string        `yaml:"attribute,required" doc:"the attribute that holds it"`
	Initial     Names         `yaml:"initial,required" doc:"the first status, or several"`
	Transitions []*Transition `yaml:"transitions,required" doc:"the allowed changes"`

	entity *Entity
	field  *Field
}

// Transition is one change that a machine allows.
type Transition struct {
	Place
	From      Names      `yaml:"from,required" doc:"the status before, or several"`
	To        string     `yaml:"to,required" doc:"the status after"`
	Condition string     `yaml:"condition" doc:"what must hold beside the status before"`
	Values    []*Setting `yaml:"values,named" doc:"values of the condition's placeholders"`
}

// Pattern is one access pattern.
type Pattern struct {
	Place
	Name        string  `yaml:"name,required" doc:"what it is called"`
	Description string  `yaml:"description" doc:"who does it and why"`
	Group       string  `yaml:"group" doc:"patterns of one group are also summed"`
	Rate        Rate    `yaml:"rate,required" doc:"how often, on average: 500/s, 10/min, 60/h, 33/day, 5/month"`
	Peak        Rate    `yaml:"peak" doc:"how often at worst; the rate unless given"`
	Budget      *Budget `yaml:"budget" doc:"the most units of one run"`
	Action
	Transact []*Action `yaml:"transact" doc:"a transaction of these"`
	Batch    []*Action `yaml:"batch" doc:"a batch of these"`
}

// Action is what a pattern does with one entity: exactly one of Get, Query,
// Scan, Put, Update, Delete and Check is given.
type Action struct {
	Place
	Get    string `yaml:"get" doc:"read one item of this entity by its key"`
	Query  string `yaml:"query" doc:"read items of this entity in key order"`
	Scan   string `yaml:"scan" doc:"read a whole table for items of this entity"`
	Put    string `yaml:"put" doc:"write an item of this entity"`
	Update string `yaml:"update" doc:"change attributes of an item of this entity"`
	Delete string `yaml:"delete" doc:"remove an item of this entity"`
	Check  string `yaml:"check" doc:"in a transaction: hold an item of this entity to a condition"`

	Given      []string   `yaml:"given" doc:"attributes whose value the caller knows"`
	Each       []string   `yaml:"each" doc:"with times: attributes whose value the caller knows, another for each item"`
	Where      []*Setting `yaml:"where,named" doc:"attributes that equal a constant"`
	Range      *Range     `yaml:"range" doc:"an attribute that lies in a range"`
	Order      string     `yaml:"order" doc:"attribute to order by, with desc behind it for newest first"`
	Index      string     `yaml:"index" doc:"the index to use; chosen unless given"`
	Consistent bool       `yaml:"consistent" doc:"a strongly consistent read"`
	Matches    int        `yaml:"matches" doc:"items that a run returns; 1 unless given"`
	Reads      int        `yaml:"reads" doc:"items that the key condition finds, of which a filter keeps matches"`
	Page       int        `yaml:"page" doc:"items on a page; a run reads one page"`
	Returns    []string   `yaml:"returns" doc:"attributes needed; all unless given"`
	With       []*Setting `yaml:"with,named" doc:"other entities read from the same partition, and how many of each"`

	Set       []*Setting `yaml:"set,named" doc:"attributes written, with a value; {name} is a new value of that attribute"`
	Add       []*Setting `yaml:"add,named" doc:"numbers to add to, sets to put members into"`
	Append    []*Setting `yaml:"append,named" doc:"lists to append to"`
	Remove    []string   `yaml:"remove" doc:"attributes taken away"`
	From      []*Setting `yaml:"from,named" doc:"values of the item before the write"`
	Condition string     `yaml:"condition" doc:"ConditionExpression; #name stands for the attribute name"`
	Names     []*Setting `yaml:"names,named" doc:"placeholders of names, where they differ"`
	Values    []*Setting `yaml:"values,named" doc:"values of the condition's placeholders; {name} is the item's own"`
	Replaces  bool       `yaml:"replaces" doc:"of a put: an item of that key exists before"`
	Creates   bool       `yaml:"creates" doc:"of an update: no item of that key exists before"`

	Times int        `yaml:"times" doc:"in a transaction or batch: how many such; 1 unless given"`
	Most  int        `yaml:"most" doc:"in a transaction or batch: the most such"`
	Skew  []*Setting `yaml:"skew,named" doc:"share of the runs that the busiest value of an attribute takes"`

	verb   Verb
	entity *Entity
}

// Range is a condition on an attribute that is not equality.
type Range struct {
	Place
	Attribute string `yaml:"attribute,required" doc:"the attribute"`
	Is        string `yaml:"is,required" oneof:"before after from until between begins" doc:"<, >, >=, <=, BETWEEN or begins_with a value the caller knows"`
}

// Rule is something that holds for every key or item.
type Rule struct {
	Place
	Name     string `yaml:"name" doc:"what it is called"`
	Every    string `yaml:"every,required" oneof:"partition-key sort-key item" doc:"what it is about"`
	Contains string `yaml:"contains,required" doc:"the attribute that must be in it"`
	Tables   Names  `yaml:"tables" doc:"tables it holds for; all unless given"`
	Except   Names  `yaml:"except" doc:"entities, or entity.key, it does not hold for"`
	Because  string `yaml:"because" doc:"why there are exceptions"`
}

// Budgets is what the whole may cost.
type Budgets struct {
	Place
	Read      Rate    `yaml:"read" doc:"the most read units, such as 100/s"`
	Write     Rate    `yaml:"write" doc:"the most write units, such as 33/day"`
	Dollars   float64 `yaml:"dollars" doc:"the most dollars a month"`
	Partition float64 `yaml:"partition" doc:"the largest share of a partition's limit, 0 to 1"`
}

// Budget is what one run of a pattern may cost.
type Budget struct {
	Place
	Read  float64 `yaml:"read" doc:"the most read units of a run"`
	Write float64 `yaml:"write" doc:"the most write units of a run"`
}

// Setting is a name with a value.
type Setting struct {
	Place
	Name  string  `yaml:"-"`
	Value Literal `yaml:",scalar"`
}

// Verb is what an action does.
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

// Writes tells whether the verb is one of writing.
func (v Verb) Writes() bool { return v == Put || v == Update || v == Delete || v == Check }

// Verb is what the action does.
func (a *Action) Verb() Verb { return a.verb }

// Entity is what the action is about.
func (a *Action) Entity() *Entity { return a.entity }

// Actions are what a pattern does: one action, or those of its transaction or
// batch.
func (p *Pattern) Actions() []*Action {
	switch {
	case p.Transact != nil:
		return p.Transact
	case p.Batch != nil:
		return p.Batch
	}
	return []*Action{&p.Action}
}

// PeakRate is how often the pattern runs at worst.
func (p *Pattern) PeakRate() Rate {
	if p.Peak.Given() {
		return p.Peak
	}
	return p.Rate
}

// Schema is the table as the server knows it.
func (t *Table) Schema() *schema.Table { return t.schema }

// OnDemand tells whether the table is billed by request.
func (t *Table) OnDemand() bool { return t.Billing != "provisioned" }

// Schema is the index as the server knows it.
func (x *Index) Schema() *schema.Index { return x.schema }

// TableOf is the table that the entity is in.
func (e *Entity) TableOf() *Table { return e.table }

// Fields are all attributes of an entity, its keys first.
func (e *Entity) Fields() []*Field { return e.fields }

// Field finds an attribute of an entity.
func (e *Entity) Field(name string) (*Field, bool) {
	f, ok := e.byName[name]
	return f, ok
}

// Field is one attribute of an entity: a key made from a template, or an
// attribute with a value of its own.
type Field struct {
	Name      string
	Type      item.Type
	Key       *Template  // set for what stands under keys
	Attribute *Attribute // set for what stands under attributes, or in the example
	Stored    bool

	entity   *Entity
	template *template // nil: a value of its own
	when     []*Setting
	example  item.Value
	place    *Place
}

// Templated tells whether the field is made of others.
func (f *Field) Templated() bool { return f.template != nil }

// Template is the text that the field is made by: {name} when it has a value
// of its own.
func (f *Field) Template() string {
	if f.template == nil {
		return "{" + f.Name + "}"
	}
	return f.template.text
}

// Table finds a table.
func (m *Model) Table(name string) (*Table, bool) { return named(m.Tables, name) }

// Entity finds an entity.
func (m *Model) Entity(name string) (*Entity, bool) { return named(m.Entities, name) }

// Index finds an index.
func (t *Table) Index(name string) (*Index, bool) { return named(t.Indexes, name) }

// EntitiesOf are the entities of a table.
func (m *Model) EntitiesOf(t *Table) (in []*Entity) {
	for _, e := range m.Entities {
		if e.table == t {
			in = append(in, e)
		}
	}
	return in
}

// MachinesOf are the machines of an entity.
func (m *Model) MachinesOf(e *Entity) (of []*Machine) {
	for _, k := range m.Machines {
		if k.entity == e {
			of = append(of, k)
		}
	}
	return of
}

type hasName interface{ name() string }

func (t *Table) name() string     { return t.Name }
func (x *Index) name() string     { return x.Name }
func (e *Entity) name() string    { return e.Name }
func (k *Machine) name() string   { return k.Name }
func (s *Setting) name() string   { return s.Name }
func (k *KeyType) name() string   { return k.Name }
func (a *Attribute) name() string { return a.Name }
func (t *Template) name() string  { return t.Name }

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
