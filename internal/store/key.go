package store

import "fmt"

// CheckKeys panics when one of keys is no key of an Engine's user.
func CheckKeys(keys ...[]byte) {
	for _, k := range keys {
		if len(k) == 0 {
			panic("store: empty key")
		}
		if k[0] == Reserved {
			panic(fmt.Sprintf("store: key %x begins with the reserved byte", k))
		}
	}
}
