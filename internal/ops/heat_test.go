package ops

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/db"
	"github.com/stator-db/stator/internal/meter"
	"github.com/stator-db/stator/internal/protocol/api"
	"github.com/stator-db/stator/internal/protocol/wire"
)

// heatReply is a reply of GetHeat.
type heatReply struct {
	Ranges, Minutes int
	Columns         []struct {
		Minutes                                              int
		Ranges                                               []int
		ReadUnits, WriteUnits, ReadThrottles, WriteThrottles []float64
	}
	Counted, Throttled bool
	Partitions         []float64
}

func (t *tableTest) heat(members string) (reply heatReply, read, write, throttled float64) {
	t.Helper()
	text := t.ask("GetHeat", `{"TableName":"Mine"`+members+`}`)
	if err := json.Unmarshal([]byte(text), &reply); err != nil {
		t.Fatal(text, err)
	}
	for _, c := range reply.Columns {
		for i := range c.Ranges {
			read, write = read+c.ReadUnits[i], write+c.WriteUnits[i]
			if c.WriteThrottles != nil {
				throttled += c.WriteThrottles[i]
			}
		}
	}
	// The sums of thousandths are exact, but not those of their fractions.
	return reply, math.Round(read*1000) / 1000, math.Round(write*1000) / 1000, throttled
}

// GetHeat has what requests have consumed, by the hashes of their keys, and the partitions.
func TestGetHeat(t *testing.T) {
	tt := newPastTest(t)
	for i := range 40 {
		tt.put(fmt.Sprint(i), "x", "1")
	}
	reply, read, write, _ := tt.heat("")
	if read != 0 || write != 40 || !reply.Counted || reply.Throttled || reply.Ranges != 256 || reply.Minutes != 1 {
		t.Errorf("%v read and %v write units, %+v", read, write, reply)
	}
	if len(reply.Partitions) != 4 || reply.Partitions[1] != 0.25 {
		t.Errorf("the partitions begin at %v", reply.Partitions)
	}
	if n := len(reply.Columns[0].Ranges); n < 20 {
		t.Errorf("40 keys are in %d ranges", n)
	}
	if reply, _, write, _ := tt.heat(`,"IndexName":"byA"`); write != 40 || len(reply.Columns) == 0 || len(reply.Columns[0].Ranges) != 1 {
		t.Errorf("one key of the index has %v units: %+v", write, reply.Columns)
	}
	tt.advance(time.Hour)
	if reply, _, write, _ := tt.heat(`,"StartTime":1699999000,"MaxColumns":1`); write != 40 || reply.Minutes != 240 || len(reply.Columns) != 1 {
		t.Errorf("in one column there are %v units: %+v", write, reply)
	}
	tt.ask("Scan", `{"TableName":"Mine"}`)
	if _, read, _, _ := tt.heat(""); read != 2 { // one for each partition with so few items
		t.Errorf("a scan has %v units", read)
	}
	for request, want := range map[string]string{
		`{"TableName":"None"}`:                                  "ResourceNotFoundException",
		`{"TableName":"Mine","IndexName":"none"}`:               "ResourceNotFoundException",
		`{"TableName":"Mine","StartTime":10,"EndTime":5}`:       "StartTime must be before EndTime",
		`{"TableName":"Mine","MaxColumns":100000}`:              "less than or equal to 400",
		`{"TableName":"Mine","StartTime":0,"EndTime":99999999}`: `"Columns":[]`,
	} {
		if got := tt.ask("GetHeat", request); !strings.Contains(got, want) {
			t.Errorf("%s is answered with %s, want %s", request, got, want)
		}
	}
}

// Throttled requests are in the heat map, at the range of their keys.
func TestHeatOfThrottles(t *testing.T) {
	tt := newTableTestWith(t, db.Options{Throttle: true}, true)
	tt.make(`"TableName":"Mine","ProvisionedThroughput":{"ReadCapacityUnits":1,"WriteCapacityUnits":1},"AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}],"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}]`)
	rejected := 0.0
	for range 20 {
		if got := tt.ask("PutItem", `{"TableName":"Mine","Item":{"pk":{"S":"1"}}}`); strings.Contains(got, "ProvisionedThroughputExceeded") {
			rejected++
		}
	}
	reply, _, write, throttled := tt.heat("")
	if rejected == 0 || throttled != rejected || write != 20-rejected || !reply.Throttled || len(reply.Columns) != 1 || len(reply.Columns[0].Ranges) != 1 {
		t.Errorf("%v requests are rejected: %v throttles, %v units in %+v", rejected, throttled, write, reply)
	}
}

// A request for heat waits for the memory that its reply needs.
func TestGetHeatReservesMemory(t *testing.T) {
	columns := make([]api.HeatColumn, 241)
	for i := range columns {
		var full meter.HeatColumn
		for n := range meter.HashRanges {
			full.Cells = append(full.Cells, meter.HeatCell{Range: n, Throttled: [2]int64{1000, 1000}})
		}
		columns[i] = heatColumn(&full)
	}
	text := wire.AppendReply(nil, &api.GetHeatReply{Columns: columns})
	for members, most := range map[string]int64{"": 241, `,"MaxColumns":400`: 401, `,"MaxColumns":1`: 2} {
		r, err := Read("GetHeat", []byte(`{"TableName":"Mine"`+members+`}`))
		if err != nil {
			t.Fatal(err)
		}
		if got, least := r.Expected(), int64(len(text))*most/241; got < least {
			t.Errorf("%d columns reserve %d bytes, but the text alone has %d", most, got, least)
		}
	}
}

// Without heat nothing is counted, and the reply says so.
func TestGetHeatWithoutHeat(t *testing.T) {
	tt := newTableTestWith(t, db.Options{WithoutHeat: true}, true)
	tt.make(`"TableName":"Mine","BillingMode":"PAY_PER_REQUEST","AttributeDefinitions":[{"AttributeName":"pk","AttributeType":"S"}],"KeySchema":[{"AttributeName":"pk","KeyType":"HASH"}]`)
	tt.ask("PutItem", `{"TableName":"Mine","Item":{"pk":{"S":"1"}}}`)
	if reply, _, _, _ := tt.heat(""); reply.Counted || len(reply.Columns) != 0 {
		t.Errorf("the reply is %+v", reply)
	}
}

// GetShapes is the document of the path /shapes.
func TestGetShapes(t *testing.T) {
	tt := newPastTest(t)
	tt.put("1", "x", "1")
	tt.ask("GetItem", `{"TableName":"Mine","Key":{"pk":{"S":"1"}}}`)
	want, err := json.Marshal(tt.s.Shapes())
	if err != nil {
		t.Fatal(err)
	}
	var a, b any
	if err := json.Unmarshal(want, &a); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(tt.ask("GetShapes", `{}`)), &b); err != nil {
		t.Fatal(err)
	}
	if fmt.Sprint(a) != fmt.Sprint(b) {
		t.Errorf("GetShapes answers\n%v\nand /shapes\n%v", b, a)
	}
	var hour api.GetShapesReply
	if text := tt.ask("GetShapes", `{"LastHour":true}`); json.Unmarshal([]byte(text), &hour) != nil || len(hour.Shapes) != 2 {
		t.Errorf("the last hour is %s", text)
	}
}
