package process

import (
	"io/fs"
	"testing"
)

// Other users are all but the owner, and the group of a file of root that another user's process reads.
func TestExposed(t *testing.T) {
	const root, user = 0, 65532
	for _, c := range []struct {
		name           string
		mode           fs.FileMode
		owner, process int
		want           bool
	}{
		{"own file", 0o600, user, user, false},
		{"own file, group reads", 0o640, user, user, true},
		{"own file, all read", 0o604, user, user, true},
		{"file of root and its group, as Kubernetes makes it", 0o440, root, user, false},
		{"file of root, group reads", 0o640, root, user, false},
		{"file of root, group writes", 0o660, root, user, true},
		{"file of root, all read", 0o444, root, user, true},
		{"file of root, process of root", 0o400, root, root, false},
		{"file of root, group reads, process of root", 0o440, root, root, true},
		{"file of another user, group reads", 0o440, 1000, user, true},
	} {
		if got := exposed(c.mode, c.owner, c.process); got != c.want {
			t.Errorf("%s, mode %04o: %v, want %v", c.name, c.mode, got, c.want)
		}
	}
}
