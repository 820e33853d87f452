package item

import (
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// An item behaves as a map of its attributes does.
func TestItemIsAMap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var it Item
		model := make(map[string]Value)
		if rapid.Bool().Draw(t, "not empty") {
			model = randomAttributes(t, 2)
			it = Make(model)
		}
		for range rapid.IntRange(0, 10).Draw(t, "edits") {
			name := randomName(t)
			if rapid.Bool().Draw(t, "with") {
				v := randomValue(t, 1)
				it = it.With(name, v)
				model[name] = v
			} else {
				it = it.Without(name)
				delete(model, name)
			}
		}
		agree(t, it, model)
	})
}

func agree(t *rapid.T, it Item, model map[string]Value) {
	if it.Len() != len(model) {
		t.Errorf("the item has %d attributes, want %d", it.Len(), len(model))
	}
	for _, name := range append(slices.Collect(maps.Keys(model)), randomName(t)) {
		want, has := model[name]
		if got, ok := it.Get(name); ok != has || !Equal(got, want) {
			t.Errorf("Get(%q) = %v, %v, want %v, %v", name, got, ok, want, has)
		}
	}
	var names []string
	for name, v := range it.All() {
		names = append(names, name)
		if !Equal(v, model[name]) {
			t.Errorf("All has %q as %v, want %v", name, v, model[name])
		}
	}
	if want := slices.Sorted(maps.Keys(model)); !slices.Equal(names, want) {
		t.Errorf("All has the names %q, want %q", names, want)
	}
	i := 0
	for name, v := range it.Names() {
		if string(name) != names[i] || !Equal(v, model[names[i]]) {
			t.Errorf("Names has %q as %v, want %q as %v", name, v, names[i], model[names[i]])
		}
		i++
	}
	if it != nil && !it.Equal(Make(model)) {
		t.Errorf("the item is %x, made at once it is %x", []byte(it), []byte(Make(model)))
	}
}

// A loop over an item may end early.
func TestItemLoopsEnd(t *testing.T) {
	it := Make(map[string]Value{"a": Null(), "b": Null()})
	for name := range it.All() {
		if name == "a" {
			break
		}
		t.Errorf("All continued to %s", name)
	}
	for name := range it.Names() {
		if string(name) == "a" {
			break
		}
		t.Errorf("Names continued to %s", name)
	}
	for range Set(SS, String("a"), String("b")).Elements() {
		break
	}
}

func TestItemEqual(t *testing.T) {
	one := Make(map[string]Value{"a": Null()})
	for _, c := range []struct {
		name string
		a, b Item
		want bool
	}{
		{"an absent item equals an absent one", nil, nil, true},
		{"an absent item is not an empty one", nil, Make(nil), false},
		{"an empty item equals an empty one", Make(nil), one.Without("a"), true},
		{"an item equals itself", one, one.With("a", Null()), true},
		{"a value makes a difference", one, one.With("a", Bool(true)), false},
		{"a name makes a difference", one, Make(map[string]Value{"b": Null()}), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := c.a.Equal(c.b); got != c.want {
				t.Errorf("Equal is %v", got)
			}
		})
	}
}

// An edit changes neither the item nor the value that it is given.
func TestEditsCopy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		it := Make(randomAttributes(t, 2))
		before := slices.Clone(it)
		name := randomName(t)
		it.With(name, randomValue(t, 1))
		it.Without(name)
		it.Set(Path{{Name: name}, {Name: "a"}}, Null())
		it.Remove(Path{{Name: name}, {Index: 0, IsIndex: true}})
		if !slices.Equal(it, before) {
			t.Errorf("the item was %x and is %x", []byte(before), []byte(it))
		}
	})
}

// Values are equal when their parts are, in whatever order they were given.
func TestFormIsCanonical(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := randomValue(t, 3)
		shuffled := shuffle(v, rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0)))
		if !Equal(v, shuffled) {
			t.Errorf("%v is %x, in another order it is %x", v, []byte(v), []byte(shuffled))
		}
		other := randomValue(t, 1)
		if Equal(v, other) != reflect.DeepEqual(parts(v), parts(other)) {
			t.Errorf("%v and %v: Equal is %v", v, other, Equal(v, other))
		}
	})
}

// parts is a value as Go values that can be compared without its form.
func parts(v Value) any {
	switch v.Type() {
	case S, N:
		return v.String()
	case BOOL:
		return v.Bool()
	case NULL:
		return nil
	case M:
		m := make(map[string]any)
		for name, e := range v.Item().All() {
			m[name] = parts(e)
		}
		return m
	case L:
		list := []any{}
		for e := range v.Elements() {
			list = append(list, parts(e))
		}
		return list
	case B:
		return [2]string{"B", string(v.Bytes())}
	}
	set := map[any]bool{v.Type(): true}
	for e := range v.Elements() {
		set[parts(e)] = true
	}
	return set
}

