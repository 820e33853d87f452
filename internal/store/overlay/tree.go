package overlay

import (
	"bytes"
	"hash/maphash"
)

// node is a node of an immutable treap: a search tree by key, and a heap by priority, which is
// a hash of the key. An edit copies the nodes from the root to the key, so a root is a view
// that never changes. nil is the empty tree.
type node struct {
	key         []byte
	value       []byte // nil if the key is deleted
	priority    uint64
	left, right *node
}

// nodeBytes is about what a node takes besides its key and value, with the overhead of
// allocation.
const nodeBytes = 112

// bytes is the memory of one node, without its subtrees.
func (n *node) bytes() int64 { return int64(nodeBytes + len(n.key) + len(n.value)) }

// seed is the seed of all priorities, since forks share nodes.
var seed = maphash.MakeSeed()

func newNode(key, value []byte) *node {
	return &node{key: bytes.Clone(key), value: bytes.Clone(value), priority: maphash.Bytes(seed, key)}
}

// find returns the node of a key; nil if there is none.
func (n *node) find(key []byte) *node {
	for n != nil {
		switch c := bytes.Compare(key, n.key); {
		case c < 0:
			n = n.left
		case c > 0:
			n = n.right
		default:
			return n
		}
	}
	return nil
}

// with returns the tree with x, which replaces a node of the same key. A key has one
// priority, so its node cannot be below one of a lower priority.
func (n *node) with(x *node) *node {
	if n == nil {
		return x
	}
	c := bytes.Compare(x.key, n.key)
	if c == 0 {
		return &node{x.key, x.value, x.priority, n.left, n.right}
	}
	if x.priority > n.priority {
		left, right := n.split(x.key)
		return &node{x.key, x.value, x.priority, left, right}
	}
	copied := *n
	if c < 0 {
		copied.left = n.left.with(x)
	} else {
		copied.right = n.right.with(x)
	}
	return &copied
}

// without returns the tree without a key that it has.
func (n *node) without(key []byte) *node {
	c := bytes.Compare(key, n.key)
	if c == 0 {
		return merge(n.left, n.right)
	}
	copied := *n
	if c < 0 {
		copied.left = n.left.without(key)
	} else {
		copied.right = n.right.without(key)
	}
	return &copied
}

// split returns the keys before key, and the others.
func (n *node) split(key []byte) (before, rest *node) {
	if n == nil {
		return nil, nil
	}
	copied := *n
	if bytes.Compare(n.key, key) < 0 {
		copied.right, rest = n.right.split(key)
		return &copied, rest
	}
	before, copied.left = n.left.split(key)
	return before, &copied
}

// merge returns the tree of two, of which all keys of a are before those of b.
func merge(a, b *node) *node {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case a.priority >= b.priority:
		copied := *a
		copied.right = merge(a.right, b)
		return &copied
	}
	copied := *b
	copied.left = merge(a, b.left)
	return &copied
}

// total is the memory of a tree.
func (n *node) total() (size int64) {
	for ; n != nil; n = n.right {
		size += n.bytes() + n.left.total()
	}
	return size
}

// cursor steps through the nodes of [start, end) of a tree, in either direction.
type cursor struct {
	start, end []byte
	reverse    bool
	path       []*node // to be visited, the next one last
}

func newCursor(root *node, start, end []byte, reverse bool) *cursor {
	c := &cursor{start: start, end: end, reverse: reverse}
	c.descend(root)
	return c
}

// descend adds the nodes on the way to the first one of the range that is in a subtree.
func (c *cursor) descend(n *node) {
	for n != nil {
		beforeStart, inEnd := bytes.Compare(n.key, c.start) < 0, bytes.Compare(n.key, c.end) < 0
		switch {
		case beforeStart:
			n = n.right
		case !inEnd:
			n = n.left
		case c.reverse:
			c.path, n = append(c.path, n), n.right
		default:
			c.path, n = append(c.path, n), n.left
		}
	}
}

// node returns the current node; nil after the last.
func (c *cursor) node() *node {
	if len(c.path) == 0 {
		return nil
	}
	return c.path[len(c.path)-1]
}

func (c *cursor) next() {
	n := c.node()
	c.path = c.path[:len(c.path)-1]
	if c.reverse {
		c.descend(n.left)
	} else {
		c.descend(n.right)
	}
}
