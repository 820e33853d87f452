package mcp

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/stator-db/stator/internal/past"
)

// The bounds of answers.
const (
	maxItems      = 50
	maxItemsSize  = maxAnswerSize * 3 / 4 // the rest of the answer has room too
	maxPages      = 10                    // requests of one query
	filteredLimit = 200                   // items that a request with a filter looks at
)

type queryIn struct {
	Table      string         `json:"table"`
	Where      map[string]any `json:"where,omitempty" jsonschema:"conditions by attribute: a value, or {operator: operand} with =, <, <=, >, >=, between, begins_with, and for filters also <>, in, contains, exists"`
	Index      string         `json:"index,omitempty" jsonschema:"index to read; chosen by default"`
	Select     []string       `json:"select,omitempty" jsonschema:"attributes to return; all by default"`
	Limit      int            `json:"limit,omitempty" jsonschema:"items, up to 50"`
	Descending bool           `json:"descending,omitempty"`
	Consistent bool           `json:"consistent,omitempty"`
	AllowScan  bool           `json:"allow_scan,omitempty" jsonschema:"read the whole table or index if no key serves the conditions"`
	At         string         `json:"at,omitempty" jsonschema:"read the past: a time such as 2026-11-18T14:03:07Z, or 5m for five minutes ago"`
	Next       map[string]any `json:"next,omitempty" jsonschema:"the next of the page before"`
	Fork       string         `json:"fork,omitempty" jsonschema:"fork to read"`
}

// exactRequest is a request as it was sent.
type exactRequest struct {
	Operation string `json:"operation"`
	Body      any    `json:"body"`
}

type queryOut struct {
	Items     []map[string]any `json:"items"`
	Count     int              `json:"count"`
	LookedAt  int              `json:"looked_at"` // items, which is what is paid for
	Units     float64          `json:"units"`
	ServedBy  string           `json:"served_by"`
	Request   exactRequest     `json:"request"`
	Requests  int              `json:"requests"`
	Next      json.RawMessage  `json:"next,omitempty"`
	Truncated bool             `json:"truncated"`
	Cut       int              `json:"cut_strings,omitempty"`
	Notes     []string         `json:"notes,omitempty"`
}

func (c *call) query(ctx context.Context, in queryIn) (any, error) {
	if err := c.use(in.Table, in.Fork); err != nil {
		return nil, err
	}
	at, err := c.parseTime("at", in.At)
	if err != nil {
		return nil, err
	}
	if in.Limit < 0 || in.Limit > maxItems {
		return nil, fmt.Errorf("limit is %d, but must be from 1 to %d", in.Limit, maxItems)
	}
	if in.Limit == 0 {
		in.Limit = maxItems
	}
	t, err := c.describe(ctx, in.Table)
	if err != nil {
		return nil, err
	}
	where, err := conditions(in.Where)
	if err != nil {
		return nil, err
	}
	if _, ok := t.Index(in.Index); in.Index != "" && !ok {
		return nil, fmt.Errorf("table %s has no index %s", t.Name, in.Index)
	}
	p, why := choose(t, in.Index, where, in.Consistent)
	out := &queryOut{Items: []map[string]any{}}
	operation := "Query"
	if p == nil {
		if !in.AllowScan {
			return nil, scanRefused(t, in.Index, where, why)
		}
		operation, p = "Scan", &accessPath{key: t.Key, filter: where}
		if in.Index != "" {
			p.index, _ = t.Index(in.Index)
			p.key = p.index.Key
		}
	}
	body, err := p.body(t, &in, operation)
	if err != nil {
		return nil, err
	}
	out.ServedBy, out.Request.Operation = operation+" of "+p.text(t), operation
	out.Notes = p.notes(t, &in)
	return out, c.pages(ctx, p.pageKey(t), &in, at, body, out)
}

// scanRefused says what a scan would cost, and which index would serve.
func scanRefused(t *past.Table, index string, where []plainCondition, why []string) error {
	size, items := t.Bytes, t.Items
	if x, ok := t.Index(index); ok {
		items = x.Items
	}
	text := fmt.Sprintf("no key serves these conditions, so this would be a scan of about %d items and %.0f read units", items, max(1, float64(size)/8192))
	for _, w := range why {
		text += "\n        " + w
	}
	if i := slices.IndexFunc(where, func(c plainCondition) bool { return c.operator == equal }); i >= 0 {
		text += fmt.Sprintf("\n        an index with the partition key %s would serve it", where[i].name)
	}
	return fmt.Errorf("%s\n        add allow_scan to read it all the same, page by page", text)
}

