package ops

import (
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/db/daxcluster"
	"github.com/stator-db/stator/internal/protocol/api"
)

// The lengths of a tag of a cluster. It may have as many tags as a table.
const (
	maxClusterTagKey   = 128
	maxClusterTagValue = 256
)

func clusterTagsFit(tags []api.Tag) error {
	if len(tags) > maxTags {
		return tooManyClusterTags()
	}
	for _, tag := range tags {
		key := or(tag.Key, "")
		switch n := utf8.RuneCountInString(key); {
		case n < 1 || n > maxClusterTagKey || utf8.RuneCountInString(or(tag.Value, "")) > maxClusterTagValue:
			return invalidValue("A tag has a key of 1 to %d characters and a value of at most %d.", maxClusterTagKey, maxClusterTagValue)
		case strings.HasPrefix(key, "aws:"):
			return invalidValue("The key %s of a tag is not valid: it begins with aws:.", key)
		}
	}
	return nil
}

func tooManyClusterTags() error {
	return apierror.DAX("TagQuotaPerResourceExceeded", "A cluster can have at most %d tags.", maxTags)
}

// withClusterTags returns tags with others, of which those of the same key are replaced.
func withClusterTags(tags []daxcluster.Tag, more []api.Tag) []daxcluster.Tag {
	for _, tag := range more {
		i := slices.IndexFunc(tags, func(t daxcluster.Tag) bool { return t.Key == *tag.Key })
		if i < 0 {
			i, tags = len(tags), append(tags, daxcluster.Tag{Key: *tag.Key})
		}
		tags[i].Value = tag.Value
	}
	return tags
}

func clusterTagsReply(tags []daxcluster.Tag) *api.ClusterTagsReply {
	reply := new(api.ClusterTagsReply)
	for _, tag := range tags {
		reply.Tags = append(reply.Tags, api.Tag{Key: &tag.Key, Value: tag.Value})
	}
	return reply
}

var clusterARNForm = pattern(`^arn:aws[a-z-]*:dax:[a-z0-9-]+:[0-9]{12}:cache/(.+)$`)

// clusterOf returns the cluster of an ARN.
func clusterOf(r *daxcluster.Registry, arn string) (*daxcluster.Cluster, error) {
	m := clusterARNForm().FindStringSubmatch(arn)
	if m == nil {
		return nil, apierror.DAX("InvalidARNFault", "The ARN %s is not valid: it has the form of arn:aws:dax:us-east-1:123456789012:cache/name.", arn)
	}
	if c := r.Cluster(m[1]); c != nil && c.ARN == arn {
		return c, nil
	}
	return nil, noCluster(m[1])
}

// changeClusterTags changes the tags of the cluster of an ARN, and replies with tags that
// change returns.
func (s *Service) changeClusterTags(ctx context.Context, arn string, change func(*daxcluster.Cluster) ([]daxcluster.Tag, error)) (*api.ClusterTagsReply, error) {
	var returned []daxcluster.Tag
	err := daxcluster.Change(ctx, s.DB, func(r *daxcluster.Registry) error {
		c, err := clusterOf(r, arn)
		if err == nil {
			returned, err = change(c)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	return clusterTagsReply(returned), nil
}

// tagCluster adds tags, and replies with all of them.
func (s *Service) tagCluster(ctx context.Context, in *api.TagCluster) (*api.ClusterTagsReply, error) {
	if err := clusterTagsFit(in.Tags); err != nil {
		return nil, err
	}
	return s.changeClusterTags(ctx, *in.ResourceName, func(c *daxcluster.Cluster) ([]daxcluster.Tag, error) {
		if c.Tags = withClusterTags(c.Tags, in.Tags); len(c.Tags) > maxTags {
			return nil, tooManyClusterTags()
		}
		return c.Tags, nil
	})
}

// untagCluster removes tags, and replies with them.
func (s *Service) untagCluster(ctx context.Context, in *api.UntagCluster) (*api.ClusterTagsReply, error) {
	return s.changeClusterTags(ctx, *in.ResourceName, func(c *daxcluster.Cluster) (removed []daxcluster.Tag, err error) {
		for _, key := range in.TagKeys {
			i := slices.IndexFunc(c.Tags, func(t daxcluster.Tag) bool { return t.Key == key })
			if i < 0 {
				return nil, apierror.DAX("TagNotFoundFault", "The cluster %s has no tag %s.", c.Name, key)
			}
			removed = append(removed, c.Tags[i])
			c.Tags = slices.Delete(c.Tags, i, i+1)
		}
		return removed, nil
	})
}

// listTags returns all tags in one page: there are at most 50.
func (s *Service) listTags(ctx context.Context, in *api.ListTags) (*api.ClusterTagsReply, error) {
	if or(in.NextToken, "") != "" {
		return nil, invalidValue("The NextToken is not valid.")
	}
	r, err := daxcluster.Read(ctx, s.DB)
	if err != nil {
		return nil, err
	}
	c, err := clusterOf(r, *in.ResourceName)
	if err != nil {
		return nil, err
	}
	return clusterTagsReply(c.Tags), nil
}
