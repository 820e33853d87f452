package standby

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net/http"
	"slices"
	"sync"

	"github.com/stator-db/stator/internal/store"
)

// docs/formats/standby.md describes what a server sends to its standby.

// format is the version of the messages and of the standby's state.
const format = 1

// The kinds of messages.
const (
	messageBegin   = 'B' // begin, once, first in a copy
	messagePairs   = 'P' // pairs of key and value
	messageChange  = 'C' // a change
	messageEnd     = 'E' // copyEnd or changesEnd, once, last
	messageRefused = 'R' // refusal, alone
)

// maxMessageBytes bounds a message: the largest Update, and its lengths.
const maxMessageBytes = 256 << 20

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// copyRequest asks for a copy of all data.
type copyRequest struct {
	Format   int         `json:"format"`
	Standby  string      `json:"standby"`            // its id
	Process  string      `json:"process"`            // id of the standby's process
	Database string      `json:"database,omitempty"` // that it has; empty if none
	Run      string      `json:"run,omitempty"`      // as in changesEnd, the last that it got
	From     store.Stamp `json:"from,omitempty"`     // it has all before
}

// changesRequest asks for changes.
type changesRequest struct {
	Format   int         `json:"format"`
	Process  string      `json:"process"` // id of the standby's process
	Slot     string      `json:"slot"`
	Database string      `json:"database"`
	Run      string      `json:"run"`            // as in changesEnd, the last that it got
	From     store.Stamp `json:"from"`           // the standby has all before
	Last     store.Stamp `json:"last,omitempty"` // of the newest change that it got; 0 if none since its copy
}

// copyBegin precedes the pairs of a copy.
type copyBegin struct {
	Slot     string      `json:"slot"`
	Database string      `json:"database"`
	Run      string      `json:"run"`   // as in changesEnd
	Start    store.Stamp `json:"start"` // the changes from here on are to be applied to the copy
}

// copyEnd follows the pairs of a copy.
type copyEnd struct {
	Pairs      int64       `json:"pairs"`
	Consistent store.Stamp `json:"consistent"` // the copy is a state of the data once the changes before are applied
}

// changesEnd follows changes.
type changesEnd struct {
	Changes int         `json:"changes"`
	Next    store.Stamp `json:"next"`    // all changes before were sent
	Horizon store.Stamp `json:"horizon"` // all changes before exist
	Newest  store.Stamp `json:"newest"`  // all changes that were acknowledged before the request are before it
	Left    int64       `json:"left"`    // bytes of the changes that exist and were not sent, approximately
	Run     string      `json:"run"`     // id of the server's process
}

// refusal says why a server sends nothing.
type refusal struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

// The codes of refusals.
const (
	codeNoSlot        = "NoSlot"
	codeOtherDatabase = "OtherDatabase"
	codeOtherHistory  = "OtherHistory"
	codeBusy          = "AnotherStandby"
	codeUnsupported   = "Unsupported"
)

func (r *refusal) Error() string { return r.Message }

// messageWriter writes messages. After an error it writes nothing more. Its methods are safe for
// concurrent use.
type messageWriter struct {
	to io.Writer

	mu  sync.Mutex
	out *bufio.Writer // to to
	err error
}

func newMessageWriter(to io.Writer) *messageWriter {
	return &messageWriter{to: to, out: bufio.NewWriterSize(to, 64<<10)}
}

// write writes a message: its length, kind, content and checksum.
func (w *messageWriter) write(kind byte, content []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return w.err
	}
	head := append(binary.BigEndian.AppendUint32(nil, uint32(len(content))), kind)
	sum := crc32.Update(crc32.Checksum(head, castagnoli), castagnoli, content)
	for _, b := range [][]byte{head, content, binary.BigEndian.AppendUint32(nil, sum)} {
		if _, err := w.out.Write(b); err != nil {
			w.err = err
			break
		}
	}
	return w.err
}

func (w *messageWriter) json(kind byte, content any) {
	b, err := json.Marshal(content)
	if err != nil {
		panic(fmt.Sprintf("a message to a standby cannot be encoded as JSON: %v", err))
	}
	_ = w.write(kind, b) // flush returns its error
}

// send sends what was written now. Otherwise the connection may keep it for more.
func (w *messageWriter) send() {
	_ = w.flush() // the next flush returns its error
	w.mu.Lock()
	defer w.mu.Unlock()
	if f, ok := w.to.(http.Flusher); ok && w.err == nil {
		f.Flush()
	}
}

// flush writes what is buffered, and returns the first error.
func (w *messageWriter) flush() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = w.out.Flush()
	}
	return w.err
}

// errIncomplete is returned for a reply that ends early or is damaged.
var errIncomplete = errors.New("the server's reply is incomplete or damaged")

// messageReader reads messages.
type messageReader struct{ in *bufio.Reader }

// next reads a message. It returns a *refusal if the server refuses.
func (r *messageReader) next() (kind byte, content []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r.in, head[:]); err != nil {
		return 0, nil, fmt.Errorf("%w: %w", errIncomplete, err)
	}
	size := binary.BigEndian.Uint32(head[:])
	if size > maxMessageBytes {
		return 0, nil, fmt.Errorf("%w: a message of %d bytes", errIncomplete, size)
	}
	b := make([]byte, size+4)
	if _, err := io.ReadFull(r.in, b); err != nil {
		return 0, nil, fmt.Errorf("%w: %w", errIncomplete, err)
	}
	kind, content = head[4], b[:size]
	if sum := crc32.Update(crc32.Checksum(head[:], castagnoli), castagnoli, content); sum != binary.BigEndian.Uint32(b[size:]) {
		return 0, nil, fmt.Errorf("%w: a checksum does not match", errIncomplete)
	}
	if kind == messageRefused {
		refused := new(refusal)
		if err := json.Unmarshal(content, refused); err != nil {
			return 0, nil, fmt.Errorf("%w: %w", errIncomplete, err)
		}
		return 0, nil, refused
	}
	return kind, content, nil
}

// nextJSON reads a message of one kind.
func (r *messageReader) nextJSON(kind byte, into any) error {
	got, content, err := r.next()
	if err != nil {
		return err
	}
	if got != kind {
		return fmt.Errorf("%w: a message of kind %q instead of %q", errIncomplete, got, kind)
	}
	return decodeMessage(content, into)
}

func decodeMessage(content []byte, into any) error {
	if err := json.Unmarshal(content, into); err != nil {
		return fmt.Errorf("%w: %w", errIncomplete, err)
	}
	if m, ok := into.(interface{ positions() []store.Stamp }); ok && slices.Max(m.positions()) > lastPosition {
		return fmt.Errorf("%w: a position is later than any time", errIncomplete)
	}
	return nil
}

// lastPosition is more than the stamp of any server, in the year 3084. A promoted standby continues
// the stamps of its server, and needs room for that.
const lastPosition store.Stamp = 1 << 63

func (m *copyBegin) positions() []store.Stamp  { return []store.Stamp{m.Start} }
func (m *copyEnd) positions() []store.Stamp    { return []store.Stamp{m.Consistent} }
func (m *changesEnd) positions() []store.Stamp { return []store.Stamp{m.Next, m.Horizon, m.Newest} }
