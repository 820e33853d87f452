package infer

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/exchange"
)

// sampleText makes a complete sample of a table with the key PK and SK from items in DynamoDB JSON.
func sampleText(t *testing.T, lines ...string) *TableSample {
	t.Helper()
	s := NewReservoir(1)
	for _, line := range lines {
		if err := s.ReadJSON("test", strings.NewReader(`{"Item": `+line+`}`)); err != nil {
			t.Fatal(err)
		}
	}
	sample, err := FromItems("test", s, nil)
	if err != nil {
		t.Fatal(err)
	}
	return sample
}

// deriveText derives a model and parses it.
func deriveText(t *testing.T, samples ...*TableSample) (*Result, string) {
	t.Helper()
	r := From("test", "a test", samples)
	r.AssumePatterns()
	text, err := r.Model()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := model.Parse("test", text); err != nil {
		t.Fatal(err)
	}
	return r, string(text)
}

func keysText(r *Result) string {
	var all []string
	for _, e := range r.Entities {
		text := e.Name + ":"
		for _, k := range e.Keys {
			text += " " + k.Name + "=" + k.Template
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}

func TestKeyTemplates(t *testing.T) {
	repeat := func(n int, format string) (all []string) {
		for i := range n {
			all = append(all, strings.ReplaceAll(format, "%", fmt.Sprintf("%02d", i)))
		}
		return all
	}
	for _, c := range []struct {
		name  string
		items []string
		want  string
	}{
		{"a prefix and an attribute",
			repeat(5, `{"PK": {"S": "CUSTOMER#c%"}, "SK": {"S": "META"}, "customerId": {"S": "c%"}}`),
			"customer: PK=CUSTOMER#{customerId} SK=META"},
		{"a number in a key",
			repeat(5, `{"PK": {"S": "CUSTOMER#1%"}, "SK": {"S": "META"}, "customerId": {"N": "1%"}}`),
			"customer: PK=CUSTOMER#{customerId} SK=META"},
		{"an attribute before a literal",
			repeat(5, `{"PK": {"S": "acme%#ORDER#o%"}, "SK": {"S": "META"}, "tenant": {"S": "acme%"}, "orderId": {"S": "o%"}}`),
			"order: PK={tenant}#ORDER#{orderId} SK=META"},
		{"two entities in one partition",
			slices.Concat(repeat(5, `{"PK": {"S": "C#c%"}, "SK": {"S": "ORDER#1%"}, "total": {"N": "1"}}`), repeat(5, `{"PK": {"S": "C#c%"}, "SK": {"S": "ADDRESS#1%"}, "city": {"S": "Ulm"}}`)),
			"address: PK=C#{c} SK=ADDRESS#{address}; order: PK=C#{c} SK=ORDER#{order}"},
		{"an enumeration as a sort key is one entity",
			slices.Concat(repeat(5, `{"PK": {"S": "A#%"}, "SK": {"S": "EMAIL"}, "on": {"BOOL": true}}`), repeat(5, `{"PK": {"S": "A#%"}, "SK": {"S": "PHONE"}, "on": {"BOOL": true}}`)),
			"a: PK=A#{a}"},
		{"two sort keys with other attributes are two entities",
			slices.Concat(repeat(5, `{"PK": {"S": "A#%"}, "SK": {"S": "EMAIL"}, "on": {"BOOL": true}}`), repeat(5, `{"PK": {"S": "A#%"}, "SK": {"S": "PHONE"}, "to": {"S": "x"}}`)),
			"email: PK=A#{a} SK=EMAIL; phone: PK=A#{a} SK=PHONE"},
		{"an attribute names the entity",
			slices.Concat(repeat(5, `{"PK": {"S": "u%"}, "SK": {"S": "1%"}, "entity": {"S": "Invoice"}, "sum": {"N": "1"}}`), repeat(5, `{"PK": {"S": "u%"}, "SK": {"S": "2%"}, "entity": {"S": "Note"}, "text": {"S": "1"}}`)),
			"invoice:; note:"},
		{"prefixes with a hyphen",
			slices.Concat(repeat(5, `{"PK": {"S": "user_%"}, "SK": {"S": "x%"}, "a": {"N": "1"}}`), repeat(5, `{"PK": {"S": "order_%"}, "SK": {"S": "x%"}, "b": {"N": "1"}}`)),
			"order: PK=order_{order}; user: PK=user_{user}"},
		{"a time in a key",
			repeat(5, `{"PK": {"S": "LOG#2026-01-01T10:00:%Z"}, "SK": {"S": "x#%"}, "at": {"S": "2026-01-01T10:00:%Z"}}`),
			"x: PK=LOG#{at} SK=x#{x}"},
		{"an attribute that equals a prefix by chance",
			repeat(5, `{"PK": {"S": "C#%"}, "SK": {"S": "MEMBER#m%"}, "role": {"S": "MEMBER"}, "user": {"S": "m%"}}`),
			"member: PK=C#{c} SK=MEMBER#{user}"},
		{"an attribute that is a prefix",
			slices.Concat(repeat(5, `{"PK": {"S": "C#%"}, "SK": {"S": "OPEN#1%"}, "status": {"S": "OPEN"}}`), repeat(5, `{"PK": {"S": "C#%"}, "SK": {"S": "PAID#2%"}, "status": {"S": "PAID"}}`)),
			"c: PK=C#{c} SK={status}#{skPart}"},
		{"braces in a key",
			repeat(5, `{"PK": {"S": "{A}#%"}, "SK": {"S": "x%"}}`),
			"test: PK={{A}}#{a}"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, text := deriveText(t, sampleText(t, c.items...))
			if got := keysText(r); got != c.want {
				t.Errorf("the entities are %s, want %s\n%s", got, c.want, text)
			}
		})
	}
}

// The attributes of orders: formats, sizes, an enumeration that decides which items are in an index, shards,
// and the evidence for each of them.
func TestAttributes(t *testing.T) {
	var lines []string
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 400 {
		status, index := "SHIPPED", ""
		if i%10 == 0 {
			status, index = "OPEN", fmt.Sprintf(`, "GSI1PK": {"S": "STATUS#OPEN#%d"}, "GSI1SK": {"S": "2026-01-%02dT10:00:00Z"}`, i/10%4, i%28+1)
		}
		customer := random.IntN(50)
		if i%4 == 0 {
			customer = 7
		}
		lines = append(lines, fmt.Sprintf(`{"PK": {"S": "CUSTOMER#c%02d"}, "SK": {"S": "ORDER#%08x-0000-4000-8000-000000000000"}, "customer": {"S": "c%02d"},
			"status": {"S": %q}, "placedAt": {"S": "2026-01-%02dT10:00:00Z"}, "expires": {"N": "%d"}, "note": {"S": %q},
			"lines": {"L": [{"S": "abcd"}, {"S": "abcd"}]}, "tags": {"SS": ["a", "b", "c"]}, "gift": {"BOOL": true}%s}`,
			customer, i, customer, status, i%28+1, 1767261600+86400*(i%28)+30*86400, strings.Repeat("x", 7+i%5)+fmt.Sprint(100+i), index))
	}
	sample := sampleText(t, lines...)
	sample.Table.TTL = "expires"
	_, text := deriveText(t, sample)
	for _, want := range []string{
		"key: {partition: PK, sort: SK}",
		"# guess: the index GSI1 exists, by the names of its key attributes",
		"  order:  # guess: 400 of 400 sampled items have keys like CUSTOMER#* ORDER#*",
		`PK: "CUSTOMER#{customer}"  # guess: 400 of 400 items have this form`,
		`GSI1PK: {template: "STATUS#{status}#{shard}", when: {status: [OPEN]}}  # guess: 40 of 400 items have it, 40 of them in this form`,
		`GSI1SK: {template: "{placedAt}", when: {status: [OPEN]}}`,
		"customer: {size: 3, distinct: 50, hottest: 0.2",
		"status: {values: [SHIPPED, OPEN], mix: {SHIPPED: 0.9, OPEN: 0.1}}  # guess: in all items; 2 values in 400 items",
		"placedAt: {format: iso8601, distinct: 28}",
		"expires: {type: N, format: epoch-seconds}",
		"note: {size: 12, largest: 18}",
		"lines: {type: L, size: 4, count: 2}",
		"tags: {type: SS, size: 1, count: 3}",
		"gift: {type: BOOL}",
		"order: {format: uuid, stored: false}  # guess: it occurs only within keys",
		"shard: {shards: 4}  # guess: 4 numbers in 40 keys",
		"growth: 14.8/day  # guess: placedAt from 2026-01-01 to 2026-01-28",
		"keep: 30d  # guess: median of expires minus placedAt",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the model lacks %q", want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}

// A partial sample is scaled: the values of a partition key by the share of the items, others by Chao1.
func TestCardinalityOfPartialSample(t *testing.T) {
	var lines []string
	for i := range 1000 {
		lines = append(lines, fmt.Sprintf(`{"PK": {"S": "C#%d"}, "SK": {"S": "O#%d"}, "kindOf": {"S": "k%d"}, "GSI1PK": {"S": "K#k%d"}, "GSI1SK": {"S": "x"}}`, i/10, i, i%200, i%200))
	}
	s := sampleText(t, lines...)
	s.Complete, s.Count = false, 100_000
	r, text := deriveText(t, s)
	e := r.Entities[0]
	if a := e.attribute("c"); e.Count != 100_000 || a == nil || a.Distinct != 10_000 {
		t.Errorf("%d items and the partitions %+v, want 100,000 and 10,000\n%s", e.Count, a, text)
	}
	if a := e.attribute("kindOf"); a == nil || a.Distinct != 200 {
		t.Errorf("the values of kindOf are %+v, want 200", a)
	}
}

func TestFormats(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"0c9e1b52-7d44-4c0e-8a67-91b0f2a4d6c3", "uuid"},
		{"2026-05-16T14:23:00Z", "iso8601"},
		{"2026-05-16T14:23:00.123Z", "iso8601-ms"},
		{"2026-05-16T14", "hour"},
		{"2026-05-16", "date"},
		{"2026-13-16", ""},
		{"2026-W07", "week"},
		{"2026-05", "month"},
		{"01ARZ3NDEKTSV4RRFFQ69G5FAV", "ulid"},
		{"0ujtsYcgvSTl8PAuAdqWYSMnLOv", "ksuid"},
		{"2026-05-16T14:23:00.123456Z", ""},
		{"word", ""},
	} {
		if got := formatOf([]string{c.text}); got != c.want {
			t.Errorf("the format of %s is %q, want %q", c.text, got, c.want)
		}
	}
	if at, ok := timeOf("ulid", "01ARZ3NDEKTSV4RRFFQ69G5FAV"); !ok || at.Format("2006-01-02") != "2016-07-30" {
		t.Errorf("the time of a ULID is %v, %v", at, ok)
	}
	if at, ok := timeOf("ksuid", "0ujtsYcgvSTl8PAuAdqWYSMnLOv"); !ok || at.Format("2006-01-02") != "2017-10-10" {
		t.Errorf("the time of a KSUID is %v, %v", at, ok)
	}
}

// A scan takes a page of each segment in turn and stops at its budget.
func TestBudgetOfUnits(t *testing.T) {
	const items, bytes = 100_000, 400
	read := make(map[int]int) // by segment
	send := func(_ context.Context, operation string, body any) ([]byte, error) {
		request, _ := body.(map[string]any)
		switch operation {
		case "ListTables":
			return []byte(`{"TableNames": ["big"]}`), nil
		case "DescribeTable":
			return fmt.Appendf(nil, `{"Table": {"TableName": "big", "KeySchema": [{"AttributeName": "id", "KeyType": "HASH"}], "AttributeDefinitions": [{"AttributeName": "id", "AttributeType": "S"}],
				"BillingModeSummary": {"BillingMode": "PAY_PER_REQUEST"}, "ItemCount": %d, "TableSizeBytes": %d}}`, items, items*bytes), nil
		case "Scan":
			segment, limit := request["Segment"].(int), int(request["Limit"].(int64))
			var list []string
			for range limit {
				read[segment]++
				list = append(list, fmt.Sprintf(`{"id": {"S": "%d-%d"}, "text": {"S": %q}}`, segment, read[segment], strings.Repeat("x", bytes-20)))
			}
			units := float64((limit*bytes+8191)/8192*2) / 2
			return fmt.Appendf(nil, `{"Items": [%s], "LastEvaluatedKey": {"id": {"S": "1"}}, "ConsumedCapacity": {"CapacityUnits": %v}}`, strings.Join(list, ", "), units), nil
		}
		return []byte("{}"), nil
	}
	samples, err := ReadServer(t.Context(), send, Options{Units: 50})
	if err != nil {
		t.Fatal(err)
	}
	s := samples[0]
	if s.Units > 52 || s.Units < 48 || s.Complete || s.Count != items || len(read) != 50/segmentUnits {
		t.Errorf("%v units, %d items of %d, from %d segments", s.Units, len(s.Items), s.Count, len(read))
	}
	if least, most := slices.Min(values(read)), slices.Max(values(read)); most > 3*least {
		t.Errorf("%d to %d items of each segment", least, most)
	}
}

func values(m map[int]int) (all []int) {
	for _, n := range m {
		all = append(all, n)
	}
	return all
}

// All forms of files are read.
func TestFiles(t *testing.T) {
	for _, c := range []struct {
		name, text string
		items      int64
		fault      string
	}{
		{"lines of an export", `{"Item":{"id":{"S":"1"}}}` + "\n" + `{"Item":{"id":{"S":"2"}}}`, 2, ""},
		{"lines of an incremental export", `{"Keys":{"id":{"S":"1"}},"NewImage":{"id":{"S":"1"}}}` + "\n" + `{"Keys":{"id":{"S":"2"}},"OldImage":{"id":{"S":"2"}}}`, 1, ""},
		{"the reply of a scan", `{"Items": [{"id":{"S":"1"}}, {"id":{"S":"2"}}], "Count": 2}`, 2, ""},
		{"other JSON", `{"id": 1}`, 0, "document 1 has no Item, NewImage or Items: it is not DynamoDB JSON"},
		{"an invalid value", `{"Item":{"id":{"X":"1"}}}`, 0, "document 1"},
		{"no JSON", `Item`, 0, "document 1: invalid character"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := NewReservoir(1)
			err := s.ReadJSON("file", strings.NewReader(c.text))
			if s.Seen != c.items || (err == nil) != (c.fault == "") || err != nil && !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%d items, %v; want %d, %q", s.Seen, err, c.items, c.fault)
			}
		})
	}
}

