package deploytest

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/spf13/cobra"

	"github.com/stator-db/stator/apps/internal/command"
	"github.com/stator-db/stator/apps/internal/home"
)

// Starts starts an application with tables whose recovery an operator has changed, until it prints that it is
// ready. The tables must stay as they are, the log must report it, and each line of it must be JSON.
func Starts(t *testing.T, model []byte, root func() *cobra.Command, ready string, args ...string) {
	t.Helper()
	server, err := home.Open(t.Context(), home.Options{Model: model, DynamoDB: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	tables, err := server.DB.ListTables(t.Context(), new(dynamodb.ListTablesInput))
	if err != nil {
		t.Fatal(err)
	}
	recovers := func(table string) bool {
		out, err := server.DB.DescribeContinuousBackups(t.Context(), &dynamodb.DescribeContinuousBackupsInput{TableName: &table})
		if err != nil {
			t.Fatal(err)
		}
		return out.ContinuousBackupsDescription.PointInTimeRecoveryDescription.PointInTimeRecoveryStatus == types.PointInTimeRecoveryStatusEnabled
	}
	was := make(map[string]bool)
	for _, table := range tables.TableNames {
		was[table] = !recovers(table)
		if _, err := server.DB.UpdateContinuousBackups(t.Context(), &dynamodb.UpdateContinuousBackupsInput{
			TableName: &table, PointInTimeRecoverySpecification: &types.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: aws.Bool(was[table])},
		}); err != nil {
			t.Fatal(err)
		}
	}

	var all, log printed
	cmd := root()
	cmd.SetOut(&all)
	cmd.SetErr(both{&all, &log})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	ended := make(chan int, 1)
	go func() {
		ended <- command.Run(ctx, cmd, slices.Concat(args, []string{"--log-json", "--endpoint", "http://" + server.Address}))
	}()
	for !strings.Contains(all.String(), ready) {
		select {
		case code := <-ended:
			t.Fatalf("it ended with %d before it was ready: %s", code, all.String())
		case <-time.After(10 * time.Millisecond):
		}
	}
	stop()
	if code := <-ended; code != command.Done {
		t.Errorf("the exit code is %d: %s", code, all.String())
	}
	for row := range strings.Lines(log.String()) {
		var line struct{ Time, Level, Msg string }
		if err := json.Unmarshal([]byte(row), &line); err != nil || line.Time == "" || line.Level == "" || line.Msg == "" {
			t.Errorf("the log has the line %q, %v", row, err)
		}
	}
	for table, was := range was {
		if recovers(table) != was {
			t.Errorf("table %s was changed", table)
		}
		if !strings.Contains(log.String(), "table "+table+" differs from the model") {
			t.Errorf("the log does not say how table %s differs: %s", table, log.String())
		}
	}
}

// printed is what a command prints.
type printed struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

func (p *printed) Write(b []byte) (int, error) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.text.Write(b)
}

func (p *printed) String() string {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return p.text.String()
}

// both writes to two.
type both [2]*printed

func (b both) Write(p []byte) (int, error) {
	for _, to := range b {
		_, _ = to.Write(p) // a buffer
	}
	return len(p), nil
}
