package process

import "testing"

// Connections and tables together leave descriptors for other uses.
func TestFilesAreDivided(t *testing.T) {
	for _, c := range []struct {
		max  uint64
		want Files
	}{
		{0, Files{}},
		{40, Files{Tables: 2, Connections: 4, Databases: 1}},
		{64, Files{Tables: 8, Connections: 16, Databases: 1}},
		{1024, Files{Tables: 248, Connections: 496, Databases: 31}},
		{1 << 20, Files{Tables: 990, Connections: 1<<20 - 32 - 1980, Databases: 32767}},
		{1 << 63, Files{}},
	} {
		if got := divideFiles(c.max); got != c.want {
			t.Errorf("%d descriptors are divided into %+v, want %+v", c.max, got, c.want)
		}
	}
}
