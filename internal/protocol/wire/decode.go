package wire

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"sync"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/protocol/api"
)

// Decode reads a body into a request, a pointer to a struct of package api,
// and checks it against the constraints declared there. The request shares no
// memory with the body.
func Decode(body []byte, request any) error {
	d := decoders.Get().(*decoder)
	defer d.release()
	d.scanner = scanner{body: body}
	v := reflect.ValueOf(request).Elem()
	s := structInfoOf(v.Type())
	seen, err := d.request(s, v)
	if err != nil {
		return d.serialization(err)
	}
	return d.check.request(s, v, seen)
}

// Check checks a request that was not decoded from JSON against the constraints declared
// in package api.
func Check(request any) error {
	v := reflect.ValueOf(request).Elem()
	var c constraintChecker
	return c.request(structInfoOf(v.Type()), v, allSeen)
}

// decoder decodes one body. Everything but the scanner and the arena is
// reused for the next body.
type decoder struct {
	scanner
	fault *apierror.Error
	arena []byte // the request's items and values, one after another

	maxSet int // size from which no more members of a set are kept

	top      item.Builder
	builders []*item.Builder // one for each level of nesting
	rows     []*[]byte       // the same
	members  []item.Value    // of a set
	strings  interned
	check    constraintChecker
}

var decoders = sync.Pool{New: func() any { return new(decoder) }}

// maxKept is the most memory that a decoder may hold to be reused.
const maxKept = 64 << 10

// release returns the decoder to the pool. The request shares no memory with
// it.
func (d *decoder) release() {
	d.scanner, d.fault, d.arena = scanner{}, nil, nil
	d.check.faults, d.check.stop = nil, false
	clear(d.members[:cap(d.members)])
	kept := d.top.Cap() + 24*cap(d.members)
	for _, b := range d.builders {
		kept += b.Cap()
	}
	for _, r := range d.rows {
		kept += cap(*r)
	}
	if kept <= maxKept {
		decoders.Put(d)
	}
}

// arenaBytes is the largest initial size of an arena: much of a large body
// may be white space.
const arenaBytes = 256 << 10

// reserve reserves space in the arena. The stored form is never larger than
// the JSON, so the length of the rest of a small body is enough for all of
// it. For a large body a new arena is begun when little space is left.
func (d *decoder) reserve() {
	left := len(d.body) - d.at
	if d.arena == nil || cap(d.arena)-len(d.arena) < min(left, arenaBytes/16) {
		d.arena = make([]byte, 0, min(left, arenaBytes))
	}
}

// cut returns the bytes that were appended to the arena since its length was
// from.
func (d *decoder) cut(from int) []byte { return d.arena[from:len(d.arena):len(d.arena)] }

func (d *decoder) builder(depth int) *item.Builder {
	for len(d.builders) <= depth {
		d.builders = append(d.builders, new(item.Builder))
	}
	return d.builders[depth]
}

func (d *decoder) row(depth int) *[]byte {
	for len(d.rows) <= depth {
		d.rows = append(d.rows, new([]byte))
	}
	*d.rows[depth] = (*d.rows[depth])[:0]
	return d.rows[depth]
}

// serialization returns the fault of a body that could not be read. A body
// that is not JSON gets no message, even when a type error precedes the
// syntax error.
func (d *decoder) serialization(err error) error {
	whole := scanner{body: d.body}
	if errors.Is(err, errSyntax) || whole.skip() != nil || !whole.done() {
		return apierror.Serialization("")
	}
	return err
}

// request reads the outermost object and returns the set of members that it
// had.
func (d *decoder) request(s *structInfo, v reflect.Value) (seen uint64, err error) {
	if d.next() != '{' {
		if err := d.skip(); err != nil {
			return 0, err
		}
		return 0, apierror.Serialization("")
	}
	seen, err = d.structure(s, v)
	if err == nil && !d.done() {
		err = errSyntax
	}
	return seen, err
}

// structure reads an object into a struct.
func (d *decoder) structure(s *structInfo, v reflect.Value) (seen uint64, err error) {
	more, err := d.enter('{')
	for more && err == nil {
		if err = d.member(s, v, &seen); err == nil {
			more, err = d.again('{')
		}
	}
	return seen, err
}

