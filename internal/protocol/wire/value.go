package wire

import (
	"bytes"
	"encoding/base64"
	"errors"
	"strings"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
)

// Attribute values are decoded from JSON straight to the stored form. A value
// that has the right JSON types and is invalid all the same (an empty set, a
// malformed number) is recorded as the fault of its item, which a later gate
// reports, and replaced by a null.

// noteFault records the first fault of the item being read.
func (d *decoder) noteFault(err error) {
	var e *apierror.Error
	if d.fault == nil && errors.As(err, &e) {
		d.fault = e
	}
}

var (
	errEmptyValue = apierror.Validation("Supplied AttributeValue is empty, must contain exactly one of the supported datatypes")
	errManyTypes  = apierror.Validation("Supplied AttributeValue has more than one datatypes set, must contain exactly one of the supported datatypes")

	// ErrNullFalse has the same text wherever the value occurs.
	ErrNullFalse = apierror.InvalidRequestValues("Null attribute value types must have the value of true")
	// ErrTooDeep likewise.
	ErrTooDeep = apierror.Validation("Nesting Levels have exceeded supported limits: Attributes in the item have nested levels beyond supported limit")

	errEmptySet = map[item.Type]*apierror.Error{
		item.SS: apierror.InvalidRequestValues("An string set  may not be empty"),
		item.NS: bare(apierror.InvalidRequestValues("An number set  may not be empty")),
		item.BS: apierror.InvalidRequestValues("Binary sets should not be empty"),
	}
)

// bare marks a fault that has the same text wherever the value occurs.
func bare(fault *apierror.Error) *apierror.Error {
	fault.Bare = true
	return fault
}

// EmptySet returns the fault of a set without members.
func EmptySet(t item.Type) *apierror.Error { return errEmptySet[t] }

// IsEmptySet reports whether a fault is that of a set without members.
func IsEmptySet(fault *apierror.Error) bool {
	return fault == errEmptySet[item.SS] || fault == errEmptySet[item.NS] || fault == errEmptySet[item.BS]
}

const classValue = "com.amazonaws.dynamodb.v20120810.AttributeValue"

// attributes reads an object of attribute values into a builder.
func (d *decoder) attributes(b *item.Builder, depth int) error {
	b.Reset()
	more, err := d.enter('{')
	for more && err == nil {
		if err = d.attribute(b, depth); err == nil {
			more, err = d.again('{')
		}
	}
	return err
}

func (d *decoder) attribute(b *item.Builder, depth int) error {
	name, err := d.name()
	if err != nil {
		return err
	}
	if null, err := d.null(); null || err != nil {
		d.noteFault(errEmptyValue)
		return err
	}
	fault := item.CheckName(name) // reported after the faults of its value
	row, err := d.value(b.Begin(name), depth)
	if err != nil {
		return err
	}
	b.End(row)
	if fault != nil {
		d.noteFault(fault)
	}
	return nil
}

// value reads one attribute value and appends it in stored form.
func (d *decoder) value(dst []byte, depth int) ([]byte, error) {
	if d.next() != '{' {
		return nil, d.mismatch(inStructure, "class "+classValue)
	}
	if depth >= item.MaxDepth {
		d.noteFault(ErrTooDeep)
		return item.AppendNull(dst), d.skip()
	}
	if t, text, ok := d.simple(); ok {
		return d.scalar(dst, t, text)
	}
	members := typedMembers{dst: dst, start: len(dst), before: d.fault}
	more, err := d.enter('{')
	for more && err == nil {
		if err = d.typed(&members, depth); err == nil {
			more, err = d.again('{')
		}
	}
	if err != nil {
		return nil, err
	}
	switch {
	case members.types == 0:
		d.noteFault(errEmptyValue)
	case members.types&(members.types-1) != 0:
		d.noteFault(errManyTypes)
	}
	if len(members.dst) == members.start {
		members.dst = item.AppendNull(members.dst)
	}
	return members.dst, nil
}