func TestCSV(t *testing.T) {
	s := NewReservoir(1)
	if err := s.ReadCSV("file", strings.NewReader("orderId,zip,total,note\no1,01234,12.5,\no2,11234,7,x\n")); err != nil {
		t.Fatal(err)
	}
	sample, err := FromItems("my orders", s, nil)
	if err != nil {
		t.Fatal(err)
	}
	_, text := deriveText(t, sample)
	for _, want := range []string{"  my-orders:\n", "guess: the key is orderId", "key: {partition: orderId}", "  my-order:  # guess", "zip: {format: sequence, size: 5}",
		"total: {type: N, digits: 3}", "note: {size: 1}  # guess: 1 of 2 items have it"} {
		if !strings.Contains(text, want) {
			t.Errorf("the model lacks %q:\n%s", want, text)
		}
	}
}

// A sample keeps its bound, and any item of a long stream may be in it.
func TestReservoir(t *testing.T) {
	s := NewReservoir(1)
	early := item.Make(map[string]item.Value{"id": item.String("early")})
	late := item.Make(map[string]item.Value{"id": item.String("late")})
	for _, it := range []item.Item{early, late} {
		for range maxItems {
			s.Add(it)
		}
	}
	n := 0
	for _, x := range s.Items {
		if x.Equal(late) {
			n++
		}
	}
	if len(s.Items) != maxItems || s.Seen != 2*maxItems || n < maxItems*9/20 || n > maxItems*11/20 {
		t.Errorf("%d items, %d of the later half, want %d", len(s.Items), n, maxItems/2)
	}
}

