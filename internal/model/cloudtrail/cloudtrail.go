// Package cloudtrail counts the requests in log files of AWS CloudTrail by their
// shape.
//
// The data events of a trail name the operation, the key and the expressions of a
// request, without the values of other attributes and without the reply. So the counts
// have no returned items and no units.
package cloudtrail

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/workload"
)

// Log counts the data events of some tables.
type Log struct {
	// From and To are the times of the first and the last event of the files, of any
	// service.
	From, To time.Time

	// Events is how many events were counted.
	Events int

	tables   map[string]*schema.Table
	recorder *workload.Recorder
	seed     maphash.Seed
	seen     map[uint64]struct{} // identifiers of events
	left     map[string]int      // events that are not counted, by reason
}

// maxSeen is how many events are remembered, since a trail may deliver one twice.
const maxSeen = 1 << 23

// New makes a log of the events of the given tables.
func New(tables []*schema.Table) *Log {
	l := &Log{tables: make(map[string]*schema.Table), recorder: workload.NewRecorder(time.Time{}), seed: maphash.MakeSeed(),
		seen: make(map[uint64]struct{}), left: make(map[string]int)}
	for _, t := range tables {
		l.tables[t.Name] = t
	}
	return l
}

// Report returns the counts so far.
func (l *Log) Report() workload.Report {
	r := l.recorder.Report()
	r.Since = l.From
	return r
}

// Left returns how many events of the tables were not counted, by reason.
func (l *Log) Left() (lines []string) {
	for _, why := range slices.Sorted(maps.Keys(l.left)) {
		lines = append(lines, fmt.Sprintf("%d events: %s", l.left[why], strings.Trim(strconv.Quote(why), `"`)))
	}
	return lines
}

// event is one record of a log file.
type event struct {
	EventID           string
	EventTime         time.Time
	EventSource       string
	EventName         string
	ErrorCode         string
	RequestParameters json.RawMessage
}

// Read adds the events of a file: an object with Records, as a trail delivers it, or
// events one after another. name is the file's name in messages.
func (l *Log) Read(name string, r io.Reader) error {
	decoder := json.NewDecoder(bufio.NewReaderSize(r, 1<<16))
	for n := 1; ; n++ {
		var document struct {
			event
			Records recordList
		}
		document.Records.log = l
		switch err := decoder.Decode(&document); {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("%s: document %d: %w", name, n, err)
		}
		if document.EventSource != "" {
			l.add(&document.event)
		} else if !document.Records.given {
			return fmt.Errorf("%s: document %d has neither Records nor eventSource: it is not a log file of CloudTrail", name, n)
		}
	}
}

// recordList adds the events of a list to a log.
type recordList struct {
	log   *Log
	given bool
}

// UnmarshalJSON reads the list.
func (l *recordList) UnmarshalJSON(text []byte) error {
	l.given = true
	var all []event
	if err := json.Unmarshal(text, &all); err != nil {
		return err
	}
	for i := range all {
		l.log.add(&all[i])
	}
	return nil
}

// add counts an event.
func (l *Log) add(e *event) {
	if !e.EventTime.IsZero() && (l.From.IsZero() || e.EventTime.Before(l.From)) {
		l.From = e.EventTime
	}
	if e.EventTime.After(l.To) {
		l.To = e.EventTime
	}
	if e.EventSource != "dynamodb.amazonaws.com" || l.repeated(e.EventID) {
		return
	}
	shapes, err := l.shapes(e)
	var unknown unknownTable
	switch {
	case errors.Is(err, errNoData) || errors.As(err, &unknown):
		return
	case e.ErrorCode != "":
		l.leave("the request failed (" + e.ErrorCode + ")")
		return
	case err != nil:
		l.leave(e.EventName + ": " + err.Error())
		return
	case e.EventTime.IsZero():
		l.leave("the event has no time")
		return
	}
	l.Events++
	for _, s := range shapes {
		l.recorder.Counter(s).Observe(0, 0)
	}
}

// maxReasons is how many reasons are reported.
const maxReasons = 40

// leave notes why an event is not counted.
func (l *Log) leave(why string) {
	if _, ok := l.left[why]; !ok && len(l.left) >= maxReasons {
		why = "other reasons"
	}
	l.left[why]++
}

// repeated reports whether an event was seen before.
func (l *Log) repeated(id string) bool {
	if id == "" {
		return false
	}
	h := maphash.String(l.seed, id)
	if _, ok := l.seen[h]; ok {
		return true
	}
	if len(l.seen) < maxSeen {
		l.seen[h] = struct{}{}
	}
	return false
}

// errNoData is returned for events that are no requests for items.
var errNoData = errors.New("not a request for items")

// unknownTable is the name of a table that is not counted.
type unknownTable string

func (t unknownTable) Error() string { return "the table " + string(t) + " is not counted" }

// shapes returns the shapes of a request, one for each table.
func (l *Log) shapes(e *event) ([]workload.Shape, error) {
	switch e.EventName {
	case "GetItem", "PutItem", "UpdateItem", "DeleteItem", "Query", "Scan":
		var p loggedRequest
		if err := json.Unmarshal(e.RequestParameters, &p); err != nil {
			return nil, fmt.Errorf("its parameters cannot be read: %w", err)
		}
		t, err := l.table(p.TableName)
		if err != nil {
			return nil, err
		}
		if len(p.ExclusiveStartKey) > 0 {
			return nil, errors.New("it reads a further page of an earlier request")
		}
		s, err := (&shaper{l.recorder, t}).single(e.EventName, &p)
		return []workload.Shape{s}, err
	case "TransactWriteItems", "TransactGetItems", "BatchWriteItem", "BatchGetItem":
		return l.combined(e)
	case "ExecuteStatement", "BatchExecuteStatement", "ExecuteTransaction":
		return nil, errors.New("statements are not derived from a log")
	}
	return nil, errNoData
}

// table returns a table by its name or its ARN.
func (l *Log) table(name string) (*schema.Table, error) {
	if _, after, ok := strings.Cut(name, ":table/"); ok {
		name = after
	}
	if t, ok := l.tables[name]; ok {
		return t, nil
	}
	return nil, unknownTable(cmp.Or(name, "without a name"))
}
