package ops

import (
	"context"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/protocol/api"
)

// tagResourceChecks run in the order in which DynamoDB reports faults.
var tagResourceChecks = []func(*api.TagResource) error{
	func(in *api.TagResource) error { return requireList("tags", in.Tags != nil) },
	func(in *api.TagResource) error {
		if len(in.Tags) == 0 {
			return apierror.Validation("Atleast one Tag needs to be provided as Input.")
		}
		return nil
	},
	func(in *api.TagResource) error { return tagsFit(in.Tags) },
}

func (s *Service) tagResource(ctx context.Context, in *api.TagResource) (*api.Nothing, error) {
	name, err := s.tableOfARN(ctx, in.ResourceArn)
	if err != nil {
		return nil, err
	}
	if err := firstFault(in, tagResourceChecks); err != nil {
		return nil, err
	}
	return s.changeTags(ctx, name, *in.ResourceArn, func(tags []schema.Tag) ([]schema.Tag, error) {
		tags = withTags(tags, in.Tags)
		if len(tags) > maxTags {
			return nil, tooManyTags()
		}
		return tags, nil
	})
}

// untagResourceChecks run in the order in which DynamoDB reports faults.
var untagResourceChecks = []func(*api.UntagResource) error{
	func(in *api.UntagResource) error { return requireList("tagKeys", in.TagKeys != nil) },
	func(in *api.UntagResource) error {
		if len(in.TagKeys) == 0 {
			return apierror.Validation("Atleast one Tag Key needs to be provided as Input.")
		}
		return nil
	},
	func(in *api.UntagResource) error {
		if len(in.TagKeys) > maxTags {
			return tooManyTags()
		}
		for _, key := range in.TagKeys {
			if err := tagKeyFits(&key); err != nil {
				return err
			}
		}
		return nil
	},
}

// untagResource removes tags. Keys that the table does not have are ignored.
func (s *Service) untagResource(ctx context.Context, in *api.UntagResource) (*api.Nothing, error) {
	name, err := s.tableOfARN(ctx, in.ResourceArn)
	if err != nil {
		return nil, err
	}
	if err := firstFault(in, untagResourceChecks); err != nil {
		return nil, err
	}
	return s.changeTags(ctx, name, *in.ResourceArn, func(tags []schema.Tag) ([]schema.Tag, error) {
		return slices.DeleteFunc(tags, func(t schema.Tag) bool { return slices.Contains(in.TagKeys, t.Key) }), nil
	})
}

// listTagsOfResource returns all tags in one page: there are at most 50.
func (s *Service) listTagsOfResource(ctx context.Context, in *api.ListTagsOfResource) (*api.ListTagsOfResourceReply, error) {
	name, err := s.tableOfARN(ctx, in.ResourceArn)
	if err != nil {
		return nil, err
	}
	t, err := s.tableWithTags(name, *in.ResourceArn)
	if err != nil {
		return nil, err
	}
	reply := new(api.ListTagsOfResourceReply)
	for _, tag := range t.Tags {
		reply.Tags = append(reply.Tags, api.Tag{Key: &tag.Key, Value: &tag.Value})
	}
	return reply, nil
}

func (s *Service) changeTags(ctx context.Context, name, arn string, change func([]schema.Tag) ([]schema.Tag, error)) (*api.Nothing, error) {
	t, err := s.tableWithTags(name, arn)
	if err != nil {
		return nil, err
	}
	if t.State == schema.Deleting {
		return nil, apierror.InUse("Attempt to change a resource which is still in use: Table is being deleted: %s", t.Name)
	}
	if err := s.DB.SetTags(ctx, t.Name, change); err != nil {
		return nil, err
	}
	return new(api.Nothing), nil
}

// Tags

// maxTags is the maximum number of tags of a table, and in a request.
const maxTags = 50

func tooManyTags() error {
	return apierror.Validation("Number of Tags exceed the current limit for the provided ResourceArn")
}

func tagsFit(tags []api.Tag) error {
	var keys []string
	for _, t := range tags {
		if err := tagKeyFits(t.Key); err != nil {
			return err
		}
		if strings.HasPrefix(*t.Key, "aws:") {
			return apierror.Validation("Tag Key cannot be prefixed with aws:, Key: %s", *t.Key)
		}
		if t.Value == nil || utf8.RuneCountInString(*t.Value) > 256 || !tagText().MatchString(*t.Value) {
			return apierror.Validation("The Tag Value provided is invalid, Value: %s", orNull(t.Value))
		}
		keys = append(keys, *t.Key)
	}
	if key, twice := firstDuplicate(keys); twice {
		return apierror.Validation("Duplicate Tag Keys provided as input: Duplicate Tag Key found %s", key)
	}
	if len(tags) > maxTags {
		return tooManyTags()
	}
	return nil
}

