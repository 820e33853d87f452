package ops

import (
	"context"
	"strings"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/protocol/api"
)

// permission is one action on one resource that a request needs.
type permission struct {
	action   string // with its service, as in dynamodb:GetItem
	resource string // an ARN, or *
	table    string // whose tags count and whose resource policy applies; "" if none
	stream   bool   // the resource is a stream of the table

	// tags calls each for the tags of a resource that is not a table's; nil if it has none.
	tags func(each func(key, value string))

	// rejected is the fault of a statement that is not executed, and needs no permission.
	rejected error

	// details returns the values of DynamoDB's condition keys. They are computed only for
	// policies that have conditions on them; nil if there are none.
	details func() (details, error)
}

// label returns the label of the stream; empty for another resource.
func (p *permission) label() string {
	if !p.stream {
		return ""
	}
	return p.resource[strings.LastIndexByte(p.resource, '/')+1:]
}

// details are the values of condition keys: those with one value, and those with
// several. A key without values is absent.
type details struct {
	one   map[string]string
	many  map[string][]string
	named map[string]bool // the names in many of Attributes
	fault error           // of the request

	missing error // that the table does not exist, whose keys are therefore not known
}

// The condition keys that permissions have, without their service.
const (
	leadingKeys            = "dynamodb:LeadingKeys"
	attributes             = "dynamodb:Attributes"
	selected               = "dynamodb:Select"
	returnValues           = "dynamodb:ReturnValues"
	returnConsumedCapacity = "dynamodb:ReturnConsumedCapacity"
	enclosingOperation     = "dynamodb:EnclosingOperation"
	fullTableScan          = "dynamodb:FullTableScan"
	tagKeys                = "aws:TagKeys"
	requestTag             = "aws:RequestTag/"
)

// partitionKeyValues are the condition keys of the attributes of a partition key.
var partitionKeyValues = [...]string{
	"dynamodb:FirstPartitionKeyValues", "dynamodb:SecondPartitionKeyValues",
	"dynamodb:ThirdPartitionKeyValues", "dynamodb:FourthPartitionKeyValues",
}

// permissions returns what a request needs: an operation that is not listed here cannot
// be permitted. A batch needs one permission for each of its tables, a transaction and
// statements one for each part.
func (s *Service) permissions(ctx context.Context, r Request) ([]permission, error) {
	if r.operation == nil && IsAction(r.name) {
		return []permission{{action: "stator:" + r.name, resource: "*"}}, nil
	}
	if c := carriedBy(ctx); c != nil && c.Cluster != "" {
		return clusterPermissions(c.Cluster, r), nil
	}
	if found, ok, err := s.itemPermissions(ctx, r.in); ok {
		return found, err
	}
	return s.tablePermissions(ctx, r)
}

// itemActions are needed on a table that is restored.
var itemActions = []string{"BatchWriteItem", "DeleteItem", "GetItem", "PutItem", "Query", "Scan", "UpdateItem"}

