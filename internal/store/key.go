package store

import "fmt"

// CheckKeys panics if a key is empty or reserved.
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
