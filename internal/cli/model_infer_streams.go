package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/model/apply"
	"github.com/stator-db/stator/internal/model/infer"
	"github.com/stator-db/stator/internal/model/streamlog"
)

// inferStreams derives the writes from the streams of the tables, and the items too if
// none were read. A stream does not show reads, so they are assumed.
func (f *inferFlags) inferStreams(ctx context.Context, e *apply.Endpoint, samples []*infer.TableSample, stderr io.Writer) (*infer.Result, error) {
	tables, err := infer.From(f.name, f.endpoint, samples).Schemas()
	if err != nil {
		return nil, err
	}
	log := streamlog.New()
	images := make(map[string]*infer.Images)
	if f.units == 0 {
		for _, t := range tables {
			images[t.Name] = &infer.Images{Table: t}
		}
		log.Image = func(table string, it item.Item) { images[table].Add(it) }
	}
	if err := f.readStreams(ctx, e, log, tables, stderr); err != nil {
		return nil, err
	}
	for _, s := range samples {
		if x := images[s.Table.Name]; x != nil {
			x.Fill(s)
		}
	}
	r := infer.From(f.name, "the streams of "+f.endpoint, samples)
	if len(r.Entities) == 0 {
		return nil, errors.New("the streams have no images of items; read items with --units")
	}
	if log.Records > 0 {
		r.AddLog(log.Report(), log.To)
	}
	r.AssumePatterns()
	return r, nil
}

// readStreams reads the streams of the tables that have one.
func (f *inferFlags) readStreams(ctx context.Context, e *apply.Endpoint, log *streamlog.Log, tables []*schema.Table, stderr io.Writer) error {
	sources, err := streamlog.Find(ctx, e.Send, tables)
	if err != nil {
		return err
	}
	for _, t := range tables {
		if !slices.ContainsFunc(sources, func(s streamlog.Source) bool { return s.Table == t }) {
			fmt.Fprintf(stderr, "note: the table %s has no stream\n", t.Name)
		}
	}
	if len(sources) == 0 {
		return errors.New("none of the tables has a stream")
	}
	progress := newProgressLine(stderr)
	defer progress.end()
	log.Progress = func(table string, records int) { progress.update("%s: %d records", table, records) }
	if f.follow > 0 {
		err = log.Follow(ctx, e.SendStreams, sources, f.follow)
	} else {
		err = log.Read(ctx, e.SendStreams, sources)
	}
	progress.end()
	if errors.Is(err, streamlog.ErrTooMany) {
		return fmt.Errorf("%w\n        count those that come from now on, with --follow 10m", err)
	}
	if err != nil {
		return err
	}
	if log.Expired > 0 {
		fmt.Fprintf(stderr, "note: %d items expired, which is no request\n", log.Expired)
	}
	if log.Records > 0 && !log.To.After(log.From) {
		fmt.Fprintln(stderr, "note: all records have the same time, so the rates are not known; they are given as if in one second")
	}
	return nil
}
