package ops

import (
	"cmp"
	"context"
	"slices"

	"github.com/stator-db/stator/internal/protocol/api"
)

// clusterEnclosing is the condition key with the transaction that an action is part of.
const clusterEnclosing = "dax:EnclosingOperation"

// clusterActions are the actions on items of a cluster.
var clusterActions = []string{"GetItem", "BatchGetItem", "Query", "Scan", "PutItem", "UpdateItem", "DeleteItem", "BatchWriteItem", "ConditionCheckItem"}

// PermitCluster checks that the caller may do something with the items behind a DAX cluster, so
// that it may know which tables exist and what their attributes are called. The action of an
// operation, if there is one, is tried first.
func (s *Service) PermitCluster(ctx context.Context, cluster, operation string) error {
	c := carriedBy(ctx)
	if c == nil || c.Identity == nil {
		return nil
	}
	for _, enclosing := range []string{"", "TransactGetItems", "TransactWriteItems"} {
		for _, action := range slices.Concat([]string{cmp.Or(operation, clusterActions[0])}, clusterActions) {
			p := &permission{action: "dax:" + action, resource: cluster}
			if enclosing != "" {
				p.details = func() (details, error) {
					return details{one: map[string]string{clusterEnclosing: enclosing}}, nil
				}
			}
			if s.question(ctx, c, p).evaluate().Allowed() {
				return nil
			}
		}
	}
	c.operation = cmp.Or(operation, clusterActions[0])
	return s.permit(ctx, c, &permission{action: "dax:" + c.operation, resource: cluster})
}

// clusterPermissions returns what a request to a DAX cluster needs: DAX decides by its own
// actions on the cluster, whatever the tables, and reads and writes them with the role of the
// cluster. A transaction needs a permission for each kind of its actions.
func clusterPermissions(cluster string, r Request) (found []permission) {
	needs := func(action string) {
		for i := range found {
			if found[i].action == "dax:"+action {
				return
			}
		}
		p := permission{action: "dax:" + action, resource: cluster}
		if action != r.name {
			p.details = func() (details, error) {
				return details{one: map[string]string{clusterEnclosing: r.name}}, nil
			}
		}
		found = append(found, p)
	}
	switch in := r.in.(type) {
	case *api.GetItem, *api.PutItem, *api.UpdateItem, *api.DeleteItem, *api.Query, *api.Scan, *api.BatchGetItem, *api.BatchWriteItem:
		needs(r.name)
	case *api.TransactGetItems:
		needs("GetItem")
	case *api.TransactWriteItems:
		for i := range in.TransactItems {
			switch action := &in.TransactItems[i]; {
			case action.ConditionCheck != nil:
				needs("ConditionCheckItem")
			case action.Put != nil:
				needs("PutItem")
			case action.Update != nil:
				needs("UpdateItem")
			case action.Delete != nil:
				needs("DeleteItem")
			}
		}
	}
	return found
}
