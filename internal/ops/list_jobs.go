package ops

import (
	"context"
	"encoding/base64"
	"errors"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/db/backup"
	"github.com/stator-db/stator/internal/protocol/api"
)

func (s *Service) listJobs(ctx context.Context, in *api.ListJobs) (*api.ListJobsReply, error) {
	after := ""
	if in.NextToken != nil {
		name, err := base64.RawURLEncoding.DecodeString(*in.NextToken)
		if err != nil {
			return nil, apierror.Validation("Invalid NextToken")
		}
		after = string(name)
	}
	running, err := s.DB.Activities(ctx)
	if err != nil {
		return nil, err
	}
	reply := &api.ListJobsReply{Jobs: []api.Job{}}
	last := ""
	for i := range running {
		name := jobName(&running[i])
		if name <= after {
			continue
		}
		if len(reply.Jobs) == listLimit(in.Limit) {
			reply.NextToken = base64.RawURLEncoding.EncodeToString([]byte(last))
			break
		}
		job, err := s.jobReply(ctx, &running[i])
		if err != nil {
			return nil, err
		}
		reply.Jobs, last = append(reply.Jobs, job), name
	}
	if reply.ScheduledBackups, err = s.scheduledBackups(ctx); err != nil {
		return nil, err
	}
	reply.Scrub = s.scrubReply()
	return reply, nil
}

// jobName orders jobs as Activities does.
func jobName(a *db.Activity) string {
	return strings.Join([]string{a.Table, string(a.Kind), a.Index}, "\x00")
}

func (s *Service) jobReply(ctx context.Context, a *db.Activity) (api.Job, error) {
	if id := a.Source.Backup; id != "" && s.backups != nil {
		// A backup that was removed meanwhile, or cannot be read, leaves the progress unknown.
		if b, err := s.backups.Get(ctx, id); err == nil {
			a.Expect(b.Items)
		} else if ctx.Err() != nil {
			return api.Job{}, err
		}
	}
	job := api.Job{
		JobType: string(a.Kind), Status: "RUNNING", TableName: a.Table, IndexName: a.Index,
		SourceTableName: a.Source.Table, BackupId: a.Source.Backup, RestoreTime: api.TimeOf(a.Source.At), StartedAt: api.TimeOf(a.Since),
	}
	if a.Kind == db.DeletingIndex {
		return job, nil
	}
	if a.Items == 0 && a.Share <= 0 {
		job.Status = "WAITING"
	}
	job.Items = &a.Items
	if a.Share >= 0 {
		job.Progress = &a.Share
	}
	if a.Expected > 0 {
		job.ExpectedItems = &a.Expected
	}
	return job, nil
}

func (s *Service) scheduledBackups(ctx context.Context) (*api.ScheduledBackups, error) {
	if s.backups == nil {
		return nil, nil
	}
	status, err := s.backups.ScheduleStatus(ctx)
	if errors.Is(err, backup.ErrNoSchedule) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	every, err := time.ParseDuration(status.Every)
	if err != nil {
		return nil, err
	}
	reply := &api.ScheduledBackups{Interval: every.Seconds(), Kept: len(status.Sets)}
	if len(status.Sets) > 0 {
		last := status.Sets[0]
		tables := int64(last.Tables)
		reply.LastAt, reply.NextAt = api.TimeOf(last.Created), api.TimeOf(last.Created.Add(every))
		reply.LastBytes, reply.LastItems, reply.LastTables = &last.Bytes, &last.Items, &tables
	}
	if failed := status.Failed; failed != nil {
		reply.FailedAt, reply.FailedError = api.TimeOf(failed.At), failed.Error
	}
	return reply, nil
}

func (s *Service) scrubReply() *api.ScrubDescription {
	scrub := s.scrub()
	if scrub == nil {
		return nil
	}
	status := scrub.Status()
	reply := &api.ScrubDescription{Progress: status.Share(), Passes: status.Passes, Keys: status.Keys, LastPassAt: api.TimeOf(status.LastPass)}
	for _, n := range status.Findings {
		reply.Findings += n
	}
	if !status.LastPass.IsZero() {
		took := status.Took.Seconds()
		reply.LastPassTook = &took
	}
	return reply
}