func (d *decoder) member(s *structInfo, v reflect.Value, seen *uint64) error {
	name, err := d.name()
	if err != nil {
		return err
	}
	i, ok := s.byName[string(name)]
	if !ok {
		return d.skip()
	}
	if null, err := d.null(); null || err != nil {
		return err
	}
	*seen |= 1 << i
	m := &s.members[i]
	return m.read(d, m.of(v), inMember)
}

// valueContext is where a value occurs; it decides the message for a value of
// the wrong type.
type valueContext int

const (
	inMember    valueContext = iota // a member of a structure
	inList                          // in place of a list
	inStructure                     // an element or entry that should be a structure
	inBatch                         // an element or entry that should be a list or map
)

const batchFault = "class sun.reflect.generics.reflectiveObjects.ParameterizedTypeImpl cannot be cast to class java.lang.Class " +
	"(sun.reflect.generics.reflectiveObjects.ParameterizedTypeImpl and java.lang.Class are in module java.base of loader 'bootstrap')"

// mismatch returns the fault of the next value, which has the wrong type.
// collection is the Java name of the type that was expected.
func (d *decoder) mismatch(p valueContext, collection string) error {
	c := d.next()
	switch {
	case p == inBatch:
		return apierror.Serialization(batchFault)
	case c == '{':
		return apierror.Serialization("Start of structure or map found where not expected")
	case c == '[' && p != inList:
		return apierror.Serialization("Unrecognized collection type %s", collection)
	case p == inStructure:
		return apierror.Serialization("Unexpected value type in payload")
	}
	return apierror.Serialization("Unexpected field type")
}

// scalarMismatch returns the fault of the next value, which is not a scalar
// of this Java type.
func (d *decoder) scalarMismatch(java string) error {
	token := "STRING_VALUE"
	switch d.next() {
	case '{', '[':
		return d.mismatch(inMember, "class java.lang."+java)
	case 't':
		token = "TRUE_VALUE"
	case 'f':
		token = "FALSE_VALUE"
	case '"':
		if java == "Boolean" {
			return apierror.Serialization("Unexpected token received from parser")
		}
	default:
		n, err := d.number()
		if err != nil {
			return err
		}
		token = "NUMBER_VALUE"
		if _, err := strconv.ParseInt(string(n), 10, 64); errors.Is(err, strconv.ErrSyntax) {
			token = "DECIMAL_VALUE"
		}
	}
	return apierror.Serialization("%s cannot be converted to %s", token, java)
}

func (d *decoder) string() ([]byte, error) {
	if d.next() != '"' {
		return nil, d.scalarMismatch("String")
	}
	return d.text()
}

func (d *decoder) bool() (bool, error) {
	switch d.next() {
	case 't':
		return true, d.word("true")
	case 'f':
		return false, d.word("false")
	}
	return false, d.scalarMismatch("Boolean")
}

// integer reads an integer. It drops a fraction and clamps the value to the
// limits.
func (d *decoder) integer(java string, lowest, highest float64) (int64, error) {
	if c := d.next(); c != '-' && (c < '0' || c > '9') {
		return 0, d.scalarMismatch(java)
	}
	text, err := d.number()
	if err != nil {
		return 0, err
	}
	if n, err := strconv.ParseInt(string(text), 10, 64); err == nil && float64(n) >= lowest && float64(n) <= highest {
		return n, nil
	}
	f, _ := strconv.ParseFloat(string(text), 64)
	f = min(max(f, lowest), highest)
	if f >= math.MaxInt64 { // MaxInt64 is not a float64: the conversion would overflow
		return math.MaxInt64, nil
	}
	return int64(f), nil
}

// double reads a number with a fraction.
func (d *decoder) double() (float64, error) {
	if c := d.next(); c != '-' && (c < '0' || c > '9') {
		return 0, d.scalarMismatch("Double")
	}
	text, err := d.number()
	if err != nil {
		return 0, err
	}
	n, _ := strconv.ParseFloat(string(text), 64)
	return n, nil
}

// valueReader reads one value into a field.
type valueReader func(d *decoder, f reflect.Value, p valueContext) error