// typedMembers is what has been read of one attribute value.
type typedMembers struct {
	dst    []byte
	start  int             // of the value in dst
	types  uint            // one bit for each type
	before *apierror.Error // the fault before the value
}

// simple reads a string or a number without white space, {"S":"…"}, as most
// values are. It consumes nothing if the next value is anything else.
func (d *decoder) simple() (t item.Type, text []byte, ok bool) {
	b := d.body[d.at:]
	if len(b) < len(`{"S":""}`) || b[1] != '"' || b[3] != '"' || b[4] != ':' {
		return 0, nil, false
	}
	switch b[2] {
	case 'S':
		t = item.S
	case 'N':
		t = item.N
	default:
		return 0, nil, false
	}
	start := d.at
	d.at += len(`{"S":`)
	text, err := d.text()
	if err != nil || d.at == len(d.body) || d.body[d.at] != '}' {
		d.at = start
		return 0, nil, false
	}
	d.at++
	return t, text, true
}

// typed reads the name of a type and its content. Of a type that occurs twice the
// last content counts, as of any member of an object, unless there is another type.
func (d *decoder) typed(m *typedMembers, depth int) error {
	name, err := d.name()
	if err != nil {
		return err
	}
	t, ok := item.TypeNamed(name)
	if !ok {
		return d.skip()
	}
	bit := uint(1) << t
	if m.types == bit {
		m.dst, m.types, d.fault = m.dst[:m.start], 0, m.before
	}
	if null, err := d.null(); null || err != nil {
		return err
	}
	m.types |= bit
	dst, err := d.content(m.dst, t, depth)
	if err == nil && m.types == bit {
		m.dst = dst
	}
	return err
}

// content reads the content after the name of a type.
func (d *decoder) content(dst []byte, t item.Type, depth int) ([]byte, error) {
	switch t {
	case item.S, item.N, item.B:
		text, err := d.string()
		if err != nil {
			return nil, err
		}
		return d.scalar(dst, t, text)
	case item.BOOL:
		b, err := d.bool()
		return item.AppendBool(dst, b), err
	case item.NULL:
		b, err := d.bool()
		if err == nil && !b {
			d.noteFault(ErrNullFalse)
		}
		return item.AppendNull(dst), err
	case item.L:
		return d.list(dst, depth)
	case item.M:
		if d.next() != '{' {
			return nil, d.mismatch(inMember, "java.util.Map<java.lang.String, "+classValue+">")
		}
		b := d.builder(depth)
		if err := d.attributes(b, depth+1); err != nil {
			return nil, err
		}
		return b.AppendMap(dst), nil
	}
	return d.set(dst, t, depth)
}

// scalar appends the value that a text represents.
func (d *decoder) scalar(dst []byte, t item.Type, text []byte) ([]byte, error) {
	switch t {
	case item.N:
		n, err := item.ParseNumber(text)
		if err != nil {
			d.noteFault(err)
		}
		return item.AppendNumber(dst, n), nil
	case item.B:
		return appendBase64(dst, text)
	}
	return item.AppendText(dst, t, text), nil
}

var strictBase64 = base64.StdEncoding.Strict()

// appendBase64 appends a B whose content is given in base64.
func appendBase64(dst, text []byte) ([]byte, error) {
	if len(text)%4 != 0 {
		return nil, apierror.Serialization("Base64 encoded length is expected a multiple of 4 bytes but found: %d", len(text))
	}
	size := len(text) / 4 * 3
	for i := len(text) - 1; i >= 0 && i >= len(text)-2 && text[i] == '='; i-- {
		size--
	}
	dst = item.AppendTextHead(dst, item.B, size)
	out, err := strictBase64.AppendDecode(dst, text)
	if err == nil && !bytes.ContainsAny(text, "\r\n") {
		return out, nil
	}
	for _, c := range text {
		if strings.IndexByte("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=", c) < 0 {
			return nil, apierror.Serialization("Invalid Base64 character: '%c'", c)
		}
	}
	return nil, apierror.Serialization("Invalid last non-pad Base64 character dectected")
}

