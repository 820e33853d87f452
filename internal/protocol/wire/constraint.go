package wire

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf16"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/protocol/api"
)

// rule is one constraint of a member. It returns the violated condition as
// text, or the empty string.
type rule func(v reflect.Value) string

// parseRules parses a tag; package api documents its words.
func parseRules(tag string) (rules []rule, present, stop bool) {
	if tag == "" {
		return nil, false, false
	}
	for part := range strings.SplitSeq(tag, ",") {
		name, arg, _ := strings.Cut(part, "=")
		switch name {
		case "stop":
			stop = true
		case "present":
			present = true
		case "table":
			if arg != "" {
				rules = append(rules, length(number(arg), false), checkTableName)
				continue
			}
			rules = append(rules, checkTable)
		case "newtable":
			rules = append(rules, like(namePattern), length(3, false), length(255, true))
		case "oneof":
			rules = append(rules, oneOf(strings.Split(arg, "|")))
		case "namespace":
			rules = append(rules, oneOf(namespaces))
		case "dimension":
			rules = append(rules, oneOf(dimensions))
		case "min", "max":
			rules = append(rules, limit(number(arg), name == "max"))
		case "minlen", "maxlen":
			rules = append(rules, length(number(arg), name == "maxlen"))
		case "entrylen":
			rules = append(rules, entryLength(number(arg)))
		case "eachlen":
			rules = append(rules, eachLength(number(arg)))
		case "like":
			rules = append(rules, like(arg))
		default:
			panic("no such constraint: " + part)
		}
	}
	return rules, present, stop
}

// namespaces are the services of Application Auto Scaling.
var namespaces = []string{
	"ecs", "elasticmapreduce", "ec2", "appstream", "dynamodb", "rds", "sagemaker", "custom-resource",
	"comprehend", "lambda", "cassandra", "kafka", "elasticache", "neptune", "workspaces",
}

// dimensions are what Application Auto Scaling scales of these services.
var dimensions = []string{
	"ecs:service:DesiredCount", "ec2:spot-fleet-request:TargetCapacity", "elasticmapreduce:instancegroup:InstanceCount",
	"appstream:fleet:DesiredCapacity", "dynamodb:table:ReadCapacityUnits", "dynamodb:table:WriteCapacityUnits",
	"dynamodb:index:ReadCapacityUnits", "dynamodb:index:WriteCapacityUnits", "rds:cluster:ReadReplicaCount",
	"sagemaker:variant:DesiredInstanceCount", "custom-resource:ResourceType:Property", "comprehend:document-classifier-endpoint:DesiredInferenceUnits",
	"comprehend:entity-recognizer-endpoint:DesiredInferenceUnits", "lambda:function:ProvisionedConcurrency", "cassandra:table:ReadCapacityUnits",
	"cassandra:table:WriteCapacityUnits", "kafka:broker-storage:VolumeSize", "elasticache:cache-cluster:Nodes",
	"elasticache:replication-group:NodeGroups", "elasticache:replication-group:Replicas", "neptune:cluster:ReadReplicaCount",
	"sagemaker:variant:DesiredProvisionedConcurrency", "sagemaker:inference-component:DesiredCopyCount", "workspaces:workspacespool:DesiredUserSessions",
}

func number(arg string) int {
	n, err := strconv.Atoi(arg)
	if err != nil {
		panic(err)
	}
	return n
}

// namePattern matches the names of tables and indexes.
const namePattern = "[a-zA-Z0-9_.-]+"

// isName reports whether s matches namePattern.
func isName(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '_', c == '.', c == '-':
		default:
			return false
		}
	}
	return s != ""
}

