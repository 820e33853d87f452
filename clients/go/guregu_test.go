// Package clients tests stator with Go's client libraries for DynamoDB.
package clients

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/guregu/dynamo/v2"

	"github.com/stator-db/stator/statortest"
)

// widget has keys for a table, a local index and two global indexes, one of
// them with two attributes in each part of its key.
type widget struct {
	UserID int       `dynamo:",hash"`
	Time   time.Time `dynamo:",range"`
	Seq    int64     `localIndex:"BySeq,range"`
	Maker  string    `index:"ByMaker,hash" index:"ByPlace,hash"` //nolint:staticcheck // two tags: the library's way into two indexes
	City   string    `index:"ByPlace,hash"`
	Floor  int       `index:"ByPlace,range"`
	Shelf  string    `index:"ByPlace,range"`

	Msg      string              `dynamo:"Message"`
	Count    int                 `dynamo:",omitempty"`
	Friends  []string            `dynamo:",set"`
	Numbers  map[int]struct{}    `dynamo:",set"`
	Parts    []part              `dynamo:",omitempty"`
	Labels   map[string]string   `dynamo:",omitempty"`
	Picture  []byte              `dynamo:",omitempty"`
	Pictures [][]byte            `dynamo:",set"`
	Broken   *bool               `dynamo:",omitempty"`
	Nothing  *string             `dynamo:",null"`
	Secret   string              `dynamo:"-"`
	Extra    map[string][]string `dynamo:",omitempty"`
}

type part struct {
	Name  string
	Price float64
}

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func newWidget(user, n int) widget {
	return widget{
		UserID: user, Time: start.Add(time.Duration(n) * time.Minute), Seq: int64(100 - n),
		Maker: fmt.Sprintf("maker%d", n%2), City: "Ghent", Floor: n, Shelf: fmt.Sprintf("s%d", n),
		Msg: fmt.Sprintf("widget %d", n), Count: n + 1,
	}
}

