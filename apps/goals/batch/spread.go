package batch

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"path/filepath"
	"sync"

	"github.com/google/uuid"

	"github.com/stator-db/stator/apps/goals"
)

// A run splits the customers into parts and computes one part in memory at a time.
// The number of parts depends on the day and is a power of two; a million customers
// make 256 parts of four thousand.
const (
	maxParts    = 256
	rowsPerPart = 500
)

func partsFor(rows int64) int {
	n := 1
	for n < maxParts && int64(n)*rowsPerPart < rows {
		n *= 2
	}
	return n
}

// slot returns a person's slot among 256, the same in all runs. Sequential ids are
// distributed as well as random ones. Parts are ranges of slots.
func slot(id uuid.UUID) byte { return byte(crc32.ChecksumIEEE(id[:])) }

func partName(folder string, p int) string { return filepath.Join(folder, fmt.Sprintf("%02x", p)) }

// customer is a validated row of a customer.
type customer struct {
	id            uuid.UUID
	order         uint64 // file and row, to order two rows of a person
	name          string
	segment       string
	language      string
	notifications bool
	chosenGoal    string
	chosenAt      string
}

// contribution is a validated row of a contribution. goal is an index in the rules.
type contribution struct {
	id     uuid.UUID
	goal   int
	amount goals.Money
	month  int // 0 is the month of the files, -1 the one before; earlier ones do not count
}

// accomplished is a validated row of an accomplished goal.
type accomplished struct {
	id uuid.UUID
	goals.Accomplished
}

// spread writes rows to the files of their parts.
type spread struct {
	parts []part
}

type part struct {
	mutex  sync.Mutex
	file   *os.File
	buffer *bufio.Writer
	row    []byte
}

func newSpread(folder string, parts int) (*spread, error) {
	s := &spread{parts: make([]part, parts)}
	for i := range s.parts {
		file, err := os.Create(partName(folder, i))
		if err != nil {
			s.close()
			return nil, fmt.Errorf("make part %d: %w", i, err)
		}
		s.parts[i].file, s.parts[i].buffer = file, bufio.NewWriterSize(file, 16<<10)
	}
	return s, nil
}

func (s *spread) customer(c *customer) error {
	return s.write(c.id, func(b []byte) []byte { return c.append(append(b, 'C')) })
}

func (s *spread) contribution(c *contribution) error {
	return s.write(c.id, func(b []byte) []byte {
		kind := byte('K')
		if c.month < 0 {
			kind = 'E'
		}
		b = append(append(b, kind), c.id[:]...)
		return binary.AppendUvarint(append(b, byte(c.goal)), uint64(c.amount))
	})
}

func (s *spread) accomplished(a *accomplished) error {
	return s.write(a.id, func(b []byte) []byte {
		return appendAccomplished(append(append(b, 'A'), a.id[:]...), &a.Accomplished)
	})
}

func appendAccomplished(b []byte, a *goals.Accomplished) []byte {
	for _, s := range []string{a.Month, a.GoalID} {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	return binary.AppendUvarint(binary.AppendUvarint(b, uint64(a.SavedAmount)), uint64(a.SpecialRate))
}

func (r *reader) accomplished() goals.Accomplished {
	return goals.Accomplished{Month: r.text(), GoalID: r.text(), SavedAmount: goals.Money(r.number()), SpecialRate: goals.Rate(r.number())}
}

func (s *spread) write(id uuid.UUID, row func([]byte) []byte) error {
	p := &s.parts[int(slot(id))*len(s.parts)/256]
	p.mutex.Lock()
	defer p.mutex.Unlock()
	p.row = row(p.row[:0])
	if _, err := p.buffer.Write(p.row); err != nil {
		return fmt.Errorf("write a part: %w", err)
	}
	return nil
}

// finish flushes and syncs the parts.
func (s *spread) finish() error {
	for i := range s.parts {
		if err := errors.Join(s.parts[i].buffer.Flush(), s.parts[i].file.Sync()); err != nil {
			return fmt.Errorf("write part %d: %w", i, err)
		}
	}
	return nil
}

func (s *spread) close() {
	for i := range s.parts {
		if s.parts[i].file != nil {
			_ = s.parts[i].file.Close()
		}
	}
}

func (c *customer) append(b []byte) []byte {
	b = append(b, c.id[:]...)
	b = binary.AppendUvarint(b, c.order)
	for _, s := range []string{c.name, c.segment, c.language, c.chosenGoal, c.chosenAt} {
		b = append(binary.AppendUvarint(b, uint64(len(s))), s...)
	}
	if c.notifications {
		return append(b, 1)
	}
	return append(b, 0)
}

// reader reads rows back. Its first error is sticky.
type reader struct {
	in  *bufio.Reader
	err error
}

func (r *reader) byte() byte {
	b, err := r.in.ReadByte()
	r.fail(err)
	return b
}

func (r *reader) number() uint64 {
	n, err := binary.ReadUvarint(r.in)
	r.fail(err)
	return n
}

func (r *reader) id() (id uuid.UUID) {
	_, err := io.ReadFull(r.in, id[:])
	r.fail(err)
	return id
}

func (r *reader) text() string {
	n := r.number()
	if n > maxName {
		r.fail(fmt.Errorf("a text of %d bytes", n))
	}
	if r.err != nil || n == 0 {
		return ""
	}
	b := make([]byte, n)
	_, err := io.ReadFull(r.in, b)
	r.fail(err)
	return string(b)
}

func (r *reader) customer() customer {
	return customer{
		id: r.id(), order: r.number(),
		name: r.text(), segment: r.text(), language: r.text(), chosenGoal: r.text(), chosenAt: r.text(),
		notifications: r.byte() == 1,
	}
}

func (r *reader) fail(err error) {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if r.err == nil {
		r.err = err
	}
}

// more reports whether another row follows.
func (r *reader) more() bool {
	if r.err != nil {
		return false
	}
	_, err := r.in.Peek(1)
	if err != nil && !errors.Is(err, io.EOF) {
		r.fail(err)
	}
	return err == nil
}
