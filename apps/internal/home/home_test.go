package home

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stator-db/stator"
)

const shop = `
model: 1
name: shop
tables:
  orders:
    key: {partition: id}
    ttl: expires
    stream: NEW_IMAGE
entities:
  order:
    keys: {id: "{number}"}
    attributes:
      number: {type: S, size: 8}
patterns: []
`

// The tables are created once, match the model, and survive a restart.
func TestTablesAreProvided(t *testing.T) {
	o := Options{Model: []byte(shop), Data: t.TempDir()}
	for range 2 {
		h, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		d, err := h.DB.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String("orders")})
		if err != nil {
			t.Fatal(err)
		}
		if s := d.Table.StreamSpecification; s == nil || s.StreamViewType != "NEW_IMAGE" {
			t.Errorf("the stream is %+v", s)
		}
		if err := h.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Another server serves the tables as the embedded one does.
func TestEndpoint(t *testing.T) {
	server, err := Open(t.Context(), Options{Model: []byte(shop), DynamoDB: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	h, err := Open(t.Context(), Options{Model: []byte(shop), Endpoint: "http://" + server.Address})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := h.DB.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String("orders")}); err != nil {
		t.Error(err)
	}
	if err := h.Close(); err != nil {
		t.Error(err)
	}
}

func TestInvalidOptions(t *testing.T) {
	for _, c := range []struct {
		name string
		o    Options
		want string
	}{
		{"an endpoint and a folder", Options{Endpoint: "http://127.0.0.1:1", Data: "x"}, "leave them out"},
		{"an endpoint that is not a URL", Options{Endpoint: "localhost:8000"}, "must be a URL"},
		{"an address that other machines reach", Options{DynamoDB: "0.0.0.0:0"}, "will not listen"},
		{"a table with another key", Options{}, "does not match the model"},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.o.Model = []byte(shop)
			if c.want == "does not match the model" {
				c.o.Data = t.TempDir()
				other, err := Open(t.Context(), Options{Data: c.o.Data, Model: []byte(strings.ReplaceAll(shop, "id", "code"))})
				if err != nil {
					t.Fatal(err)
				}
				if err := other.Close(); err != nil {
					t.Fatal(err)
				}
			}
			h, err := Open(t.Context(), c.o)
			if err == nil {
				h.Close()
			}
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
		})
	}
}

const ordersIndex = `
    indexes:
      byState: {partition: state}`

