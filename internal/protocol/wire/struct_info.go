package wire

import (
	"cmp"
	"reflect"
	"sync"
	"unicode"
)

// structInfo describes a struct of package api. It is computed once by
// reflection and used for every request and reply.
type structInfo struct {
	members []structMember
	byName  map[string]int
}

// structMember is one member of a structure. Members of embedded structs
// count as members of the outer one.
type structMember struct {
	name  string
	label string // the name in messages: its first letter is lower case
	index []int

	read    valueReader
	rules   []rule
	present bool   // required
	or      string // the compiled expression that replaces a required text
	stop    bool
	deep    bool // contains structures with constraints

	write  valueWriter
	empty  func(reflect.Value) bool
	head   string // the quoted name and the colon, as written in a reply
	always bool   // written in a reply even when it is empty
}

// of returns the member's field in a struct.
func (m *structMember) of(v reflect.Value) reflect.Value {
	if len(m.index) == 1 {
		return v.Field(m.index[0])
	}
	return v.FieldByIndex(m.index)
}

var structInfos sync.Map // reflect.Type -> *structInfo

func structInfoOf(t reflect.Type) *structInfo {
	if s, ok := structInfos.Load(t); ok {
		return s.(*structInfo)
	}
	s := &structInfo{byName: make(map[string]int)}
	for _, f := range reflect.VisibleFields(t) {
		if f.Anonymous || !f.IsExported() || f.Tag.Get("json") == "-" {
			continue
		}
		name := cmp.Or(f.Tag.Get("name"), f.Name)
		m := structMember{
			name: name, label: label(name), index: f.Index,
			deep:  isDeep(f.Type),
			write: writerOf(f.Type), empty: emptyOf(f.Type), head: `"` + name + `":`,
			always: f.Tag.Get("reply") == "always",
		}
		m.rules, m.present, m.stop = parseRules(f.Tag.Get("must"))
		m.or = f.Tag.Get("or")
		if readable(f.Type) {
			m.read = readerOf(f.Type)
		}
		s.byName[name] = len(s.members)
		s.members = append(s.members, m)
	}
	known, _ := structInfos.LoadOrStore(t, s)
	return known.(*structInfo)
}

// readable reports whether a type occurs in requests; replies have a few more
// types.
func readable(t reflect.Type) bool {
	switch t.Kind() {
	case reflect.Int:
		return false
	case reflect.Pointer, reflect.Map:
		return readable(t.Elem())
	case reflect.Slice:
		return t.Elem().Kind() != reflect.Uint8 && readable(t.Elem())
	}
	return true
}

func label(name string) string {
	r := []rune(name)
	r[0] = unicode.ToLower(r[0])
	return string(r)
}