// tablePermissions returns the permissions of requests to tables and what belongs to
// them. Most need their own action on what they name.
func (s *Service) tablePermissions(ctx context.Context, r Request) ([]permission, error) {
	if name, ok := strings.CutPrefix(r.name, autoScalingPrefix); ok {
		return []permission{{action: "application-autoscaling:" + name, resource: "*"}}, nil
	}
	if name, ok := strings.CutPrefix(r.name, daxPrefix); ok {
		return s.daxPermissions(ctx, "dax:"+name, r.in), nil
	}
	action := "dynamodb:" + r.name
	if table, ok := namedTable(r.in); ok {
		return s.onTable(ctx, action, table), nil
	}
	if arn, ok := namedARN(r.in); ok {
		return []permission{permissionOnARN(action, arn)}, nil
	}
	everything := []permission{{action: action, resource: "*"}}
	switch in := r.in.(type) {
	case *api.ListTables, *api.ListBackups, *api.ListStreams, *api.ListExports, *api.ListImports,
		*api.ListContributorInsights, *api.DescribeLimits, *api.DescribeEndpoints:
		return everything, nil
	case *api.CreateTable:
		return s.createPermissions(ctx, in), nil
	case *api.DescribeContributorInsights:
		return s.onIndex(ctx, action, in.TableName, in.IndexName), nil
	case *api.UpdateContributorInsights:
		return s.onIndex(ctx, action, in.TableName, in.IndexName), nil
	case *api.TagResource:
		return tagPermission(action, in.ResourceArn, tagDetails(in.Tags)), nil
	case *api.UntagResource:
		return tagPermission(action, in.ResourceArn, details{many: map[string][]string{tagKeys: in.TagKeys}}), nil
	case *api.GetRecords:
		arn, _, err := splitIterator(or(in.ShardIterator, ""))
		return []permission{permissionOnARN(action, &arn)}, err
	case *api.RestoreTableFromBackup:
		source := permissionOnARN(action, in.BackupArn)
		return append([]permission{source}, s.restorePermissions(ctx, action, or(in.TargetTableName, ""))...), nil
	case *api.RestoreTableToPointInTime:
		source := everything
		switch {
		case in.SourceTableName != nil:
			source = s.onTable(ctx, action, *in.SourceTableName)
		case in.SourceTableArn != nil:
			source = []permission{permissionOnARN(action, in.SourceTableArn)}
		}
		return append(source, s.restorePermissions(ctx, action, or(in.TargetTableName, ""))...), nil
	case *api.ImportTable:
		if in.TableCreationParameters == nil || in.TableCreationParameters.TableName == nil {
			return everything, nil
		}
		return s.onTable(ctx, action, *in.TableCreationParameters.TableName), nil
	case *api.SetThrottling:
		return s.onTable(ctx, "stator:SetThrottling", in.TableName), nil
	case *api.GetHeat:
		return s.onIndex(ctx, "stator:GetHeat", in.TableName, in.IndexName), nil
	case *api.DescribeExpiry:
		return s.withScan(ctx, r.name, in.TableName)
	case *api.ListDeadLetters:
		return s.onTrigger(ctx, r.name, in.TriggerName, true)
	case *api.ReplayDeadLetters:
		return s.onTrigger(ctx, r.name, in.TriggerName, false)
	case *api.ListTriggers, *api.ListJobs, *api.ExplainDenial, *api.CreateAccessKey, *api.ListAccessKeys, *api.DeleteAccessKey,
		*api.PutPrincipal, *api.GetPrincipal, *api.ListPrincipals, *api.DeletePrincipal, *api.GetShapes,
		*api.SetFaults, *api.GetFaults, *api.ListInjectedFaults,
		*api.GetClock, *api.SetClock, *api.AdvanceClock, *api.FreezeClock, *api.RunClock,
		*api.CreateFork, *api.ListForks, *api.DeleteFork, *api.CreateSnapshot, *api.ListSnapshots, *api.DeleteSnapshot, *api.Rewind:
		return []permission{{action: "stator:" + r.name, resource: "*"}}, nil
	}
	return nil, apierror.AccessDenied("Access is denied")
}

// namedTable returns the table of a request that needs one permission, on that table.
func namedTable(in any) (name string, ok bool) {
	switch in := in.(type) {
	case *api.UpdateTable:
		return in.TableName, true
	case *api.DeleteTable:
		return in.TableName, true
	case *api.DescribeTable:
		return in.TableName, true
	case *api.DescribeTimeToLive:
		return in.TableName, true
	case *api.UpdateTimeToLive:
		return in.TableName, true
	case *api.DescribeContinuousBackups:
		return in.TableName, true
	case *api.UpdateContinuousBackups:
		return in.TableName, true
	case *api.DescribeTableReplicaAutoScaling:
		return in.TableName, true
	case *api.UpdateTableReplicaAutoScaling:
		return in.TableName, true
	case *api.CreateBackup:
		return in.TableName, true
	}
	return "", false
}

// namedARN returns the ARN of a request that needs one permission, on what has that ARN.
func namedARN(in any) (arn *string, ok bool) {
	switch in := in.(type) {
	case *api.PutResourcePolicy:
		return in.ResourceArn, true
	case *api.GetResourcePolicy:
		return in.ResourceArn, true
	case *api.DeleteResourcePolicy:
		return in.ResourceArn, true
	case *api.ListTagsOfResource:
		return in.ResourceArn, true
	case *api.DescribeBackup:
		return in.BackupArn, true
	case *api.DeleteBackup:
		return in.BackupArn, true
	case *api.ExportTableToPointInTime:
		return in.TableArn, true
	case *api.DescribeExport:
		return in.ExportArn, true
	case *api.DescribeImport:
		return in.ImportArn, true
	case *api.DescribeStream:
		return in.StreamArn, true
	case *api.GetShardIterator:
		return in.StreamArn, true
	}
	return nil, false
}

