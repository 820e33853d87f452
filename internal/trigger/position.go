package trigger

import (
	"context"
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/stator-db/stator/internal/db/stream"
	"github.com/stator-db/stator/internal/store"
)

// formatPosition is the format number of a stored position.
const formatPosition = 1

// encodePosition encodes a position: its format, the stamp and the number.
func encodePosition(p stream.Position) []byte {
	b := binary.BigEndian.AppendUint64([]byte{formatPosition}, p.Stamp)
	return binary.BigEndian.AppendUint32(b, uint32(p.N))
}

func decodePosition(b []byte) (stream.Position, error) {
	if len(b) != 1+8+4 || b[0] != formatPosition {
		return stream.Position{}, fmt.Errorf("checkpoint %x: %w", b, store.ErrCorrupt)
	}
	return stream.Position{Stamp: binary.BigEndian.Uint64(b[1:]), N: int(binary.BigEndian.Uint32(b[9:]))}, nil
}

// roundProgress tracks which records of a round are done. The checkpoint is the
// position of the first record that is not.
type roundProgress struct {
	f     *follower
	round *round

	mu     sync.Mutex
	done   []bool
	prefix int // how many are done without a gap, from the first on
}

// finish marks records that were delivered or are dead letters.
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

// save stores a position. After an error the next call stores a later one; after a
// crash in between, records are delivered again.
func (f *follower) save(ctx context.Context, at stream.Position) {
	f.saved = at.Stamp
	err := f.service.DB.SaveCheckpoints(ctx, map[string][]byte{f.checkpoint(): encodePosition(at)})
	if err != nil && ctx.Err() == nil {
		f.log.Warn("saving a checkpoint failed", "error", err)
	}
}

// checkpoint is the name under which the position is stored.
func (f *follower) checkpoint() string {
	return fmt.Sprintf("trigger/%s/%s/%d", f.Name, f.Table, f.slot)
}
