package ops

import (
	"context"
	"errors"
	"io"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db/backup"
	"github.com/stator-db/stator/internal/protocol/api"
)

// The states and kinds of backups.
const (
	backupCreating  = "CREATING"
	backupAvailable = "AVAILABLE"
	backupDeleted   = "DELETED"
	backupByUser    = "USER"
	backupScheduled = "AWS_BACKUP"
)

func (s *Service) createBackup(ctx context.Context, in *api.CreateBackup) (*api.CreateBackupReply, error) {
	if _, err := s.tableToBackUp(in.TableName); err != nil {
		return nil, err
	}
	made, err := s.backups.Create(ctx, in.TableName, *in.BackupName)
	switch {
	case errors.Is(err, backup.ErrTooMany):
		return nil, apierror.LimitExceeded("Too many backups are being created. Wait until some of them are available")
	case err != nil:
		return nil, backupFailure(err)
	}
	return &api.CreateBackupReply{BackupDetails: s.backupReply(ctx, made)}, nil
}

func (s *Service) describeBackup(ctx context.Context, in *api.DescribeBackup) (*api.BackupReply, error) {
	b, err := s.findBackup(ctx, *in.BackupArn)
	if err != nil {
		return nil, err
	}
	return &api.BackupReply{BackupDescription: s.describedBackup(ctx, b)}, nil
}

func (s *Service) deleteBackup(ctx context.Context, in *api.DeleteBackup) (*api.BackupReply, error) {
	b, err := s.findBackup(ctx, *in.BackupArn)
	if err != nil {
		return nil, err
	}
	if b, err = s.backups.Delete(ctx, b.ID); err != nil {
		return nil, backupFault(*in.BackupArn, err)
	}
	desc := s.describedBackup(ctx, b)
	desc.BackupDetails.BackupStatus = backupDeleted
	return &api.BackupReply{BackupDescription: desc}, nil
}

// maxBackupsListed is the largest page of ListBackups.
const maxBackupsListed = 100

func (s *Service) listBackups(ctx context.Context, in *api.ListBackups) (*api.ListBackupsReply, error) {
	after := ""
	if in.ExclusiveStartBackupArn != nil {
		_, id, err := s.backupOfARN(ctx, *in.ExclusiveStartBackupArn)
		if err != nil {
			return nil, err
		}
		after = id
	}
	limit := maxBackupsListed
	if in.Limit != nil {
		limit = int(*in.Limit)
	}
	all, err := s.backups.List(ctx)
	if err != nil {
		return nil, backupFailure(err)
	}
	reply := new(api.ListBackupsReply)
	for _, b := range all {
		if b.ID <= after || !listed(in, b) {
			continue
		}
		if len(reply.BackupSummaries) == limit {
			reply.LastEvaluatedBackupArn = reply.BackupSummaries[limit-1].BackupArn
			break
		}
		d := s.backupReply(ctx, b)
		reply.BackupSummaries = append(reply.BackupSummaries, api.BackupSummary{
			BackupArn: d.BackupArn, BackupCreationDateTime: d.BackupCreationDateTime, BackupName: d.BackupName,
			BackupSizeBytes: d.BackupSizeBytes, BackupStatus: d.BackupStatus, BackupType: d.BackupType,
			TableArn: s.tableARN(ctx, b.Table.Name), TableId: b.Table.UUID, TableName: b.Table.Name,
		})
	}
	return reply, nil
}

// listed reports whether a request asks for a backup. Without a type it asks for
// those of type USER.
func listed(in *api.ListBackups, b backup.Backup) bool {
	switch {
	case in.TableName != nil && *in.TableName != b.Table.Name,
		in.TimeRangeLowerBound != nil && b.Created.Before(in.TimeRangeLowerBound.Time),
		in.TimeRangeUpperBound != nil && !b.Created.Before(in.TimeRangeUpperBound.Time),
		!isSet(in.BackupType, "ALL") && backupType(b) != typeFilter(in):
		return false
	}
	return true
}

func typeFilter(in *api.ListBackups) string {
	if in.BackupType == nil {
		return backupByUser
	}
	return *in.BackupType
}

// backupType returns the kind of a backup. AWS Backup is what makes backups on a
// schedule for DynamoDB.
func backupType(b backup.Backup) string {
	if b.Database != "" {
		return backupScheduled
	}
	return backupByUser
}

// ErrNoSchedule is returned when the server has no schedule for backups.
var ErrNoSchedule = backup.ErrNoSchedule

// ScheduleStatus returns the backups that the schedule has made.
func (s *Service) ScheduleStatus(ctx context.Context) (*backup.ScheduleStatus, error) {
	return s.backups.ScheduleStatus(ctx)
}

// WriteAll writes a consistent copy of all tables, for a backup of the whole
// server.
func (s *Service) WriteAll(ctx context.Context, to io.Writer) error {
	return s.backups.WriteAll(ctx, to)
}

// ARNs

func (s *Service) backupARN(ctx context.Context, table, id string) string {
	return s.tableARN(ctx, table) + "/backup/" + id
}

