package iam

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/language/policy"
	"github.com/stator-db/stator/internal/model"
)

const smallModel = `
model: 1
name: small
tables:
  data:
    key: {partition: PK, sort: SK}
    indexes:
      ByKind: {partition: kind, sort: SK}
    stream: NEW_IMAGE
    readers: READERS
entities:
  note:
    keys: {PK: "PARTITION", SK: "N#{id}"}
    attributes: {tenant: {KIND_OF_TENANT}, id: {format: uuid}, kind: {size: 8}, text: {size: 20}}
    count: 10
patterns:
PATTERNS`

func parseSmall(t *testing.T, patterns string, replaced ...string) *model.Model {
	t.Helper()
	all := append(replaced, "READERS", "0", "PARTITION", "T#{tenant}", "KIND_OF_TENANT", "size: 8", "PATTERNS", patterns)
	text := strings.NewReplacer(all...).Replace(smallModel)
	m, err := model.Parse("small", []byte(text))
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return m
}

// statementTexts returns the statements of a policy, one in a line.
func statementTexts(t *testing.T, g *Generated) string {
	t.Helper()
	text, err := json.Marshal(g.Policy)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := policy.Parse(policy.Identity, text)
	if err != nil {
		t.Fatal(err)
	}
	if found := policy.Check(doc); len(found) > 0 {
		t.Errorf("%s: %s", found[0].Rule, found[0].Text)
	}
	var lines []string
	for _, s := range g.Policy.Statement {
		line := s.Sid + " " + strings.ReplaceAll(strings.Join(s.Action, ","), service, "") + " " + strings.ReplaceAll(strings.Join(s.Resource, ","), "arn:aws:dynamodb:*:*:table/", "")
		if len(s.Condition) > 0 {
			c, err := json.Marshal(s.Condition)
			if err != nil {
				t.Fatal(err)
			}
			line += " " + strings.ReplaceAll(string(c), service, "")
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// The conditions are those that all patterns of a statement fulfil.
func TestGenerate(t *testing.T) {
	const (
		put    = "  - {name: put, put: note, rate: 1/s}\n"
		some   = "  - {name: some, get: note, given: [tenant, id], returns: [text], rate: 1/s}\n"
		whole  = "  - {name: whole, get: note, given: [tenant, id], rate: 1/s}\n"
		reads  = "  - {name: reads, transact: [{get: note, each: [tenant, id], times: 2}], rate: 1/s}\n"
		writes = "  - {name: writes, transact: [{put: note}, {check: note, each: [tenant, id], condition: attribute_exists(PK)}], rate: 1/s}\n"
		batch  = "  - {name: batch, batch: [{get: note, each: [tenant, id], times: 2, returns: [text]}], rate: 1/s}\n"
		kind   = "  - {name: kind, query: note, index: ByKind, given: [kind], returns: [text], rate: 1/s}\n"
		inOne  = "  - {name: partition, query: note, given: [tenant], matches: 1, rate: 1/s}\n"
	)
	const attributes = `{"ForAllValues:StringEquals":{"Attributes":["PK","SK","text"]},"StringEquals":{"Select":["SPECIFIC_ATTRIBUTES"]}}`
	for _, c := range []struct {
		name, patterns string
		options        PolicyOptions
		replaced       []string
		want           string
	}{
		{"a write", put, PolicyOptions{}, nil, "WriteData PutItem data"},
		{"a projection", some, PolicyOptions{}, nil, "ReadDataAttributes GetItem data " + attributes},
		{"a projection and whole items", some + whole, PolicyOptions{}, nil, "ReadData GetItem data"},
		{"a batch reads whole items", batch, PolicyOptions{}, nil, "ReadData BatchGetItem data"},
		{"the keys of an index", kind, PolicyOptions{}, nil, `ReadDataByKindAttributes Query data/index/ByKind {"ForAllValues:StringEquals":{"Attributes":["PK","SK","kind","text"]},"StringEquals":{"Select":["SPECIFIC_ATTRIBUTES"]}}`},
		{"transactions only", reads + writes, PolicyOptions{}, nil, "ReadDataInTransactions GetItem data {\"StringEquals\":{\"EnclosingOperation\":[\"TransactGetItems\"]}}\n" +
			"WriteDataInTransactions ConditionCheckItem,PutItem data {\"StringEquals\":{\"EnclosingOperation\":[\"TransactWriteItems\"]}}"},
		{"also outside transactions", reads + writes + put + whole, PolicyOptions{}, nil, "ReadData GetItem data\nWriteData PutItem data\n" +
			"WriteDataInTransactions ConditionCheckItem data {\"StringEquals\":{\"EnclosingOperation\":[\"TransactWriteItems\"]}}"},
		{"a consumer", whole, PolicyOptions{}, []string{"READERS", "2"}, "ReadData GetItem data\nReadStreamOfData DescribeStream,GetRecords,GetShardIterator data/stream/*"},
		{"a consumer is no reader", whole, PolicyOptions{Role: Reader, Setup: true}, []string{"READERS", "2"}, "ReadData GetItem data\nDescribeData DescribeTable data"},
		{"a tenant", inOne + put, PolicyOptions{TenantKey: "tenant"}, nil, `ReadData Query data {"ForAllValues:StringEquals":{"LeadingKeys":["T#${v}"]}}` + "\n" + `WriteData PutItem data {"ForAllValues:StringEquals":{"LeadingKeys":["T#${v}"]}}`},
		{"a tenant and more", put, PolicyOptions{TenantKey: "tenant"}, []string{"PARTITION", "*{tenant}#K#{kind}"}, `WriteData PutItem data {"ForAllValues:StringLike":{"LeadingKeys":["${*}${v}#K#*"]}}`},
		{"a tenant and text", put, PolicyOptions{TenantKey: "tenant"}, []string{"PARTITION", "{tenant}#K"}, `WriteData PutItem data {"ForAllValues:StringEquals":{"LeadingKeys":["${v}#K"]}}`},
		{"a tenant that no text ends", put, PolicyOptions{TenantKey: "tenant"}, []string{"PARTITION", "{tenant}{kind}"}, `"put": PK of note is "{tenant}{kind}", which has no text after {tenant} that ends its value`},
		{"a tenant with the text that ends it", put, PolicyOptions{TenantKey: "tenant"}, []string{"PARTITION", "{tenant}#{kind}", "KIND_OF_TENANT", `values: ["a", "a#b"]`},
			`"put": tenant can be "a#b", which contains the text "#" that ends it in PK of note`},
		{"an index without the tenant", kind, PolicyOptions{TenantKey: "tenant"}, nil, `"kind": kind of note is "{kind}", which does not begin with {tenant}`},
		{"nothing", put, PolicyOptions{Role: Reader}, nil, "the model has nothing that a reader asks for"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := c.options
			o.Region, o.Account, o.TenantVariable = "*", "*", "aws:username"
			if o.Role == "" {
				o.Role = All
			}
			got := ""
			g, err := Generate(parseSmall(t, c.patterns, c.replaced...), o)
			if err != nil {
				got = err.Error()
			} else {
				got = statementTexts(t, g)
				if i := slices.IndexFunc(g.Needs, func(n *Need) bool { return n.Statement == "" }); i >= 0 {
					t.Errorf("no statement allows %+v", g.Needs[i])
				}
			}
			if want := strings.ReplaceAll(c.want, "${v}", "${aws:username}"); got != want {
				t.Errorf("the policy is\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// Sids have letters and digits only, are unique, and name a few resources.
func TestSids(t *testing.T) {
	p := &statementPlan{class: classRead}
	for _, index := range []string{"", "A", "B", "C", "D"} {
		p.on = append(p.on, &actionOn{needs: []*Need{{table: camel("my-table.x"), index: index}}})
	}
	taken := make(map[string]bool)
	for _, want := range []string{"ReadMyTableXAndAAnd3More", "ReadMyTableXAndAAnd3More2", "ReadMyTableXAndAAnd3More3"} {
		if got := p.sid(taken); got != want {
			t.Errorf("the Sid is %s, want %s", got, want)
		}
	}
}
