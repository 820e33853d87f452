package model

import (
	"fmt"
	"os"
	"strings"
	"testing"
)

// mistake is an edit that makes a good model bad, and where that is reported.
type mistake struct {
	name     string
	old, new string // the edit
	code     string // of the fault or the note
	at       string // text in the line that is reported
}

// chatMistakes are mistakes in the model of a chat.
var chatMistakes = []mistake{
	{"an entity is not in the index", "      GSI1PK: \"EMAIL#{email}\"\n      GSI1SK: \"USER\"\n", "", "missing", "name: user by email"},
	{"a get by an attribute that is not in the key", "get: user, given: [userId]", "get: user, given: [email]", "key", "name: user by id"},
	{"the time is not first in the sort key", `SK: "MSG#{sentAt}#{messageId}"`, `SK: "MSG#{messageId}#{sentAt}"`, "order", "order: sentAt desc"},
	{"numbers as text without padding", "GSI2SK: \"{sentAt}\"\n    attributes:\n      channelId: {format: uuid, distinct: 60000, hottest: 0.01}\n      month: {format: month, example: \"2026-11\"}\n      sentAt: {format: iso8601-ms}",
		"GSI2SK: \"T#{sentAt}\"\n    attributes:\n      channelId: {format: uuid, distinct: 60000, hottest: 0.01}\n      month: {format: month, example: \"2026-11\"}\n      sentAt: {type: N, digits: 13}", "order", "order: sentAt desc"},
	{"all messages in one index partition", `GSI2PK: "AUTHOR#{userId}"`, "GSI2PK: AUTHORS", "hot", "GSI2PK: AUTHORS"},
	{"all messages of a month in one index partition", `GSI2PK: "AUTHOR#{userId}"`, `GSI2PK: "{month}"`, "hot", `GSI2PK: "{month}"`},
	{"a channel that has most of the traffic", "hottest: 0.01", "hottest: 0.9", "hot", `PK: "CHANNEL#{channelId}#{month}"`},
	{"all messages of a channel in one partition", `PK: "CHANNEL#{channelId}#{month}"`, `PK: "MESSAGES#{channelId}"`, "growth", `PK: "MESSAGES#{channelId}"`},
	{"a set that grows without bound", "archived: BOOL", "members: {type: SS, count: 20, most: 20000, size: 36}", "size", "members: {type: SS"},
	{"an item that is too large", "body: {size: 300, largest: 40KB, example: See you at noon}", "body: {size: 300, largest: 500KB}", "size", "largest: 500KB"},
	{"a put without a condition", "put: message, condition: attribute_not_exists(PK)", "put: message", "overwrite", "name: send message"},
	{"a put that does not say that it replaces", "put: reaction, replaces: true", "put: reaction", "overwrite", "name: react"},
	{"a condition on a misspelt attribute", "put: user, condition: attribute_not_exists(PK)", "put: user, condition: attribute_not_exists(pk)", "condition", "name: register"},
	{"a condition that cannot hold", "put: user, condition: attribute_not_exists(PK)", "put: user, condition: attribute_exists(PK)", "condition", "name: register"},
	{"a transition without a condition", `condition: "#state = :pending", values: {":pending": PENDING}, `, "", "machine", "name: accept invite"},
	{"a wrong initial state", "put: invite, set: {state: PENDING}", "put: invite, set: {state: ACCEPTED}", "machine", "name: invite,"},
	{"an expiry in milliseconds", "expires: {format: epoch-seconds, type: N}\n    growth: 400_000", "expires: {format: epoch-millis, type: N}\n    growth: 400_000", "ttl", "epoch-millis"},
	{"an expiry as text", "expires: {format: epoch-seconds, type: N}\n    growth: 400_000", "expires: {size: 10}\n    growth: 400_000", "ttl", "expires: {size: 10}"},
	{"items without an expiry", "      expires: {format: epoch-seconds, type: N}\n    growth: 1000/day", "    growth: 1000/day", "keep", "keep: 14d"},
	{"a table without an expiry", "    ttl: expires\n", "", "keep", "keep: 90d"},
	{"a filter instead of a key", "query: member, given: [wsId], matches: 50, page: 50", "query: member, given: [wsId], where: {role: OWNER}, matches: 1", "filter", "name: members of a workspace"},
	{"an attribute that is not projected", "matches: 200, returns: [PK, SK]", "matches: 200", "projection", "name: messages of an author"},
	{"a scan", "query: user, given: [email], matches: 1", "scan: user, given: [email], matches: 1", "scan", "name: user by email"},
	{"keys that collide", `SK: "REACT#{emoji}#{userId}"`, `SK: "REPLY#{emoji}#{userId}"`, "collision", "reaction:"},
	{"sort keys without a prefix", `SK: "CHANNEL#{channelId}"}`, `SK: "{channelId}"}`, "neighbours", "name: channels of a workspace"},
	{"a consistent read of a global index", "query: user, given: [email], matches: 1", "query: user, given: [email], matches: 1, consistent: true", "consistent", "name: user by email"},
	{"a transaction of more than 100 items", "      - put: reply\n", "      - put: reply\n        times: 2\n        most: 120\n", "limit", "name: reply in a thread"},
	{"a key that is too long", "email: {size: 24}\n      displayName", "email: {size: 24, largest: 3000}\n      displayName", "size", `GSI1PK: "EMAIL#{email}"`},
	{"all messages of a month at each look", "    page: 50\n    matches: 1000\n", "    matches: 1000\n", "budget", "budgets:"},
	{"a value that a sparse index does not have", "query: mention, given: [userId], where: {state: UNREAD}", "query: mention, index: GSI1, given: [userId], where: {state: READ}", "sparse", "name: unread mentions"},
	{"an index that nothing reads", "query: message, given: [userId], order: sentAt desc, page: 20, matches: 200, returns: [PK, SK]", "get: message, given: [channelId, month, sentAt, messageId]", "unused", "GSI2: {partition"},
	{"several items where one can be", "{name: workspace, get: workspace, given: [wsId]", "{name: workspace, query: workspace, given: [wsId], matches: 3", "expectation", "name: workspace,"},
	{"an update of the key", "set: {lastRead: \"{lastRead}\"}", "set: {userId: \"{userId}\"}", "syntax", "name: mark read"},
	{"an attribute of a state that the update does not set", "mix: {READ: 0.95}}\n", "mix: {READ: 0.95}}\n      readAt: {format: iso8601, when: {state: READ}}\n", "stale", "name: mark mention read"},
	{"a counter that all transactions write", "      - update: message\n        given: [channelId, month, sentAt, messageId]\n        add: {replies: 1}\n        condition: attribute_exists(PK)\n    rate: 300_000/day",
		"      - update: workspace\n        given: [wsId]\n        set: {title: \"{title}\"}\n        skew: {wsId: 0.5}\n    rate: 300_000/day", "conflict", "update: workspace"},
}

