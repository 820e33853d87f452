package ops

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/db/transfer"
	"github.com/stator-db/stator/internal/protocol/api"
	"github.com/stator-db/stator/internal/protocol/wire"
	"github.com/stator-db/stator/internal/timeid"
)

const (
	exportFull        = "FULL_EXPORT"
	exportIncremental = "INCREMENTAL_EXPORT"
)

// maxExportWindow is the maximum length of the window of an incremental export.
const maxExportWindow = 24 * time.Hour

// exportChecks run in the order in which faults are reported.
var exportChecks = []func(*api.ExportTableToPointInTime) error{
	func(in *api.ExportTableToPointInTime) error {
		switch incremental := isSet(in.ExportType, exportIncremental); {
		case in.FilterSpecification != nil:
			return notSupported("FilterSpecification")
		case incremental && in.IncrementalExportSpecification == nil:
			return apierror.InvalidValues("IncrementalExportSpecification must be specified when ExportType is INCREMENTAL_EXPORT")
		case !incremental && in.IncrementalExportSpecification != nil:
			return apierror.InvalidValues("IncrementalExportSpecification cannot be specified when ExportType is FULL_EXPORT")
		case incremental && in.ExportTime != nil:
			return apierror.InvalidValues("ExportTime cannot be specified when ExportType is INCREMENTAL_EXPORT")
		}
		return nil
	},
	func(in *api.ExportTableToPointInTime) error {
		w := in.IncrementalExportSpecification
		switch {
		case w == nil:
		case w.ExportFromTime == nil:
			return apierror.InvalidValues("ExportFromTime must be specified for an incremental export")
		case w.ExportToTime != nil && !w.ExportFromTime.Before(w.ExportToTime.Time):
			return apierror.InvalidValues("ExportFromTime must be less than ExportToTime")
		case w.ExportToTime != nil && w.ExportToTime.Sub(w.ExportFromTime.Time) > maxExportWindow:
			return apierror.InvalidValues("The difference between ExportFromTime and ExportToTime must be at most 24 hours")
		}
		return nil
	},
	func(in *api.ExportTableToPointInTime) error {
		if in.S3SseKmsKeyId != nil && !isSet(in.S3SseAlgorithm, "KMS") {
			return apierror.InvalidValues("S3SseKmsKeyId can only be specified when S3SseAlgorithm is KMS")
		}
		return nil
	},
	func(in *api.ExportTableToPointInTime) error {
		if err := transfer.CheckPrefix(orZero(in.S3Prefix)); err != nil {
			return apierror.InvalidValues("S3Prefix %v", err)
		}
		return nil
	},
}

func (s *Service) exportTableToPointInTime(ctx context.Context, in *api.ExportTableToPointInTime) (*api.ExportReply, error) {
	if err := firstFault(in, exportChecks); err != nil {
		return nil, err
	}
	d, err := s.tableToExport(ctx, *in.TableArn)
	if err != nil {
		return nil, err
	}
	if err := s.knownBucket(*in.S3Bucket); err != nil {
		return nil, err
	}
	runs, err := s.DB.ClockRuns(ctx)
	if err != nil {
		return nil, err
	}
	now := s.DB.Now().Truncate(time.Millisecond)
	of, err := exportOf(in, runs.KeptFrom(d.Recovery, now), now)
	if err != nil {
		return nil, err
	}
	j := transfer.Job{
		Table: d.Name, TableID: d.ID, TableUUID: d.UUID, TableARN: s.tableARN(ctx, d.Name),
		Bucket: *in.S3Bucket, Prefix: orZero(in.S3Prefix), Owner: orZero(in.S3BucketOwner),
		Format: transfer.JSON, Token: orZero(in.ClientToken), Digest: requestDigest(in), Export: of,
	}
	if in.ExportFormat != nil {
		j.Format = *in.ExportFormat
	}
	made, err := s.transfers.StartExport(ctx, j)
	switch {
	case errors.Is(err, transfer.ErrConflict):
		return nil, apierror.ExportConflict()
	case errors.Is(err, transfer.ErrTooMany):
		return nil, apierror.LimitExceeded("Too many exports are in progress. Wait until some of them are complete")
	case err != nil:
		return nil, err
	}
	return &api.ExportReply{ExportDescription: exportReply(&made)}, nil
}

