package clients

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/attributevalue"
	"github.com/aws/aws-sdk-go-v2/feature/dynamodb/expression"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/statortest"
)

// createSongs creates a table with a partition key and a sort key.
func createSongs(t *testing.T, client *dynamodb.Client, name string) {
	t.Helper()
	_, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName: &name,
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("artist"), AttributeType: types.ScalarAttributeTypeS},
			{AttributeName: aws.String("track"), AttributeType: types.ScalarAttributeTypeN},
		},
		KeySchema: []types.KeySchemaElement{
			{AttributeName: aws.String("artist"), KeyType: types.KeyTypeHash},
			{AttributeName: aws.String("track"), KeyType: types.KeyTypeRange},
		},
		BillingMode: types.BillingModePayPerRequest,
	})
	if err != nil {
		t.Fatal(err)
	}
}

type song struct {
	Artist  string            `dynamodbav:"artist"`
	Track   int               `dynamodbav:"track"`
	Title   string            `dynamodbav:"title"`
	Rating  float64           `dynamodbav:"rating,omitempty"`
	Genres  []string          `dynamodbav:"genres,stringset,omitempty"`
	Years   []int             `dynamodbav:"years,numberset,omitempty"`
	Cover   []byte            `dynamodbav:"cover,omitempty"`
	Covers  [][]byte          `dynamodbav:"covers,binaryset,omitempty"`
	Credits map[string]string `dynamodbav:"credits,omitempty"`
	Parts   []any             `dynamodbav:"parts,omitempty"`
	Live    *bool             `dynamodbav:"live"`
	Added   time.Time         `dynamodbav:"added"`
	Expires time.Time         `dynamodbav:"expires,unixtime"`
}

func putSong(t *testing.T, client *dynamodb.Client, s song) {
	t.Helper()
	item, err := attributevalue.MarshalMap(s)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("Songs"), Item: item}); err != nil {
		t.Fatal(err)
	}
}

// songs is a table with n songs of each of two artists.
func songs(t *testing.T, n int) *dynamodb.Client {
	t.Helper()
	client := statortest.Start(t)
	createSongs(t, client, "Songs")
	for i := range n {
		putSong(t, client, song{Artist: "ada", Track: i, Title: fmt.Sprintf("song %d", i), Rating: float64(i) / 4})
		putSong(t, client, song{Artist: "bob", Track: i, Title: fmt.Sprintf("tune %d", i)})
	}
	return client
}

func TestWaiters(t *testing.T) {
	client := statortest.StartWith(t, stator.Options{TableDelay: 300 * time.Millisecond})
	songs := &dynamodb.DescribeTableInput{TableName: aws.String("Songs")}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()

	exists := dynamodb.NewTableExistsWaiter(client, func(o *dynamodb.TableExistsWaiterOptions) {
		o.MinDelay, o.MaxDelay = 20*time.Millisecond, 100*time.Millisecond
	})
	gone := dynamodb.NewTableNotExistsWaiter(client, func(o *dynamodb.TableNotExistsWaiterOptions) {
		o.MinDelay, o.MaxDelay = 20*time.Millisecond, 100*time.Millisecond
	})
	// The waiter also waits for a table that does not exist yet.
	if err := exists.Wait(ctx, songs, 100*time.Millisecond); err == nil {
		t.Error("a table that was never created exists")
	}
	createSongs(t, client, "Songs")
	d, err := client.DescribeTable(ctx, songs)
	if err != nil || d.Table.TableStatus != types.TableStatusCreating {
		t.Fatalf("a new table is %+v, %v", d, err)
	}
	_, err = client.GetItem(ctx, &dynamodb.GetItemInput{TableName: aws.String("Songs"), Key: map[string]types.AttributeValue{
		"artist": &types.AttributeValueMemberS{Value: "ada"}, "track": &types.AttributeValueMemberN{Value: "1"}}})
	var missing *types.ResourceNotFoundException
	if !errors.As(err, &missing) {
		t.Errorf("reading from a table that is being created gives %v", err)
	}
	out, err := exists.WaitForOutput(ctx, songs, 10*time.Second)
	if err != nil || out.Table.TableStatus != types.TableStatusActive {
		t.Fatalf("waiting gives %+v, %v", out, err)
	}
	if _, err := client.DeleteTable(ctx, &dynamodb.DeleteTableInput{TableName: aws.String("Songs")}); err != nil {
		t.Fatal(err)
	}
	if err := gone.Wait(ctx, songs, 10*time.Second); err != nil {
		t.Fatal(err)
	}
}