var backupResource = pattern(`^table/([a-zA-Z0-9_.-]{3,255})/backup/([0-9]{14}-[0-9a-f]{8})$`)

// backupOfARN returns the table and the id of a backup; BackupNotFound if the
// ARN cannot name one of the caller's.
func (s *Service) backupOfARN(ctx context.Context, arn string) (table, id string, err error) {
	parts, err := splitARN(arn)
	if err != nil {
		return "", "", err
	}
	m := backupResource().FindStringSubmatch(parts[5])
	if m == nil || parts[2] != "dynamodb" || parts[3] != callerOf(ctx).Region || parts[4] != s.account {
		return "", "", apierror.BackupNotFound(arn)
	}
	return m[1], m[2], nil
}

// findBackup returns the backup that an ARN names.
func (s *Service) findBackup(ctx context.Context, arn string) (backup.Backup, error) {
	table, id, err := s.backupOfARN(ctx, arn)
	if err != nil {
		return backup.Backup{}, err
	}
	b, err := s.backups.Get(ctx, id)
	if err == nil && b.Table.Name != table {
		err = backup.ErrNotFound
	}
	return b, backupFault(arn, err)
}

// backupFault turns an error of package backup into the customer's.
func backupFault(arn string, err error) error {
	switch {
	case err == nil:
		return nil
	case errors.Is(err, backup.ErrNotFound):
		return apierror.BackupNotFound(arn)
	case errors.Is(err, backup.ErrInUse):
		return apierror.BackupInUse(arn)
	}
	return backupFailure(err)
}

// backupFailure returns a failed backup's error with its text: the customer chose
// where the files are, and can act on it.
func backupFailure(err error) error {
	var fault *apierror.Error
	if errors.As(err, &fault) || errors.Is(err, context.Canceled) {
		return err
	}
	return apierror.Internal("%v", err)
}

// Descriptions

func (s *Service) backupReply(ctx context.Context, b backup.Backup) *api.BackupDetails {
	status := backupAvailable
	if b.Creating {
		status = backupCreating
	}
	return &api.BackupDetails{
		BackupArn:              s.backupARN(ctx, b.Table.Name, b.ID),
		BackupCreationDateTime: api.TimeOf(b.Created),
		BackupName:             b.Name,
		BackupSizeBytes:        &b.Bytes,
		BackupStatus:           status,
		BackupType:             backupType(b),
	}
}

func (s *Service) describedBackup(ctx context.Context, b backup.Backup) *api.BackupDescription {
	t := &b.Table
	mode := "PROVISIONED"
	if t.OnDemand {
		mode = "PAY_PER_REQUEST"
	}
	return &api.BackupDescription{
		BackupDetails: s.backupReply(ctx, b),
		SourceTableDetails: &api.SourceTableDetails{
			BillingMode:           mode,
			ItemCount:             &b.Items,
			KeySchema:             keyReply(t.Key),
			OnDemandThroughput:    ceilingsReply(t.MaxRequests),
			ProvisionedThroughput: unitsOf(t.Throughput),
			TableArn:              s.tableARN(ctx, t.Name),
			TableCreationDateTime: api.TimeOf(t.Created),
			TableId:               t.UUID,
			TableName:             t.Name,
			TableSizeBytes:        &b.Bytes,
		},
		SourceTableFeatureDetails: featuresReply(t),
	}
}

func featuresReply(t *schema.Table) *api.SourceTableFeatureDetails {
	desc := &api.SourceTableFeatureDetails{SSEDescription: encryptionReply(t.Encryption)}
	for i := range t.Indexes {
		switch x := &t.Indexes[i]; {
		case x.State == schema.Deleting:
		case x.Global:
			desc.GlobalSecondaryIndexes = append(desc.GlobalSecondaryIndexes, api.GlobalSecondaryIndexInfo{
				IndexName: x.Name, KeySchema: keyReply(x.Key), Projection: projectionReply(x.Projection),
				OnDemandThroughput: ceilingsReply(x.MaxRequests), ProvisionedThroughput: unitsOf(x.Throughput),
			})
		default:
			desc.LocalSecondaryIndexes = append(desc.LocalSecondaryIndexes, api.LocalSecondaryIndexInfo{
				IndexName: x.Name, KeySchema: keyReply(x.Key), Projection: projectionReply(x.Projection),
			})
		}
	}
	if stream, ok := t.Stream(); ok {
		enabled := true
		desc.StreamDescription = &api.StreamSpecification{StreamEnabled: &enabled, StreamViewType: &stream.View}
	}
	if t.TimeToLive.Attribute != "" {
		desc.TimeToLiveDescription = &api.TimeToLiveDescription{AttributeName: t.TimeToLive.Attribute, TimeToLiveStatus: "ENABLED"}
	}
	return desc
}

// unitsOf returns provisioned units in the form that requests have.
func unitsOf(t schema.Throughput) *api.ProvisionedThroughput {
	return &api.ProvisionedThroughput{ReadCapacityUnits: &t.Read, WriteCapacityUnits: &t.Write}
}
