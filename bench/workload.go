package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
)

// A workload is one kind of request, sent repeatedly.
type workload struct {
	name    string
	about   string
	indexed bool // it uses the table with the index
	compose func(g *generator)
}

// workloads are in the order of the report. Writes replace existing items, so
// that the size of a table does not change between rounds.
var workloads = []workload{
	{"put", "PutItem that replaces an item", false, (*generator).put},
	{"get", "GetItem of uniformly chosen items", false, func(g *generator) { g.get(g.uniform()) }},
	{"get-zipf", "GetItem of Zipf-distributed items", false, func(g *generator) { g.get(g.zipf.item(g.rand)) }},
	{"update", "UpdateItem that adds to a number under a condition that holds", false, (*generator).update},
	{"query", "Query of a partition of ten items", false, (*generator).query},
	{"query-gsi", "Query of ten items of a global index that projects all", true, (*generator).queryIndex},
	{"batch", "BatchWriteItem of 25 puts", false, (*generator).batch},
	{"transact", "TransactWriteItems of two puts and two conditional updates", false, (*generator).transact},
	{"scan", "Scan of the table in pages of 1 MB, a segment for each connection", false, (*generator).scan},
	{"mix", "GetItem or PutItem, with equal probability", false, (*generator).mix},
}

func workloadNamed(name string) (*workload, error) {
	for i := range workloads {
		if workloads[i].name == name {
			return &workloads[i], nil
		}
	}
	var names []string
	for _, w := range workloads {
		names = append(names, w.name)
	}
	return nil, fmt.Errorf("there is no workload %q; the workloads are %v", name, names)
}

// A generator composes requests for one connection.
type generator struct {
	*dataset
	rand        *rand.Rand
	connection  int
	connections int

	operation string
	body      []byte
	check     func(g *generator, reply []byte) (items int, err error)
	least     int    // bytes of an item in a reply
	after     []byte // ExclusiveStartKey of the next page; empty for the first
}

func newGenerator(c *dataset, j job, connection int) *generator {
	return &generator{
		dataset:     c,
		rand:        rand.New(rand.NewPCG(j.Seed, uint64(connection))),
		connection:  connection,
		connections: j.Connections,
		least:       itemBytes,
	}
}

func (g *generator) uniform() int { return g.rand.IntN(g.items) }

func (g *generator) begin(operation string, check func(*generator, []byte) (int, error)) {
	g.operation, g.check = operation, check
	g.body = g.body[:0]
}

func (g *generator) add(text string) { g.body = append(g.body, text...) }

func (g *generator) put() {
	g.begin("PutItem", wroteOne)
	g.add(`{"TableName":"` + tableItems + `","Item":`)
	g.body = g.appendItem(g.body, g.uniform(), g.rand.Uint64())
	g.add(`}`)
}

func (g *generator) get(i int) {
	g.begin("GetItem", readOne)
	g.add(`{"TableName":"` + tableItems + `","Key":`)
	g.body = appendKey(g.body, i)
	g.add(`}`)
}

func (g *generator) mix() {
	if g.rand.IntN(2) == 0 {
		g.put()
	} else {
		g.get(g.uniform())
	}
}

const hit = `,"UpdateExpression":"SET hits = hits + :one","ConditionExpression":"attribute_exists(pk) AND hits >= :one",` +
	`"ExpressionAttributeValues":{":one":{"N":"1"}}}`

func (g *generator) update() {
	g.begin("UpdateItem", wroteOne)
	g.add(`{"TableName":"` + tableItems + `","Key":`)
	g.body = appendKey(g.body, g.uniform())
	g.add(hit)
}

func (g *generator) query() {
	g.begin("Query", readTen)
	g.add(`{"TableName":"` + tableItems + `","KeyConditionExpression":"pk = :p","ExpressionAttributeValues":{":p":{"S":"`)
	g.body = appendPartition(g.body, g.uniform()/perPartition)
	g.add(`"}}}`)
}

func (g *generator) queryIndex() {
	g.begin("Query", readTen)
	g.add(`{"TableName":"` + tableIndexed + `","IndexName":"` + indexName + `",` +
		`"KeyConditionExpression":"shop = :s","ExpressionAttributeValues":{":s":{"S":"`)
	g.body = appendShop(g.body, g.rand.IntN(g.shops()))
	g.add(`"}}}`)
}

const perBatch = 25

// batch puts items that are far apart in the table.
func (g *generator) batch() {
	g.beginBatch(tableItems)
	apart := g.items / perBatch
	first := g.rand.IntN(apart)
	for n := range perBatch {
		g.addPut(n, first+n*apart, g.rand.Uint64())
	}
	g.add(`]}}`)
}