// shopMistakes are mistakes in the model of a shop.
var shopMistakes = []mistake{
	{"no index for a query", "      ByStatus: {partition: [tenant, status], sort: [region, placedAt], projection: [orderId, total]}\n", "", "missing", "name: open orders of a tenant"},
	{"a get by an attribute that is not in the key", "get: customer, given: [customerId], rate", "get: customer, given: [name], rate", "key", "name: customer by id"},
	{"a batch of gets without keys", "each: [customerId], times: 50", "times: 50", "key", "name: customers of a page"},
	{"an order that the key does not have", "order: orderId desc", "order: placedAt desc", "order", "name: newest order"},
	{"numbers as text without padding", "lineNo: {format: sequence, size: 4}", "lineNo: N", "order", "name: lines of an order"},
	{"an attribute that is not projected", "matches: 100, returns: [orderId, total], rate", "matches: 100, returns: [orderId, customerId], rate", "projection", "name: open orders of a tenant"},
	{"a consistent read of a global index", "given: [orderId], matches: 1, rate", "given: [orderId], matches: 1, consistent: true, rate", "consistent", "name: order by id"},
	{"a transaction of more than 100 items", "most: 45", "most: 60", "limit", "name: place order"},
	{"a batch of more than 25 writes", "replaces: true, times: 25", "replaces: true, times: 40", "limit", "name: count stock"},
	{"a batch of more than 100 gets", "each: [customerId], times: 50", "each: [customerId], times: 150", "limit", "name: customers of a page"},
	{"a condition in a batch", "put: stock, replaces: true, times: 25", "put: stock, condition: attribute_exists(PK), times: 25", "syntax", "name: count stock"},
	{"a sort key that is too long", "street: {size: 20}", "street: {size: 20, largest: 1100}", "size", `SK: "WAREHOUSE#`},
	{"a partition key that is too long", "email: {size: 20, largest: 254}", "email: {size: 20, largest: 2100}", "size", `PK: "EMAIL#{email}"`},
	{"an expiry attribute that no item has", "ttl: expires", "ttl: expiry", "ttl", "ttl: expiry"},
	{"an expiry of text", "expires: {type: N, format: epoch-seconds}", "expires: {format: iso8601}", "ttl", "expires: {format: iso8601}"},
	{"a unique value without a condition", "{put: unique, condition: attribute_not_exists(PK)}", "{put: unique}", "overwrite", "put: unique"},
	{"a put that undoes updates", "{put: customer, condition: attribute_not_exists(PK)}\n      - {put: unique, condition: attribute_not_exists(PK)}", "{put: customer}", "overwrite", "put: customer"},
	{"a transition without a condition", `set: {status: PAID}, condition: "#status = :open", values: {":open": OPEN}`, "set: {status: PAID}", "machine", "name: pay"},
	{"a condition that allows another state", `"#status = :paid", values: {":paid": PAID}`, `"#status <> :shipped", values: {":shipped": SHIPPED}`, "machine", "name: ship"},
	{"a transition that does not exist", "set: {status: SHIPPED}, condition", "set: {status: OPEN}, condition", "machine", "name: ship"},
	{"a lock with the wrong comparison", `"#version = :version"`, `"#version > :version"`, "condition", "name: rename"},
	{"one partition for the whole board", "board: {size: 6, distinct: 100}", "board: {size: 6, distinct: 1}", "hot", "board: {size: 6, distinct: 1}"},
	{"a constant key of an inverted index", `SK: "SCORE#{player}"`, "SK: SCORE", "hot", "SK: SCORE"},
	{"a board of each day", `board: {size: 6, distinct: 100}, score: N}`, `board: {format: date}, score: N}`, "hot", "board: {format: date}"},
	{"an item without its tenant", "      tenant: {size: 8, distinct: 50}\n      name:", "      name:", "rule", "customer:"},
	{"keys that collide", `PK: "EMAIL#{email}", SK: "EMAIL#{email}"`, `PK: "C#{email}", SK: "C#{email}"`, "collision", "unique:"},
	{"sort keys without a prefix", `SK: "O#{orderId}"}`, `SK: "{orderId}"}`, "neighbours", "name: newest order"},
	{"a scan", "query: score, given: [board]", "scan: score, given: [board]", "scan", "name: top ten"},
	{"a filter instead of a key", "given: [sku, country], matches: 2", "given: [sku, street], matches: 1", "filter", "name: stock in a country"},
	{"a list that grows without bound", "most: 100, size: 60", "most: 10000, size: 60", "size", "most: 10000"},
	{"too few provisioned units", "billing: on-demand", "billing: provisioned\n    read: {units: 100}\n    write: {units: 100}", "provisioned", "write: {units: 100}"},
	{"a query that reads the whole board", "page: 10, matches: 500, rate: 1/s, budget", "matches: 500, rate: 1/s, budget", "budget", "name: top ten"},
	{"a query that the budget does not allow", "matches: 500, rate: 1/s, budget: {read: 1}", "matches: 500, rate: 20_000/s, budget: {read: 1}", "budget", "budgets:"},
	{"an index that nothing reads", "name: order by id, query: order, given: [orderId], matches: 1", "name: order by id, get: order, given: [customerId, orderId]", "unused", "Inverted: {partition"},
	{"a sparse index that is read for all items", "attributes: {player: {format: uuid}, board: {size: 6, distinct: 100}, score: N}", "attributes: {player: {format: uuid}, kind: {values: [OPEN, CLOSED]}, board: {size: 6, distinct: 100, when: {kind: OPEN}}, score: N}", "sparse", "name: top ten"},
	{"an item that all transactions write", "sku: {size: 10, distinct: 5000}\n      country: {size: 2, distinct: 10}\n      city: {size: 12, distinct: 100}\n      street: {size: 20}", "sku: {size: 10, hottest: 0.5}\n      country: {size: 2, hottest: 0.9}\n      city: {size: 12, hottest: 0.9}\n      street: {size: 20, hottest: 0.9}", "conflict", "update: stock"},
	{"an order by a random identifier", "orderId: {format: ulid}\n", "orderId: {format: uuid}\n", "order", "name: newest order"},
	{"a range of text before a separator", "range: {attribute: city, is: begins}", "range: {attribute: city, is: from}", "separator", "is: from}"},
	{"a key without a separator", `"WAREHOUSE#{country}#{city}#{street}"`, `"WAREHOUSE#{country}#{city}{street}"`, "collision", "{city}{street}"},
	{"an index name of two letters", "Leader: {", "Le: {", "syntax", "Le: {"},
}

