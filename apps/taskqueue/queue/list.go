package queue

import (
	"context"
	"fmt"
	"sort"

	"github.com/stator-db/stator/apps/taskqueue/table"
	"github.com/stator-db/stator/apps/taskqueue/task"
)

const (
	// MaxPage is the maximum number of tasks on a page.
	MaxPage = 1000

	// maxExamined is how many tasks a list reads at most to find the tasks of a
	// selection. The page is then returned as it is, and the next one continues.
	maxExamined = 2000
)

// List returns tasks of a selection without their payloads, newest first. The index
// has the order of the tasks, and the tasks themselves have everything else, so
// that a list shows what Get does. Tasks in PROCESSING, which are not in the index,
// are found by the workers' claims. A page may have fewer tasks than the limit and
// still have a next one.
func (s *Service) List(ctx context.Context, sel task.Selection, next string, limit int) (task.Page, error) {
	page := task.Page{Tasks: []task.Task{}}
	if err := sel.Check(); err != nil {
		return page, err
	}
	switch {
	case limit < 1 || limit > MaxPage:
		return page, &task.Fault{Field: "limit", Message: fmt.Sprintf("is %d, but must be 1 to %d", limit, MaxPage)}
	case len(next) > 100:
		return page, &task.Fault{Field: "next", Message: "is not a value that a previous page returned"}
	}
	read, err := s.source(ctx, sel)
	if err != nil {
		return page, err
	}
	for examined := 0; ; {
		ids, after, err := read(next, limit)
		if err != nil {
			return page, err
		}
		found, err := s.table.Tasks(ctx, ids)
		if err != nil {
			return page, err
		}
		now := s.now()
		for i := range found {
			if !sel.Selects(&found[i], now) {
				continue // it has changed since the index was read, or does not match
			}
			page.Tasks = append(page.Tasks, found[i])
			if len(page.Tasks) == limit {
				if i < len(found)-1 || after != "" {
					page.Next = table.Place(&found[i])
				}
				return page, nil
			}
		}
		examined += len(ids)
		if after == "" || examined >= maxExamined {
			page.Next = after
			return page, nil
		}
		next = after
	}
}

// source returns the function that reads a page of ids of tasks that may be
// selected, newest first.
func (s *Service) source(ctx context.Context, sel task.Selection) (func(before string, limit int) (ids []string, next string, err error), error) {
	if sel.Status == task.Processing {
		return s.claimedIDs(ctx, sel.Queue)
	}
	queues := []string{sel.Queue}
	if sel.Queue == "" {
		queues = s.names()
		sort.Strings(queues)
	}
	return func(before string, limit int) ([]string, string, error) {
		return s.table.List(ctx, queues, sel.Status, before, limit)
	}, nil
}

// claimedIDs reads all claims, and returns the function that pages through them.
func (s *Service) claimedIDs(ctx context.Context, queue string) (func(before string, limit int) ([]string, string, error), error) {
	ids := make(map[string]string) // by place
	for w, err := range s.table.Workers(ctx) {
		if err != nil {
			return nil, err
		}
		for c, err := range s.table.Claims(ctx, w.ID) {
			if err != nil {
				return nil, err
			}
			created, err := task.CreatedAt(c.Task)
			if err == nil && (queue == "" || c.Queue == queue) {
				ids[table.Place(&task.Task{ID: c.Task, Created: created})] = c.Task
			}
		}
	}
	places := make([]string, 0, len(ids))
	for p := range ids {
		places = append(places, p)
	}
	sort.Sort(sort.Reverse(sort.StringSlice(places)))
	return func(before string, limit int) (page []string, next string, err error) {
		for _, p := range places {
			switch {
			case before != "" && p >= before:
			case len(page) == limit:
				return page, next, nil
			default:
				page, next = append(page, ids[p]), p
			}
		}
		return page, "", nil
	}, nil
}

// BulkPage is the maximum number of tasks that one bulk request changes.
const BulkPage = 200

// Bulk requeues or cancels up to BulkPage tasks of a selection. The reply says
// where the next request continues. A task whose status changes meanwhile is
// skipped, so a request can be repeated.
func (s *Service) Bulk(ctx context.Context, what task.Change, in task.BulkRequest) (task.BulkReply, error) {
	reply := task.BulkReply{Tasks: []task.Task{}}
	if err := in.Selection.Check(); err != nil {
		return reply, err
	}
	if !task.Can(what.Event(), in.Status) {
		return reply, &task.Fault{Field: "status", Message: fmt.Sprintf("is %s, and %s does not apply to such tasks", in.Status, what)}
	}
	if err := task.CheckReason(in.Note); err != nil {
		return reply, err
	}
	page, err := s.List(ctx, in.Selection, in.Next, BulkPage)
	if err != nil {
		return reply, err
	}
	reply.Matched, reply.Tasks, reply.Next = len(page.Tasks), page.Tasks, page.Next
	if in.DryRun {
		return reply, nil
	}
	errs := make([]error, len(page.Tasks))
	places := make([]int, len(page.Tasks))
	for i := range places {
		places[i] = i
	}
	inParallel(places, func(i int) {
		now, err := s.change(ctx, what, page.Tasks[i].ID, in.Note)
		if errs[i] = err; err == nil {
			now.Payload = nil
			page.Tasks[i] = now
		}
	})
	for _, err := range errs {
		switch {
		case err == nil:
			reply.Changed++
		case IsRefusal(err, Conflict) || IsRefusal(err, NotFound) || IsRefusal(err, Busy):
			reply.Skipped++
		default:
			return reply, err
		}
	}
	return reply, nil
}

func (s *Service) change(ctx context.Context, what task.Change, id, note string) (task.Task, error) {
	if what == task.RequeueTasks {
		return s.Requeue(ctx, id)
	}
	return s.Cancel(ctx, id, note)
}
