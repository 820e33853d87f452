package prove

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/apply"
)

// runner runs one pattern.
type runner struct {
	send    apply.Send
	model   *model.Model
	options *Options
	pattern *Pattern
	gaveUp  bool // a read differed until the timeout; later reads are not retried
}

// run executes one run: it stores the items that must exist, sends the
// requests, and deletes all items.
func (s *runner) run(ctx context.Context, plan *model.Plan, run int) (err error) {
	scenario, err := s.options.scenario(plan, model.Generator{Seed: uint64(run)}, run, run%plan.States())
	if err != nil {
		s.pattern.Error = err.Error()
		return nil
	}
	var items fixtures
	defer func() { err = errors.Join(err, items.remove(context.WithoutCancel(ctx), s.send, s.model)) }()
	for _, stored := range scenario.Before {
		items.addStored(stored)
	}
	if err := items.store(ctx, s.send); err != nil {
		return s.recordFault(err)
	}
	s.pattern.Runs++
	for i, call := range scenario.Calls {
		items.addWritten(call)
		got, err := s.call(ctx, call)
		if err != nil {
			return s.recordFault(err)
		}
		if run == 0 {
			s.addFirstRun(got)
		}
		s.compare(run, i, call, got)
	}
	return nil
}

// recordFault records an error reply of the server in the report; any other
// error is returned.
func (s *runner) recordFault(err error) error {
	var fault *apierror.Error
	if errors.As(err, &fault) {
		s.pattern.Error = fault.Error()
		return nil
	}
	return err
}

// call sends a request. A read may not see items that were just written: if it
// differs, it is sent again until the timeout.
func (s *runner) call(ctx context.Context, c model.Call) (*requestResult, error) {
	until := time.Now().Add(s.options.ConsistencyTimeout)
	for wait := 50 * time.Millisecond; ; wait *= 2 {
		got, err := s.pages(ctx, c)
		if err != nil || s.gaveUp || len(c.Want.Write) > 0 || maps.Equal(predicted(c), actual(c, got)) {
			return got, err
		}
		if s.gaveUp = time.Now().Add(wait).After(until); s.gaveUp {
			return got, nil
		}
		if err := apply.Sleep(ctx, wait); err != nil {
			return nil, err
		}
	}
}

// pages sends a request, and those for further pages if all are read.
func (s *runner) pages(ctx context.Context, c model.Call) (*requestResult, error) {
	got := new(requestResult)
	body := maps.Clone(c.Body)
	for {
		text, err := s.send(ctx, c.Operation, body)
		if err != nil {
			return nil, err
		}
		s.pattern.Requests++
		last, err := got.add(text)
		if err != nil {
			return nil, err
		}
		// The number of pages bounds a server that never ends.
		if !c.Follow || last == nil || got.pages > 2*c.Want.Pages+10 {
			return got, nil
		}
		body["ExclusiveStartKey"] = last
	}
}

// addFirstRun adds a result of the first run to the report.
func (s *runner) addFirstRun(got *requestResult) {
	p := s.pattern
	p.Returned += got.returned
	p.Scanned += got.scanned
	p.Pages += got.pages
	for place, units := range got.units {
		i := slices.IndexFunc(p.Units, func(u Units) bool { return u.Table == place.table && u.Index == place.index })
		if i < 0 {
			i = len(p.Units)
			p.Units = append(p.Units, Units{Table: place.table, Index: place.index})
		}
		p.Units[i].Units += units
	}
	slices.SortFunc(p.Units, func(a, b Units) int { return strings.Compare(a.Table+"."+a.Index, b.Table+"."+b.Index) })
}

func (s *runner) differ(run, request int, what, predicted, actual string) {
	s.pattern.Differences = append(s.pattern.Differences, Difference{Run: run + 1, Request: request + 1, What: what, Predicted: predicted, Actual: actual})
}

// compare records the differences between a result and the prediction.
func (s *runner) compare(run, request int, c model.Call, got *requestResult) {
	want, is := predicted(c), actual(c, got)
	names := maps.Clone(want)
	maps.Copy(names, is)
	for _, what := range slices.Sorted(maps.Keys(names)) {
		if want[what] != is[what] {
			s.differ(run, request, what, cmp.Or(want[what], "0"), cmp.Or(is[what], "0"))
		}
	}
}

