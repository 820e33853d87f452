package expr

import (
	"fmt"
	"sync"
	"testing"
)

func TestCacheParsesOnce(t *testing.T) {
	c := NewCache(4)
	first, err := c.ParseCondition(ConditionExpression, "a = :v")
	if err != nil {
		t.Fatal(err)
	}
	if again, _ := c.ParseCondition(ConditionExpression, "a = :v"); again != first {
		t.Error("the text was parsed again")
	}
	if other, _ := c.ParseCondition(FilterExpression, "a = :v"); other == first {
		t.Error("a filter got an expression parsed as a condition")
	}
	if _, err := c.ParseKeyCondition("a = :v"); err != nil {
		t.Error(err)
	}
}

func TestCacheIsBounded(t *testing.T) {
	const size = 4
	c := NewCache(size)
	kept, err := c.ParseProjection("kept")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if _, err := c.ParseProjection(fmt.Sprintf("a%d", i)); err != nil {
			t.Fatal(err)
		}
		if again, _ := c.ParseProjection("kept"); again != kept {
			t.Fatalf("a text in use was evicted after %d others", i)
		}
	}
	if n := c.young.Load().count.Load() + c.old.Load().count.Load(); n > 2*size {
		t.Errorf("%d entries are kept, want at most %d", n, 2*size)
	}
}

func TestCacheHoldsNoFaults(t *testing.T) {
	c := NewCache(4)
	for range 2 {
		_, err := c.ParseUpdate("SET")
		if got, want := message(t, err), `Invalid UpdateExpression: Syntax error; token: "<EOF>", near: "SET"`; got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if n := c.young.Load().count.Load(); n != 0 {
		t.Errorf("%d entries are kept", n)
	}
}

func TestNoCacheParses(t *testing.T) {
	var c *Cache
	if _, err := c.ParseUpdate("REMOVE a"); err != nil {
		t.Error(err)
	}
}

func TestCacheAndBoundConditionsAreShared(t *testing.T) {
	c := NewCache(8)
	it := doc(t, `{"a": {"S": "x"}, "n": {"N": "1"}}`)
	vs := values(t, `{":v": {"S": "x"}}`)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			for j := range 200 {
				text := fmt.Sprintf("#a = :v AND attribute_not_exists(b%d)", (i+j)%20)
				p, err := c.ParseCondition(FilterExpression, text)
				if err != nil {
					t.Error(err)
					return
				}
				cond, err := p.Bind(&Bindings{Names: map[string]string{"#a": "a"}, Values: vs})
				if err != nil || !cond.Holds(it) {
					t.Errorf("%s does not hold: %v", text, err)
					return
				}
			}
		})
	}
	all.Wait()
}
