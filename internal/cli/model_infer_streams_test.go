package cli

import (
	"encoding/json"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/model"
)

// The writes of the streams become patterns, with items of the streams or of a scan.
func TestModelInferStreams(t *testing.T) {
	m, err := model.Parse("shop", []byte(`model: 1
tables: {shop: {key: {partition: PK, sort: SK}}, other: {key: {partition: id}}}
entities:
  customer: {table: shop, keys: {PK: "CUSTOMER#{customerId}", SK: "PROFILE"}, attributes: {customerId: S, city: S}}
  thing: {table: other, attributes: {id: S}}
patterns: []
`))
	if err != nil {
		t.Fatal(err)
	}
	s := openServer(t, m)
	server := httptest.NewServer(s.handler)
	defer server.Close()
	s.send("UpdateTable", map[string]any{"TableName": "shop", "StreamSpecification": map[string]any{"StreamEnabled": true, "StreamViewType": "NEW_AND_OLD_IMAGES"}})
	text := func(v string) map[string]string { return map[string]string{"S": v} }
	put := func(it map[string]any) { s.send("PutItem", map[string]any{"TableName": "shop", "Item": it}) }
	order := func(i int) map[string]any {
		return map[string]any{"PK": text(fmt.Sprintf("CUSTOMER#c%d", i%30)), "SK": text(fmt.Sprintf("ORDER#o%d", i)), "customerId": text(fmt.Sprintf("c%d", i%30)),
			"orderId": text(fmt.Sprintf("o%d", i)), "status": text([]string{"OPEN", "PAID"}[i%2]), "total": map[string]string{"N": fmt.Sprint(i)}}
	}
	for i := range 30 {
		put(map[string]any{"PK": text(fmt.Sprintf("CUSTOMER#c%d", i)), "SK": text("PROFILE"), "customerId": text(fmt.Sprintf("c%d", i)), "city": text(fmt.Sprintf("city %d", i))})
	}
	for i := range 60 {
		put(order(i))
	}
	for i := range 40 {
		changed := order(i)
		changed["total"] = map[string]string{"N": fmt.Sprint(1000 + i)}
		put(changed)
	}
	for i := range 10 {
		s.send("DeleteItem", map[string]any{"TableName": "shop", "Key": map[string]any{"PK": order(i)["PK"], "SK": order(i)["SK"]}})
	}
	for _, units := range []string{"0", "100"} {
		code, out, errs := runStator(t, "model", "infer", "--endpoint", server.URL, "--streams", "--units", units, "--json")
		var r struct {
			Entities []struct{ Name string }
			Patterns []struct {
				Requests int
				Actions  []struct {
					Verb, Entity string
					Set          []struct{ Name string }
				}
			}
		}
		if err := json.Unmarshal([]byte(out), &r); code != 0 || err != nil || !strings.Contains(errs, "the table other has no stream") {
			t.Fatalf("exit code %d, %v, %s%s", code, err, out, errs)
		}
		var found []string
		for _, p := range r.Patterns {
			a := p.Actions[0]
			line := fmt.Sprint(a.Verb, " ", a.Entity, " ", p.Requests)
			for _, x := range a.Set {
				line += " " + x.Name
			}
			found = append(found, line)
		}
		if len(r.Entities) != 2 {
			t.Errorf("with %s units the entities are %+v", units, r.Entities)
		}
		for _, want := range []string{"put customer 30", "put order 60", "update order 40 total", "delete order 10", "get order 0"} {
			if !strings.Contains(strings.Join(found, "\n")+"\n", want+"\n") {
				t.Errorf("with %s units %q is not in\n%s", units, want, strings.Join(found, "\n"))
			}
		}
	}
	if code, out, errs := runStator(t, "model", "infer", "--endpoint", server.URL, "--streams", "--units", "0"); code != 0 {
		t.Errorf("the model: exit code %d, %s%s", code, out, errs)
	}
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"--streams", "--cloudtrail", "x"}, 2, "count the same writes"},
		{[]string{"--streams", "--table", "other"}, 1, "none of the tables has a stream"},
		{[]string{"--follow", "50ms", "--units", "0"}, 1, "read items with --units"},
		{[]string{"--follow", "50ms"}, 0, "get: order"},
	} {
		code, out, errs := runStator(t, append([]string{"model", "infer", "--endpoint", server.URL}, c.args...)...)
		if code != c.code || !strings.Contains(out+errs, c.want) {
			t.Errorf("%q: exit code %d, %s%s", c.args, code, out, errs)
		}
	}
	if code, _, errs := runStator(t, "model", "infer", "x.csv", "--streams"); code != 2 || !strings.Contains(errs, "need --endpoint") {
		t.Errorf("files: exit code %d, %s", code, errs)
	}
}
