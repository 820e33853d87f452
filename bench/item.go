package main

import (
	"math/rand/v2"
	"strconv"
)

// All items have the same ten attributes and a size of 1,024 bytes as DynamoDB
// counts it. Item i is in partition i/10, so a query of a partition returns ten
// items. A partition of the global index has ten items that are far apart in the
// table.
const (
	itemBytes     = 1024
	perPartition  = 10
	tableItems    = "stator-bench-items"
	tableIndexed  = "stator-bench-indexed"
	indexName     = "by-shop"
	titleLen      = 40
	noteLen       = 200
	bodyLen       = 708
	textLen       = titleLen + noteLen + bodyLen
	textPoolBytes = 1 << 20
)

// A dataset generates items. It is read-only and shared by all connections.
type dataset struct {
	items int    // number of items
	zipf  *zipf  // the skewed choice of items
	text  []byte // source of the items' texts; random, so that it does not compress
}

func newDataset(items int, seed uint64) *dataset {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 -"
	r := rand.New(rand.NewPCG(seed, 0))
	c := &dataset{items: items, zipf: newZipf(items), text: make([]byte, textPoolBytes)}
	for i := range c.text {
		c.text[i] = letters[r.IntN(len(letters))]
	}
	return c
}

// cut returns the text of an item, different for each salt.
func (c *dataset) cut(salt uint64) []byte {
	at := salt * 0x9e3779b97f4a7c15 >> 32 % (textPoolBytes - textLen)
	return c.text[at : at+textLen]
}

// appendItem appends item i with the text of a salt.
func (c *dataset) appendItem(b []byte, i int, salt uint64) []byte {
	text := c.cut(salt)
	b = append(b, `{"pk":{"S":"`...)
	b = appendPartition(b, i/perPartition)
	b = append(b, `"},"sk":{"S":"`...)
	b = appendSort(b, i%perPartition)
	b = append(b, `"},"shop":{"S":"`...)
	b = appendShop(b, i%c.shops())
	b = append(b, `"},"placed":{"N":"`...)
	b = strconv.AppendInt(b, 1_700_000_001+int64(i)*10, 10)
	b = append(b, `"},"hits":{"N":"1"},"price":{"N":"19.99"},"paid":{"BOOL":true},"title":{"S":"`...)
	b = append(b, text[:titleLen]...)
	b = append(b, `"},"note":{"S":"`...)
	b = append(b, text[titleLen:titleLen+noteLen]...)
	b = append(b, `"},"body":{"S":"`...)
	b = append(b, text[titleLen+noteLen:]...)
	return append(b, `"}}`...)
}

// appendKey appends the key of item i.
func appendKey(b []byte, i int) []byte {
	b = append(b, `{"pk":{"S":"`...)
	b = appendPartition(b, i/perPartition)
	b = append(b, `"},"sk":{"S":"`...)
	b = appendSort(b, i%perPartition)
	return append(b, `"}}`...)
}

// shops returns the number of partitions of the index.
func (c *dataset) shops() int { return max(1, c.items/perPartition) }

func appendPartition(b []byte, p int) []byte { return appendDigits(append(b, 'p'), p, 9) }

func appendSort(b []byte, s int) []byte { return appendDigits(append(b, 's'), s, 3) }

func appendShop(b []byte, s int) []byte { return appendDigits(append(b, 'g'), s, 9) }

// appendDigits appends n with leading zeros.
func appendDigits(b []byte, n, width int) []byte {
	b = append(b, "0000000000"[:width]...)
	for at := len(b) - 1; n > 0; at, n = at-1, n/10 {
		b[at] = byte('0' + n%10)
	}
	return b
}
