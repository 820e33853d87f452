package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/stator-db/stator/apps/downloads"
	"github.com/stator-db/stator/apps/downloads/ledger"
	"github.com/stator-db/stator/apps/downloads/poller"
	"github.com/stator-db/stator/apps/internal/command"
	"github.com/stator-db/stator/apps/internal/home"
)

// bench measures at which size of a batch GetItem for each file becomes slower than
// a query of BatchIndex. It writes jobs under batches of its own, in an embedded
// stator or at an endpoint.
func bench() *cobra.Command {
	var t tables
	var sizes []int
	var rounds int
	cmd := &cobra.Command{
		Use: "bench", Short: "Measure both ways to check a batch, by its size", Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			t.options.Model, t.options.LookOnly, t.options.Log = downloads.Model, false, command.Logger(cmd)
			h, err := home.Open(cmd.Context(), t.options)
			if err != nil {
				return err
			}
			defer func() { _ = h.Close() }() // its data is not needed any more
			var lines []checkLine
			for _, n := range sizes {
				l, err := measure(cmd.Context(), h.DB, n, rounds)
				if err != nil {
					return err
				}
				lines = append(lines, l)
			}
			return t.print(cmd.OutOrStdout(), lines, func(row func(...any)) {
				row("FILES", "GETITEM EACH", "UNITS", "ANY LEFT?", "UNITS", "WHOLE INDEX", "UNITS")
				for _, l := range lines {
					row(l.Files, l.Get, l.GetUnits, l.Left, l.LeftUnits, l.Whole, l.WholeUnits)
				}
			})
		},
	}
	t.flags(cmd)
	cmd.Flags().IntSliceVar(&sizes, "sizes", []int{1, 2, 4, 8, 16, 32, 64, 128, 500, 5000}, "numbers of files in a batch")
	cmd.Flags().IntVar(&rounds, "rounds", 20, "measurements of each kind; the median is reported")
	return cmd
}

type checkLine struct {
	Files      int           `json:"files"`
	Get        time.Duration `json:"get_ns"`
	GetUnits   float64       `json:"get_units"`
	Left       time.Duration `json:"left_ns"`
	LeftUnits  float64       `json:"left_units"`
	Whole      time.Duration `json:"whole_ns"`
	WholeUnits float64       `json:"whole_units"`
}

// measure checks a batch of completed jobs, as the last check of a batch does.
func measure(ctx context.Context, db *dynamodb.Client, n, rounds int) (checkLine, error) {
	jobs := &ledger.Jobs{DB: db, Now: time.Now}
	date := time.Now().UTC().Format(time.DateOnly)
	batch := ledger.NewID(date)
	sum := sha256.Sum256([]byte(batch))
	ids := make([]string, n)
	for i := range ids {
		entity := fmt.Sprintf("bench.%s.%05d", batch[len(batch)-8:], i)
		j := ledger.Job{FileID: ledger.FileID(entity, date), BatchID: batch, Entity: entity, DownloadDate: date, SHA256: sum[:],
			PresignedURL: "https://files.example.com/" + strings.Repeat("x", 300), EncryptedAESKey: strings.Repeat("k", 344), EncodedAESIV: strings.Repeat("i", 24)}
		ids[i] = j.FileID
		if _, err := jobs.Queue(ctx, j); err != nil {
			return checkLine{}, err
		}
		claimed, err := jobs.Claim(ctx, j.FileID, "bench")
		if err != nil {
			return checkLine{}, err
		}
		if err := jobs.Complete(ctx, claimed); err != nil {
			return checkLine{}, err
		}
	}
	l := checkLine{Files: n}
	var err error
	gets := func() (float64, error) {
		units := make([]float64, n)
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(poller.AtOnce)
		for i, id := range ids {
			group.Go(func() error {
				answer, err := db.GetItem(ctx, &dynamodb.GetItemInput{TableName: aws.String(ledger.JobsTable), ConsistentRead: aws.Bool(true), ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
					Key: map[string]types.AttributeValue{"FileID": &types.AttributeValueMemberS{Value: id}}})
				if err == nil {
					units[i] = aws.ToFloat64(answer.ConsumedCapacity.CapacityUnits)
				}
				return err
			})
		}
		err := group.Wait()
		sum := 0.0
		for _, u := range units {
			sum += u
		}
		return sum, err
	}
	if l.Get, l.GetUnits, err = median(rounds, gets); err != nil {
		return l, err
	}
	left := func() (float64, error) {
		return querySum(ctx, db, batch, ledger.Downloading, ledger.Available)
	}
	if l.Left, l.LeftUnits, err = median(rounds, left); err != nil {
		return l, err
	}
	whole := func() (float64, error) { return querySum(ctx, db, batch, "") }
	l.Whole, l.WholeUnits, err = median(rounds, whole)
	return l, err
}

// querySum queries a batch: one entry of each status, or all of them.
func querySum(ctx context.Context, db *dynamodb.Client, batch string, statuses ...ledger.Status) (float64, error) {
	units := 0.0
	for _, s := range statuses {
		in := &dynamodb.QueryInput{TableName: aws.String(ledger.JobsTable), IndexName: aws.String(ledger.BatchIndex), ReturnConsumedCapacity: types.ReturnConsumedCapacityTotal,
			KeyConditionExpression: aws.String("BatchID = :b"), ExpressionAttributeValues: map[string]types.AttributeValue{":b": &types.AttributeValueMemberS{Value: batch}}}
		if s != "" {
			in.Limit, in.Select = aws.Int32(1), types.SelectCount
			in.KeyConditionExpression = aws.String("BatchID = :b AND #s = :s")
			in.ExpressionAttributeNames = map[string]string{"#s": "Status"}
			in.ExpressionAttributeValues[":s"] = &types.AttributeValueMemberS{Value: string(s)}
		}
		for pages := dynamodb.NewQueryPaginator(db, in); pages.HasMorePages(); {
			page, err := pages.NextPage(ctx)
			if err != nil {
				return 0, err
			}
			units += aws.ToFloat64(page.ConsumedCapacity.CapacityUnits)
		}
	}
	return units, nil
}

func median(rounds int, do func() (float64, error)) (time.Duration, float64, error) {
	var took []time.Duration
	var units float64
	for range max(rounds, 1) {
		start := time.Now()
		u, err := do()
		if err != nil {
			return 0, 0, err
		}
		took, units = append(took, time.Since(start)), u
	}
	slices.Sort(took)
	return took[len(took)/2].Round(time.Microsecond), units, nil
}