// tableARN is compiled on the first use of an ARN; that takes half a
// millisecond.
var tableARN = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^arn:aws[a-z-]*:dynamodb:[a-z0-9-]+:[0-9]{12}:table/([a-zA-Z0-9_.-]{3,255})$`)
})

// checkTable accepts a table's name or its ARN. For an empty name it reports
// only the length.
func checkTable(v reflect.Value) string {
	if v.String() == "" {
		return atLeast("length", 1)
	}
	return checkTableName(v)
}

// checkTableName accepts a table's name, or its ARN, which it replaces by the
// name.
func checkTableName(v reflect.Value) string {
	name := v.String()
	switch {
	case strings.HasPrefix(name, "arn:"):
		if m := tableARN().FindStringSubmatch(name); m != nil {
			v.SetString(m[1])
			return ""
		}
		fallthrough
	case !isName(name):
		return matching(namePattern)
	case len(name) > 255:
		return atMost("length", 255)
	}
	return ""
}

func oneOf(words []string) rule {
	return func(v reflect.Value) string {
		if slices.Contains(words, v.String()) {
			return ""
		}
		return "Member must satisfy enum value set: [" + strings.Join(words, ", ") + "]"
	}
}

func like(pattern string) rule {
	matches := isName // by far the most frequent, and ten times faster than the regular expression
	if pattern != namePattern {
		matches = regexp.MustCompile("^(?:" + pattern + ")$").MatchString
	}
	return func(v reflect.Value) string {
		if matches(v.String()) {
			return ""
		}
		return matching(pattern)
	}
}

func limit(n int, most bool) rule {
	return func(v reflect.Value) string { return within("value", v.Int(), n, most) }
}

func length(n int, most bool) rule {
	return func(v reflect.Value) string {
		size := 0
		switch v.Kind() {
		case reflect.String:
			for _, r := range v.String() {
				size += utf16.RuneLen(r)
			}
		default:
			size = v.Len()
		}
		return within("length", int64(size), n, most)
	}
}

func entryLength(n int) rule {
	return func(v reflect.Value) string {
		for entries := v.MapRange(); entries.Next(); {
			if size := entries.Value().Len(); size < 1 || size > n {
				return "Map value must satisfy constraint: [" + atMost("length", n) + ", " + atLeast("length", 1) + "]"
			}
		}
		return ""
	}
}

func eachLength(n int) rule {
	least, most := length(1, false), length(n, true)
	return func(v reflect.Value) string {
		for i := range v.Len() {
			if least(v.Index(i)) != "" || most(v.Index(i)) != "" {
				return "Member must satisfy constraint: [" + atMost("length", n) + ", " + atLeast("length", 1) + "]"
			}
		}
		return ""
	}
}

func within(what string, got int64, n int, most bool) string {
	switch {
	case most && got > int64(n):
		return atMost(what, n)
	case !most && got < int64(n):
		return atLeast(what, n)
	}
	return ""
}

func atMost(what string, n int) string {
	return fmt.Sprintf("Member must have %s less than or equal to %d", what, n)
}

func atLeast(what string, n int) string {
	return fmt.Sprintf("Member must have %s greater than or equal to %d", what, n)
}

func matching(pattern string) string {
	return "Member must satisfy regular expression pattern: " + pattern
}

// request checks all members of a request and joins the violations into one
// fault. seen is the set of members that the request had.
func (c *constraintChecker) request(s *structInfo, v reflect.Value, seen uint64) error {
	c.path = c.path[:0]
	c.structure(s, v, seen)
	c.faults = c.faults[:min(len(c.faults), maxFaults)]
	switch len(c.faults) {
	case 0:
		return nil
	case 1:
		return apierror.Validation("%s", apierror.RequestPrefix+c.faults[0])
	}
	return apierror.Validation("%d validation errors detected: %s", len(c.faults), strings.Join(c.faults, "; "))
}

// maxFaults is how many violations one message reports. A body can have
// millions.
const maxFaults = 10

func (c *constraintChecker) enough() bool { return len(c.faults) >= maxFaults }

// allSeen stands for the members of inner structures, whose optional members
// are all pointers.
const allSeen = ^uint64(0)

type constraintChecker struct {
	faults []string
	stop   bool
	path   []pathStep // to the member being checked
}

// pathStep is a member of a structure, or an entry of a map or a list.
type pathStep struct {
	label string // of a member, or the key of an entry
	n     int    // of an entry of a list, from 1
	entry bool
}

func (c *constraintChecker) push(s pathStep) { c.path = append(c.path, s) }
func (c *constraintChecker) pop()            { c.path = c.path[:len(c.path)-1] }

// at returns the path as text. Only violations need it.
func (c *constraintChecker) at() string {
	var at []byte
	for i, s := range c.path {
		if i > 0 {
			at = append(at, '.')
		}
		if at = append(at, s.label...); s.n > 0 {
			at = strconv.AppendInt(at, int64(s.n), 10)
		}
		if s.entry {
			at = append(at, ".member"...)
		}
	}
	return string(at)
}

func (c *constraintChecker) structure(s *structInfo, v reflect.Value, seen uint64) {
	for i := range s.members {
		m := &s.members[i]
		if seen&(1<<i) == 0 && !m.present {
			continue
		}
		before := len(c.faults)
		c.push(pathStep{label: m.label})
		c.member(m, v, seen&(1<<i) != 0)
		c.pop()
		if c.stop = c.stop || m.stop && len(c.faults) > before; c.stop || c.enough() {
			return
		}
	}
}

func (c *constraintChecker) member(m *structMember, in reflect.Value, seen bool) {
	var v reflect.Value
	if seen {
		v = m.of(in)
	}
	if !seen || isNull(v) {
		if m.present && !m.compiled(in) {
			c.faults = append(c.faults, "Value null at '"+c.at()+"' failed to satisfy constraint: Member must not be null")
		}
		return
	}
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	for _, check := range m.rules {
		if must := check(v); must != "" {
			c.faults = append(c.faults, "Value '"+javaText(v)+"' at '"+c.at()+"' failed to satisfy constraint: "+must)
		}
	}
	if m.deep {
		c.inside(v)
	}
}

// compiled reports whether a structure has a compiled expression in place of the member.
func (m *structMember) compiled(in reflect.Value) bool {
	if m.or == "" {
		return false
	}
	c := in.FieldByName("Compiled")
	return !c.IsNil() && !c.Elem().FieldByName(m.or).IsNil()
}

// inside checks the structures within a member.
func (c *constraintChecker) inside(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			c.inside(v.Elem())
		}
	case reflect.Struct:
		c.structure(structInfoOf(v.Type()), v, allSeen)
	case reflect.Slice:
		for i := range v.Len() {
			if c.enough() {
				return
			}
			c.push(pathStep{n: i + 1, entry: true})
			c.inside(v.Index(i))
			c.pop()
		}
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, k := range keys {
			if c.enough() {
				return
			}
			c.push(pathStep{label: k.String(), entry: true})
			c.inside(v.MapIndex(k))
			c.pop()
		}
	}
}

// isDeep reports whether a type contains structures with constraints.
func isDeep(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return isDeep(t.Elem())
	case reflect.Struct:
		return !isValue(t) && slices.ContainsFunc(structInfoOf(t).members, func(m structMember) bool {
			return m.present || m.deep || len(m.rules) > 0
		})
	}
	return false
}

func isValue(t reflect.Type) bool {
	return t == attributesType || t == valueType || t == timeType
}

var (
	attributesType = reflect.TypeFor[api.Attributes]()
	valueType      = reflect.TypeFor[api.Value]()
	timeType       = reflect.TypeFor[api.Time]()
)

func isNull(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return v.IsNil()
	case reflect.Struct:
		return v.Type() == attributesType && v.Field(0).IsNil() // its item
	}
	return false
}

// javaText is a value as DynamoDB shows it in messages.
func javaText(v reflect.Value) string {
	switch x := v.Interface().(type) {
	case api.Attributes:
		return javaItem(x.Item)
	case api.Value:
		return "AttributeValue(" + x.Value.String() + ")"
	}
	switch v.Kind() {
	case reflect.Pointer:
		if v.IsNil() {
			return "null"
		}
		return javaText(v.Elem())
	case reflect.Slice:
		if v.IsNil() {
			return "null"
		}
		return "[" + joined(v.Len(), func(i int) string { return javaText(v.Index(i)) }) + "]"
	case reflect.Map:
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String()+"=", b.String()+"=") })
		return "{" + joined(len(keys), func(i int) string { return keys[i].String() + "=" + javaText(v.MapIndex(keys[i])) }) + "}"
	case reflect.Struct:
		var parts []string
		for _, m := range structInfoOf(v.Type()).members {
			parts = append(parts, m.label+"="+javaText(v.FieldByIndex(m.index)))
		}
		return v.Type().Name() + "(" + strings.Join(parts, ", ") + ")"
	}
	return fmt.Sprint(v.Interface())
}

// maxText is about how much text of a list or a map a message shows. An empty
// structure, two bytes of a body, can take two hundred.
const maxText = 1 << 20

func joined(n int, part func(i int) string) string {
	var b strings.Builder
	for i := 0; i < n && b.Len() < maxText; i++ {
		if i > 0 {
			b.WriteString(", ")
		}
		b.WriteString(part(i))
	}
	return b.String()
}

func javaItem(it item.Item) string {
	var parts []string
	for name, v := range it.All() {
		parts = append(parts, name+"=AttributeValue("+v.String()+")")
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
