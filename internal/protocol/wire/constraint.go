package wire

import (
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/protocol/api"
)

// rule is one constraint of a member. It returns what the member must do, or
// nothing when it does.
type rule struct {
	name  string
	check func(v reflect.Value) string
}

// parseRules reads a tag; package api lists the words.
func parseRules(tag string) (rules []rule, stop bool) {
	if tag == "" {
		return nil, false
	}
	for part := range strings.SplitSeq(tag, ",") {
		name, arg, _ := strings.Cut(part, "=")
		switch name {
		case "stop":
			stop = true
		case "present":
			rules = append(rules, rule{name: name})
		case "table":
			if arg != "" {
				rules = append(rules, length(number(arg), false), rule{name, checkTableName})
				continue
			}
			rules = append(rules, rule{name, checkTable})
		case "newtable":
			rules = append(rules, like(tableName), length(3, false), length(255, true))
		case "oneof":
			rules = append(rules, oneOf(strings.Split(arg, "|")))
		case "min", "max":
			rules = append(rules, limit(number(arg), name == "max"))
		case "minlen", "maxlen":
			rules = append(rules, length(number(arg), name == "maxlen"))
		case "entrylen":
			rules = append(rules, entryLength(number(arg)))
		case "like":
			rules = append(rules, like(regexp.MustCompile("^(?:"+arg+")$")))
		default:
			panic("no such constraint: " + part)
		}
	}
	return rules, stop
}

func number(arg string) int {
	n, err := strconv.Atoi(arg)
	if err != nil {
		panic(err)
	}
	return n
}

var (
	tableName = regexp.MustCompile(`^(?:[a-zA-Z0-9_.-]+)$`)
	tableARN  = regexp.MustCompile(`^arn:aws[a-z-]*:dynamodb:[a-z0-9-]+:[0-9]{12}:table/([a-zA-Z0-9_.-]{3,255})$`)
)

// checkTable takes a table's name, or its ARN. Of an empty name the length is
// told and nothing else.
func checkTable(v reflect.Value) string {
	if v.String() == "" {
		return atLeast("length", 1)
	}
	return checkTableName(v)
}

// checkTableName takes a table's name, or its ARN, which it replaces by the
// name.
func checkTableName(v reflect.Value) string {
	name := v.String()
	switch {
	case strings.HasPrefix(name, "arn:"):
		if m := tableARN.FindStringSubmatch(name); m != nil {
			v.SetString(m[1])
			return ""
		}
		fallthrough
	case !tableName.MatchString(name):
		return matching(tableName)
	case len(name) > 255:
		return atMost("length", 255)
	}
	return ""
}

func oneOf(words []string) rule {
	return rule{"oneof", func(v reflect.Value) string {
		if slices.Contains(words, v.String()) {
			return ""
		}
		return "Member must satisfy enum value set: [" + strings.Join(words, ", ") + "]"
	}}
}

func like(re *regexp.Regexp) rule {
	return rule{"like", func(v reflect.Value) string {
		if re.MatchString(v.String()) {
			return ""
		}
		return matching(re)
	}}
}

func limit(n int, most bool) rule {
	return rule{"limit", func(v reflect.Value) string { return within("value", v.Int(), n, most) }}
}

func length(n int, most bool) rule {
	return rule{"length", func(v reflect.Value) string {
		size := 0
		switch v.Kind() {
		case reflect.String:
			size = len(utf16.Encode([]rune(v.String())))
		default:
			size = v.Len()
		}
		return within("length", int64(size), n, most)
	}}
}

