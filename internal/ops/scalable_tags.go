package ops

import (
	"context"
	"maps"
	"regexp"
	"unicode/utf8"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/db/autoscaling"
	"github.com/stator-db/stator/internal/protocol/api"
)

// The lengths of a tag of a scalable target. It may have as many tags as a table.
const (
	maxScalableTagKey   = 128
	maxScalableTagValue = 256
)

func scalableTagsFit(tags map[string]string) error {
	if len(tags) > maxTags {
		return apierror.TooManyTags(maxTags)
	}
	for key, value := range tags {
		if n := utf8.RuneCountInString(key); n < 1 || n > maxScalableTagKey || utf8.RuneCountInString(value) > maxScalableTagValue {
			return apierror.Validation("A tag has a key of 1 to %d characters and a value of at most %d", maxScalableTagKey, maxScalableTagValue)
		}
	}
	return nil
}

const scalableTargetPattern = `^arn:.+:application-autoscaling:.+:[0-9]+:scalable-target\/[a-zA-Z0-9-]+$`

var scalableTargetARN = regexp.MustCompile(scalableTargetPattern)

// scalableTarget returns the settings of the target of an ARN.
func (s *Service) scalableTarget(ctx context.Context, arn string) (*autoscaling.Settings, error) {
	if !scalableTargetARN.MatchString(arn) {
		return nil, apierror.Validation("1 validation error detected: Value '%s' at 'resourceARN' failed to satisfy constraint: Member must satisfy regular expression pattern: %s", arn, scalableTargetPattern)
	}
	all, err := s.scaling.List(ctx)
	if err != nil {
		return nil, err
	}
	for _, settings := range all {
		if settings.Target != nil && settings.Target.ARN == arn {
			return settings, nil
		}
	}
	return nil, noScalableTarget(arn)
}

func noScalableTarget(arn string) error {
	return apierror.NotFound("No scalable target found for the ARN %s", arn)
}

func (s *Service) changeScalableTags(ctx context.Context, arn string, change func(tags map[string]string) error) (*api.Empty, error) {
	settings, err := s.scalableTarget(ctx, arn)
	if err != nil {
		return nil, err
	}
	return new(api.Empty), s.scaling.Change(ctx, settings.ID, func(settings *autoscaling.Settings) error {
		t := settings.Target
		if t == nil || t.ARN != arn {
			return noScalableTarget(arn)
		}
		if t.Tags == nil {
			t.Tags = make(map[string]string)
		}
		return change(t.Tags)
	})
}

func (s *Service) tagScalableTarget(ctx context.Context, in *api.TagScalableTarget) (*api.Empty, error) {
	if err := scalableTagsFit(in.Tags); err != nil {
		return nil, err
	}
	return s.changeScalableTags(ctx, *in.ResourceARN, func(tags map[string]string) error {
		maps.Copy(tags, in.Tags)
		return scalableTagsFit(tags)
	})
}

func (s *Service) untagScalableTarget(ctx context.Context, in *api.UntagScalableTarget) (*api.Empty, error) {
	return s.changeScalableTags(ctx, *in.ResourceARN, func(tags map[string]string) error {
		for _, key := range in.TagKeys {
			delete(tags, key)
		}
		return nil
	})
}

func (s *Service) listTagsForScalableTarget(ctx context.Context, in *api.ListTagsForScalableTarget) (*api.ListTagsForScalableTargetReply, error) {
	settings, err := s.scalableTarget(ctx, *in.ResourceARN)
	if err != nil {
		return nil, err
	}
	return &api.ListTagsForScalableTargetReply{Tags: settings.Target.Tags}, nil
}