// readerOf returns the reader for a Go type. It is called once for each
// member of each request, when the struct is first used.
func readerOf(t reflect.Type) valueReader {
	switch t {
	case reflect.TypeFor[api.Attributes]():
		return readAttributes
	case reflect.TypeFor[api.Value]():
		return readValue
	case reflect.TypeFor[api.Time]():
		return readTime
	case reflect.TypeFor[map[string]string]():
		return mapOf(readString)
	case reflect.TypeFor[map[string]api.Value]():
		return mapOf(readOneValue)
	}
	switch t.Kind() {
	case reflect.String:
		return func(d *decoder, f reflect.Value, _ valueContext) error {
			text, err := readString(d)
			f.SetString(text)
			return err
		}
	case reflect.Bool:
		return func(d *decoder, f reflect.Value, _ valueContext) error {
			b, err := d.bool()
			f.SetBool(b)
			return err
		}
	case reflect.Int32:
		return func(d *decoder, f reflect.Value, _ valueContext) error {
			n, err := d.integer("Integer", math.MinInt32, math.MaxInt32)
			f.SetInt(n)
			return err
		}
	case reflect.Int64:
		return func(d *decoder, f reflect.Value, _ valueContext) error {
			n, err := d.integer("Long", math.MinInt64, math.MaxInt64)
			f.SetInt(n)
			return err
		}
	case reflect.Float64:
		return func(d *decoder, f reflect.Value, _ valueContext) error {
			n, err := d.double()
			f.SetFloat(n)
			return err
		}
	case reflect.Pointer:
		return pointerReader(t.Elem())
	case reflect.Slice:
		return sliceReader(t)
	case reflect.Map:
		return mapReader(t)
	case reflect.Struct:
		return structReader(t)
	}
	panic(fmt.Sprintf("no reader for %s", t))
}

func readString(d *decoder) (string, error) {
	text, err := d.string()
	return d.strings.of(text), err
}

func readAttributes(d *decoder, f reflect.Value, p valueContext) error {
	if d.next() != '{' {
		return d.mismatch(p, "java.util.Map<java.lang.String, "+classValue+">")
	}
	d.reserve()
	d.fault, d.maxSet = nil, item.MaxSize
	if err := d.attributes(&d.top, 0); err != nil {
		return err
	}
	from := len(d.arena)
	d.arena = d.top.AppendItem(d.arena)
	*f.Addr().Interface().(*api.Attributes) = api.Attributes{Item: d.cut(from), Fault: d.fault}
	return nil
}

func readValue(d *decoder, f reflect.Value, _ valueContext) (err error) {
	*f.Addr().Interface().(*api.Value), err = readOneValue(d)
	return err
}

func readOneValue(d *decoder) (api.Value, error) {
	d.reserve()
	d.fault, d.maxSet = nil, item.MaxRequestValues
	from := len(d.arena)
	arena, err := d.value(d.arena, 0)
	if err != nil {
		return api.Value{}, err
	}
	d.arena = arena
	return api.Value{Value: d.cut(from), Fault: d.fault}, nil
}

// mapOf returns a reader of maps that does not use reflection, for the types
// that are frequent in requests.
func mapOf[V any](read func(*decoder) (V, error)) valueReader {
	t := reflect.TypeFor[map[string]V]()
	collection := mapName(t)
	return func(d *decoder, f reflect.Value, p valueContext) error {
		if d.next() != '{' {
			return d.mismatch(p, collection)
		}
		m := make(map[string]V)
		*f.Addr().Interface().(*map[string]V) = m
		more, err := d.enter('{')
		for more && err == nil {
			if len(m) == maxEntries {
				return tooManyEntries()
			}
			if err = mapEntry(d, m, read); err == nil {
				more, err = d.again('{')
			}
		}
		return err
	}
}

func mapEntry[V any](d *decoder, m map[string]V, read func(*decoder) (V, error)) error {
	name, err := d.name()
	if err != nil {
		return err
	}
	if null, err := d.null(); null || err != nil {
		return err
	}
	v, err := read(d)
	if err == nil {
		m[d.strings.of(name)] = v
	}
	return err
}

