package ops

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/db/daxcluster"
	"github.com/stator-db/stator/internal/protocol/api"
)

// addNodes adds nodes to a cluster, in these zones or spread over three of a region. A node
// is named after its cluster and the first free letter.
func addNodes(c *daxcluster.Cluster, n int, zones []string, region string, now time.Time) {
	for i := range n {
		letter := 'a'
		for c.HasNode(nodeID(c, letter)) {
			letter++
		}
		zone := region + string('a'+rune(len(c.Nodes)%3))
		if zones != nil {
			zone = zones[i]
		}
		c.Nodes = append(c.Nodes, daxcluster.Node{ID: nodeID(c, letter), Zone: zone, Created: now})
	}
}

func nodeID(c *daxcluster.Cluster, letter rune) string { return c.Name + "-" + string(letter) }

func (s *Service) increaseReplicationFactor(ctx context.Context, in *api.IncreaseReplicationFactor) (*api.ClusterReply, error) {
	if err := identifiersFit("AvailabilityZones", in.AvailabilityZones, maxClusterNodes); err != nil {
		return nil, err
	}
	region, now := callerOf(ctx).Region, s.DB.Now()
	return s.changeCluster(ctx, in.ClusterName, clusterModifying, func(r *daxcluster.Registry, c *daxcluster.Cluster) (string, error) {
		have, want, zones := len(c.Nodes), int(*in.NewReplicationFactor), in.AvailabilityZones
		added := want - have
		switch {
		case want > maxClusterNodes:
			return "", tooManyClusterNodes()
		case added < 1:
			return "", invalidValue("NewReplicationFactor is %d, but must be more than the %d nodes that the cluster has.", want, have)
		case r.Nodes()+added > maxDAXNodes:
			return "", tooManyNodes()
		case zones != nil && len(zones) == want:
			zones = zones[have:] // those of all nodes
		case zones != nil && len(zones) != added:
			return "", invalidCombination("AvailabilityZones has %d entries, but must have one for each of the %d new nodes, or of all %d nodes.", len(zones), added, want)
		}
		addNodes(c, added, zones, region, now)
		return fmt.Sprintf("Cluster has %d nodes, %d more.", want, added), nil
	})
}

func (s *Service) decreaseReplicationFactor(ctx context.Context, in *api.DecreaseReplicationFactor) (*api.ClusterReply, error) {
	if in.NodeIdsToRemove != nil && in.AvailabilityZones != nil {
		return nil, invalidCombination("Only one of NodeIdsToRemove and AvailabilityZones can be given.")
	}
	return s.changeCluster(ctx, in.ClusterName, clusterModifying, func(_ *daxcluster.Registry, c *daxcluster.Cluster) (string, error) {
		have, want := len(c.Nodes), int(*in.NewReplicationFactor)
		if want < 1 || want >= have {
			return "", invalidValue("NewReplicationFactor is %d, but must be at least 1 and less than the %d nodes that the cluster has.", want, have)
		}
		removed, err := nodesToRemove(c, have-want, in)
		if err != nil {
			return "", err
		}
		c.Nodes = slices.DeleteFunc(c.Nodes, func(n daxcluster.Node) bool { return slices.Contains(removed, n.ID) })
		return fmt.Sprintf("Cluster has %d nodes, %d less.", want, have-want), nil
	})
}

// nodesToRemove returns the ids of nodes: those that a request names, or the latest, of the
// zones that it names or of all.
func nodesToRemove(c *daxcluster.Cluster, n int, in *api.DecreaseReplicationFactor) ([]string, error) {
	if in.NodeIdsToRemove != nil {
		named := slices.Compact(slices.Sorted(slices.Values(in.NodeIdsToRemove)))
		for _, id := range named {
			if !c.HasNode(id) {
				return nil, noNode(c, id)
			}
		}
		if len(named) != n {
			return nil, invalidCombination("NodeIdsToRemove has %d nodes, but NewReplicationFactor removes %d.", len(named), n)
		}
		return named, nil
	}
	var removed []string
	for _, node := range slices.Backward(c.Nodes) {
		if len(removed) < n && (in.AvailabilityZones == nil || slices.Contains(in.AvailabilityZones, node.Zone)) {
			removed = append(removed, node.ID)
		}
	}
	if len(removed) < n {
		return nil, invalidCombination("AvailabilityZones have %d nodes, but NewReplicationFactor removes %d.", len(removed), n)
	}
	return removed, nil
}

func noNode(c *daxcluster.Cluster, id string) error {
	return apierror.DAX("NodeNotFoundFault", "The cluster %s has no node %s.", c.Name, id)
}

// rebootNode records the event. There is nothing to restart: all nodes are this server.
func (s *Service) rebootNode(ctx context.Context, in *api.RebootNode) (*api.ClusterReply, error) {
	reply, err := s.changeCluster(ctx, in.ClusterName, clusterModifying, func(_ *daxcluster.Registry, c *daxcluster.Cluster) (string, error) {
		if !c.HasNode(*in.NodeId) {
			return "", noNode(c, *in.NodeId)
		}
		return "Node " + *in.NodeId + " rebooted.", nil
	})
	if err != nil {
		return nil, err
	}
	for i := range reply.Cluster.Nodes {
		if n := &reply.Cluster.Nodes[i]; n.NodeId == *in.NodeId {
			n.NodeStatus = nodeRebooting
			reply.Cluster.ActiveNodes--
		}
	}
	return reply, nil
}