func entryLength(n int) rule {
	return rule{"entrylen", func(v reflect.Value) string {
		for _, k := range v.MapKeys() {
			if size := v.MapIndex(k).Len(); size < 1 || size > n {
				return "Map value must satisfy constraint: [" + atMost("length", n) + ", " + atLeast("length", 1) + "]"
			}
		}
		return ""
	}}
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

func matching(re *regexp.Regexp) string {
	pattern := strings.TrimSuffix(strings.TrimPrefix(re.String(), "^(?:"), ")$")
	return "Member must satisfy regular expression pattern: " + pattern
}

// checkRequest checks all members of a request, and joins what is wrong with
// them into one fault. seen tells which members the request had.
func checkRequest(s *shape, v reflect.Value, seen uint64) error {
	c := checker{}
	c.structure(s, v, "", seen)
	switch len(c.faults) {
	case 0:
		return nil
	case 1:
		return apierror.Validation("%s", apierror.RequestPrefix+c.faults[0])
	}
	return apierror.Validation("%d validation errors detected: %s", len(c.faults), strings.Join(c.faults, "; "))
}

// allSeen is for inner structures, whose optional members are all pointers.
const allSeen = ^uint64(0)

type checker struct {
	faults []string
	stop   bool
}

func (c *checker) structure(s *shape, v reflect.Value, path string, seen uint64) {
	for i := range s.members {
		m := &s.members[i]
		at := m.label
		if path != "" {
			at = path + "." + at
		}
		before := len(c.faults)
		c.member(m, v.FieldByIndex(m.index), at, seen&(1<<i) != 0)
		if c.stop = c.stop || m.stop && len(c.faults) > before; c.stop {
			return
		}
	}
}

func (c *checker) member(m *member, v reflect.Value, at string, seen bool) {
	if !seen || isNull(v) {
		if len(m.rules) > 0 && m.rules[0].name == "present" {
			c.faults = append(c.faults, "Value null at '"+at+"' failed to satisfy constraint: Member must not be null")
		}
		return
	}
	for v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	for _, r := range m.rules {
		if r.check == nil {
			continue
		}
		shown := v
		if must := r.check(v); must != "" {
			c.faults = append(c.faults, "Value '"+javaText(shown)+"' at '"+at+"' failed to satisfy constraint: "+must)
		}
	}
	c.inside(v, at)
}

// inside checks the structures within a member.
func (c *checker) inside(v reflect.Value, at string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			c.inside(v.Elem(), at)
		}
	case reflect.Struct:
		if !isValue(v.Type()) {
			c.structure(shapeOf(v.Type()), v, at, allSeen)
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.String {
			return
		}
		for i := range v.Len() {
			c.inside(v.Index(i), at+"."+strconv.Itoa(i+1)+".member")
		}
	case reflect.Map:
		if v.Type().Elem().Kind() == reflect.String {
			return
		}
		keys := v.MapKeys()
		slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
		for _, k := range keys {
			c.inside(v.MapIndex(k), at+"."+k.String()+".member")
		}
	}
}

func isValue(t reflect.Type) bool {
	return t == reflect.TypeFor[api.Attributes]() || t == reflect.TypeFor[api.Value]() || t == reflect.TypeFor[api.Time]()
}

func isNull(v reflect.Value) bool {
	if a, ok := v.Interface().(api.Attributes); ok {
		return a.Item == nil
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Slice, reflect.Map:
		return v.IsNil()
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
		parts := make([]string, v.Len())
		for i := range parts {
			parts[i] = javaText(v.Index(i))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	case reflect.Map:
		var parts []string
		for _, k := range v.MapKeys() {
			parts = append(parts, k.String()+"="+javaText(v.MapIndex(k)))
		}
		slices.Sort(parts)
		return "{" + strings.Join(parts, ", ") + "}"
	case reflect.Struct:
		var parts []string
		for _, m := range shapeOf(v.Type()).members {
			parts = append(parts, m.label+"="+javaText(v.FieldByIndex(m.index)))
		}
		return v.Type().Name() + "(" + strings.Join(parts, ", ") + ")"
	}
	return fmt.Sprint(v.Interface())
}

func javaItem(it item.Item) string {
	var parts []string
	for name, v := range it.All() {
		parts = append(parts, name+"=AttributeValue("+v.String()+")")
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
