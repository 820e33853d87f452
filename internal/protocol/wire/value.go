package wire

import (
	"bytes"
	"encoding/base64"
	"errors"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
)

// Attribute values go straight from JSON to the stored form. A value of the
// right shape that is not a value all the same (an empty set, a number that is
// none) is noted as the fault of its item, to be told at a later gate, and a
// null stands in for it.

// noteFault keeps the first fault of the item being read.
func (d *decoder) noteFault(err error) {
	var e *apierror.Error
	if d.fault == nil && errors.As(err, &e) {
		d.fault = e
	}
}

var (
	errEmptyValue = apierror.Validation("Supplied AttributeValue is empty, must contain exactly one of the supported datatypes")
	errManyTypes  = apierror.Validation("Supplied AttributeValue has more than one datatypes set, must contain exactly one of the supported datatypes")

	// ErrNullFalse is told in the same words wherever the value stands.
	ErrNullFalse = apierror.InvalidRequestValues("Null attribute value types must have the value of true")
	// ErrTooDeep is so too.
	ErrTooDeep = apierror.Validation("Nesting Levels have exceeded supported limits: Attributes in the item have nested levels beyond supported limit")

	errEmptySet = map[item.Type]*apierror.Error{
		item.SS: apierror.InvalidRequestValues("An string set  may not be empty"),
		item.NS: apierror.InvalidRequestValues("An number set  may not be empty"),
		item.BS: apierror.InvalidRequestValues("Binary sets should not be empty"),
	}
)

const classValue = "com.amazonaws.dynamodb.v20120810.AttributeValue"

// attributes reads an object of attribute values into a builder.
func (d *decoder) attributes(b *item.Builder, depth int) error {
	b.Reset()
	return d.object(func(name []byte) error {
		if null, err := d.null(); null || err != nil {
			d.noteFault(errEmptyValue)
			return err
		}
		return b.Append(name, func(dst []byte) ([]byte, error) { return d.value(dst, depth) })
	})
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
	types, start := 0, len(dst)
	err := d.object(func(name []byte) error {
		t, ok := item.TypeNamed(string(name))
		if !ok {
			return d.skip()
		}
		if null, err := d.null(); null || err != nil {
			return err
		}
		types++
		out, err := d.content(dst, t, depth)
		if err == nil && types == 1 {
			dst = out
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	switch {
	case types == 0:
		d.noteFault(errEmptyValue)
	case types > 1:
		d.noteFault(errManyTypes)
	}
	if len(dst) == start {
		dst = item.AppendNull(dst)
	}
	return dst, nil
}

// content reads what stands behind the name of a type.
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
	return d.set(dst, t)
}

// scalar appends the value that a text stands for.
func (d *decoder) scalar(dst []byte, t item.Type, text []byte) ([]byte, error) {
	switch t {
	case item.N:
		n, err := item.ParseNumber(text)
		if err != nil {
			d.noteFault(err)
		}
		return item.AppendNumber(dst, n), nil
	case item.B:
		b, err := decodeBase64(text)
		if err != nil {
			return nil, err
		}
		return item.AppendText(dst, item.B, b), nil
	}
	return item.AppendText(dst, t, text), nil
}

func decodeBase64(text []byte) ([]byte, error) {
	if len(text)%4 != 0 {
		return nil, apierror.Serialization("Base64 encoded length is expected a multiple of 4 bytes but found: %d", len(text))
	}
	out := make([]byte, base64.StdEncoding.DecodedLen(len(text)))
	n, err := base64.StdEncoding.Strict().Decode(out, text)
	if err == nil && !bytes.ContainsAny(text, "\r\n") {
		return out[:n], nil
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
	err := d.array(func() error {
		out, err := d.value(*row, depth+1)
		*row = out
		count++
		return err
	})
	if err != nil {
		return nil, err
	}
	return item.AppendContainer(dst, item.L, count, *row), nil
}

func (d *decoder) set(dst []byte, t item.Type) ([]byte, error) {
	if d.next() != '[' {
		return nil, d.mismatch(inList, "")
	}
	var texts [][]byte
	var members []item.Value
	err := d.array(func() error {
		text, err := d.string()
		if err != nil {
			return err
		}
		m, err := d.scalar(nil, t.Member(), text)
		texts, members = append(texts, text), append(members, m)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(members) == 0 {
		d.noteFault(errEmptySet[t])
		return item.AppendNull(dst), nil
	}
	slices.SortFunc(members, item.Compare)
	if len(slices.CompactFunc(slices.Clone(members), item.Equal)) < len(members) {
		d.noteFault(duplicates(t, texts))
	}
	return append(dst, item.Set(t, members...)...), nil
}

func duplicates(t item.Type, texts [][]byte) error {
	all := "[" + string(bytes.Join(texts, []byte(", "))) + "]"
	switch t {
	case item.NS:
		return apierror.Request("Input collection contains duplicates")
	case item.BS:
		return apierror.InvalidRequestValues("Input collection %sof type BS contains duplicates.", all)
	}
	return apierror.InvalidRequestValues("Input collection %s contains duplicates.", all)
}