// readTime reads a time in seconds since 1970. DynamoDB keeps it to the
// millisecond.
func readTime(d *decoder, f reflect.Value, _ valueContext) error {
	if c := d.next(); c != '-' && (c < '0' || c > '9') {
		return d.scalarMismatch("Date")
	}
	text, err := d.number()
	if err != nil {
		return err
	}
	seconds, _ := strconv.ParseFloat(string(text), 64)
	millis := math.Round(min(max(seconds, -maxSeconds), maxSeconds) * 1000)
	*f.Addr().Interface().(*api.Time) = api.Time{Time: time.UnixMilli(int64(millis)).UTC()}
	return nil
}

// maxSeconds is the latest time that is kept as it is, in the year 9999.
const maxSeconds = 253402300799

func pointerReader(t reflect.Type) valueReader {
	read := readerOf(t)
	return func(d *decoder, f reflect.Value, p valueContext) error {
		f.Set(reflect.New(t))
		return read(d, f.Elem(), p)
	}
}

// maxEntries is the most entries of a list or a map that is not an attribute
// value, far more than any operation accepts. Decoded, a list of structures
// takes thirty times its length.
const maxEntries = 10_000

func tooManyEntries() error {
	return apierror.Validation("A list or a map in the request has more than %d entries", maxEntries)
}

func sliceReader(t reflect.Type) valueReader {
	read, inner := readerOf(t.Elem()), innerContext(t.Elem())
	ofValues := t.Elem() == valueType
	return func(d *decoder, f reflect.Value, p valueContext) error {
		if d.next() != '[' {
			if p == inMember {
				p = inList
			}
			return d.mismatch(p, "")
		}
		f.SetZero()
		f.Grow(4)
		more, err := d.enter('[')
		for n := 0; more && err == nil; n++ {
			if n == maxEntries {
				return tooManyEntries()
			}
			f.Grow(1)
			f.SetLen(n + 1)
			var null bool
			switch null, err = d.null(); {
			case err != nil:
			case !null:
				err = read(d, f.Index(n), inner)
			case ofValues: // a value is never null
				*f.Index(n).Addr().Interface().(*api.Value) = api.Value{Value: item.Null(), Fault: errEmptyValue}
			}
			if err == nil {
				more, err = d.again('[')
			}
		}
		return err
	}
}

func mapReader(t reflect.Type) valueReader {
	read, inner := readerOf(t.Elem()), innerContext(t.Elem())
	collection := mapName(t)
	return func(d *decoder, f reflect.Value, p valueContext) error {
		if d.next() != '{' {
			return d.mismatch(p, collection)
		}
		f.Set(reflect.MakeMap(t))
		more, err := d.enter('{')
		for more && err == nil {
			if f.Len() == maxEntries {
				return tooManyEntries()
			}
			var name []byte
			if name, err = d.name(); err != nil {
				break
			}
			var null bool
			if null, err = d.null(); err == nil && !null {
				entry := reflect.New(t.Elem()).Elem()
				if err = read(d, entry, inner); err == nil {
					f.SetMapIndex(reflect.ValueOf(d.strings.of(name)), entry)
				}
			}
			if err == nil {
				more, err = d.again('{')
			}
		}
		return err
	}
}

// mapName is the Java name of a map type.
func mapName(t reflect.Type) string {
	return "java.util.Map<java.lang.String, " + className(t.Elem()) + ">"
}

func structReader(t reflect.Type) valueReader {
	s := structInfoOf(t)
	return func(d *decoder, f reflect.Value, p valueContext) error {
		if d.next() != '{' {
			return d.mismatch(p, "class "+className(t))
		}
		_, err := d.structure(s, f)
		return err
	}
}

// innerContext is the context of the elements of a list or the entries of a
// map.
func innerContext(t reflect.Type) valueContext {
	if t.Kind() == reflect.Slice || t == reflect.TypeFor[api.Attributes]() {
		return inBatch
	}
	return inStructure
}

// className is the Java class name of a type.
func className(t reflect.Type) string {
	switch {
	case t.Kind() == reflect.String:
		return "java.lang.String"
	case t.Kind() == reflect.Slice:
		return "java.util.List<" + className(t.Elem()) + ">"
	case t == reflect.TypeFor[api.Value]():
		return classValue
	}
	return "com.amazonaws.dynamodb.v20120810." + t.Name()
}
