package trigger

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/stator-db/stator/internal/db/stream"
	"github.com/stator-db/stator/internal/store"
)

// formatPosition is the number of the form of a stored position.
const formatPosition = 1

// encodePosition is a position as it is stored: its format, the stamp and the
// number.
func encodePosition(p stream.Position) []byte {
	b := binary.BigEndian.AppendUint64([]byte{formatPosition}, p.Stamp)
	return binary.BigEndian.AppendUint32(b, uint32(p.N))
}

func decodePosition(b []byte) (stream.Position, error) {
	if len(b) != 1+8+4 || b[0] != formatPosition {
		return stream.Position{}, fmt.Errorf("a checkpoint is %x: %w", b, store.ErrCorrupt)
	}
	return stream.Position{Stamp: binary.BigEndian.Uint64(b[1:]), N: int(binary.BigEndian.Uint32(b[9:]))}, nil
}

// progress is how far a round has come. The checkpoint stands before the first
// of its records that is not done.
type roundProgress struct {
	f     *follower
	round *round

	mu     sync.Mutex
	done   []bool
	prefix int // so many are done from the first on
}

// finish notes records that were taken or given up.
func (p *roundProgress) finish(ctx context.Context, batch []*pendingRecord) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, r := range batch {
		p.done[r.index] = true
	}
	before := p.prefix
	for p.prefix < len(p.done) && p.done[p.prefix] {
		p.prefix++
	}
	switch {
	case p.prefix == before:
	case p.prefix == len(p.done):
		p.f.save(ctx, p.round.end)
	default:
		p.f.save(ctx, p.round.records[p.prefix].at)
	}
}

// save makes a position durable. What cannot be saved is saved with the next:
// after a crash in between, records come again.
func (f *follower) save(ctx context.Context, at stream.Position) {
	f.saved = at.Stamp
	err := f.service.DB.SaveCheckpoints(ctx, map[string][]byte{f.checkpoint(): encodePosition(at)})
	if err != nil && ctx.Err() == nil {
		f.log.Warn("a checkpoint could not be saved", "error", err)
	}
}

// checkpoint is the name under which the position is kept.
func (f *follower) checkpoint() string {
	return fmt.Sprintf("trigger/%s/%s/%d", f.Name, f.Table, f.slot)
}