// Every planted mistake is found, with the right code and in the right line; the
// models without mistakes have no fault and no note.
func TestPlantedMistakes(t *testing.T) {
	for _, c := range []struct {
		name     string
		mistakes []mistake
	}{{"chat", chatMistakes}, {"shop", shopMistakes}} {
		good, err := os.ReadFile("../../examples/models/" + c.name + ".model.yaml")
		if err != nil {
			t.Fatal(err)
		}
		if found := notesOf(good); found != nil {
			t.Errorf("%s has no mistake, but\n%s", c.name, strings.Join(found, "\n"))
		}
		if len(c.mistakes) < 20 {
			t.Errorf("%s has %d planted mistakes, want at least 20", c.name, len(c.mistakes))
		}
		for _, x := range c.mistakes {
			t.Run(c.name+"/"+x.name, func(t *testing.T) {
				if strings.Count(string(good), x.old) != 1 {
					t.Fatalf("%q is %d times in the model, want once", x.old, strings.Count(string(good), x.old))
				}
				bad := strings.Replace(string(good), x.old, x.new, 1)
				if found := notesOf([]byte(bad)); !reports(found, bad, x) {
					t.Errorf("no %s where %q is, but\n%s", x.code, x.at, strings.Join(found, "\n"))
				}
			})
		}
	}
}

// reports reports whether the findings contain a mistake.
func reports(found []string, text string, x mistake) bool {
	lines := strings.Split(text, "\n")
	for _, f := range found {
		var line, column int
		if _, err := fmt.Sscanf(f, "%d:%d", &line, &column); err != nil {
			continue
		}
		if strings.Contains(f, " "+x.code+": ") && strings.Contains(lines[line-1], x.at) {
			return true
		}
	}
	return false
}