// predicted returns the facts that are predicted for a request, by name. Facts
// that are zero are left out.
func predicted(c model.Call) map[string]string {
	o := &requestResult{returned: c.Want.Count, scanned: c.Want.Scanned, pages: c.Want.Pages, units: make(map[tableOrIndex]float64)}
	for _, u := range slices.Concat(c.Want.Read, c.Want.Write) {
		o.units[tableOrIndex{table: u.Table}] += u.Consumed.Table
		for _, x := range u.Indexes {
			o.units[tableOrIndex{u.Table, x.Name}] += x.Units
		}
	}
	f := facts(c, o)
	if c.Want.Index != "" {
		f["index used"] = c.Want.Index
	}
	return f
}

// actual returns the same facts of a result. The index used is the one whose
// units a read used.
func actual(c model.Call, got *requestResult) map[string]string {
	f := facts(c, got)
	if got.unprocessed {
		f["unprocessed"] = "some items"
	}
	for place, units := range got.units {
		if place.index != "" && units > 0 && isPaged(c.Operation) {
			f["index used"] = place.index
		}
	}
	return f
}

func isPaged(operation string) bool { return operation == "Query" || operation == "Scan" }

func facts(c model.Call, o *requestResult) map[string]string {
	f := make(map[string]string)
	note := func(what string, n float64) {
		if n != 0 {
			f[what] = number(n)
		}
	}
	note("items returned", float64(o.returned))
	if isPaged(c.Operation) {
		note("items scanned", float64(o.scanned))
	}
	if c.Follow {
		note("pages", float64(o.pages))
	}
	for place, units := range o.units {
		note("units of "+place.String(), units)
	}
	return f
}

func number(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }

// tableOrIndex is a table, or an index of it.
type tableOrIndex struct{ table, index string }

func (p tableOrIndex) String() string {
	if p.index == "" {
		return p.table
	}
	return p.table + "." + p.index
}

// requestResult is the result of a request of any operation, with all its
// pages.
type requestResult struct {
	returned, scanned, pages int
	units                    map[tableOrIndex]float64
	unprocessed              bool
}

// add adds a reply, and returns the key at which the next page starts.
func (o *requestResult) add(text []byte) (last json.RawMessage, err error) {
	var r struct {
		Count, ScannedCount int
		LastEvaluatedKey    json.RawMessage
		Item                json.RawMessage
		Responses           json.RawMessage
		UnprocessedKeys     map[string]any
		UnprocessedItems    map[string]any
		ConsumedCapacity    json.RawMessage
	}
	if err := json.Unmarshal(text, &r); err != nil {
		return nil, err
	}
	o.pages++
	o.returned += r.Count + found(r.Item, r.Responses)
	o.scanned += r.ScannedCount
	o.unprocessed = o.unprocessed || len(r.UnprocessedKeys)+len(r.UnprocessedItems) > 0
	if o.units == nil {
		o.units = make(map[tableOrIndex]float64)
	}
	return r.LastEvaluatedKey, o.charge(r.ConsumedCapacity)
}

// found counts the items that reads by key return: of a get, a batch or a
// transaction.
func found(item, responses json.RawMessage) (n int) {
	if item != nil {
		return 1
	}
	var batch map[string][]json.RawMessage
	if json.Unmarshal(responses, &batch) == nil {
		for _, items := range batch {
			n += len(items)
		}
		return n
	}
	var list []struct{ Item json.RawMessage }
	if json.Unmarshal(responses, &list) == nil {
		for _, r := range list {
			if r.Item != nil {
				n++
			}
		}
	}
	return n
}

// charge adds the consumed capacity of a reply, of one table or of several.
func (o *requestResult) charge(text json.RawMessage) error {
	type units map[string]struct{ CapacityUnits float64 }
	type consumed struct {
		TableName                                     string
		Table                                         struct{ CapacityUnits float64 }
		GlobalSecondaryIndexes, LocalSecondaryIndexes units
	}
	if text == nil {
		return nil
	}
	var list []consumed
	if json.Unmarshal(text, &list) != nil {
		var one consumed
		if err := json.Unmarshal(text, &one); err != nil {
			return err
		}
		list = append(list, one)
	}
	for _, c := range list {
		o.units[tableOrIndex{table: c.TableName}] += c.Table.CapacityUnits
		for _, indexes := range []units{c.GlobalSecondaryIndexes, c.LocalSecondaryIndexes} {
			for name, x := range indexes {
				o.units[tableOrIndex{c.TableName, name}] += x.CapacityUnits
			}
		}
	}
	return nil
}

func isFault(err error, code string) bool {
	var fault *apierror.Error
	return errors.As(err, &fault) && fault.Code == code
}
