package wire

import (
	"errors"

	"github.com/stator-db/stator/internal/data/item"
)

// ItemReader decodes items outside of requests, one object after another, and
// reuses its memory.
type ItemReader struct {
	d   decoder
	out []byte
}

var (
	// ErrNotJSON is returned when the input is not exactly one JSON object.
	ErrNotJSON = errSyntax

	// ErrNoItem is returned when an object lacks the member with the item.
	ErrNoItem = errors.New("there is no item")
)

// Member reads the item that is a member of an object, such as {"Item":{…}}.
// It is valid until the next call.
func (r *ItemReader) Member(body []byte, member string) (item.Item, error) {
	d := &r.d
	d.scanner, d.fault, d.maxSet = scanner{body: body}, nil, item.MaxSize
	found := false
	more, err := d.enter('{')
	for more && err == nil {
		var name []byte
		if name, err = d.name(); err != nil {
			break
		}
		if string(name) != member || d.next() != '{' {
			err = d.skip()
		} else {
			found = true
			err = d.attributes(&d.top, 0)
		}
		if err == nil {
			more, err = d.again('{')
		}
	}
	switch {
	case err != nil:
		return nil, err
	case !d.done():
		return nil, ErrNotJSON
	case !found:
		return nil, ErrNoItem
	case d.fault != nil:
		return nil, d.fault
	}
	r.out = d.top.AppendItem(r.out[:0])
	return r.out, nil
}
