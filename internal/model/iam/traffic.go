package iam

import (
	"cmp"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/language/policy"
	"github.com/stator-db/stator/internal/workload"
)

// Used is one action on a table or an index that requests asked for.
type Used struct {
	Action    string `json:"action"`
	Table     string `json:"table"`
	Index     string `json:"index,omitempty"`
	Enclosing string `json:"enclosingOperation,omitempty"` // the transaction that it is a part of
	Requests  int64  `json:"requests"`

	selects string // the possible values of Select, separated by commas; "" if the action has none
	scans   string // the value of FullTableScan; "" if the action has none
}

// On returns the table or the index as text.
func (u *Used) On() string {
	if u.Index == "" {
		return u.Table
	}
	return u.Table + "." + u.Index
}

// statementActions are the actions that PartiQL asks for in place of others.
var statementActions = map[string]string{
	"GetItem": "PartiQLSelect", "BatchGetItem": "PartiQLSelect", "Query": "PartiQLSelect", "Scan": "PartiQLSelect", "ConditionCheckItem": "PartiQLSelect",
	"PutItem": "PartiQLInsert", "UpdateItem": "PartiQLUpdate", "DeleteItem": "PartiQLDelete",
}

// countedActions are the actions whose requests a server counts by shape.
var countedActions = []string{
	"BatchGetItem", "BatchWriteItem", "ConditionCheckItem", "DeleteItem", "GetItem", "PartiQLDelete", "PartiQLInsert", "PartiQLSelect", "PartiQLUpdate",
	"PutItem", "Query", "Scan", "UpdateItem",
}

// usedBy returns the actions that requests asked for, those of most requests first.
func usedBy(r workload.Report) (all []*Used) {
	for i := range r.Shapes {
		c := &r.Shapes[i]
		for _, u := range ofShape(&c.Shape) {
			u.Requests = c.Requests
			at := slices.IndexFunc(all, func(o *Used) bool { return o.sameAs(u) })
			if at < 0 {
				all = append(all, u)
				continue
			}
			all[at].Requests += u.Requests
		}
	}
	slices.SortStableFunc(all, func(a, b *Used) int { return cmp.Compare(b.Requests, a.Requests) })
	return all
}

func (u *Used) sameAs(o *Used) bool {
	a, b := *u, *o
	a.Requests, b.Requests = 0, 0
	return a == b
}

// ofShape returns what requests of a shape ask for.
func ofShape(s *workload.Shape) (all []*Used) {
	actions, enclosing := []string{s.Operation}, ""
	switch s.Operation {
	case "TransactGetItems":
		actions, enclosing = []string{"GetItem"}, s.Operation
	case "TransactWriteItems":
		actions, enclosing = nil, s.Operation
		for part := range strings.SplitSeq(s.Form, ", ") {
			if action := transactActions[part]; action != "" {
				actions = append(actions, action)
			}
		}
	}
	if enclosing != "" && s.Statement {
		enclosing = "ExecuteTransaction"
	}
	for _, action := range actions {
		u := &Used{Table: s.Table, Index: s.Index, Enclosing: enclosing}
		if s.Statement && statementActions[action] == "PartiQLSelect" {
			u.scans = "false"
			if action == "Scan" {
				u.scans = "true"
			}
		}
		u.selects = strings.Join(selectsOf(s, action), ",")
		if s.Statement {
			action = statementActions[action]
		}
		u.Action = service + action
		all = append(all, u)
	}
	return all
}

// selectsOf returns the values that Select may have in requests of a shape.
func selectsOf(s *workload.Shape, action string) []string {
	const whole, some = "ALL_ATTRIBUTES", "SPECIFIC_ATTRIBUTES"
	switch {
	case !slices.Contains([]string{"GetItem", "BatchGetItem", "Query", "Scan"}, action) && !(s.Statement && action == "ConditionCheckItem"):
		return nil
	case s.Projection != "":
		return []string{some}
	case s.Operation != action: // the parts of a transaction may differ
		return []string{whole, some}
	case !s.Statement && s.Index != "":
		return []string{"ALL_PROJECTED_ATTRIBUTES", whole, "COUNT"}
	case !s.Statement && (action == "Query" || action == "Scan"):
		return []string{whole, "COUNT"}
	}
	return []string{whole}
}

// contexts returns the values of the condition keys that are known, for each possible value of Select.
func (u *Used) contexts() (all []policy.Keys) {
	for selected := range strings.SplitSeq(u.selects, ",") {
		keys := make(policy.Keys)
		for key, value := range map[string]string{keyEnclosing: u.Enclosing, "dynamodb:FullTableScan": u.scans, keySelect: selected} {
			if value != "" {
				keys.Set(key, policy.One(value))
			}
		}
		all = append(all, keys)
	}
	return all
}

// knownKeys are the condition keys whose values a shape has.
var knownKeys = []string{keyEnclosing, keySelect, "dynamodb:FullTableScan"}
