package iam

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/workload"
)

// counted makes a report with one request of each shape.
func counted(shapes ...workload.Shape) workload.Report {
	r := workload.Report{Shapes: []workload.ShapeCount{}}
	for _, s := range shapes {
		r.Shapes = append(r.Shapes, workload.ShapeCount{Shape: s, Requests: 1})
	}
	return r
}

// Each kind of request asks for its actions.
func TestActionsOfShapes(t *testing.T) {
	for _, c := range []struct {
		shape workload.Shape
		want  string
	}{
		{workload.Shape{Operation: "GetItem", Table: "T"}, "dynamodb:GetItem T  [ALL_ATTRIBUTES]"},
		{workload.Shape{Operation: "GetItem", Table: "T", Projection: "a"}, "dynamodb:GetItem T  [SPECIFIC_ATTRIBUTES]"},
		{workload.Shape{Operation: "Query", Table: "T", Index: "X"}, "dynamodb:Query T.X  [ALL_PROJECTED_ATTRIBUTES,ALL_ATTRIBUTES,COUNT]"},
		{workload.Shape{Operation: "UpdateItem", Table: "T"}, "dynamodb:UpdateItem T  []"},
		{workload.Shape{Operation: "BatchWriteItem", Table: "T", Form: "Put, Delete"}, "dynamodb:BatchWriteItem T  []"},
		{workload.Shape{Operation: "TransactGetItems", Table: "T"}, "dynamodb:GetItem T TransactGetItems [ALL_ATTRIBUTES,SPECIFIC_ATTRIBUTES]"},
		{workload.Shape{Operation: "TransactWriteItems", Table: "T", Form: "Put, ConditionCheck"},
			"dynamodb:PutItem T TransactWriteItems []; dynamodb:ConditionCheckItem T TransactWriteItems []"},
		{workload.Shape{Operation: "Scan", Table: "T", Statement: true}, "dynamodb:PartiQLSelect T  [ALL_ATTRIBUTES]true"},
		{workload.Shape{Operation: "PutItem", Table: "T", Statement: true}, "dynamodb:PartiQLInsert T  []"},
		{workload.Shape{Operation: "TransactWriteItems", Table: "T", Form: "Update", Statement: true}, "dynamodb:PartiQLUpdate T ExecuteTransaction []"},
	} {
		var got []string
		for _, u := range ofShape(&c.shape) {
			got = append(got, fmt.Sprintf("%s %s %s [%s]%s", u.Action, u.On(), u.Enclosing, u.selects, u.scans))
		}
		if strings.Join(got, "; ") != c.want {
			t.Errorf("%s asks for %s, want %s", c.shape.Text(), strings.Join(got, "; "), c.want)
		}
	}
}

