package wire

import (
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/buffer"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/protocol/api"
)

// An item of 1 KB with ten attributes.
var (
	benchedItem = `{"pk":{"S":"customer-000001"},"sk":{"N":"17"},"gk":{"S":"group-000001"},"version":{"N":"41"},` +
		`"name":{"S":"a name of some length"},"open":{"BOOL":true},"price":{"N":"1234.56"},"tags":{"SS":["blue","green","red"]},` +
		`"address":{"M":{"street":{"S":"Long Street 12"},"city":{"S":"Oslo"},"zip":{"S":"0150"}}},"text":{"S":"` + strings.Repeat("lorem ipsum ", 64) + `"}}`
	benchedPut   = []byte(`{"TableName":"plain","Item":` + benchedItem + `}`)
	benchedGet   = []byte(`{"TableName":"plain","Key":{"pk":{"S":"customer-000001"},"sk":{"N":"17"}}}`)
	benchedQuery = []byte(`{"TableName":"plain","KeyConditionExpression":"#p = :p AND sk > :s","ExpressionAttributeNames":{"#p":"pk"},` +
		`"ExpressionAttributeValues":{":p":{"S":"customer-000001"},":s":{"N":"3"}},"Limit":10}`)
)

func BenchmarkDecode(b *testing.B) {
	b.Run("PutItem", func(b *testing.B) { benchmarkDecode[api.PutItem](b, benchedPut) })
	b.Run("GetItem", func(b *testing.B) { benchmarkDecode[api.GetItem](b, benchedGet) })
	b.Run("Query", func(b *testing.B) { benchmarkDecode[api.Query](b, benchedQuery) })
}

func benchmarkDecode[In any](b *testing.B, body []byte) {
	b.ReportAllocs()
	b.SetBytes(int64(len(body)))
	for b.Loop() {
		if err := Decode(body, new(In)); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkAppendReply(b *testing.B) {
	var in api.PutItem
	if err := Decode(benchedPut, &in); err != nil {
		b.Fatal(err)
	}
	it := in.Item.Item
	page := &api.PageReply{Count: 10, ScannedCount: 10}
	for range 10 {
		page.Items = append(page.Items, it)
	}
	for _, c := range []struct {
		name  string
		reply any
	}{
		{"GetItem", &api.GetItemReply{Item: it}},
		{"PutItem", &api.PutItemReply{}},
		{"Query of 10", page},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			var out []byte
			for b.Loop() {
				out = AppendReply(out[:0], c.reply)
			}
			b.SetBytes(int64(len(out)))
		})
	}
}

func BenchmarkAppendItem(b *testing.B) {
	var in api.PutItem
	if err := Decode(benchedPut, &in); err != nil {
		b.Fatal(err)
	}
	it := in.Item.Item
	b.ReportAllocs()
	var out []byte
	for b.Loop() {
		out = AppendItem(out[:0], it)
	}
	b.SetBytes(int64(len(out)))
}

func BenchmarkPage(b *testing.B) {
	var in api.PutItem
	if err := Decode(benchedPut, &in); err != nil {
		b.Fatal(err)
	}
	it := in.Item.Item
	for _, c := range []struct {
		name  string
		items int
		reply api.PageReply
	}{
		{"empty", 0, api.PageReply{Items: []item.Item{}}},
		{"counted", 0, api.PageReply{Count: 10, ScannedCount: 10}},
		{"of 1", 1, api.PageReply{Count: 1, ScannedCount: 1, Items: []item.Item{}}},
		{"of 10", 10, api.PageReply{Count: 10, ScannedCount: 10, Items: []item.Item{}, LastEvaluatedKey: it}},
		{"of 1000 with units", 1000, api.PageReply{
			Count: 1000, ScannedCount: 1000, Items: []item.Item{}, ConsumedCapacity: &api.ConsumedCapacity{TableName: "plain", CapacityUnits: 128},
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			var m buffer.Scratch
			for b.Loop() {
				p := NewPage(&m)
				for range c.items {
					p.Add(it)
				}
				p.Reply(&c.reply)
				m.End()
			}
		})
	}
}