// tagPermission returns the permission of a request that adds or removes tags.
func tagPermission(action string, arn *string, tags details) []permission {
	p := permissionOnARN(action, arn)
	p.details = func() (details, error) { return tags, nil }
	return []permission{p}
}

// onTable returns the permission for a table.
func (s *Service) onTable(ctx context.Context, action, table string) []permission {
	return []permission{{action: action, resource: s.tableARN(ctx, table), table: table}}
}

// onIndex returns the permission for a table or one of its indexes.
func (s *Service) onIndex(ctx context.Context, action, table string, index *string) []permission {
	arn := s.tableARN(ctx, table)
	if index != nil {
		arn += "/index/" + *index
	}
	return []permission{{action: action, resource: arn, table: table}}
}

// createPermissions returns the permissions of a CreateTable.
func (s *Service) createPermissions(ctx context.Context, in *api.CreateTable) []permission {
	arn := s.tableARN(ctx, in.TableName)
	found := []permission{{action: "dynamodb:CreateTable", resource: arn}}
	if len(in.Tags) > 0 {
		tags := func() (details, error) { return tagDetails(in.Tags), nil }
		found[0].details = tags
		found = append(found, permission{action: "dynamodb:TagResource", resource: arn, details: tags})
	}
	if in.ResourcePolicy != nil {
		found = append(found, permission{action: "dynamodb:PutResourcePolicy", resource: arn})
	}
	return found
}

// restorePermissions returns what is needed on the table that a restore makes.
func (s *Service) restorePermissions(ctx context.Context, action, table string) []permission {
	arn := s.tableARN(ctx, table)
	found := []permission{{action: action, resource: arn, table: table}}
	for _, name := range itemActions {
		found = append(found, permission{action: "dynamodb:" + name, resource: arn, table: table})
	}
	return found
}

// permissionOnARN returns the permission for what an ARN names. Its resource is made anew
// from the parts that operations look at, so that other spellings are the same resource. An
// ARN that is none, or is missing, is rejected by the operation.
func permissionOnARN(action string, arn *string) permission {
	p := permission{action: action, resource: "*"}
	parts, err := splitARN(or(arn, ""))
	if err != nil || parts[2] != "dynamodb" {
		return p
	}
	region, account, id := parts[3], parts[4], parts[5]
	p.resource = "arn:aws:dynamodb:" + region + ":" + account + ":" + id
	name, isTable := strings.CutPrefix(id, "table/")
	table, rest, nested := strings.Cut(name, "/")
	p.stream = isTable && strings.HasPrefix(rest, "stream/")
	// Backups, exports and imports are resources of their own: they have no tags and no policies.
	if isTable && (!nested || p.stream || strings.HasPrefix(rest, "index/")) {
		p.table = table
	}
	return p
}

func tagDetails(tags []api.Tag) details {
	d := details{one: make(map[string]string), many: make(map[string][]string)}
	for _, tag := range tags {
		if tag.Key == nil {
			continue
		}
		d.many[tagKeys] = append(d.many[tagKeys], *tag.Key)
		if tag.Value == nil {
			continue
		}
		// The names of condition keys have no case: with several spellings of a name, it has
		// no single value.
		key := requestTag + strings.ToLower(*tag.Key)
		if first, twice := d.one[key]; twice {
			delete(d.one, key)
			d.many[key] = []string{first}
		}
		if d.many[key] != nil {
			d.many[key] = append(d.many[key], *tag.Value)
		} else {
			d.one[key] = *tag.Value
		}
	}
	return d
}

// names adds the names of top-level attributes, each once.
func (d *details) names(names ...string) {
	for _, name := range names {
		if !d.named[name] {
			d.named[name] = true
			d.many[attributes] = append(d.many[attributes], name)
		}
	}
}

func newDetails(capacity *string) details {
	d := details{one: make(map[string]string), many: make(map[string][]string), named: make(map[string]bool)}
	d.one[returnConsumedCapacity] = or(capacity, "NONE")
	return d
}

// with returns the details of a part of a request.
func (d details) with(key, value string) details {
	if d.one == nil {
		return d // there is a fault
	}
	d.one[key] = value
	return d
}

// or returns an optional member, or what it means if it is absent.
func or(member *string, absent string) string {
	if member == nil {
		return absent
	}
	return *member
}
