package wire

import (
	"bytes"
	"slices"

	"github.com/stator-db/stator/internal/buffer"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/protocol/api"
)

// Page writes a reply that is a page of items. They are written as they are
// read, before it is known how many there will be, which stands before them.
type Page struct {
	memory *buffer.Memory
	text   []byte // room for the beginning, then the items
}

// beginRoom is enough for what stands before the items of most pages:
// {"Count":1000000,"Items":[
const beginRoom = 32

// NewPage begins a page.
func NewPage(m *buffer.Memory) Page {
	return Page{m, m.Grow(m.Empty(), 1<<10)[:beginRoom]}
}

// Add writes an item, straight from its stored form.
func (p *Page) Add(it item.Item) {
	p.text = p.memory.Grow(p.text, len(it)+len(it)/2+64) // with more, append grows it
	if len(p.text) > beginRoom {
		p.text = append(p.text, ',')
	}
	p.text = AppendItem(p.text, it)
}

// itemsMember is the member of the reply in which the items stand.
const itemsMember = `"Items":[`

// Reply is the whole of it, with the other members of the reply around the
// items. The list of the reply itself is empty, or nil if the page has none.
func (p *Page) Reply(reply *api.PageReply) []byte {
	var room [256]byte
	rest := AppendReply(room[:0], reply)
	// The names of tables and indexes, which may stand before it, have no quotes.
	at := bytes.Index(rest, []byte(itemsMember))
	if reply.Items == nil || at < 0 {
		p.text = append(p.text[:0], rest...)
		p.memory.Keep(p.text)
		return p.text
	}
	at += len(itemsMember)
	p.text = append(p.text, rest[at:]...)
	from := beginRoom - at
	if from < 0 {
		p.text = slices.Insert(p.text, 0, rest[:-from]...)
		from = 0
	}
	copy(p.text[from:], rest[:at])
	p.memory.Keep(p.text)
	return p.text[from:]
}
