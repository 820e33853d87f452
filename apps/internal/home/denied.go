package home

import (
	"context"
	"errors"
	"strings"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stator-db/stator/tablemodel"
)

// compare returns how the tables differ from the application's model, as far as the principal
// may see that: keys, indexes and streams need dynamodb:DescribeTable. Settings that it may not
// see are not compared, nor is auto scaling.
func (o *Options) compare(ctx context.Context, db *dynamodb.Client, m *tablemodel.Model) (*tablemodel.Plan, error) {
	d := &describer{Client: db, hidden: make(map[setting]bool)}
	plan, err := tablemodel.Compare(ctx, scalingDescriber{d, db}, m)
	if isDenied(err) {
		plan, err = tablemodel.Compare(ctx, d, m)
	}
	if err != nil || len(d.hidden) == 0 {
		return plan, err
	}
	for _, table := range m.Tables() {
		var hidden []string
		for _, kind := range []string{tablemodel.TimeToLive, tablemodel.Recovery} {
			if d.hidden[setting{table, kind}] {
				hidden = append(hidden, kind)
			}
		}
		if len(hidden) > 0 && o.Guard == nil {
			o.report("table %s: the policy does not allow this application to see %s, which is not compared with the model", table, strings.Join(hidden, " and "))
		}
	}
	return plan.Select(func(c tablemodel.Change) bool { return !d.hidden[setting{c.Table, c.Kind}] }), nil
}

// describer is a client that describes settings of tables as unknown if the principal may not
// see them.
type describer struct {
	tablemodel.Client
	hidden map[setting]bool
}

// scalingDescriber is a describer for the tables and their auto scaling.
type scalingDescriber struct {
	*describer
	db *dynamodb.Client
}

func (d scalingDescriber) Options() dynamodb.Options { return d.db.Options() }

// setting is a setting of a table, by the kind of the change that sets it.
type setting struct{ table, kind string }

func (d *describer) DescribeTimeToLive(ctx context.Context, in *dynamodb.DescribeTimeToLiveInput, options ...func(*dynamodb.Options)) (*dynamodb.DescribeTimeToLiveOutput, error) {
	out, err := d.Client.DescribeTimeToLive(ctx, in, options...)
	if !isDenied(err) {
		return out, err
	}
	d.hidden[setting{*in.TableName, tablemodel.TimeToLive}] = true
	return &dynamodb.DescribeTimeToLiveOutput{TimeToLiveDescription: new(types.TimeToLiveDescription)}, nil
}

func (d *describer) DescribeContinuousBackups(ctx context.Context, in *dynamodb.DescribeContinuousBackupsInput, options ...func(*dynamodb.Options)) (*dynamodb.DescribeContinuousBackupsOutput, error) {
	out, err := d.Client.DescribeContinuousBackups(ctx, in, options...)
	if !isDenied(err) {
		return out, err
	}
	d.hidden[setting{*in.TableName, tablemodel.Recovery}] = true
	return &dynamodb.DescribeContinuousBackupsOutput{ContinuousBackupsDescription: &types.ContinuousBackupsDescription{
		PointInTimeRecoveryDescription: new(types.PointInTimeRecoveryDescription),
	}}, nil
}

// isDenied reports whether a policy denies a request.
func isDenied(err error) bool {
	var reported interface{ ErrorCode() string }
	return errors.As(err, &reported) && reported.ErrorCode() == "AccessDeniedException"
}