// tableToExport returns the table that an ARN names; it must have point-in-time
// recovery.
func (s *Service) tableToExport(ctx context.Context, arn string) (db.Description, error) {
	name, own := strings.CutPrefix(arn, s.tableARN(ctx, ""))
	if !own || !tableNameText().MatchString(name) {
		var err error
		if name, err = s.tableOfARN(ctx, &arn); err != nil {
			return db.Description{}, err
		}
	}
	d, err := s.DB.Describe(name)
	switch {
	case err != nil || d.Status == schema.Deleting || d.Status == schema.Creating:
		return db.Description{}, apierror.TableNotFound(name)
	case !d.Recovery.Enabled:
		return db.Description{}, apierror.NoRecovery(name)
	}
	return d, nil
}

// knownBucket rejects buckets that the server was not started with.
func (s *Service) knownBucket(name string) error {
	if s.transfers == nil || !s.transfers.HasBucket(name) {
		return apierror.InvalidValues("S3Bucket %s is not known to this server. Start it with --bucket %s=<folder or URL>", name, name)
	}
	return nil
}

// exportOf returns what to export. As in a restore, a time means the end of its
// second, or now if that second is not over yet. An incremental export begins at a
// time, not at the end of its second: it can begin when all changes are kept.
func exportOf(in *api.ExportTableToPointInTime, kept, now time.Time) (*transfer.Export, error) {
	e := &transfer.Export{Encryption: orZero(in.S3SseAlgorithm), Key: orZero(in.S3SseKmsKeyId)}
	if w := in.IncrementalExportSpecification; w != nil {
		e.From, e.To, e.View = w.ExportFromTime.Time, now, transfer.NewAndOldImages
		if w.ExportToTime != nil {
			e.To = w.ExportToTime.Time
		} else if latest := e.From.Add(maxExportWindow); latest.Before(e.To) {
			e.To = latest
		}
		if w.ExportViewType != nil {
			e.View = *w.ExportViewType
		}
		if e.From.Before(kept) || e.To.After(now) || !e.From.Before(e.To) {
			return nil, apierror.InvalidExportTime()
		}
		return e, nil
	}
	e.Time, e.End = now, now.Add(time.Millisecond)
	if in.ExportTime == nil {
		return e, nil
	}
	e.Time = in.ExportTime.Time
	second := e.Time.Truncate(time.Second)
	if second.Before(kept.Truncate(time.Second)) || e.Time.After(now) {
		return nil, apierror.InvalidExportTime()
	}
	if end := second.Add(time.Second); end.Before(e.End) {
		e.End = end
	}
	return e, nil
}

// requestDigest identifies a request, to detect a ClientToken that is reused
// with another.
func requestDigest(in any) []byte {
	sum := sha256.Sum256(wire.AppendReply(nil, in))
	return sum[:]
}

func (s *Service) describeExport(ctx context.Context, in *api.DescribeExport) (*api.ExportReply, error) {
	j, err := s.findJob(ctx, *in.ExportArn, false)
	if err != nil {
		return nil, err
	}
	return &api.ExportReply{ExportDescription: exportReply(&j)}, nil
}

var jobResource = pattern(`^table/([a-zA-Z0-9_.-]{3,255})/(export|import)/(` + timeid.Pattern + `)$`)

