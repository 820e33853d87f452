package statortest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/statortest"
)

// fails compares the failures of a test, of which each must have some texts.
func fails(t *testing.T, failures []string, want ...[]string) {
	t.Helper()
	if len(failures) != len(want) {
		t.Fatalf("the failures are %q, want %d", failures, len(want))
	}
	for i, texts := range want {
		for _, text := range texts {
			if !strings.Contains(failures[i], text) {
				t.Errorf("the failure is\n%s\nwithout %q", failures[i], text)
			}
		}
	}
}

func scan(t *testing.T, client *dynamodb.Client, table string) {
	t.Helper()
	if _, err := client.Scan(t.Context(), &dynamodb.ScanInput{TableName: &table, FilterExpression: aws.String("id = :id"), ExpressionAttributeValues: map[string]types.AttributeValue{":id": text("none")}}); err != nil {
		t.Fatal(err)
	}
}

// A budget counts the requests after it, to the end of the test, and a failure names them.
func TestBudget(t *testing.T) {
	for _, c := range []struct {
		name   string
		budget func(testing.TB)
		want   [][]string
	}{
		{"kept", func(t testing.TB) { statortest.Budget(t, 7) }, nil},
		{"exceeded", func(t testing.TB) { statortest.Budget(t, 6.5) }, [][]string{{"consumed 7.0 units (read 2.0, write 5.0), and the budget is 6.5", `5.0 units  PutItem of shop, with the key C# O#`, `(5 times), access pattern "put order"`, "2.0 units  Scan of shop", "6 items read, 0 returned"}}},
		{"kept apart", func(t testing.TB) { statortest.BudgetOf(t, statortest.Units{Read: 2, Write: 5}) }, nil},
		{"reads exceeded", func(t testing.TB) { statortest.BudgetOf(t, statortest.Units{Write: 9}) }, [][]string{{"2.0 units for reads and 5.0 for writes, and the budget is 0.0 and 9.0"}}},
		{"writes exceeded", func(t testing.TB) { statortest.BudgetOf(t, statortest.Units{Read: 9, Write: 4.5}) }, [][]string{{"5.0 for writes"}}},
		{"no scans", statortest.NoScans, [][]string{{"there are scans", "Scan of shop, with a filter", "(once): 6 items read, 0 returned"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := &recordingTest{TB: t}
			client := statortest.Model(r, shopFile(t))
			order := func(n int) {
				t.Helper()
				if err := put(t.Context(), client, "shop", fmt.Sprintf("O#%d", n), aws.String("attribute_not_exists(PK)")); err != nil {
					t.Fatal(err)
				}
			}
			order(0)
			c.budget(r)
			for i := range 5 {
				order(1 + i)
			}
			scan(t, client, "shop")
			fails(t, r.end(), append(c.want, []string{"no access pattern matches Scan of shop"})...)
		})
	}
}

// A part of a test counts its own requests, in the database of the whole test.
func TestBudgetOfAPart(t *testing.T) {
	client := statortest.Start(t)
	createTable(t, client)
	put(t.Context(), client, "Orders", "0", nil)
	t.Run("part", func(t *testing.T) {
		used := statortest.Use(t)
		put(t.Context(), client, "Orders", "1", nil)
		u := used()
		if u.Units != (statortest.Units{Write: 1}) || len(u.Tables) != 1 || u.Tables[0].Table != "Orders" || len(u.Requests) != 1 || u.Requests[0].Operation != "PutItem" || u.Requests[0].Count != 1 {
			t.Errorf("the part used %+v", u)
		}
	})
	// What a deleted table consumed counts, too.
	used := statortest.Use(t)
	put(t.Context(), client, "Orders", "2", nil)
	if _, err := client.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: aws.String("Orders")}); err != nil {
		t.Fatal(err)
	}
	if u := used(); u.Units.Write < 1 {
		t.Errorf("before the table was deleted, %+v was used", u)
	}
}

