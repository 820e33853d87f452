package ops

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/db/transfer"
	"github.com/stator-db/stator/internal/protocol/api"
	"github.com/stator-db/stator/internal/protocol/wire"
)

// importChecks run in the order in which faults are reported, before the checks
// of the table.
var importChecks = []func(*api.ImportTable) error{
	func(in *api.ImportTable) error {
		if err := transfer.CheckKeyPrefix(orZero(in.S3BucketSource.S3KeyPrefix)); err != nil {
			return apierror.InvalidValues("S3KeyPrefix %v", err)
		}
		return nil
	},
	func(in *api.ImportTable) error {
		if in.InputFormatOptions == nil || in.InputFormatOptions.Csv == nil {
			return nil
		}
		csv := in.InputFormatOptions.Csv
		switch {
		case !isSet(in.InputFormat, transfer.CSV):
			return apierror.InvalidValues("InputFormatOptions.Csv can only be specified when InputFormat is CSV")
		case csv.Delimiter != nil && !strings.ContainsAny(*csv.Delimiter, ",;:|\t "):
			return apierror.Validation("1 validation error detected: Value '%s' at 'inputFormatOptions.csv.delimiter' failed to satisfy constraint: "+
				"Member must satisfy regular expression pattern: [,;:|\\t ]", *csv.Delimiter)
		}
		if name, twice := firstDuplicate(csv.HeaderList); twice {
			return apierror.InvalidValues("HeaderList contains the header %s more than once", name)
		}
		return nil
	},
	func(in *api.ImportTable) error {
		if in.TableCreationParameters.VectorIndexes != nil {
			return notSupported("VectorIndexes")
		}
		return nil
	},
}

func (s *Service) importTable(ctx context.Context, in *api.ImportTable) (*api.ImportReply, error) {
	if err := firstFault(in, importChecks); err != nil {
		return nil, err
	}
	p, source := in.TableCreationParameters, in.S3BucketSource
	create := &api.CreateTable{
		TableName: *p.TableName, AttributeDefinitions: p.AttributeDefinitions, KeySchema: p.KeySchema,
		BillingMode: p.BillingMode, ProvisionedThroughput: p.ProvisionedThroughput, OnDemandThroughput: p.OnDemandThroughput,
		SSESpecification: p.SSESpecification, GlobalSecondaryIndexes: p.GlobalSecondaryIndexes,
	}
	if err := firstFault(create, createTableChecks); err != nil {
		return nil, err
	}
	def := s.definition(ctx, create)
	if err := s.withinAccount(ctx, &def, nil); err != nil {
		return nil, err
	}
	if err := s.knownBucket(*source.S3Bucket); err != nil {
		return nil, err
	}
	j := transfer.Job{
		Table: def.Name, TableARN: s.tableARN(ctx, def.Name),
		Bucket: *source.S3Bucket, Prefix: orZero(source.S3KeyPrefix), Owner: orZero(source.S3BucketOwner),
		Format: *in.InputFormat, Token: orZero(in.ClientToken), Digest: requestDigest(in),
		Import: &transfer.Import{Compression: transfer.None, Parameters: wire.AppendReply(nil, p)},
	}
	if in.InputCompressionType != nil {
		j.Import.Compression = *in.InputCompressionType
	}
	if o := in.InputFormatOptions; o != nil && o.Csv != nil {
		j.Import.CSV = &transfer.CSVOptions{Delimiter: orZero(o.Csv.Delimiter), Header: o.Csv.HeaderList}
	}
	made, err := s.transfers.StartImport(ctx, j, def)
	switch {
	case errors.Is(err, transfer.ErrConflict):
		return nil, apierror.ImportConflict()
	case errors.Is(err, transfer.ErrTooMany):
		return nil, apierror.LimitExceeded("Too many imports are in progress. Wait until some of them are complete")
	case err != nil:
		return nil, err
	}
	return importReply(&made)
}

func (s *Service) describeImport(ctx context.Context, in *api.DescribeImport) (*api.ImportReply, error) {
	j, err := s.findJob(ctx, *in.ImportArn, true)
	if err != nil {
		return nil, err
	}
	return importReply(&j)
}

func (s *Service) listImports(ctx context.Context, in *api.ListImports) (*api.ListImportsReply, error) {
	reply := &api.ListImportsReply{ImportSummaryList: []api.ImportSummary{}}
	page, next, err := s.pageOfJobs(ctx, true, in.TableArn, in.PageSize, in.NextToken)
	for _, j := range page {
		reply.ImportSummaryList = append(reply.ImportSummaryList, api.ImportSummary{
			EndTime: api.TimeOf(j.Ended), ImportArn: j.TableARN + "/import/" + j.ID, ImportStatus: string(j.Status),
			InputFormat: j.Format, S3BucketSource: sourceReply(&j), StartTime: api.TimeOf(j.Started), TableArn: j.TableARN,
		})
	}
	reply.NextToken = next
	return reply, err
}

func importReply(j *transfer.Job) (*api.ImportReply, error) {
	parameters := new(api.TableCreationParameters)
	if err := wire.Decode(j.Import.Parameters, parameters); err != nil {
		return nil, fmt.Errorf("table of import %s: %w", j.ID, err)
	}
	desc := &api.ImportTableDescription{
		ClientToken: j.Token, EndTime: api.TimeOf(j.Ended), ErrorCount: j.Errors, FailureCode: j.Code, FailureMessage: j.Message,
		ImportArn: j.TableARN + "/import/" + j.ID, ImportStatus: string(j.Status), ImportedItemCount: j.Items,
		InputCompressionType: j.Import.Compression, InputFormat: j.Format,
		ProcessedItemCount: j.Processed, ProcessedSizeBytes: &j.Bytes, S3BucketSource: sourceReply(j),
		StartTime: api.TimeOf(j.Started), TableArn: j.TableARN, TableCreationParameters: parameters, TableId: j.TableUUID,
	}
	if csv := j.Import.CSV; csv != nil {
		desc.InputFormatOptions = &api.InputFormatOptions{Csv: &api.CsvOptions{HeaderList: csv.Header}}
		if csv.Delimiter != "" {
			desc.InputFormatOptions.Csv.Delimiter = &csv.Delimiter
		}
	}
	return &api.ImportReply{ImportTableDescription: desc}, nil
}

func sourceReply(j *transfer.Job) *api.S3BucketSource {
	source := &api.S3BucketSource{S3Bucket: &j.Bucket}
	if j.Prefix != "" {
		source.S3KeyPrefix = &j.Prefix
	}
	if j.Owner != "" {
		source.S3BucketOwner = &j.Owner
	}
	return source
}