// An empty table and a result without any item give models that parse.
func TestEmptyTable(t *testing.T) {
	empty := &exchange.Table{}
	empty.Name, empty.Key, empty.Billing = "empty", &model.Key{Partition: "id"}, "on-demand"
	r, text := deriveText(t, &TableSample{Table: empty, Complete: true})
	if !strings.Contains(text, "entities: {}") {
		t.Errorf("the model is\n%s", text)
	}
	if _, err := json.Marshal(r); err != nil {
		t.Error(err)
	}
}

// No item makes the text invalid, whatever the names and values are.
func FuzzItems(f *testing.F) {
	f.Add("PK", "USER#{x}", "name", "a: b # c")
	f.Add("P K", "{}", "_", "\x00")
	f.Add("on", "yes#no", "true", "- 1")
	f.Add("PK", "x", "name", "")
	f.Fuzz(func(t *testing.T, key, value, name, text string) {
		lines := make([]map[string]any, 0, 6)
		for i := range 6 {
			lines = append(lines, map[string]any{key: map[string]any{"S": value + fmt.Sprint(i)}, name: map[string]any{"S": text}})
		}
		s := NewReservoir(1)
		for _, line := range lines {
			encoded, err := json.Marshal(map[string]any{"Item": line})
			if err != nil || s.ReadJSON("fuzz", strings.NewReader(string(encoded))) != nil {
				return
			}
		}
		sample, err := FromItems("fuzz", s, []string{key})
		if err != nil || key == "_" || key == "" || len(key) > 255 {
			return
		}
		r := From("fuzz", "fuzz", []*TableSample{sample})
		r.AssumePatterns()
		if _, err := r.Model(); err != nil {
			t.Error(err)
		}
	})
}

