package tablemodel_test

import (
	"context"
	"fmt"
	"log"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/tablemodel"
)

const shop = `
model: 1
name: shop
tables:
  orders:
    key: {partition: customer, sort: number}
    ttl: expires
entities:
  order:
    attributes: {customer: S, number: S}
patterns: []
`

func Example() {
	ctx := context.Background()
	db, err := stator.Open(ctx, stator.Options{}) // in memory
	if err != nil {
		log.Fatal(err)
	}
	defer db.Close()
	client := dynamodb.New(dynamodb.Options{
		BaseEndpoint: aws.String("http://stator.invalid"),
		Region:       "us-east-1",
		Credentials:  credentials.NewStaticCredentialsProvider("test", "test", ""),
		HTTPClient:   db.Client(),
	})

	m, err := tablemodel.Parse("shop.model.yaml", []byte(shop))
	if err != nil {
		log.Fatal(err)
	}
	plan, err := tablemodel.Compare(ctx, client, m)
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range plan.Changes {
		fmt.Printf("%s: %s\n", c.Table, c.Text)
	}
	if err := plan.Apply(ctx, nil); err != nil {
		log.Fatal(err)
	}
	plan, err = tablemodel.Compare(ctx, client, m)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("changes left:", len(plan.Changes))
	// Output:
	// orders: create the table with the key customer S HASH, number S RANGE
	// orders: expire items by expires
	// changes left: 0
}
