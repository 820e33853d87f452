// Package capacity turns sizes into read and write units.
//
// The server and the model estimates both use it.
package capacity

import "math"

// The bytes that one unit reads or writes.
const (
	readBytes  = 4096
	writeBytes = 1024
)

// Write is the cost of writing an item of this size.
func Write(sizeBytes int) float64 { return units(sizeBytes, writeBytes) }

// Read is the cost of reading this many bytes. An eventually consistent read
// costs half.
func Read(sizeBytes int, consistent bool) float64 {
	if consistent {
		return units(sizeBytes, readBytes)
	}
	return units(sizeBytes, readBytes) / 2
}

// ReadableBytes is how many bytes a read has that costs this many units, or the
// least that a read costs.
func ReadableBytes(units float64, consistent bool) int {
	if !consistent {
		units *= 2
	}
	return int(math.Ceil(min(max(units, 1), 1<<30))) * readBytes
}

func units(size, per int) float64 { return float64(max(1, (size+per-1)/per)) }

// Consumed is what a request has cost, by table and index.
type Consumed struct {
	Table   float64
	Indexes []IndexUnits
}

// IndexUnits is what a request has cost on one index.
type IndexUnits struct {
	Name   string
	Global bool
	Units  float64
}

// Total is the sum of all.
func (c Consumed) Total() float64 {
	sum := c.Table
	for _, x := range c.Indexes {
		sum += x.Units
	}
	return sum
}

// Transactional is the cost of the same request inside a transaction: twice
// as much on the table, the same on the indexes.
func (c Consumed) Transactional() Consumed {
	c.Table *= 2
	return c
}

// Charge adds units to one index.
func (c *Consumed) Charge(name string, global bool, units float64) {
	for i := range c.Indexes {
		if c.Indexes[i].Name == name {
			c.Indexes[i].Units += units
			return
		}
	}
	c.Indexes = append(c.Indexes, IndexUnits{name, global, units})
}

// Add adds what another part of the request has cost.
func (c *Consumed) Add(more Consumed) {
	c.Table += more.Table
	for _, x := range more.Indexes {
		c.Charge(x.Name, x.Global, x.Units)
	}
}
