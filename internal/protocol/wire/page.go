package wire

import (
	"reflect"
	"slices"

	"github.com/stator-db/stator/internal/buffer"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/protocol/api"
)

// Page encodes the reply to a Query or a Scan. Items are encoded as they are read,
// while their number, which precedes them in the reply, is still unknown.
type Page struct {
	memory *buffer.Scratch
	text   []byte // headBytes bytes for the members before the items, then the items
}

// headBytes is enough for the members before the items of most pages:
// {"Count":1000000,"Items":[
const headBytes = 32

// NewPage returns an empty page.
func NewPage(m *buffer.Scratch) Page {
	text, _ := m.Grow(m.Empty(), 1<<10)
	return Page{m, text[:headBytes]}
}

// Add encodes an item, straight from its stored form. It reports false if the page
// becomes large and there is no memory for it.
func (p *Page) Add(it item.Item) bool {
	likely := len(it) + len(it)/2 + 64 // append grows a small page if that is too little
	if len(p.text)+likely > buffer.Small {
		likely = ItemTextBytes(it) + 64
	}
	text, ok := p.memory.Grow(p.text, likely)
	if !ok {
		return false
	}
	if len(text) > headBytes {
		text = append(text, ',')
	}
	p.text = AppendItem(text, it)
	return true
}

// Reply returns the whole reply: the members of reply around the items that were
// added. reply.Items is empty, or nil if the reply has no items.
func (p *Page) Reply(reply *api.PageReply) []byte {
	if reply.Items == nil {
		p.text = AppendReply(p.text[:0], reply)
		p.memory.Keep(p.text)
		return p.text
	}
	v := reflect.ValueOf(reply).Elem()
	info := structInfoOf(v.Type())
	items := info.byName["Items"]
	p.text = append(p.text, ']')
	p.text = append(appendMembers(p.text, info.members[items+1:], v, true), '}')

	// The head is encoded at the end, where there is space, and copied to the front.
	end := len(p.text)
	p.text = appendMembers(append(p.text, '{'), info.members[:items], v, false)
	if len(p.text) > end+1 {
		p.text = append(p.text, ',')
	}
	p.text = append(append(p.text, info.members[items].head...), '[')
	text := p.text[:end]
	head := p.text[end:]
	from := headBytes - len(head)
	if from < 0 {
		head = slices.Clone(head)
		text = slices.Insert(text, 0, head[:-from]...)
		from = 0
	}
	copy(text[from:], head)
	p.text = text
	p.memory.Keep(p.text)
	return p.text[from:]
}