// What a policy allows and requests did not need is reported, and what they needed and it refuses.
func TestCompareTraffic(t *testing.T) {
	const table = `"arn:aws:dynamodb:eu-west-1:111122223333:table/T"`
	get, query := workload.Shape{Operation: "GetItem", Table: "T"}, workload.Shape{Operation: "Query", Table: "T", Index: "X"}
	put := workload.Shape{Operation: "PutItem", Table: "T"}
	transact := workload.Shape{Operation: "TransactWriteItems", Table: "T", Form: "Put"}
	for _, c := range []struct {
		name, statements string
		traffic          []workload.Shape
		want             string
	}{
		{"all is used", `{"Effect":"Allow","Action":"dynamodb:GetItem","Resource":` + table + `}`, []workload.Shape{get}, ""},
		{"a statement", `{"Effect":"Allow","Action":"dynamodb:GetItem","Resource":` + table + `},{"Effect":"Allow","Action":["dynamodb:PutItem","dynamodb:Query"],"Resource":` + table + `}`,
			[]workload.Shape{get}, "statement dynamodb:PutItem, dynamodb:Query"},
		{"an action", `{"Effect":"Allow","Action":["dynamodb:GetItem","dynamodb:Scan"],"Resource":` + table + `}`, []workload.Shape{get}, "action dynamodb:Scan"},
		{"an index", `{"Effect":"Allow","Action":"dynamodb:Query","Resource":["arn:aws:dynamodb:*:*:table/T/index/X","arn:aws:dynamodb:*:*:table/T/index/Y"]}`,
			[]workload.Shape{query}, "resource arn:aws:dynamodb:*:*:table/T/index/Y"},
		{"a part of a wildcard", `{"Effect":"Allow","Action":"dynamodb:Get*","Resource":"*"},{"Effect":"Allow","Action":"dynamodb:Put*","Resource":"*"},{"Effect":"Allow","Action":"dynamodb:*Item","Resource":"*"}`,
			[]workload.Shape{get, put}, "wildcard dynamodb:*Item only GetItem,PutItem"},
		{"what is not counted", `{"Effect":"Allow","Action":["dynamodb:GetItem","dynamodb:DescribeTable"],"Resource":[` + table + `,"arn:aws:dynamodb:*:*:table/T/stream/*"]}`,
			[]workload.Shape{get}, "unknown dynamodb:DescribeTable"},
		{"what DynamoDB does not have", `{"Effect":"Allow","Action":["dynamodb:GetItem","stator:GetModel"],"Resource":"*"}`, []workload.Shape{get}, "unknown stator:GetModel"},
		{"another table", `{"Effect":"Allow","Action":"dynamodb:GetItem","Resource":["arn:aws:dynamodb:*:*:table/U",` + table + `]}`,
			[]workload.Shape{get, {Operation: "GetItem", Table: "V"}}, "denied dynamodb:GetItem V; resource arn:aws:dynamodb:*:*:table/U"},
		{"a table is not its index", `{"Effect":"Allow","Action":["dynamodb:GetItem","dynamodb:Query"],"Resource":` + table + `}`,
			[]workload.Shape{get, query}, "denied dynamodb:Query T.X; action dynamodb:Query"},
		{"transactions only", `{"Effect":"Allow","Action":"dynamodb:PutItem","Resource":` + table + `,"Condition":{"StringEquals":{"dynamodb:EnclosingOperation":"TransactWriteItems"}}}`,
			[]workload.Shape{put, transact}, "denied dynamodb:PutItem T"},
		{"whole items", `{"Effect":"Allow","Action":"dynamodb:Query","Resource":"arn:aws:dynamodb:*:*:table/T/index/X","Condition":{"StringEquals":{"dynamodb:Select":"SPECIFIC_ATTRIBUTES"}}}`,
			[]workload.Shape{query}, "denied dynamodb:Query T.X; statement dynamodb:Query"},
		{"values that are not counted", `{"Effect":"Allow","Action":"dynamodb:GetItem","Resource":` + table + `,"Condition":{"ForAllValues:StringEquals":{"dynamodb:LeadingKeys":"${aws:username}"}}}`,
			[]workload.Shape{get}, "undecided dynamodb:GetItem T"},
		{"a Deny by such values", `{"Effect":"Allow","Action":"dynamodb:GetItem","Resource":` + table + `},{"Effect":"Deny","Action":"*","Resource":"*","Condition":{"Bool":{"aws:SecureTransport":"false"}}}`,
			[]workload.Shape{get}, "undecided dynamodb:GetItem T"},
		{"a Deny", `{"Effect":"Allow","Action":"dynamodb:GetItem","Resource":` + table + `},{"Effect":"Deny","Action":"dynamodb:*","Resource":"*"}`,
			[]workload.Shape{get}, "denied dynamodb:GetItem T"},
		{"a variable in a resource", `{"Effect":"Allow","Action":"dynamodb:GetItem","Resource":"arn:aws:dynamodb:*:*:table/${aws:username}"}`,
			[]workload.Shape{get}, "undecided dynamodb:GetItem T"},
		{"all but an action", `{"Effect":"Allow","NotAction":"dynamodb:GetItem","Resource":"*"}`, []workload.Shape{put}, ""},
		{"all but the action", `{"Effect":"Allow","NotAction":"dynamodb:GetItem","Resource":"*"}`, []workload.Shape{get}, "denied dynamodb:GetItem T; statement all but dynamodb:GetItem"},
		{"all but a table", `{"Effect":"Allow","Action":"dynamodb:GetItem","NotResource":"arn:aws:dynamodb:*:*:table/U"}`, []workload.Shape{get}, ""},
		{"no traffic", `{"Effect":"Allow","Action":"dynamodb:GetItem","Resource":` + table + `}`, nil, "statement dynamodb:GetItem"},
	} {
		t.Run(c.name, func(t *testing.T) {
			f, err := ParseFile("p.json", []byte(`{"Version":"2012-10-17","Statement":[`+c.statements+`]}`))
			if err != nil {
				t.Fatal(err)
			}
			use := CompareTraffic([]*PolicyFile{f}, counted(c.traffic...))
			if got := useText(use); got != c.want {
				t.Errorf("the comparison is %q, want %q", got, c.want)
			}
		})
	}
}

func useText(use *PolicyUse) string {
	var all []string
	for _, list := range []struct {
		word string
		used []*Used
	}{{"denied", use.Denied}, {"undecided", use.Undecided}} {
		for _, u := range list.used {
			all = append(all, list.word+" "+u.Action+" "+u.On())
		}
	}
	for _, u := range use.Unused {
		text := string(u.Kind) + " " + u.Text
		if u.Only != nil {
			text += " only " + strings.Join(u.Only, ",")
		}
		all = append(all, text)
	}
	for _, u := range use.Unknown {
		all = append(all, "unknown "+u.Text)
	}
	return strings.Join(all, "; ")
}

// The policies of one identity apply together, and the counts of one action are added.
func TestCompareTrafficOfSeveralPolicies(t *testing.T) {
	var files []*PolicyFile
	for _, action := range []string{"GetItem", "PutItem"} {
		f, err := ParseFile(action, []byte(`{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"dynamodb:`+action+`","Resource":"*"}}`))
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	del := workload.Shape{Operation: "DeleteItem", Table: "T"}
	conditional := del
	conditional.Condition = true
	use := CompareTraffic(files, counted(workload.Shape{Operation: "GetItem", Table: "T"}, workload.Shape{Operation: "PutItem", Table: "T"}, del, conditional))
	if len(use.Unused) != 0 || len(use.Denied) != 1 || use.Denied[0].Requests != 2 || !slices.Contains(countedActions, "DeleteItem") {
		t.Errorf("the comparison is %q", useText(use))
	}
}
