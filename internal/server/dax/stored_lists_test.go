package dax

import (
	"context"
	"net"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/protocol/cbor"
)

// A client writes with the id of a list that it has defined at a server before that was restarted, or
// at another one: the item has the names of the list.
func TestDefinedListsSurviveARestart(t *testing.T) {
	n := newNodeTest(t, false)
	define := func(c *testClient, names ...string) []byte {
		t.Helper()
		args := cbor.AppendArray(nil, len(names))
		for _, name := range names {
			args = cbor.AppendText(args, name)
		}
		codes, message, id := c.call(methodListID, args, 1)
		if codes != nil {
			t.Fatal(message)
		}
		return id
	}
	first := n.dial()
	ab := define(first, "a", "b")

	second := NewNode(n.node.options)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = second.Serve(l) }()
	t.Cleanup(func() { _ = second.Close() })
	n.address = l.Addr().String()
	again := n.dial()
	define(again, "x", "y")
	args := slices.Concat(bytesOf("Orders"), bytesOf("k"), cbor.AppendBytes(nil, append(ab, "\x61A\x61B"...)), cbor.AppendNull(nil))
	if codes, message, _ := again.call(methodPutItem, args, 1); codes != nil {
		t.Fatal(message)
	}
	if got, want := n.http("GetItem", `{"TableName":"Orders","Key":{"id":{"S":"k"}}}`), `{"Item":{"a":{"S":"A"},"b":{"S":"B"},"id":{"S":"k"}}}`; got != want {
		t.Errorf("the item is %s, want %s", got, want)
	}
}

// memoryStore is a listStore in memory.
type memoryStore map[int64][]byte

func (m memoryStore) DAXList(_ context.Context, id int64) ([]byte, error) { return m[id], nil }

func (m memoryStore) ChangeDAXList(_ context.Context, id int64, change func([]byte) ([]byte, error)) error {
	after, err := change(m[id])
	if err != nil {
		return err
	}
	if m[id] = after; len(after) == 0 {
		delete(m, id)
	}
	return nil
}

func (m memoryStore) DAXLists(_ context.Context, each func(int64, []byte)) error {
	for id, value := range m {
		each(id, value)
	}
	return nil
}

func TestStoredLists(t *testing.T) {
	store, now := make(memoryStore), time.Unix(1_700_000_000, 0)
	open := func() *attributeLists { return newAttributeLists(store, func() time.Time { return now }) }
	id, err := open().define(t.Context(), names("a", "b"), "")
	if err != nil || len(store) != 1 {
		t.Fatalf("%d lists are stored: %v", len(store), err)
	}
	t.Run("what is used is kept", func(t *testing.T) {
		now = now.Add(48 * time.Hour)
		a := open()
		for range 2 {
			if found, err := a.find(t.Context(), id); err != nil || !slices.Equal(found, []string{"a", "b"}) {
				t.Errorf("the names are %q, %v", found, err)
			}
		}
		if day, _, _ := decodeList(store[id]); day != a.today() {
			t.Errorf("the list was used on day %d, today is %d", day, a.today())
		}
		if again, err := a.define(t.Context(), names("a", "b"), ""); err != nil || again != id {
			t.Errorf("the id was %d, and is %d: %v", id, again, err)
		}
	})
	t.Run("a list in a reply has the same id", func(t *testing.T) {
		if again, err := open().id(names("a", "b")); err != nil || again != id {
			t.Errorf("%d, want %d: %v", again, id, err)
		}
	})
	t.Run("lists with the same hash", func(t *testing.T) {
		one := func(string) int64 { return id }
		a, b := open(), open()
		a.hash, b.hash = one, one
		other, err := a.define(t.Context(), names("other"), "")
		if err != nil || other == id {
			t.Fatalf("both have the id %d: %v", other, err)
		}
		third, err := b.define(t.Context(), names("third"), "")
		if again, _ := b.define(t.Context(), names("other"), ""); err != nil || again != other || third == other || third == id {
			t.Errorf("the ids are %d, %d and %d, %v", id, again, third, err)
		}
	})
	t.Run("what is damaged", func(t *testing.T) {
		good := store[id]
		for _, value := range []string{"", "\x01", "\x02\x05\x01a", "\x01\x05", "\x01\x05\x02a", "\x01\x05\x01a\x80"} {
			store[id] = []byte(value)
			if found, err := open().find(t.Context(), id); err == nil {
				t.Errorf("%q is read as %q", value, found)
			}
		}
		store[id] = []byte("\x02")
		if again, err := open().define(t.Context(), names("a", "b"), ""); err != nil || again != id || string(store[id]) != string(good) {
			t.Errorf("a damaged list is not replaced: %d %q, %v", again, store[id], err)
		}
	})
}

// Lists that nobody uses do not stay for ever, if there are many.
func TestStoredListsArePruned(t *testing.T) {
	store, now := make(memoryStore), time.Unix(1_700_000_000, 0)
	open := func() *attributeLists {
		a := newAttributeLists(store, func() time.Time { return now })
		a.maxStored = 100 * (listOverhead + 10)
		return a
	}
	ids := make(map[int64]int)
	for i := range 150 {
		if i%10 == 0 {
			now = now.Add(24 * time.Hour)
		}
		id, err := open().define(t.Context(), names("n"+strconv.Itoa(i)), "")
		if err != nil {
			t.Fatal(err)
		}
		ids[id] = i
		if len(store) > 102 {
			t.Fatalf("%d lists are stored", len(store))
		}
	}
	for id, i := range ids {
		if i > 149-40 && store[id] == nil {
			t.Errorf("list %d of 150 is removed", i)
		}
		if i < 40 && store[id] != nil {
			t.Errorf("list %d of 150 is kept", i)
		}
	}
}
