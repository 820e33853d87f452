package inject

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
)

// Request is a request as far as rules look at it.
type Request struct {
	Operation string
	Tables    []string // in order
	Index     string   // of a query or scan

	Keys []map[string]string // of the items that it names, as the text of each attribute

	// Parameters is more that tells requests apart, such as the values of a query; it may
	// be nil.
	Parameters []byte

	Parts     int  // of a batch or transaction; 0 otherwise
	Transacts bool // it is a transaction

	Consistent bool // it is a strongly consistent read
	Global     bool // Index is a global index
}

// id returns the hash of what identifies a request.
func (r *Request) id(identity string) uint64 {
	h := fnv.New64a()
	part := func(kind byte, text string) { fmt.Fprintf(h, "%c%d:%s", kind, len(text), text) }
	part('o', r.Operation)
	for _, t := range r.Tables {
		part('t', t)
	}
	if identity == IdentityOperation {
		return h.Sum64()
	}
	part('i', r.Index)
	for _, key := range r.Keys {
		for _, name := range sortedNames(key) {
			part('n', name)
			part('v', key[name])
		}
	}
	if r.Parameters != nil {
		part('p', string(r.Parameters))
	}
	return h.Sum64()
}

func sortedNames(key map[string]string) []string {
	names := make([]string, 0, len(key))
	for name := range key {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// key returns the key of a request to one item as text; empty for others.
func (r *Request) key() string {
	if len(r.Keys) != 1 {
		return ""
	}
	var parts []string
	for _, name := range sortedNames(r.Keys[0]) {
		parts = append(parts, name+"="+r.Keys[0][name])
	}
	return strings.Join(parts, " ")
}

// hasKey reports whether a request names an item with these attributes in its key.
func (r *Request) hasKey(want map[string]string) bool {
	return slices.ContainsFunc(r.Keys, func(key map[string]string) bool {
		for name, value := range want {
			if got, ok := key[name]; !ok || got != value {
				return false
			}
		}
		return true
	})
}

// idText is an id as rules and the log have it.
func idText(id uint64) string { return fmt.Sprintf("%016x", id) }

// mix returns a number that depends on all of its arguments, and looks random.
func mix(seed uint64, parts ...uint64) uint64 {
	x := scramble(seed)
	for _, p := range parts {
		x = scramble(x ^ scramble(p))
	}
	return x
}

// scramble is the finalizer of SplitMix64.
func scramble(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// fraction returns a number from 0, inclusive, to 1, exclusive.
func fraction(x uint64) float64 { return float64(x>>11) / (1 << 53) }