func (d *decoder) list(dst []byte, depth int) ([]byte, error) {
	if d.next() != '[' {
		return nil, d.mismatch(inList, "")
	}
	row, count := d.row(depth), 0
	more, err := d.enter('[')
	for ; more && err == nil; count++ {
		var out []byte
		if out, err = d.value(*row, depth+1); err == nil {
			*row = out
			more, err = d.again('[')
		}
	}
	if err != nil {
		return nil, err
	}
	return item.AppendContainer(dst, item.L, count, *row), nil
}

// set reads a set. Its members are read into a row, and copied from there in
// order if they were not in order. Of a set that is too large, only so much is kept
// that it is rejected for its size.
func (d *decoder) set(dst []byte, t item.Type, depth int) ([]byte, error) {
	if d.next() != '[' {
		return nil, d.mismatch(inList, "")
	}
	row, count, from := d.row(depth), 0, d.at
	full := NewRowLimit(d.maxSet)
	more, err := d.enter('[')
	for more && err == nil {
		var text []byte
		if text, err = d.string(); err != nil {
			break
		}
		if !full.Reached(*row) {
			var out []byte
			if out, err = d.scalar(*row, t.Member(), text); err != nil {
				break
			}
			*row = out
			count++
		}
		more, err = d.again('[')
	}
	if err != nil {
		return nil, err
	}
	if count == 0 {
		d.noteFault(errEmptySet[t])
		return item.AppendNull(dst), nil
	}
	var double bool
	if count >= item.ManyMembers {
		dst, double = item.AppendLargeSet(dst, t, count, *row)
	} else {
		d.members = item.AppendRow(d.members[:0], *row)
		dst, double = item.AppendSet(dst, t, d.members)
	}
	if double {
		d.noteFault(duplicates(t, d.body[from:d.at]))
	}
	return dst, nil
}

// RowLimit finds out when the values in a growing row exceed a size.
type RowLimit struct {
	left  int // of the size
	sized int // bytes of the row that were counted
	full  bool
}

// NewRowLimit returns the limit of a row that is empty.
func NewRowLimit(size int) RowLimit { return RowLimit{left: size} }

// Reached reports whether the values in the row exceed the size.
func (l *RowLimit) Reached(row []byte) bool {
	// Values are not smaller in the row.
	if l.full || len(row)-l.sized <= max(l.left, 1<<10) {
		return l.full
	}
	l.left -= item.RowSize(row[l.sized:])
	l.sized = len(row)
	l.full = l.left < 0
	return l.full
}

// duplicates returns the fault of a set with equal members; body is the set
// as the customer wrote it.
func duplicates(t item.Type, set []byte) error {
	if t == item.NS {
		return Duplicates(t, nil) // does not show them
	}
	var texts [][]byte
	s := scanner{body: set}
	for more, err := s.enter('['); more && err == nil; more, err = s.again('[') {
		text, err := s.text()
		if err != nil {
			panic("a set that was decoded cannot be decoded again: " + err.Error())
		}
		texts = append(texts, text)
	}
	return Duplicates(t, texts)
}

// Duplicates returns the fault of a set with equal members, which are given as JSON has
// them: those of a BS in base64.
func Duplicates(t item.Type, members [][]byte) *apierror.Error {
	if t == item.NS {
		return bare(apierror.Request("Input collection contains duplicates"))
	}
	all := "[" + string(bytes.Join(members, []byte(", "))) + "]"
	if t == item.BS {
		return bare(apierror.InvalidRequestValues("Input collection %sof type BS contains duplicates.", all))
	}
	return bare(apierror.InvalidRequestValues("Input collection %s contains duplicates.", all))
}
