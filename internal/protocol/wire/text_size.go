package wire

import (
	"encoding/base64"

	"github.com/stator-db/stator/internal/data/item"
)

// ItemTextBytes is the length of the text that AppendItem appends. An item's text
// can be much longer than the item: a number of three bytes may have 126 digits.
func ItemTextBytes(it item.Item) int {
	size := len(`{}`)
	for name, v := range it.Names() {
		size += textBytes(name) + len(`"":,`) + valueTextBytes(v)
	}
	if it.Len() > 0 {
		size -= len(`,`)
	}
	return size
}

// valueTextBytes is the length of the text that AppendValue appends.
func valueTextBytes(v item.Value) int {
	size := len(`{"":}`) + len(v.Type().String())
	switch v.Type() {
	case item.S, item.N, item.B:
		return size + scalarTextBytes(v)
	case item.BOOL:
		if v.Bool() {
			return size + len("true")
		}
		return size + len("false")
	case item.NULL:
		return size + len("true")
	case item.M:
		return size + ItemTextBytes(v.Item())
	}
	size += len(`[]`)
	count := 0
	for e := range v.Elements() {
		count++
		if v.Type() == item.L {
			size += valueTextBytes(e)
		} else {
			size += scalarTextBytes(e)
		}
	}
	return size + max(0, count-1)*len(`,`)
}

func scalarTextBytes(v item.Value) int {
	switch v.Type() {
	case item.N:
		var digits [256]byte
		return len(`""`) + len(v.AppendNumberText(digits[:0]))
	case item.B:
		return len(`""`) + base64.StdEncoding.EncodedLen(len(v.Bytes()))
	}
	return len(`""`) + textBytes(v.Bytes())
}

// textBytes is the length of the text that appendText appends.
func textBytes(s []byte) int {
	size := len(s)
	n, _ := clean(s)
	for _, c := range s[n:] {
		switch {
		case c == '"' || c == '\\' || c == '\n' || c == '\r' || c == '\t':
			size++
		case c < ' ':
			size += len(`\u0000`) - 1
		}
	}
	return size
}
