package ops

import "github.com/stator-db/stator/internal/protocol/api"

// clusterEnclosing is the condition key with the transaction that an action is part of.
const clusterEnclosing = "dax:EnclosingOperation"

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