// findJob returns the export, or the import, that an ARN names.
func (s *Service) findJob(ctx context.Context, arn string, isImport bool) (transfer.Job, error) {
	kind, notFound := "export", apierror.ExportNotFound()
	if isImport {
		kind, notFound = "import", apierror.ImportNotFound()
	}
	parts, err := splitARN(arn)
	if err != nil {
		return transfer.Job{}, err
	}
	m := jobResource().FindStringSubmatch(parts[5])
	if m == nil || m[2] != kind || parts[2] != "dynamodb" || parts[3] != callerOf(ctx).Region || parts[4] != s.account {
		return transfer.Job{}, notFound
	}
	j, err := s.transfers.Get(ctx, m[3], isImport)
	switch {
	case errors.Is(err, transfer.ErrNotFound) || err == nil && j.TableARN != s.tableARN(ctx, m[1]):
		return transfer.Job{}, notFound
	case err != nil:
		return transfer.Job{}, err
	}
	return j, nil
}

// maxJobsListed is the largest page of ListExports and ListImports.
const maxJobsListed = 25

func (s *Service) listExports(ctx context.Context, in *api.ListExports) (*api.ListExportsReply, error) {
	reply := &api.ListExportsReply{ExportSummaries: []api.ExportSummary{}}
	page, next, err := s.pageOfJobs(ctx, false, in.TableArn, in.MaxResults, in.NextToken)
	for _, j := range page {
		desc := exportReply(&j)
		reply.ExportSummaries = append(reply.ExportSummaries, api.ExportSummary{ExportArn: desc.ExportArn, ExportStatus: desc.ExportStatus, ExportType: desc.ExportType})
	}
	reply.NextToken = next
	return reply, err
}

// pageOfJobs returns a page of exports or imports, newest first, and the token
// of the next page.
func (s *Service) pageOfJobs(ctx context.Context, imports bool, table *string, limit *int32, token *string) (page []transfer.Job, next string, err error) {
	most, before := maxJobsListed, ""
	if limit != nil {
		most = int(*limit)
	}
	if token != nil {
		if before, err = jobOfToken(*token); err != nil {
			return nil, "", err
		}
	}
	all, err := s.transfers.List(ctx, imports)
	if err != nil {
		return nil, "", err
	}
	for _, j := range all {
		switch {
		case table != nil && *table != j.TableARN, before != "" && j.ID >= before:
		case len(page) == most:
			return page, tokenOfJob(page[most-1].ID), nil
		default:
			page = append(page, j)
		}
	}
	return page, "", nil
}

// tokenBytes is the length of a NextToken before it is encoded.
const tokenBytes = 56

func tokenOfJob(id string) string {
	token := make([]byte, tokenBytes)
	copy(token, id)
	return hex.EncodeToString(token)
}

func jobOfToken(token string) (id string, err error) {
	b, err := hex.DecodeString(token)
	if err != nil || len(b) != tokenBytes {
		return "", apierror.Validation("Invalid NextToken")
	}
	return strings.TrimRight(string(b), "\x00"), nil
}

func exportReply(j *transfer.Job) *api.ExportDescription {
	e := j.Export
	desc := &api.ExportDescription{
		ClientToken: j.Token, EndTime: api.TimeOf(j.Ended), ExportArn: j.TableARN + "/export/" + j.ID, ExportFormat: j.Format,
		ExportStatus: string(j.Status), ExportTime: api.TimeOf(e.Time), ExportType: exportFull,
		FailureCode: j.Code, FailureMessage: j.Message,
		S3Bucket: j.Bucket, S3BucketOwner: j.Owner, S3Prefix: j.Prefix, S3SseAlgorithm: e.Encryption, S3SseKmsKeyId: e.Key,
		StartTime: api.TimeOf(j.Started), TableArn: j.TableARN, TableId: j.TableUUID,
	}
	if e.Incremental() {
		desc.ExportType = exportIncremental
		desc.IncrementalExportSpecification = &api.IncrementalExportSpecification{
			ExportFromTime: api.TimeOf(e.From), ExportToTime: api.TimeOf(e.To), ExportViewType: &e.View,
		}
	}
	if j.Status == transfer.Completed {
		desc.ExportManifest = transfer.Manifest(j)
		desc.BilledSizeBytes = &j.Bytes
	}
	if j.Status == transfer.Completed || j.Items > 0 {
		desc.ItemCount = &j.Items
	}
	return desc
}