// load puts the items [from, to).
func (g *generator) load(table string, from, to int) {
	g.beginBatch(table)
	for i := from; i < to; i++ {
		g.addPut(i-from, i, uint64(i))
	}
	g.add(`]}}`)
}

func (g *generator) beginBatch(table string) {
	g.begin("BatchWriteItem", wroteBatch)
	g.add(`{"RequestItems":{"` + table + `":[`)
}

func (g *generator) addPut(n, i int, salt uint64) {
	if n > 0 {
		g.add(`,`)
	}
	g.add(`{"PutRequest":{"Item":`)
	g.body = g.appendItem(g.body, i, salt)
	g.add(`}}`)
}

const perTransaction = 4

// transact writes items that no other connection's transactions touch, so that
// conflicts are not measured.
func (g *generator) transact() {
	g.begin("TransactWriteItems", wroteFour)
	g.add(`{"TransactItems":[`)
	for n, i := range g.own() {
		if n > 0 {
			g.add(`,`)
		}
		if n%2 == 0 {
			g.add(`{"Put":{"TableName":"` + tableItems + `","Item":`)
			g.body = g.appendItem(g.body, i, g.rand.Uint64())
			g.add(`}}`)
		} else {
			g.add(`{"Update":{"TableName":"` + tableItems + `","Key":`)
			g.body = appendKey(g.body, i)
			g.add(hit + `}`)
		}
	}
	g.add(`]}`)
}

// own chooses four items, one in each quarter of the table, whose number modulo
// the number of connections is the connection's number.
func (g *generator) own() [perTransaction]int {
	rows := g.items / g.connections / perTransaction
	first := g.rand.IntN(rows)*g.connections + g.connection
	var own [perTransaction]int
	for n := range own {
		own[n] = first + n*rows*g.connections
	}
	return own
}

func (g *generator) scan() {
	g.begin("Scan", readPage)
	g.add(`{"TableName":"` + tableItems + `","Segment":`)
	g.body = strconv.AppendInt(g.body, int64(g.connection), 10)
	g.add(`,"TotalSegments":`)
	g.body = strconv.AppendInt(g.body, int64(g.connections), 10)
	if len(g.after) > 0 {
		g.add(`,"ExclusiveStartKey":`)
		g.body = append(g.body, g.after...)
	}
	g.add(`}`)
}

func wroteOne(*generator, []byte) (int, error)  { return 1, nil }
func wroteFour(*generator, []byte) (int, error) { return perTransaction, nil }

func wroteBatch(_ *generator, reply []byte) (int, error) {
	_, rest, found := bytes.Cut(reply, []byte(`"UnprocessedItems"`))
	if rest = bytes.TrimLeft(rest, ": \r\n\t{"); found && !bytes.HasPrefix(rest, []byte("}")) {
		return 0, errors.New("a batch has unprocessed items")
	}
	return perBatch, nil
}

// Replies are not parsed, but a reply that is too short for the items it should
// hold is an error: an empty reply is not a fast one.
func readOne(g *generator, reply []byte) (int, error) { return g.holds(reply, 1) }
func readTen(g *generator, reply []byte) (int, error) { return g.holds(reply, perPartition) }

func (g *generator) holds(reply []byte, items int) (int, error) {
	if len(reply) < items*g.least {
		return 0, fmt.Errorf("%d bytes cannot hold %d items: %.200s", len(reply), items, reply)
	}
	return items, nil
}

func readPage(g *generator, reply []byte) (int, error) {
	items, err := count(reply)
	if err != nil {
		return 0, err
	}
	g.after = slices.Clone(lastKey(reply))
	return g.holds(reply, items)
}

// count returns the member Count of a page. Items contain no quotation marks, so
// the search cannot match within an item.
func count(page []byte) (int, error) {
	at := bytes.Index(page, []byte(`"Count":`))
	if at < 0 {
		return 0, fmt.Errorf("a page has no Count: %.200s", page)
	}
	digits := bytes.TrimLeft(page[at+len(`"Count":`):], " ")
	end := bytes.IndexFunc(digits, func(r rune) bool { return r < '0' || r > '9' })
	return strconv.Atoi(string(digits[:max(0, end)]))
}

// lastKey returns the member LastEvaluatedKey of a page; empty on the last page.
func lastKey(page []byte) []byte {
	_, key, found := bytes.Cut(page, []byte(`"LastEvaluatedKey"`))
	if key = bytes.TrimLeft(key, ": "); !found || len(key) == 0 || key[0] != '{' {
		return nil
	}
	depth := 0
	for i, b := range key {
		switch b {
		case '{':
			depth++
		case '}':
			if depth--; depth == 0 {
				return key[:i+1]
			}
		}
	}
	return nil
}