// shuffle rebuilds a value from its parts in another order, with duplicates.
func shuffle(v Value, r *rand.Rand) Value {
	switch v.Type() {
	case M:
		var entries []Step
		for name := range v.Item().All() {
			entries = append(entries, Step{Name: name})
		}
		r.Shuffle(len(entries), func(i, j int) { entries[i], entries[j] = entries[j], entries[i] })
		var b Builder
		for _, e := range entries {
			b.Add([]byte(e.Name), Null()) // the later wins
		}
		for _, e := range entries {
			inner, _ := v.Item().Get(e.Name)
			b.Add([]byte(e.Name), shuffle(inner, r))
		}
		return Value(b.AppendMap(nil))
	case L:
		var elements []Value
		for e := range v.Elements() {
			elements = append(elements, shuffle(e, r))
		}
		return List(elements...)
	case SS, NS, BS:
		members := slices.Collect(v.Elements())
		members = append(members, members...)
		r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
		return Set(v.Type(), members...)
	}
	return rebuilt(v)
}

func TestBuilder(t *testing.T) {
	var b Builder
	b.Add([]byte("b"), String("first"))
	b.Add([]byte("a"), Null())
	b.Add([]byte("b"), String("second"))
	if err := b.Append([]byte("b"), func(dst []byte) ([]byte, error) { return AppendText(dst, S, "third"), nil }); err != nil {
		t.Fatal(err)
	}
	want := Make(map[string]Value{"a": Null(), "b": String("third")})
	if got := b.Item(); !got.Equal(want) {
		t.Errorf("of three with one name the item has %v, want the last", Map(got))
	}
	if got := b.AppendMap([]byte("x")); string(got) != "x"+string(Map(want)) {
		t.Errorf("AppendMap makes %x, want %x", got, []byte(Map(want)))
	}
	b.Add([]byte("a"), Bool(true))
	if got := b.Item(); !got.Equal(want.With("a", Bool(true))) {
		t.Errorf("an attribute added after Item makes %v", Map(got))
	}
	b.Reset()
	if got := b.Item(); !got.Equal(Make(nil)) {
		t.Errorf("after Reset the item is %v", Map(got))
	}
}

func TestValueText(t *testing.T) {
	for _, c := range []struct {
		want string
		in   Value
	}{
		{"{S:abc}", String("abc")},
		{"{N:1.5}", Num(mustParse(t, "1.50"))},
		{"{B:ab}", Binary([]byte("ab"))},
		{"{BOOL:true}", Bool(true)},
		{"{NULL:true}", Null()},
		{"{SS:[a, b]}", Set(SS, String("b"), String("a"))},
		{"{SS:[, a]}", Set(SS, String(""), String("a"))},
		{"{NS:[-1, 2]}", Set(NS, Num(mustParse(t, "2")), Num(mustParse(t, "-1")))},
		{"{L:[{S:a}, {L:[]}]}", List(String("a"), List())},
		{"{M:{a={N:1}, b={M:{}}}}", Map(Make(map[string]Value{"b": Map(nil), "a": Num(mustParse(t, "1"))}))},
	} {
		if got := c.in.String(); got != c.want {
			t.Errorf("the text is %s, want %s", got, c.want)
		}
	}
}

func TestTypeNames(t *testing.T) {
	for of := S; of <= M; of++ {
		if got, ok := TypeNamed(of.String()); !ok || got != of {
			t.Errorf("the type named %s is %v, %v", of, got, ok)
		}
		if of.IsSet() != (of == SS || of == NS || of == BS) {
			t.Errorf("%s.IsSet() = %v", of, of.IsSet())
		}
	}
	for _, name := range []string{"", "s", "X", "Type(0)"} {
		if got, ok := TypeNamed(name); ok {
			t.Errorf("the type named %q is %v", name, got)
		}
	}
	if got := Type(77).String(); got != "Type(77)" {
		t.Errorf("an unknown type is named %s", got)
	}
	for set, member := range map[Type]Type{SS: S, NS: N, BS: B} {
		if set.Member() != member {
			t.Errorf("a member of %s is %s", set, set.Member())
		}
	}
}

// A set with members of another type is a bug of ours, not an error of a
// customer.
func TestSetPanicsOnOtherMembers(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("a string set of numbers was made")
		}
	}()
	Set(SS, Num(mustParse(t, "1")))
}

func TestIndex(t *testing.T) {
	l := List(String("a"), String("b"))
	for i, want := range []string{"{S:a}", "{S:b}"} {
		if got, ok := l.Index(i); !ok || got.String() != want {
			t.Errorf("element %d is %v, %v", i, got, ok)
		}
	}
	for _, i := range []int{-1, 2, 1 << 40} {
		if got, ok := l.Index(i); ok {
			t.Errorf("element %d is %v", i, got)
		}
	}
}

// Merging attributes gives the same item as adding them one by one.
func TestMerge(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		it := Make(rapid.MapOfN(rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}), rapid.Just(Bool(true)), 0, 5).Draw(t, "item"))
		puts := rapid.MapOfN(rapid.SampledFrom([]string{"", "a", "bb", "c", "e", "f"}), rapid.Just(String("put")), 0, 6).Draw(t, "puts")
		names := slices.Sorted(maps.Keys(puts))
		want := it
		for _, name := range names {
			want = want.With(name, puts[name])
		}
		got := it.Merge(len(names), func(i int) (string, Value) { return names[i], puts[names[i]] })
		if !got.Equal(want) || Check(got) != nil {
			t.Errorf("%v with %v is %v, want %v", Map(it), names, Map(got), Map(want))
		}
	})
}
