package ops

import (
	"context"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/protocol/api"
)

// maxRecoveryDays is the longest recovery period, and the default.
const maxRecoveryDays = 35

func (s *Service) updateContinuousBackups(ctx context.Context, in *api.UpdateContinuousBackups) (*api.ContinuousBackupsReply, error) {
	spec := in.PointInTimeRecoverySpecification
	days := maxRecoveryDays
	switch {
	case !*spec.PointInTimeRecoveryEnabled && spec.RecoveryPeriodInDays != nil:
		return nil, apierror.InvalidValues("RecoveryPeriodInDays cannot be specified when PointInTimeRecoveryEnabled is false")
	case !*spec.PointInTimeRecoveryEnabled:
		days = 0
	case spec.RecoveryPeriodInDays != nil:
		days = int(*spec.RecoveryPeriodInDays)
	}
	if _, err := s.tableToBackUp(in.TableName); err != nil {
		return nil, err
	}
	d, err := s.DB.SetRecovery(ctx, in.TableName, days)
	if err != nil {
		return nil, err
	}
	return s.recoveryReply(ctx, d.Table)
}

func (s *Service) describeContinuousBackups(ctx context.Context, in *api.DescribeContinuousBackups) (*api.ContinuousBackupsReply, error) {
	d, err := s.DB.Describe(in.TableName)
	if err != nil {
		return nil, apierror.TableNotFound(in.TableName)
	}
	return s.recoveryReply(ctx, d.Table)
}

// tableToBackUp returns a table that can be backed up now.
func (s *Service) tableToBackUp(table string) (db.Description, error) {
	d, err := s.DB.Describe(table)
	switch {
	case err != nil || d.Status == schema.Deleting:
		return db.Description{}, apierror.TableNotFound(table)
	case d.Status == schema.Creating:
		return db.Description{}, apierror.BackupsNotReady(table)
	}
	return d, nil
}

// recoveryReply describes the times to which a table can be restored.
// ContinuousBackupsStatus is always ENABLED.
func (s *Service) recoveryReply(ctx context.Context, t *schema.Table) (*api.ContinuousBackupsReply, error) {
	desc := &api.PointInTimeRecoveryDescription{PointInTimeRecoveryStatus: "DISABLED"}
	if t.Recovery.Enabled {
		runs, err := s.DB.ClockRuns(ctx)
		if err != nil {
			return nil, err
		}
		earliest, latest := runs.Window(t.Recovery, s.DB.Now())
		days := int32(t.Recovery.Days)
		desc = &api.PointInTimeRecoveryDescription{
			PointInTimeRecoveryStatus:  "ENABLED",
			EarliestRestorableDateTime: api.TimeOf(earliest),
			LatestRestorableDateTime:   api.TimeOf(latest),
			RecoveryPeriodInDays:       &days,
		}
	}
	return &api.ContinuousBackupsReply{ContinuousBackupsDescription: &api.ContinuousBackupsDescription{
		ContinuousBackupsStatus:        "ENABLED",
		PointInTimeRecoveryDescription: desc,
	}}, nil
}