// body returns the request of a path.
func (p *accessPath) body(t *past.Table, in *queryIn, operation string) (map[string]any, error) {
	x := newExpression(t)
	body := map[string]any{"TableName": t.Name, "ReturnConsumedCapacity": "TOTAL"}
	if p.index != nil {
		body["IndexName"] = p.index.Name
	}
	var err error
	if len(p.keyed) > 0 {
		if body["KeyConditionExpression"], err = x.all(p.keyed); err != nil {
			return nil, err
		}
	}
	if len(p.filter) > 0 {
		if body["FilterExpression"], err = x.all(p.filter); err != nil {
			return nil, err
		}
	}
	if len(in.Select) > 0 {
		// The keys are read as well: the next page begins with them.
		var names []string
		for _, name := range slices.Concat(t.Key.All(), p.key.All(), in.Select) {
			if placeholder := x.name(name); !slices.Contains(names, placeholder) {
				names = append(names, placeholder)
			}
		}
		body["ProjectionExpression"] = strings.Join(names, ", ")
	}
	x.addTo(body)
	if in.Descending {
		if operation == "Scan" {
			return nil, fmt.Errorf("a scan has no order: descending needs a condition on a partition key")
		}
		body["ScanIndexForward"] = false
	}
	if in.Consistent {
		body["ConsistentRead"] = true
	}
	if in.Next != nil {
		body["ExclusiveStartKey"] = in.Next
	}
	return body, nil
}

// notes says what the path leaves out.
func (p *accessPath) notes(t *past.Table, in *queryIn) (notes []string) {
	if len(p.filter) > 0 {
		notes = append(notes, "the filter is applied after reading: units are paid for all items that were looked at")
	}
	if p.index == nil {
		return notes
	}
	notes = append(notes, "items without the key attributes of the index are not in it: "+keyText(p.index.Key))
	if p.index.Projection != "ALL" && len(in.Select) == 0 {
		notes = append(notes, "the index has a part of the attributes only; get reads whole items")
	}
	return notes
}

// pageKey is the attributes of the keys with which pages begin.
type pageKey struct{ key []string }

func (p *accessPath) pageKey(t *past.Table) pageKey {
	names := t.Key.All()
	for _, name := range p.key.All() {
		if !slices.Contains(names, name) {
			names = append(names, name)
		}
	}
	return pageKey{names}
}

// after returns the key with which a page after an item begins.
func (r pageKey) after(it past.Item) past.Item {
	key := make(past.Item, len(r.key))
	for _, name := range r.key {
		key[name] = it[name]
	}
	return key
}

// pages reads pages until the answer is full.
func (c *call) pages(ctx context.Context, r pageKey, in *queryIn, at time.Time, body map[string]any, out *queryOut) error {
	var plain plainer
	filtered := body["FilterExpression"] != nil
	size := 0
	for out.Requests < maxPages {
		body["Limit"] = in.Limit - out.Count
		if filtered {
			body["Limit"] = filteredLimit
		}
		if out.Requests == 0 {
			copied := make(map[string]any, len(body))
			for name, v := range body {
				copied[name] = v
			}
			out.Request.Body = copied
		}
		text, err := c.read(ctx, out.Request.Operation, at, body)
		if err != nil {
			return fmt.Errorf("cannot read table %s: %w", in.Table, err)
		}
		if !at.IsZero() {
			out.Request.Body.(map[string]any)["AsOf"] = at.Unix()
		}
		var reply struct {
			Items            []past.Item
			ScannedCount     int
			LastEvaluatedKey json.RawMessage
		}
		if err := json.Unmarshal(text, &reply); err != nil {
			return fmt.Errorf("read the reply: %w", err)
		}
		out.Requests++
		out.LookedAt += reply.ScannedCount
		out.Units, out.Next = c.units, reply.LastEvaluatedKey
		for i, it := range reply.Items {
			whole := plain.item(it)
			if len(in.Select) > 0 {
				for name := range whole {
					if !slices.Contains(in.Select, name) {
						delete(whole, name)
					}
				}
			}
			b, err := json.Marshal(whole)
			if err != nil {
				return fmt.Errorf("encode an item: %w", err)
			}
			if size += len(b); size > maxItemsSize && out.Count > 0 {
				out.Truncated = true
				if out.Next, err = json.Marshal(r.after(reply.Items[i-1])); i == 0 {
					out.Next, err = json.Marshal(body["ExclusiveStartKey"])
				}
				out.Cut = plain.cut
				return err
			}
			out.Items = append(out.Items, whole)
			out.Count++
			if out.Count == in.Limit && i < len(reply.Items)-1 {
				out.Next, err = json.Marshal(r.after(it))
				out.Truncated, out.Cut = true, plain.cut
				return err
			}
		}
		out.Cut = plain.cut
		if out.Next == nil || out.Count >= in.Limit {
			break
		}
		body["ExclusiveStartKey"] = out.Next
	}
	out.Truncated = out.Next != nil
	return nil
}