// What an operator has set on a table stays, and is reported; --apply changes it.
func TestTablesStayAsTheyAre(t *testing.T) {
	server, err := Open(t.Context(), Options{Model: []byte(shop), DynamoDB: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if _, err := server.DB.UpdateTable(t.Context(), &dynamodb.UpdateTableInput{TableName: aws.String("orders"), BillingMode: "PROVISIONED",
		ProvisionedThroughput: &types.ProvisionedThroughput{ReadCapacityUnits: aws.Int64(5), WriteCapacityUnits: aws.Int64(2000)}}); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	o := Options{Model: []byte(shop), Endpoint: "http://" + server.Address, Log: slog.New(slog.NewTextHandler(&log, nil))}
	mode := func() string {
		h, err := Open(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		defer h.Close()
		d, err := h.DB.DescribeTable(t.Context(), &dynamodb.DescribeTableInput{TableName: aws.String("orders")})
		if err != nil {
			t.Fatal(err)
		}
		if d.Table.BillingModeSummary == nil {
			return "PROVISIONED"
		}
		return string(d.Table.BillingModeSummary.BillingMode)
	}
	if got := mode(); got != "PROVISIONED" || !strings.Contains(log.String(), "--apply") || !strings.Contains(log.String(), "orders") {
		t.Errorf("the mode is %s, the log is %s", got, &log)
	}
	o.Apply = true
	if got := mode(); got != "PAY_PER_REQUEST" {
		t.Errorf("the mode is %s after --apply", got)
	}
}

// An application does not start with a table that lacks an index it needs.
func TestMissingIndex(t *testing.T) {
	data := t.TempDir()
	h, err := Open(t.Context(), Options{Model: []byte(shop), Data: data})
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	o := Options{Model: []byte(strings.Replace(shop, "\n    ttl: expires", ordersIndex+"\n    ttl: expires", 1)), Data: data}
	if _, err := Open(t.Context(), o); err == nil || !strings.Contains(err.Error(), "byState") || !strings.Contains(err.Error(), "--apply") {
		t.Fatalf("got %v, want an error that names the index and --apply", err)
	}
	o.Apply = true
	h, err = Open(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
}

// A command that only looks creates neither tables nor folders.
func TestLookOnly(t *testing.T) {
	server, err := Open(t.Context(), Options{Model: []byte(shop), DynamoDB: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if _, err := server.DB.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: aws.String("orders")}); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Options{Model: []byte(shop), Endpoint: "http://" + server.Address, LookOnly: true}); err == nil || !strings.Contains(err.Error(), "no table orders") {
		t.Errorf("got %v, want an error that the table does not exist", err)
	}
	list, err := server.DB.ListTables(t.Context(), &dynamodb.ListTablesInput{})
	if err != nil || len(list.TableNames) > 0 {
		t.Errorf("the tables are %v, %v", list.TableNames, err)
	}
	missing := filepath.Join(t.TempDir(), "missing")
	if _, err := Open(t.Context(), Options{Model: []byte(shop), Data: missing, LookOnly: true}); err == nil {
		t.Error("a folder that does not exist was opened")
	}
	if _, err := os.Stat(missing); err == nil {
		t.Error("the folder was made")
	}
}

// Credentials of the environment sign the requests to a server. Those of a principal that may only
// use the tables, and see their keys and indexes, are enough for tables that exist.
func TestCredentials(t *testing.T) {
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	write("shop.json", `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":["dynamodb:DescribeTable","dynamodb:GetItem"],"Resource":"arn:aws:dynamodb:*:000000000000:table/orders"}}`)
	keys := write("keys.yaml", `keys:
  - {access_key: root, secret: root, principal: "arn:aws:iam::000000000000:root"}
  - {access_key: shop, secret: shop}
  - {access_key: other, secret: other}
`)
	policies := write("policies.yaml", `principals: [{arn: "arn:aws:iam::000000000000:user/shop", policies: [shop.json]}]`)
	access, err := stator.OpenAccess(stator.AccessOptions{Keys: keys, Policies: policies})
	if err != nil {
		t.Fatal(err)
	}
	root := credentials.NewStaticCredentialsProvider("root", "root", "")
	server, err := Open(t.Context(), Options{Model: []byte(shop), DynamoDB: "127.0.0.1:0", Guard: &Guard{Access: access, Application: root, Administrator: root}})
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	var log bytes.Buffer
	o := Options{Model: []byte(shop), Endpoint: "http://" + server.Address, Log: slog.New(slog.NewTextHandler(&log, nil))}
	for _, c := range []struct{ key, secret, want string }{
		{"shop", "shop", ""},
		{"shop", "wrong", "InvalidSignatureException"},
		{"other", "other", "not authorized to perform: dynamodb:DescribeTable"},
	} {
		t.Setenv("AWS_ACCESS_KEY_ID", c.key)
		t.Setenv("AWS_SECRET_ACCESS_KEY", c.secret)
		h, err := Open(t.Context(), o)
		if c.want != "" {
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s with the secret %s: %v, want %s", c.key, c.secret, err, c.want)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.DB.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("orders"), Key: map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: "1"}}}); err != nil {
			t.Error(err)
		}
		if _, err := h.DB.Scan(t.Context(), &dynamodb.ScanInput{TableName: aws.String("orders")}); !isDenied(err) {
			t.Errorf("a scan returns %v", err)
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	}
	if !strings.Contains(log.String(), "which is not compared with the model") || strings.Contains(log.String(), "--apply") {
		t.Errorf("the log is %s", &log)
	}
}

// A write that conflicts with a transaction is sent again.
func TestConflictsAreRetried(t *testing.T) {
	h, err := Open(t.Context(), Options{Model: []byte(shop)})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if !h.DB.Options().Retryer.IsErrorRetryable(&types.TransactionConflictException{}) {
		t.Error("a conflict is not retried")
	}
}
