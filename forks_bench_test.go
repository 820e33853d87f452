package stator_test

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/statortest"
)

var forkItems = flag.Int("fork-items", 1_000_000, "items of 1 KB that BenchmarkForks loads")

// BenchmarkForks measures forks of a database in a folder: how long one takes, how much memory
// it needs before its first write, and its reads and writes against those of its base.
//
//	go test -run '^$' -bench Forks -benchtime 200x -timeout 30m .
func BenchmarkForks(b *testing.B) {
	ctx := context.Background()
	base, err := stator.Open(ctx, stator.Options{Dir: filepath.Join(b.TempDir(), "data"), Relaxed: true, Forks: &stator.ForkOptions{Max: 5000}})
	if err != nil {
		b.Fatal(err)
	}
	defer base.Close()
	loadForkItems(b, base)
	b.Run("fork", func(b *testing.B) {
		for b.Loop() {
			fork, err := base.Fork(ctx)
			if err != nil {
				b.Fatal(err)
			}
			b.StopTimer()
			if err := fork.Close(); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	})
	b.Run("fork-and-first-read", func(b *testing.B) {
		for b.Loop() {
			fork, err := base.Fork(ctx)
			if err != nil {
				b.Fatal(err)
			}
			getForkItem(b, statortest.Client(fork))
			b.StopTimer()
			if err := fork.Close(); err != nil {
				b.Fatal(err)
			}
			b.StartTimer()
		}
	})
	for _, n := range []int{100, 1000} {
		b.Run(fmt.Sprintf("memory-of-%d", n), func(b *testing.B) { measureForks(b, base, n) })
	}
	server := stator.HandlerClient(base.Handler())
	b.Run("create-over-http", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			if status, text := send(b, server, "http://127.0.0.1/", "Stator.CreateFork", map[string]string{"ForkName": fmt.Sprint(i)}); status != 200 {
				b.Fatal(text)
			}
			b.StopTimer()
			send(b, server, "http://127.0.0.1/", "Stator.DeleteFork", map[string]string{"ForkName": fmt.Sprint(i)})
			b.StartTimer()
		}
	})
	fork, err := base.Fork(ctx)
	if err != nil {
		b.Fatal(err)
	}
	defer fork.Close()
	memory, err := stator.Open(ctx, stator.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer memory.Close()
	createForkItems(b, statortest.Client(memory))
	for _, of := range []struct {
		name string
		db   *stator.DB
	}{{"base", base}, {"fork", fork}, {"base-in-memory", memory}} {
		c := statortest.Client(of.db)
		if of.db != memory {
			b.Run("get-"+of.name, func(b *testing.B) {
				for b.Loop() {
					getForkItem(b, c)
				}
			})
			b.Run("query-"+of.name, func(b *testing.B) {
				for b.Loop() {
					if _, err := c.Scan(ctx, &dynamodb.ScanInput{TableName: &forkItemsTable, Limit: &hundred}); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		b.Run("put-"+of.name, func(b *testing.B) {
			for b.Loop() {
				if _, err := c.PutItem(ctx, &dynamodb.PutItemInput{TableName: &forkItemsTable, Item: benchItem(rand.IntN(*forkItems))}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

var (
	forkItemsTable = "Items"
	hundred        = int32(100)
)

func benchItem(i int) map[string]types.AttributeValue {
	return map[string]types.AttributeValue{
		"id":   &types.AttributeValueMemberS{Value: fmt.Sprintf("item-%09d", i)},
		"text": &types.AttributeValueMemberS{Value: fmt.Sprintf("%0990d", i)},
	}
}

func getForkItem(b *testing.B, c *dynamodb.Client) {
	out, err := c.GetItem(context.Background(), &dynamodb.GetItemInput{TableName: &forkItemsTable, Key: map[string]types.AttributeValue{"id": benchItem(rand.IntN(*forkItems))["id"]}})
	if err != nil || len(out.Item) != 2 {
		b.Fatal(out, err)
	}
}

func createForkItems(b *testing.B, c *dynamodb.Client) {
	id := "id"
	if _, err := c.CreateTable(context.Background(), &dynamodb.CreateTableInput{
		TableName: &forkItemsTable, BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: &id, AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: &id, KeyType: types.KeyTypeHash}},
	}); err != nil {
		b.Fatal(err)
	}
}

// loadForkItems loads the items in batches, from several goroutines.
func loadForkItems(b *testing.B, db *stator.DB) {
	createForkItems(b, statortest.Client(db))
	const batch = 25
	starts := make(chan int)
	var loaders sync.WaitGroup
	for range 4 {
		loaders.Go(func() {
			for from := range starts {
				var puts []string
				for i := from; i < min(from+batch, *forkItems); i++ {
					puts = append(puts, fmt.Sprintf(`{"PutRequest":{"Item":{"id":{"S":"item-%09d"},"text":{"S":"%0990d"}}}}`, i, i))
				}
				body := json.RawMessage(`{"RequestItems":{"Items":[` + strings.Join(puts, ",") + `]}}`)
				if status, text := send(b, db.Client(), "http://stator.invalid/", "DynamoDB_20120810.BatchWriteItem", body); status != http.StatusOK || !strings.Contains(text, `"UnprocessedItems":{}`) {
					b.Error(status, text)
				}
			}
		})
	}
	for i := 0; i < *forkItems; i += batch {
		starts <- i
	}
	close(starts)
	loaders.Wait()
}

// measureForks reports the memory and the goroutines of each of n forks, which have answered one
// read, and how much of a processor they keep busy while they are not used.
func measureForks(b *testing.B, base *stator.DB, n int) {
	before, goroutines := memoryInUse(), runtime.NumGoroutine()
	var forks []*stator.DB
	for range n {
		fork, err := base.Fork(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		getForkItem(b, statortest.Client(fork))
		forks = append(forks, fork)
	}
	after := memoryInUse()
	b.ReportMetric((after-before)/float64(n)/(1<<20), "MB/fork")
	b.ReportMetric(float64(runtime.NumGoroutine()-goroutines)/float64(n), "goroutines/fork")
	const idle = 3 * time.Second
	used := processorTime()
	time.Sleep(idle)
	b.ReportMetric(float64(processorTime()-used)/float64(idle)*100, "%-of-a-processor-idle")
	for _, fork := range forks {
		if err := fork.Close(); err != nil {
			b.Fatal(err)
		}
	}
}

// memoryInUse is the memory of the heap, after a collection, and of stacks.
func memoryInUse() float64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return float64(m.HeapAlloc + m.StackInuse)
}