// An attribute of an index's key may have another type in most items, which are not in the index.
func TestIndexKeyOfAnotherType(t *testing.T) {
	var lines []string
	for i := range 10 {
		lines = append(lines, fmt.Sprintf(`{"PK": {"S": "C#%d"}, "SK": {"S": "X"}, "score": {"S": "none"}, "rank": {"S": "none"}}`, i))
	}
	lines = append(lines, `{"PK": {"S": "C#a"}, "SK": {"S": "X"}, "score": {"N": "12"}, "rank": {"S": "first"}}`)
	s := sampleText(t, lines...)
	for _, name := range []string{"score", "rank"} {
		s.Table.Types = append(s.Table.Types, &model.KeyType{Name: name, Type: "N"})
		s.Table.Indexes = append(s.Table.Indexes, &model.Index{Name: "by-" + name, Partition: model.Names{name}, Projection: model.Projection{Kind: "ALL"}})
	}
	_, text := deriveText(t, s)
	if !strings.Contains(text, "score: {type: N, digits: 2}  # guess: 1 of 11 items have it") || strings.Contains(text, "      rank:") {
		t.Errorf("the model is\n%s", text)
	}
}

// Items with attributes of type NULL, which most mappers write, make a valid model.
func TestInferNull(t *testing.T) {
	var lines []string
	for i := range 30 {
		lines = append(lines, fmt.Sprintf(`{"PK": {"S": "U#%d"}, "SK": {"S": "U"}, "nothing": {"NULL": true}}`, i))
	}
	r, text := deriveText(t, sampleText(t, lines...))
	if a := r.Entities[0].attribute("nothing"); a == nil || a.Type != "NULL" {
		t.Errorf("nothing is %+v, want the type NULL in\n%s", a, text)
	}
}

// Punctuation in free text does not separate the parts of a key.
func TestTitlesAreNotSplit(t *testing.T) {
	for text, want := range map[string]int{
		"X-Men: First Class":     1,
		"Salt & Pepper":          1,
		"Face/Off":               2, // it cannot be known
		"NAME#John & Jane":       2,
		"ORDER#1:LINE#2":         4,
		"CITY#New York#a street": 3,
		" #a":                    1,
		"#":                      2,
	} {
		if got := tokensOf(text, false); len(got) != want {
			t.Errorf("%q has the parts %q, want %d", text, got, want)
		}
	}
	for name, want := range map[string]string{"movies": "movie", "movie": "movie", "my-movies": "my-movie", "series": "series", "tv-series": "tv-series", "cities": "city", "orders": "order", "species": "species"} {
		if got := singular(name); got != want {
			t.Errorf("the singular of %s is %s, want %s", name, got, want)
		}
	}
}
