package expr

import (
	"testing"

	"github.com/stator-db/stator/internal/data/item"
)

const benched = `{"pk": {"S": "user#1"}, "sk": {"S": "order#2024-01-01"}, "status": {"S": "open"}, "amount": {"N": "12.5"},
	"tags": {"SS": ["a", "b"]}, "address": {"M": {"city": {"S": "Oslo"}, "zip": {"S": "0150"}}}}`

var (
	benchedNames  = map[string]string{"#a": "status", "#b": "sk"}
	benchedValues = `{":v": {"S": "open"}, ":p": {"S": "order#"}, ":n": {"N": "10"}}`
)

// Each text is taken from a warm cache and bound, as in every request.
func BenchmarkParseAndBind(b *testing.B) {
	vs := values(b, benchedValues)
	for name, text := range map[string]string{
		"not_exists":  "attribute_not_exists(pk)",
		"two":         "#a = :v AND begins_with(#b, :p)",
		"nested_path": "address.city = :v OR amount > :n",
	} {
		b.Run(name, func(b *testing.B) {
			cache := NewCache(16)
			b.ReportAllocs()
			for b.Loop() {
				p, err := cache.ParseCondition(ConditionExpression, text)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := p.Bind(&Bindings{Names: benchedNames, Values: vs}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("update", func(b *testing.B) {
		cache := NewCache(16)
		b.ReportAllocs()
		for b.Loop() {
			p, err := cache.ParseUpdate("SET #a = :v, amount = amount + :n REMOVE #b")
			if err != nil {
				b.Fatal(err)
			}
			if _, err := p.Bind(&Bindings{Names: benchedNames, Values: vs}); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkParse(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseCondition(FilterExpression, "#a = :v AND begins_with(#b, :p)"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkHolds(b *testing.B) {
	it := doc(b, benched)
	for name, text := range map[string]string{
		"not_exists": "attribute_not_exists(pk)",
		"two":        "#a = :v AND begins_with(#b, :p)",
		"number":     "amount > :n",
		"in":         "#a IN (:p, :v)",
		"contains":   "contains(tags, :v)",
		"nested":     "address.city <> :v",
		"size":       "size(tags) < :n",
	} {
		b.Run(name, func(b *testing.B) {
			p, err := ParseCondition(ConditionExpression, text)
			if err != nil {
				b.Fatal(err)
			}
			c, err := p.Bind(&Bindings{Names: benchedNames, Values: values(b, benchedValues)})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				c.Holds(it)
			}
		})
	}
}

func BenchmarkApply(b *testing.B) {
	it := doc(b, benched)
	for name, text := range map[string]string{
		"counter": "SET amount = amount + :n",
		"replace": "SET #a = :v",
		"nested":  "SET address.city = :v REMOVE #b",
	} {
		b.Run(name, func(b *testing.B) {
			p, err := ParseUpdate(text)
			if err != nil {
				b.Fatal(err)
			}
			u, err := p.Bind(&Bindings{Names: benchedNames, Values: values(b, benchedValues)})
			if err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			var after item.Item
			for b.Loop() {
				if after, err = u.Apply(it); err != nil {
					b.Fatal(err)
				}
			}
			_ = after
		})
	}
}
