package ops

import (
	"context"
	"strings"

	"github.com/stator-db/stator/internal/db/daxcluster"
	"github.com/stator-db/stator/internal/protocol/api"
)

// daxPermissions returns what a request to the control plane of DAX needs: clusters are
// resources, and groups and events are not.
func (s *Service) daxPermissions(ctx context.Context, action string, in any) []permission {
	on := func(name *string) []permission {
		return []permission{s.onCluster(ctx, action, s.clusterARN(ctx, or(name, "")))}
	}
	onARN := func(arn *string) permission {
		p := permission{action: action, resource: "*"}
		if clusterARNForm().MatchString(or(arn, "")) {
			p = s.onCluster(ctx, action, *arn)
		}
		return p
	}
	switch in := in.(type) {
	case *api.CreateCluster:
		found := on(in.ClusterName)
		if len(in.Tags) > 0 {
			tags := func() (details, error) { return tagDetails(in.Tags), nil }
			found[0].details = tags
			found = append(found, permission{action: "dax:TagResource", resource: found[0].resource, details: tags})
		}
		return found
	case *api.UpdateCluster:
		return on(in.ClusterName)
	case *api.DeleteCluster:
		return on(in.ClusterName)
	case *api.IncreaseReplicationFactor:
		return on(in.ClusterName)
	case *api.DecreaseReplicationFactor:
		return on(in.ClusterName)
	case *api.RebootNode:
		return on(in.ClusterName)
	case *api.DescribeClusters:
		var found []permission
		for _, name := range in.ClusterNames {
			found = append(found, on(&name)...)
		}
		if found != nil {
			return found
		}
	case *api.TagCluster:
		p := onARN(in.ResourceName)
		p.details = func() (details, error) { return tagDetails(in.Tags), nil }
		return []permission{p}
	case *api.UntagCluster:
		p := onARN(in.ResourceName)
		p.details = func() (details, error) { return details{many: map[string][]string{tagKeys: in.TagKeys}}, nil }
		return []permission{p}
	case *api.ListTags:
		return []permission{onARN(in.ResourceName)}
	}
	return []permission{{action: action, resource: "*"}}
}

// onCluster returns the permission for a cluster, whose tags count.
func (s *Service) onCluster(ctx context.Context, action, arn string) permission {
	return permission{action: action, resource: arn, tags: func(each func(key, value string)) {
		r, err := daxcluster.Read(ctx, s.DB)
		if err != nil {
			return // the operation reports it
		}
		if c := r.Cluster(arn[strings.LastIndexByte(arn, '/')+1:]); c != nil {
			for _, tag := range c.Tags {
				each(tag.Key, or(tag.Value, ""))
			}
		}
	}}
}