// Requests from the assertion on are compared with a model.
func TestMatchesModel(t *testing.T) {
	r := &recordingTest{TB: t}
	client := statortest.StartWith(r, stator.Options{})
	file := shopFile(t)
	if _, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{TableName: aws.String("shop"), BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("PK"), AttributeType: "S"}, {AttributeName: aws.String("SK"), AttributeType: "S"}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("PK"), KeyType: "HASH"}, {AttributeName: aws.String("SK"), KeyType: "RANGE"}}}); err != nil {
		t.Fatal(err)
	}
	scan(t, client, "shop")
	statortest.MatchesModel(r, file)
	put(t.Context(), client, "shop", "O#1", aws.String("attribute_not_exists(PK)"))
	put(t.Context(), client, "shop", "O#2", nil)
	fails(t, r.end(), []string{"no access pattern matches PutItem of shop", "(once); the closest pattern is \"put order\""})
}

// A comparison with another model leaves what is known of the database, which other tests may be using.
func TestMatchesModelDoesNotReplaceTheModel(t *testing.T) {
	client := statortest.Model(t, shopFile(t))
	used := statortest.Use(t)
	t.Run("part", func(t *testing.T) {
		file := filepath.Join(t.TempDir(), "other.model.yaml")
		if err := os.WriteFile(file, []byte(strings.ReplaceAll(strings.ReplaceAll(shop, "put order", "add order"), "shop", "other")), 0o600); err != nil {
			t.Fatal(err)
		}
		statortest.MatchesModel(t, file)
	})
	if err := put(t.Context(), client, "shop", "O#1", aws.String("attribute_not_exists(PK)")); err != nil {
		t.Fatal(err)
	}
	if u := used(); len(u.Requests) != 1 || u.Requests[0].Pattern != "put order" {
		t.Errorf("%+v was used, want the access pattern of the model of the database", u)
	}
}

// An assertion without a database says what to do.
func TestBudgetWithoutADatabase(t *testing.T) {
	r := &fatalTest{recordingTest{TB: t}}
	func() {
		defer func() { _ = recover() }()
		statortest.Budget(r, 1)
	}()
	fails(t, r.failures, []string{"call statortest.Start"})
}

// fatalTest is a recordingTest that Fatalf ends.
type fatalTest struct{ recordingTest }

func (r *fatalTest) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	panic("the test has ended")
}

// A clock expires an item when it is advanced, not before.
func TestClock(t *testing.T) {
	client, clock := statortest.WithClock(t, stator.Options{})
	createTable(t, client)
	if _, err := client.UpdateTimeToLive(t.Context(), &dynamodb.UpdateTimeToLiveInput{TableName: aws.String("Orders"),
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("ttl"), Enabled: aws.Bool(true)}}); err != nil {
		t.Fatal(err)
	}
	at := clock.Now().Add(24 * time.Hour)
	if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("Orders"),
		Item: map[string]types.AttributeValue{"id": text("1"), "ttl": &types.AttributeValueMemberN{Value: fmt.Sprint(at.Unix())}}}); err != nil {
		t.Fatal(err)
	}
	has := func() bool {
		reply, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("Orders"), Key: map[string]types.AttributeValue{"id": text("1")}})
		if err != nil {
			t.Fatal(err)
		}
		return reply.Item != nil
	}
	clock.Set(at)
	if !has() {
		t.Error("the item was deleted before its time")
	}
	clock.Advance(2 * time.Second)
	if has() {
		t.Error("the item was not deleted")
	}
}

// The clock can be advanced while the test is cleaned up, and by a part of the test, which is not
// ended if the time cannot be set.
func TestClockInPartsAndCleanup(t *testing.T) {
	t.Run("cleanup", func(t *testing.T) {
		_, clock := statortest.WithClock(t, stator.Options{})
		t.Cleanup(func() {
			clock.Advance(time.Hour)
			clock.Set(clock.Now().Add(time.Hour))
		})
	})
	r := &recordingTest{TB: t}
	clock, ended := statortest.NewClock(r, time.Now()), false
	t.Run("part", func(*testing.T) {
		clock.Advance(-time.Hour)
		clock.Set(clock.Now().Add(-time.Hour))
		ended = true
	})
	if !ended {
		t.Error("the part was ended")
	}
	fails(t, r.failures, []string{"advance the clock by -1h0m0s", "cannot be set back"}, []string{"set the clock", "cannot be set back"})
}
