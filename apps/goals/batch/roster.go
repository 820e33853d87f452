package batch

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"hash/crc32"
	"io"
	"iter"

	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/uuid"

	"github.com/stator-db/stator/apps/goals"
)

// A roster has a magic number, the number of ids, the ids sorted by slot and id, and
// a checksum.
const rosterMagic = "goals1\n\x00"

// before is the order of a roster.
func before(a, b uuid.UUID) int {
	if p, q := slot(a), slot(b); p != q {
		return int(p) - int(q)
	}
	return bytes.Compare(a[:], b[:])
}

func (r *run) writeRoster(ctx context.Context) (err error) {
	object, err := newUpload(ctx, r.State, r.ledger.roster(r.id), "application/octet-stream")
	if err != nil {
		return fmt.Errorf("write the run's roster: %w", err)
	}
	defer object.discard()
	sum := crc32.NewIEEE()
	w := bufio.NewWriterSize(io.MultiWriter(object, sum), 64<<10)
	// An error of a buffered writer is sticky, and Flush returns it.
	_, _ = w.WriteString(rosterMagic)
	_, _ = w.Write(binary.BigEndian.AppendUint64(nil, uint64(r.counted.Customers)))
	for i := range r.parts {
		err := r.eachState(i, func(s *state) error {
			_, err := w.Write(s.id[:])
			return err
		})
		if err != nil {
			return fmt.Errorf("write the run's roster: %w", err)
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write the run's roster: %w", err)
	}
	if _, err := object.Write(sum.Sum(nil)); err != nil {
		return fmt.Errorf("write the run's roster: %w", err)
	}
	if err := object.Close(); err != nil {
		return fmt.Errorf("write the run's roster: %w", err)
	}
	return nil
}

// rosterIDs reads the ids of a roster.
func (r *run) rosterIDs(ctx context.Context, run string) iter.Seq2[uuid.UUID, error] {
	return func(yield func(uuid.UUID, error) bool) {
		damaged := func(err error) {
			yield(uuid.UUID{}, fmt.Errorf("the roster of run %s cannot be read (%w): the customers in the table are not known; restore it from the bucket's versions", run, err))
		}
		object, err := r.State.NewReader(ctx, r.ledger.roster(run), nil)
		if err != nil {
			damaged(err)
			return
		}
		defer func() { _ = object.Close() }()
		sum := crc32.NewIEEE()
		in := &summed{in: bufio.NewReaderSize(object, 64<<10), sum: sum}
		head := make([]byte, len(rosterMagic)+8)
		if err := in.full(head); err != nil || string(head[:len(rosterMagic)]) != rosterMagic {
			damaged(errors.Join(err, errors.New("it has the wrong magic number")))
			return
		}
		for range binary.BigEndian.Uint64(head[len(rosterMagic):]) {
			var id uuid.UUID
			if err := in.full(id[:]); err != nil {
				damaged(err)
				return
			}
			if !yield(id, nil) {
				return
			}
		}
		var want [4]byte
		have := sum.Sum(nil)
		if err := in.full(want[:]); err != nil || !bytes.Equal(want[:], have) {
			damaged(errors.Join(err, errors.New("its checksum is wrong")))
		}
	}
}

type summed struct {
	in  io.Reader
	sum hash.Hash
}

func (s *summed) full(b []byte) error {
	_, err := io.ReadFull(s.in, b)
	s.sum.Write(b)
	return err
}

// newIDs yields the ids of this run, in the order of a roster.
func (r *run) newIDs(yield func(uuid.UUID, error) bool) {
	errStop := errors.New("enough")
	for i := range r.parts {
		err := r.eachState(i, func(s *state) error {
			if !yield(s.id, nil) {
				return errStop
			}
			return nil
		})
		if errors.Is(err, errStop) {
			return
		}
		if err != nil {
			yield(uuid.UUID{}, err)
			return
		}
	}
}

// eachVanished merges old rosters with this run's ids and yields, once each, the ids
// that are only in the old ones. It holds one id of each roster at a time.
func (r *run) eachVanished(ctx context.Context, runs []string, use func(id [16]byte) error) error {
	now, err := newCursor(r.newIDs)
	if err != nil {
		return err
	}
	defer now.stop()
	var old []*cursor
	for _, run := range runs {
		c, err := newCursor(r.rosterIDs(ctx, run))
		if err != nil {
			return err
		}
		defer c.stop()
		old = append(old, c)
	}
	for {
		first := lowest(old)
		if first == nil {
			return nil
		}
		id := first.id
		for now.ok && before(now.id, id) < 0 {
			if err := now.next(); err != nil {
				return err
			}
		}
		if !now.ok || now.id != id {
			if err := use(id); err != nil {
				return err
			}
		}
		r.progress.add(1)
		for _, c := range old {
			if c.ok && c.id == id {
				if err := c.next(); err != nil {
					return err
				}
			}
		}
	}
}

// cursor is a position in a sequence of ids.
type cursor struct {
	id   uuid.UUID
	ok   bool
	pull func() (uuid.UUID, error, bool)
	stop func()
}

func newCursor(ids iter.Seq2[uuid.UUID, error]) (*cursor, error) {
	c := new(cursor)
	c.pull, c.stop = iter.Pull2(ids)
	if err := c.next(); err != nil {
		c.stop()
		return nil, err
	}
	return c, nil
}

func (c *cursor) next() error {
	id, err, ok := c.pull()
	if err != nil {
		return err
	}
	if c.ok && ok && before(c.id, id) >= 0 {
		return fmt.Errorf("a roster is not in order at %s", id)
	}
	c.id, c.ok = id, ok
	return nil
}

func lowest(all []*cursor) *cursor {
	var first *cursor
	for _, c := range all {
		if c.ok && (first == nil || before(c.id, first.id) < 0) {
			first = c
		}
	}
	return first
}

// remove is the fifth stage: it deletes customers of earlier rosters that are not in
// this one. What they have in the near-real-time view expires: the batch never writes
// to the table of the stream.
func (r *run) remove(ctx context.Context) error {
	var runs []string
	var total int64
	if c := r.ledger.Current; c != nil && c.Run != r.id {
		runs, total = append(runs, c.Run), c.Customers
	}
	for _, u := range r.ledger.Unfinished {
		if u.Run != r.id {
			runs, total = append(runs, u.Run), max(total, u.Customers)
		}
	}
	r.progress.stage("remove", total)
	out := &bulk{db: r.DB, pace: r.pace}
	var batch []write
	send := func() error {
		err := out.send(ctx, batch)
		batch = batch[:0]
		return err
	}
	err := r.eachVanished(ctx, runs, func(id [16]byte) error {
		r.report.Removed++
		person := uuid.UUID(id).String()
		key := map[string]types.AttributeValue{"personId": &types.AttributeValueMemberS{Value: person}}
		batch = append(batch, write{goals.BatchTable, types.WriteRequest{DeleteRequest: &types.DeleteRequest{Key: key}}})
		if len(batch) < batchSize {
			return nil
		}
		return send()
	})
	if err == nil && len(batch) > 0 {
		err = send()
	}
	r.report.Retried += out.retried.Load()
	return err
}