func TestPaginators(t *testing.T) {
	client := songs(t, 11)
	pages, tracks := 0, []int(nil)
	query := dynamodb.NewQueryPaginator(client, &dynamodb.QueryInput{
		TableName: aws.String("Songs"), Limit: aws.Int32(4), ScanIndexForward: aws.Bool(false),
		KeyConditionExpression:    aws.String("artist = :a"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":a": &types.AttributeValueMemberS{Value: "ada"}},
	})
	for query.HasMorePages() {
		page, err := query.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var found []song
		if err := attributevalue.UnmarshalListOfMaps(page.Items, &found); err != nil {
			t.Fatal(err)
		}
		for _, s := range found {
			tracks = append(tracks, s.Track)
		}
		pages++
	}
	if pages != 3 || !slices.Equal(tracks, []int{10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0}) {
		t.Errorf("%d pages of %v", pages, tracks)
	}

	scan := dynamodb.NewScanPaginator(client, &dynamodb.ScanInput{TableName: aws.String("Songs"), Limit: aws.Int32(5)})
	seen := 0
	for scan.HasMorePages() {
		page, err := scan.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		seen += len(page.Items)
	}
	if seen != 22 {
		t.Errorf("scanned %d", seen)
	}

	for _, name := range []string{"Table1", "Table2", "Table3"} {
		createSongs(t, client, name)
	}
	var names []string
	list := dynamodb.NewListTablesPaginator(client, &dynamodb.ListTablesInput{Limit: aws.Int32(2)})
	for list.HasMorePages() {
		page, err := list.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, page.TableNames...)
	}
	if !slices.Equal(names, []string{"Songs", "Table1", "Table2", "Table3"}) {
		t.Errorf("tables are %v", names)
	}

	keys := types.KeysAndAttributes{}
	for i := range 11 {
		key, err := attributevalue.MarshalMap(map[string]any{"artist": "bob", "track": i})
		if err != nil {
			t.Fatal(err)
		}
		keys.Keys = append(keys.Keys, key)
	}
	batch := dynamodb.NewBatchGetItemPaginator(client, &dynamodb.BatchGetItemInput{RequestItems: map[string]types.KeysAndAttributes{"Songs": keys}})
	got := 0
	for batch.HasMorePages() {
		page, err := batch.NextPage(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		got += len(page.Responses["Songs"])
	}
	if got != 11 {
		t.Errorf("got %d", got)
	}
}

func TestMarshalledValuesComeBack(t *testing.T) {
	client := songs(t, 0)
	live := false
	want := song{
		Artist: "ada", Track: 3, Title: "", Rating: 3.0000001, Genres: []string{"a", "b"}, Years: []int{-1, 2026},
		Cover: []byte{0, 255}, Covers: [][]byte{{}, {1}}, Credits: map[string]string{"drums": "Zoë"},
		Parts: []any{"one", 2.5, nil, true, []any{"deep", map[string]any{"er": []byte("x")}}}, Live: &live,
		Added: start, Expires: start,
	}
	putSong(t, client, want)
	got, err := client.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("Songs"), ConsistentRead: aws.Bool(true),
		Key: map[string]types.AttributeValue{"artist": &types.AttributeValueMemberS{Value: "ada"}, "track": &types.AttributeValueMemberN{Value: "3"}}})
	if err != nil {
		t.Fatal(err)
	}
	var back song
	if err := attributevalue.UnmarshalMap(got.Item, &back); err != nil {
		t.Fatal(err)
	}
	slices.Sort(back.Genres)
	slices.Sort(back.Years)
	slices.SortFunc(back.Covers, slices.Compare)
	back.Expires = back.Expires.UTC()
	if !reflect.DeepEqual(back, want) {
		t.Errorf("read back as %+v\nwant %+v", back, want)
	}
}

