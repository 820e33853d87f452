package home

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
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