// tagText matches the keys and values of tags, as on all of AWS.
var tagText = pattern(`^[\p{L}\p{Z}\p{N}_.:/=+\-@]*$`)

func tagKeyFits(key *string) error {
	if key == nil || *key == "" || utf8.RuneCountInString(*key) > 128 || !tagText().MatchString(*key) {
		return apierror.Validation("The Tag Key provided is invalid, Key: %s", orNull(key))
	}
	return nil
}

func orNull(text *string) string {
	if text == nil {
		return "null"
	}
	return *text
}

// withTags adds tags, or replaces those of the same key.
func withTags(tags []schema.Tag, more []api.Tag) []schema.Tag {
	for _, m := range more {
		tag := schema.Tag{Key: *m.Key, Value: *m.Value}
		if i := slices.IndexFunc(tags, func(t schema.Tag) bool { return t.Key == tag.Key }); i >= 0 {
			tags[i] = tag
		} else {
			tags = append(tags, tag)
		}
	}
	return tags
}

// ARNs

// requireList reports a missing list like a constraint. It is not declared as one
// because a missing ARN is reported first.
func requireList(label string, is bool) error {
	if !is {
		return apierror.Validation("%sValue null at '%s' failed to satisfy constraint: Member must not be null", apierror.RequestPrefix, label)
	}
	return nil
}

// tableWithTags returns the table that an ARN names.
func (s *Service) tableWithTags(name, arn string) (*schema.Table, error) {
	t, err := s.DB.Describe(name)
	if err != nil {
		return nil, apierror.NotFound("Requested resource not found: ResourceArn: %s not found", arn)
	}
	return t.Table, nil
}

// tableOfARN returns the name of the table in an ARN, if it can be one of the
// caller's.
func (s *Service) tableOfARN(ctx context.Context, arn *string) (string, error) {
	if arn == nil {
		return "", apierror.Validation("Invalid TableArn")
	}
	parts, err := splitARN(*arn)
	if err != nil {
		return "", err
	}
	service, region, account, resource := parts[2], parts[3], parts[4], parts[5]
	if service != "dynamodb" {
		return "", apierror.InvalidValues("Provided Arn is not a DynamoDB resource arn: %s", *arn)
	}
	name, isTable := strings.CutPrefix(resource, "table/")
	if !isTable || strings.Contains(name, "/index/") {
		return "", apierror.InvalidValues("Invalid resource arn provided, only table or stream is accepted. Provided resource arn: %s", *arn)
	}
	if account != s.account || account == DefaultAccount && !s.has(name) {
		return "", apierror.AccessDenied("Access is denied")
	}
	if region != callerOf(ctx).Region || !tableNameText().MatchString(name) {
		return "", apierror.Validation("Invalid TableArn: Invalid ResourceArn provided as input %s", *arn)
	}
	return name, nil
}

func (s *Service) has(table string) bool {
	_, err := s.DB.Describe(table)
	return err == nil
}

// DefaultAccount is the account of a server. It belongs to no customer of AWS, so AWS always
// treats an ARN with it as another account's. A server whose own account it is does the same for
// tables that it does not have.
const DefaultAccount = "000000000000"

var tableNameText = pattern(`^[a-zA-Z0-9_.-]{3,255}(/stream/[^/]+)?$`)

// splitARN splits an ARN into its six parts, or says which one is missing.
func splitARN(arn string) ([]string, error) {
	if !strings.HasPrefix(arn, "arn:") {
		return nil, apierror.InvalidValues("ARNs must start with 'arn:': %s", arn)
	}
	parts := strings.SplitN(arn, ":", 6)
	missing := map[int]string{
		2: "Second colon partition not found",
		3: "Third colon vendor not found",
		4: "Fourth colon (region/namespace delimiter) not found",
		5: "Fifth colon (namespace/relative-id delimiter) not found",
	}
	if message, ok := missing[len(parts)]; ok {
		return nil, apierror.InvalidValues("%s: %s", message, arn)
	}
	return parts, nil
}