// widgets is a table with n widgets of each of two users.
func widgets(t *testing.T, n int) (*dynamo.DB, dynamo.Table) {
	t.Helper()
	db := dynamo.NewFromIface(statortest.Start(t))
	err := db.CreateTable("Widgets", widget{}).
		Provision(4, 2).
		ProvisionIndex("ByMaker", 3, 1).
		Project("BySeq", dynamo.IncludeProjection, "Message").
		Project("ByMaker", dynamo.KeysOnlyProjection).
		Tag("team", "widgets").
		Wait(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	table := db.Table("Widgets")
	var items []any
	for user := 1; user <= 2; user++ {
		for i := range n {
			items = append(items, newWidget(user, i))
		}
	}
	if len(items) > 0 {
		wrote, err := table.Batch("UserID", "Time").Write().Put(items...).Run(t.Context())
		if err != nil || wrote != len(items) {
			t.Fatalf("wrote %d of %d: %v", wrote, len(items), err)
		}
	}
	return db, table
}

func TestGureguDescribesWhatItCreated(t *testing.T) {
	db, table := widgets(t, 0)
	d, err := table.Describe().Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !d.Active() || d.HashKey != "UserID" || d.HashKeyType != dynamo.NumberType || d.RangeKey != "Time" ||
		d.RangeKeyType != dynamo.StringType || d.Throughput.Read != 4 || d.Throughput.Write != 2 {
		t.Errorf("described %+v", d)
	}
	if len(d.LSI) != 1 || d.LSI[0].RangeKey != "Seq" || d.LSI[0].ProjectionType != dynamo.IncludeProjection ||
		!slices.Equal(d.LSI[0].ProjectionAttribs, []string{"Message"}) {
		t.Errorf("described local indexes %+v", d.LSI)
	}
	slices.SortFunc(d.GSI, func(a, b dynamo.Index) int { return len(a.HashKey) - len(b.HashKey) })
	if len(d.GSI) != 2 {
		t.Fatalf("described global indexes %+v", d.GSI)
	}
	for _, x := range d.GSI {
		if x.Name == "ByMaker" && (x.Throughput.Read != 3 || x.Status != dynamo.ActiveStatus || x.Backfilling) {
			t.Errorf("described %+v", x)
		}
	}
	if names, err := db.ListTables().All(t.Context()); err != nil || !slices.Equal(names, []string{"Widgets"}) {
		t.Errorf("tables are %v, %v", names, err)
	}
}

// The library creates such an index from tags, but cannot query it: the test uses
// the SDK for that.
func TestGureguIndexOfManyAttributes(t *testing.T) {
	db, table := widgets(t, 5)
	got, err := db.Client().Query(t.Context(), &dynamodb.QueryInput{
		TableName:              aws.String(table.Name()),
		IndexName:              aws.String("ByPlace"),
		KeyConditionExpression: aws.String("Maker = :m AND City = :c AND #f = :f AND begins_with(Shelf, :s)"),
		ExpressionAttributeNames: map[string]string{
			"#f": "Floor",
		},
		ExpressionAttributeValues: map[string]types.AttributeValue{
			":m": &types.AttributeValueMemberS{Value: "maker1"},
			":c": &types.AttributeValueMemberS{Value: "Ghent"},
			":f": &types.AttributeValueMemberN{Value: "3"},
			":s": &types.AttributeValueMemberS{Value: "s"},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Items) != 2 {
		t.Fatalf("found %v", got.Items)
	}
	var found widget
	if err := dynamo.UnmarshalItem(got.Items[0], &found); err != nil || found.Floor != 3 {
		t.Errorf("found %+v, %v", found, err)
	}
	var scanned []widget
	if err := table.Scan().Index("ByPlace").All(t.Context(), &scanned); err != nil || len(scanned) != 10 {
		t.Errorf("scanned %d, %v", len(scanned), err)
	}
}

func TestGureguGetsWhatItPut(t *testing.T) {
	_, table := widgets(t, 0)
	yes := true
	want := newWidget(7, 0)
	want.Friends = []string{"ada", "bob"}
	want.Numbers = map[int]struct{}{1: {}, -20: {}}
	want.Parts = []part{{"screw", 0.25}, {"nut", 1e-10}}
	want.Labels = map[string]string{"color": "red", "size": "small"}
	want.Picture = []byte{0, 1, 254, 255}
	want.Pictures = [][]byte{{1}, {2, 3}}
	want.Broken = &yes
	want.Extra = map[string][]string{"a": {"b", "c"}}
	var cc dynamo.ConsumedCapacity
	if err := table.Put(want).ConsumedCapacity(&cc).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	if cc.Total != 4 || cc.Table != 1 || cc.GSI["ByMaker"] != 1 || cc.GSI["ByPlace"] != 1 || cc.LSI["BySeq"] != 1 || cc.TableName != "Widgets" {
		t.Errorf("consumed %+v", cc)
	}
	var got widget
	err := table.Get("UserID", 7).Range("Time", dynamo.Equal, want.Time).Consistent(true).One(t.Context(), &got)
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(got.Friends)
	slices.SortFunc(got.Pictures, slices.Compare)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
	err = table.Get("UserID", 8).Range("Time", dynamo.Equal, want.Time).One(t.Context(), &got)
	if !errors.Is(err, dynamo.ErrNotFound) {
		t.Errorf("a missing widget gives %v", err)
	}
	var old widget
	if err := table.Put(newWidget(7, 0)).OldValue(t.Context(), &old); err != nil || old.Labels["color"] != "red" {
		t.Errorf("the old value is %+v, %v", old, err)
	}
	if err := table.Put(newWidget(9, 0)).OldValue(t.Context(), &old); !errors.Is(err, dynamo.ErrNotFound) {
		t.Errorf("the old value of a new widget gives %v", err)
	}
}

// Queries of this library have KeyConditions, and with a filter also
// FilterExpression.
func TestGureguQueries(t *testing.T) {
	_, table := widgets(t, 10)
	at := func(n int) time.Time { return newWidget(1, n).Time }
	ours := func() *dynamo.Query { return table.Get("UserID", 1) }
	for _, c := range []struct {
		name  string
		query *dynamo.Query
		want  []int // minutes
	}{
		{"all of a partition", ours(), []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}},
		{"backwards with a limit", ours().Order(dynamo.Descending).Limit(3), []int{9, 8, 7}},
		{"a range of times", ours().Range("Time", dynamo.Between, at(2), at(4)), []int{2, 3, 4}},
		{"up to a time", ours().Range("Time", dynamo.LessOrEqual, at(1)), []int{0, 1}},
		{"before a time", ours().Range("Time", dynamo.Less, at(1)), []int{0}},
		{"after a time", ours().Range("Time", dynamo.Greater, at(8)), []int{9}},
		{"from a time", ours().Range("Time", dynamo.GreaterOrEqual, at(8)), []int{8, 9}},
		{"a prefix of a time", ours().Range("Time", dynamo.BeginsWith, "2026-01-02T03:1"), []int{6, 7, 8, 9}},
		{"a filter", ours().Filter("'Count' > ?", 8), []int{8, 9}},
		{"a range and a filter", ours().Range("Time", dynamo.Greater, at(3)).Filter("'Count' < ?", 7), []int{4, 5}},
		{"two filters", ours().Filter("'Count' > ?", 3).Filter("contains($, ?)", "Message", "5"), []int{5}},
		{"filter and limit", ours().Filter("Maker = ?", "maker1").Limit(2), []int{1, 3}},
		{"a filter after a few", ours().Filter("Maker = ?", "maker1").SearchLimit(5), []int{1, 3}},
		{"a local index", ours().Index("BySeq").Range("Seq", dynamo.Less, 93), []int{9, 8}},
		{"a local index with a filter", ours().Index("BySeq").Filter("'Message' = ?", "widget 4"), []int{4}},
		{"nothing", table.Get("UserID", 3), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			var found []widget
			if err := c.query.All(t.Context(), &found); err != nil {
				t.Fatal(err)
			}
			var got []int
			for _, w := range found {
				got = append(got, int(w.Time.Sub(start)/time.Minute))
			}
			if !slices.Equal(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}

	var found []widget
	if err := table.Get("Maker", "maker0").Index("ByMaker").All(t.Context(), &found); err != nil || len(found) != 10 || found[0].Msg != "" {
		t.Errorf("of maker0 there are %d, %v", len(found), err)
	}
	n, err := ours().Filter("'Count' <= ?", 4).Count(t.Context())
	if err != nil || n != 4 {
		t.Errorf("counted %d, %v", n, err)
	}
	var one widget
	err = ours().Range("Time", dynamo.Equal, at(3)).Filter("'Count' = ?", 4).Project("UserID", "Message").One(t.Context(), &one)
	if err != nil || one.Msg != "widget 3" || one.Count != 0 {
		t.Errorf("the one is %+v, %v", one, err)
	}
	if err := ours().Filter("Maker = ?", "maker1").One(t.Context(), &one); !errors.Is(err, dynamo.ErrTooMany) {
		t.Errorf("one of many gives %v", err)
	}
}

func TestGureguPages(t *testing.T) {
	_, table := widgets(t, 10)
	var seen []int64
	var key dynamo.PagingKey
	for {
		var page []widget
		var err error
		key, err = table.Get("UserID", 2).Index("BySeq").Limit(4).StartFrom(key).AllWithLastEvaluatedKey(t.Context(), &page)
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range page {
			seen = append(seen, w.Seq)
		}
		if key == nil {
			break
		}
	}
	if !slices.Equal(seen, []int64{91, 92, 93, 94, 95, 96, 97, 98, 99, 100}) {
		t.Errorf("saw %v", seen)
	}

	// With a limit and a filter the library itself makes the key of the next page,
	// from the last item that it returned.
	count := 0
	for {
		itr := table.Scan().Filter("'Count' > ?", 2).Limit(3).StartFrom(key).Iter()
		var w widget
		for itr.Next(t.Context(), &w) {
			count++
		}
		if itr.Err() != nil {
			t.Fatal(itr.Err())
		}
		var err error
		if key, err = itr.LastEvaluatedKey(t.Context()); err != nil {
			t.Fatal(err)
		}
		if key == nil {
			break
		}
	}
	if count != 16 {
		t.Errorf("the pages have %d widgets", count)
	}
}

// Three megabytes take several requests, which the library sends by itself.
func TestGureguReadsBeyondOnePage(t *testing.T) {
	_, table := widgets(t, 0)
	for i := range 10 {
		w := newWidget(1, i)
		w.Picture = make([]byte, 300<<10)
		if err := table.Put(w).Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var cc dynamo.ConsumedCapacity
	var found []widget
	if err := table.Get("UserID", 1).ConsumedCapacity(&cc).All(t.Context(), &found); err != nil || len(found) != 10 || cc.Requests < 3 {
		t.Errorf("found %d in %d requests, %v", len(found), cc.Requests, err)
	}
	if n, err := table.Scan().Filter("Maker = ?", "maker1").Count(t.Context()); err != nil || n != 5 {
		t.Errorf("counted %d, %v", n, err)
	}
}

func TestGureguScans(t *testing.T) {
	_, table := widgets(t, 20)
	var all, parallel []widget
	if err := table.Scan().All(t.Context(), &all); err != nil || len(all) != 40 {
		t.Errorf("scanned %d, %v", len(all), err)
	}
	if err := table.Scan().AllParallel(t.Context(), 4, &parallel); err != nil || len(parallel) != 40 {
		t.Errorf("scanned %d in parallel, %v", len(parallel), err)
	}
	var cc dynamo.ConsumedCapacity
	n, err := table.Scan().Filter("begins_with('Message', ?)", "widget 1").Consistent(true).ConsumedCapacity(&cc).Count(t.Context())
	if err != nil || n != 22 || cc.Total <= 0 {
		t.Errorf("counted %d at %v units, %v", n, cc.Total, err)
	}
}

func TestGureguUpdates(t *testing.T) {
	_, table := widgets(t, 1)
	update := func() *dynamo.Update { return table.Update("UserID", 1).Range("Time", start) }
	var w widget
	err := update().
		Set("Message", "changed").
		SetSet("Friends", []string{"ada", "bob", "cyd"}).
		Set("Labels", map[string]string{"a": "1", "b": "2"}).
		Set("Parts", []part{{"bolt", 2}}).
		SetIfNotExists("Maker", "nobody").
		Add("Count", 41).
		Remove("Shelf").
		Value(t.Context(), &w)
	if err != nil {
		t.Fatal(err)
	}
	if w.Msg != "changed" || w.Count != 42 || len(w.Friends) != 3 || w.Maker != "maker0" || w.Shelf != "" || len(w.Parts) != 1 {
		t.Errorf("became %+v", w)
	}
	err = update().
		DeleteStringsFromSet("Friends", "ada", "bob").
		AddIntsToSet("Numbers", 3, 4).
		Append("Parts", []part{{"nut", 3}}).
		SetExpr("'Labels'.$ = ?", "c", "3").
		RemoveExpr("'Labels'.$", "a").
		If("'Count' = ? AND attribute_exists(Friends)", 42).
		Value(t.Context(), &w)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(w.Friends, []string{"cyd"}) || len(w.Numbers) != 2 || len(w.Parts) != 2 || w.Parts[1].Name != "nut" ||
		!reflect.DeepEqual(w.Labels, map[string]string{"b": "2", "c": "3"}) {
		t.Errorf("became %+v", w)
	}
	var changed, before widget
	if err := update().Prepend("Parts", []part{{"washer", 1}}).OnlyUpdatedValue(t.Context(), &changed); err != nil || len(changed.Parts) != 3 || changed.Msg != "" {
		t.Errorf("changed %+v, %v", changed, err)
	}
	if err := update().Add("Count", -1).OnlyUpdatedOldValue(t.Context(), &before); err != nil || before.Count != 42 {
		t.Errorf("before it was %+v, %v", before, err)
	}
	if err := update().Set("Count", 1).If("'Count' = ?", 42).Run(t.Context()); !dynamo.IsCondCheckFailed(err) {
		t.Errorf("a failing condition gives %v", err)
	}
	if err := table.Update("UserID", 50).Range("Time", start).Set("Message", "new").Value(t.Context(), &w); err != nil || w.UserID != 50 {
		t.Errorf("an update made %+v, %v", w, err)
	}
}

func TestGureguConditions(t *testing.T) {
	_, table := widgets(t, 1)
	if err := table.Put(newWidget(1, 0)).If("attribute_not_exists(UserID)").Run(t.Context()); !dynamo.IsCondCheckFailed(err) {
		t.Errorf("a second put gives %v", err)
	}
	if err := table.Put(newWidget(1, 0)).If("$ IN (?, ?) AND NOT size('Message') > ?", "Count", 1, 5, 20).Run(t.Context()); err != nil {
		t.Error(err)
	}
	if err := table.Delete("UserID", 1).Range("Time", start).If("'Count' > ?", 100).Run(t.Context()); !dynamo.IsCondCheckFailed(err) {
		t.Errorf("a delete gives %v", err)
	}
	var old widget
	if err := table.Delete("UserID", 1).Range("Time", start).OldValue(t.Context(), &old); err != nil || old.Msg != "widget 0" {
		t.Errorf("deleted %+v, %v", old, err)
	}
	if err := table.Delete("UserID", 1).Range("Time", start).OldValue(t.Context(), &old); !errors.Is(err, dynamo.ErrNotFound) {
		t.Errorf("deleting again gives %v", err)
	}
}

func TestGureguBatches(t *testing.T) {
	db, table := widgets(t, 60) // 120 widgets: five requests of 25
	var keys []dynamo.Keyed
	for user := 1; user <= 2; user++ {
		for i := range 70 { // the last ten do not exist
			keys = append(keys, dynamo.Keys{user, newWidget(user, i).Time})
		}
	}
	var found []widget
	var cc dynamo.ConsumedCapacity
	batch := table.Batch("UserID", "Time")
	if err := batch.Get(keys...).Consistent(true).ConsumedCapacity(&cc).All(t.Context(), &found); err != nil || len(found) != 120 || cc.Total != 140 {
		t.Errorf("found %d at %v units, %v", len(found), cc.Total, err)
	}
	found = nil
	if err := batch.Get(keys[:3]...).Project("Message").All(t.Context(), &found); err != nil || len(found) != 3 || found[0].Count != 0 {
		t.Errorf("found %+v, %v", found, err)
	}
	if err := batch.Get(keys[65]).All(t.Context(), &found); !errors.Is(err, dynamo.ErrNotFound) {
		t.Errorf("a batch without items gives %v", err)
	}

	if err := db.CreateTable("Other", struct {
		ID string `dynamo:",hash"`
	}{}).OnDemand(true).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	other := db.Table("Other")
	wrote, err := batch.Write().Delete(keys...).PutIn(other, dynamo.AWSEncoding(map[string]string{"ID": "x"})).Run(t.Context())
	if err != nil || wrote != 141 {
		t.Errorf("wrote %d, %v", wrote, err)
	}
	if n, err := table.Scan().Count(t.Context()); err != nil || n != 0 {
		t.Errorf("%d are left, %v", n, err)
	}
	if n, err := other.Scan().Count(t.Context()); err != nil || n != 1 {
		t.Errorf("%d are in the other table, %v", n, err)
	}
}

func TestGureguTransactions(t *testing.T) {
	db, table := widgets(t, 3)
	at := func(n int) time.Time { return newWidget(1, n).Time }
	var cc dynamo.ConsumedCapacity
	tx := db.WriteTx().Idempotent(true).ConsumedCapacity(&cc)
	tx.Put(table.Put(newWidget(5, 0)).If("attribute_not_exists(UserID)"))
	tx.Update(table.Update("UserID", 1).Range("Time", at(0)).Add("Count", 10))
	tx.Delete(table.Delete("UserID", 1).Range("Time", at(1)).If("'Message' = ?", "widget 1"))
	tx.Check(table.Check("UserID", 1).Range("Time", at(2)).If("'Count' = ?", 3))
	for range 2 { // the second time has no effect
		if err := tx.Run(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if cc.Total == 0 {
		t.Error("no units are reported")
	}

	var first, second widget
	err := db.GetTx().
		GetOne(table.Get("UserID", 1).Range("Time", dynamo.Equal, at(0)), &first).
		GetOne(table.Get("UserID", 5).Range("Time", dynamo.Equal, at(0)).Project("Message"), &second).
		Run(t.Context())
	if err != nil || first.Count != 11 || second.Msg != "widget 0" || second.Count != 0 {
		t.Errorf("got %+v and %+v, %v", first, second, err)
	}
	var all []widget
	err = db.GetTx().
		Get(table.Get("UserID", 1).Range("Time", dynamo.Equal, at(1))).
		Get(table.Get("UserID", 1).Range("Time", dynamo.Equal, at(2))).
		All(t.Context(), &all)
	if err != nil || len(all) != 1 {
		t.Errorf("of one deleted and one kept item we got %+v, %v", all, err)
	}

	failing := db.WriteTx()
	failing.Put(table.Put(newWidget(6, 0)))
	failing.Check(table.Check("UserID", 1).Range("Time", at(2)).If("'Count' = ?", 4))
	err = failing.Run(t.Context())
	var canceled *types.TransactionCanceledException
	if !dynamo.IsCondCheckFailed(err) || !errors.As(err, &canceled) || len(canceled.CancellationReasons) != 2 ||
		aws.ToString(canceled.CancellationReasons[0].Code) != "None" ||
		aws.ToString(canceled.CancellationReasons[1].Code) != "ConditionalCheckFailed" {
		t.Errorf("a check that fails gives %v", err)
	}
	if err := table.Get("UserID", 6).Range("Time", dynamo.Equal, start).One(t.Context(), &first); !errors.Is(err, dynamo.ErrNotFound) {
		t.Errorf("a canceled put is stored: %v", err)
	}
}

func TestGureguChangesAndDeletesTables(t *testing.T) {
	db := dynamo.NewFromIface(statortest.Start(t))
	if err := db.CreateTable("Widgets", widget{}).OnDemand(true).Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	table := db.Table("Widgets")
	if err := table.Put(newWidget(1, 0)).Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	d, err := table.UpdateTable().CreateIndex(dynamo.Index{
		Name: "ByMessage", HashKey: "Message", HashKeyType: dynamo.StringType, ProjectionType: dynamo.AllProjection,
	}).Run(t.Context())
	if err != nil || len(d.GSI) != 3 {
		t.Fatalf("changed into %+v, %v", d, err)
	}
	var found widget
	for until := time.Now().Add(10 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		d, err := table.Describe().Run(t.Context())
		if err != nil || time.Now().After(until) {
			t.Fatalf("the index did not become active: %+v, %v", d, err)
		}
		if d.Active() && !slices.ContainsFunc(d.GSI, func(x dynamo.Index) bool { return x.Status != dynamo.ActiveStatus }) {
			break
		}
	}
	if err := table.Get("Message", "widget 0").Index("ByMessage").One(t.Context(), &found); err != nil || found.Count != 1 {
		t.Errorf("found %+v, %v", found, err)
	}
	if err := table.UpdateTTL("Expires", true).Run(t.Context()); err != nil {
		t.Error(err)
	}
	if ttl, err := table.DescribeTTL().Run(t.Context()); err != nil || !ttl.Enabled() || ttl.Attribute != "Expires" {
		t.Errorf("time to live is %+v, %v", ttl, err)
	}
	if err := table.DeleteTable().Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	var missing *types.ResourceNotFoundException
	if _, err := table.Describe().Run(t.Context()); !errors.As(err, &missing) {
		t.Errorf("a deleted table gives %v", err)
	}
}