func TestExpressionBuilder(t *testing.T) {
	client := songs(t, 10)
	e, err := expression.NewBuilder().
		WithKeyCondition(expression.KeyAnd(expression.Key("artist").Equal(expression.Value("ada")),
			expression.Key("track").Between(expression.Value(2), expression.Value(8)))).
		WithFilter(expression.Name("rating").GreaterThanEqual(expression.Value(1)).
			And(expression.Not(expression.Name("title").In(expression.Value("song 5"), expression.Value("song 6"))),
				expression.Name("live").AttributeType(expression.Null),
				expression.Size(expression.Name("title")).LessThan(expression.Value(10)))).
		WithProjection(expression.NamesList(expression.Name("track"), expression.Name("title"))).
		Build()
	if err != nil {
		t.Fatal(err)
	}
	got, err := client.Query(t.Context(), &dynamodb.QueryInput{
		TableName: aws.String("Songs"), KeyConditionExpression: e.KeyCondition(), FilterExpression: e.Filter(),
		ProjectionExpression: e.Projection(), ExpressionAttributeNames: e.Names(), ExpressionAttributeValues: e.Values(),
	})
	if err != nil {
		t.Fatal(err)
	}
	var tracks []int
	for _, item := range got.Items {
		var s song
		if err := attributevalue.UnmarshalMap(item, &s); err != nil || len(item) != 2 {
			t.Fatalf("%v, %v", item, err)
		}
		tracks = append(tracks, s.Track)
	}
	if !slices.Equal(tracks, []int{4, 7, 8}) || got.ScannedCount != 7 {
		t.Errorf("found %v of %d", tracks, got.ScannedCount)
	}

	e, err = expression.NewBuilder().
		WithCondition(expression.AttributeExists(expression.Name("artist")).And(expression.Name("rating").Equal(expression.Value(0.25)))).
		WithUpdate(expression.
			Set(expression.Name("rating"), expression.Name("rating").Plus(expression.Value(1))).
			Set(expression.Name("parts"), expression.ListAppend(expression.IfNotExists(expression.Name("parts"), expression.Value([]any{})), expression.Value([]any{"a"}))).
			Set(expression.Name("credits"), expression.Value(map[string]string{"drums": "cyd"})).
			Add(expression.Name("plays"), expression.Value(2)).
			Remove(expression.Name("added"))).
		Build()
	if err != nil {
		t.Fatal(err)
	}
	update := &dynamodb.UpdateItemInput{
		TableName: aws.String("Songs"),
		Key:       map[string]types.AttributeValue{"artist": &types.AttributeValueMemberS{Value: "ada"}, "track": &types.AttributeValueMemberN{Value: "1"}},

		ConditionExpression: e.Condition(), UpdateExpression: e.Update(),
		ExpressionAttributeNames: e.Names(), ExpressionAttributeValues: e.Values(),
		ReturnValues:                        types.ReturnValueAllNew,
		ReturnValuesOnConditionCheckFailure: types.ReturnValuesOnConditionCheckFailureAllOld,
	}
	changed, err := client.UpdateItem(t.Context(), update)
	if err != nil {
		t.Fatal(err)
	}
	var after map[string]any
	if err := attributevalue.UnmarshalMap(changed.Attributes, &after); err != nil {
		t.Fatal(err)
	}
	delete(after, "expires")
	want := map[string]any{"artist": "ada", "track": 1.0, "title": "song 1", "rating": 1.25, "plays": 2.0,
		"parts": []any{"a"}, "credits": map[string]any{"drums": "cyd"}, "live": nil}
	if !reflect.DeepEqual(after, want) {
		t.Errorf("became %v\nwant %v", after, want)
	}

	// The same again: the condition now fails.
	_, err = client.UpdateItem(t.Context(), update)
	var failed *types.ConditionalCheckFailedException
	if !errors.As(err, &failed) || len(failed.Item) != 9 {
		t.Errorf("the second time gives %v", err)
	}
}

func TestErrorsHaveTheirTypes(t *testing.T) {
	client := songs(t, 0)
	_, err := client.CreateTable(t.Context(), &dynamodb.CreateTableInput{
		TableName:            aws.String("Songs"),
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("a"), AttributeType: types.ScalarAttributeTypeS}},
		KeySchema:            []types.KeySchemaElement{{AttributeName: aws.String("a"), KeyType: types.KeyTypeHash}},
		BillingMode:          types.BillingModePayPerRequest,
	})
	if !errors.As(err, new(*types.ResourceInUseException)) {
		t.Errorf("a second table gives %v", err)
	}
	_, err = client.DeleteTable(t.Context(), &dynamodb.DeleteTableInput{TableName: aws.String("None")})
	if !errors.As(err, new(*types.ResourceNotFoundException)) {
		t.Errorf("a missing table gives %v", err)
	}
	token := aws.String("token")
	write := func(title string) error {
		item, err := attributevalue.MarshalMap(song{Artist: "ada", Title: title})
		if err != nil {
			t.Fatal(err)
		}
		_, err = client.TransactWriteItems(t.Context(), &dynamodb.TransactWriteItemsInput{ClientRequestToken: token,
			TransactItems: []types.TransactWriteItem{{Put: &types.Put{TableName: aws.String("Songs"), Item: item}}}})
		return err
	}
	if err := errors.Join(write("one"), write("one")); err != nil {
		t.Error(err)
	}
	if err := write("two"); !errors.As(err, new(*types.IdempotentParameterMismatchException)) {
		t.Errorf("another write with the same token gives %v", err)
	}
}
