package pdf

import (
	"bytes"
	"regexp"
	"strconv"
)

// file finds the objects of a PDF.
type file struct {
	data    []byte
	limits  *limits
	entries map[int]entry
	trailer dict
	cache   map[int]any
	active  map[int]bool // objects that are being read, to end cycles
	packs   map[int]*pack
	crypt   *crypt
	rebuilt bool
}

// entry says where an object is: at an offset, or in an object stream.
type entry struct {
	at     int
	gen    int
	inside int // number of the object stream, or 0
	index  int
}

// pack is a decoded object stream.
type pack struct {
	data    []byte
	numbers []int
	offsets []int
}

// maxObjects bounds the numbers of objects.
const maxObjects = 2_000_000

func openFile(data []byte, l *limits) *file {
	f := &file{data: data, limits: l, entries: map[int]entry{}, trailer: dict{}, cache: map[int]any{}, active: map[int]bool{}, packs: map[int]*pack{}}
	f.readXrefs()
	if f.dict(f.dict(f.trailer["Root"])["Pages"]) == nil {
		f.rebuild()
	}
	f.openCrypt()
	return f
}

// lexer returns a lexer for objects at an offset.
func (f *file) lexer(at int) *lexer {
	return &lexer{b: f.data, at: at, limits: f.limits, refs: true}
}

// readXrefs reads the cross-reference tables, the newest first.
func (f *file) readXrefs() {
	at := bytes.LastIndex(f.data, []byte("startxref"))
	if at < 0 {
		return
	}
	l := f.lexer(at + len("startxref"))
	next, ok := l.token().(int)
	seen := map[int]bool{}
	for ok && next >= 0 && next < len(f.data) && !seen[next] && len(seen) < 1000 {
		seen[next] = true
		t := f.readXref(next)
		if t == nil {
			return
		}
		for k, v := range t {
			if _, exists := f.trailer[k]; !exists {
				f.trailer[k] = v
			}
		}
		if hybrid, is := t["XRefStm"].(int); is && hybrid > 0 && hybrid < len(f.data) && !seen[hybrid] {
			seen[hybrid] = true
			f.readXref(hybrid)
		}
		next, ok = t["Prev"].(int)
	}
}

// readXref reads one table or stream, and returns its trailer.
func (f *file) readXref(at int) dict {
	l := f.lexer(at)
	if l.token() != keyword("xref") {
		return f.readXrefStream(at)
	}
	for {
		start, ok := l.token().(int)
		if !ok {
			t, _ := l.object().(dict)
			return t
		}
		count, _ := l.token().(int)
		for i := 0; i < count; i++ {
			offset, ok := l.token().(int)
			gen, _ := l.token().(int)
			kind, _ := l.token().(keyword)
			if !ok || kind != "n" && kind != "f" {
				return nil
			}
			if kind == "n" {
				f.add(start+i, entry{at: offset, gen: gen})
			}
		}
	}
}

func (f *file) add(num int, e entry) {
	if _, exists := f.entries[num]; !exists && num > 0 && num < maxObjects {
		f.entries[num] = e
	}
}

func (f *file) readXrefStream(at int) dict {
	s, ok := f.objectAt(at, -1).(*stream)
	if !ok || s.dict["Type"] != name("XRef") {
		return nil
	}
	s.key = nil // never encrypted
	data, _ := f.decode(s)
	var w [3]int
	widths, _ := s.dict["W"].(array)
	for i := 0; i < 3 && i < len(widths); i++ {
		if w[i], _ = widths[i].(int); w[i] < 0 || w[i] > 8 {
			return nil
		}
	}
	size := w[0] + w[1] + w[2]
	if size == 0 {
		return nil
	}
	index, _ := s.dict["Index"].(array)
	if len(index) == 0 {
		index = array{0, s.dict["Size"]}
	}
	for i := 0; i+1 < len(index); i += 2 {
		start, _ := index[i].(int)
		count, _ := index[i+1].(int)
		for n := 0; n < count && len(data) >= size; n++ {
			kind, a, b := 1, bigEndian(data[w[0]:w[0]+w[1]]), bigEndian(data[w[0]+w[1]:size])
			if w[0] > 0 {
				kind = bigEndian(data[:w[0]])
			}
			data = data[size:]
			switch kind {
			case 1:
				f.add(start+n, entry{at: a, gen: b})
			case 2:
				f.add(start+n, entry{inside: a, index: b})
			}
		}
	}
	return s.dict
}

func bigEndian(b []byte) int {
	n := 0
	for _, c := range b {
		n = n<<8 | int(c)
	}
	return n
}

// objectAt reads the object at an offset; num is its number, or -1 for any.
func (f *file) objectAt(at, num int) any {
	if at < 0 || at >= len(f.data) {
		return nil
	}
	l := f.lexer(at)
	n, ok := l.token().(int)
	gen, ok2 := l.token().(int)
	if l.token() != keyword("obj") || !ok || !ok2 || num >= 0 && n != num {
		return nil
	}
	id := ref{n, gen}
	if f.crypt != nil {
		l.decrypt = func(s str) str { return f.crypt.text(id, s) }
	}
	v := l.object()
	d, ok := v.(dict)
	if !ok {
		if _, is := v.(keyword); is {
			return nil
		}
		return v
	}
	l.skipSpace()
	if !bytes.HasPrefix(l.b[l.at:], []byte("stream")) {
		return d
	}
	l.at += len("stream")
	if l.at < len(l.b) && l.b[l.at] == '\r' {
		l.at++
	}
	if l.at < len(l.b) && l.b[l.at] == '\n' {
		l.at++
	}
	return &stream{dict: d, raw: f.streamBytes(d, l.at), key: &id}
}

// streamBytes returns the bytes of a stream: as many as its length says, or up to
// endstream if the length is wrong.
func (f *file) streamBytes(d dict, start int) []byte {
	rest := f.data[start:]
	if n := f.integer(d["Length"], -1); n >= 0 && n <= len(rest) {
		if bytes.HasPrefix(bytes.TrimLeft(rest[n:min(n+16, len(rest))], "\r\n \t"), []byte("endst")) {
			return rest[:n]
		}
	}
	if end := bytes.Index(rest, []byte("endstream")); end >= 0 {
		rest = rest[:end]
	}
	rest = bytes.TrimSuffix(rest, []byte("\n"))
	return bytes.TrimSuffix(rest, []byte("\r"))
}

// resolve follows references.
func (f *file) resolve(v any) any {
	for range 32 {
		r, ok := v.(ref)
		if !ok {
			return v
		}
		v = f.object(r)
	}
	return nil
}

func (f *file) object(r ref) any {
	if v, ok := f.cache[r.num]; ok {
		return v
	}
	e, ok := f.entries[r.num]
	if !ok || f.active[r.num] {
		return nil
	}
	f.active[r.num] = true
	defer delete(f.active, r.num)
	var v any
	if e.inside != 0 {
		v = f.packed(e, r.num)
	} else if v = f.objectAt(e.at, r.num); v == nil && !f.rebuilt {
		// An offset is wrong: the table cannot be trusted.
		if l := f.lexer(e.at); e.at < 0 || e.at >= len(f.data) || l.token() != r.num {
			f.rebuild()
			if e, ok = f.entries[r.num]; ok && e.inside == 0 {
				v = f.objectAt(e.at, r.num)
			}
		}
	}
	f.cache[r.num] = v
	return v
}

// packed reads an object of an object stream.
func (f *file) packed(e entry, num int) any {
	p := f.pack(e.inside)
	if p == nil {
		return nil
	}
	i := e.index
	if i < 0 || i >= len(p.numbers) || p.numbers[i] != num {
		for i = 0; i < len(p.numbers) && p.numbers[i] != num; i++ {
		}
		if i == len(p.numbers) {
			return nil
		}
	}
	if p.offsets[i] < 0 || p.offsets[i] > len(p.data) {
		return nil
	}
	l := &lexer{b: p.data, at: p.offsets[i], limits: f.limits, refs: true}
	if v := l.object(); v != nil {
		if _, is := v.(keyword); !is {
			return v
		}
	}
	return nil
}

func (f *file) pack(num int) *pack {
	if p, ok := f.packs[num]; ok {
		return p
	}
	f.packs[num] = nil
	s, ok := f.resolve(ref{num, 0}).(*stream)
	if !ok {
		return nil
	}
	data, _ := f.decode(s)
	n, from := f.integer(s.dict["N"], 0), f.integer(s.dict["First"], 0)
	p := &pack{data: data}
	l := &lexer{b: data, limits: f.limits}
	for range n {
		number, ok := l.token().(int)
		offset, ok2 := l.token().(int)
		if !ok || !ok2 {
			break
		}
		p.numbers, p.offsets = append(p.numbers, number), append(p.offsets, from+offset)
	}
	f.packs[num] = p
	return p
}

var objectForm = regexp.MustCompile(`(?:^|[\s>])(\d{1,7})\s{1,4}(\d{1,5})\s{1,4}obj\b`)

// rebuild finds the objects of a file whose tables are damaged, by searching for
// them.
func (f *file) rebuild() {
	f.rebuilt = true
	f.entries, f.packs = map[int]entry{}, map[int]*pack{}
	f.cache = map[int]any{}
	var streams []int
	for _, m := range objectForm.FindAllSubmatchIndex(f.data, -1) {
		num, _ := strconv.Atoi(string(f.data[m[2]:m[3]]))
		gen, _ := strconv.Atoi(string(f.data[m[4]:m[5]]))
		f.limits.spendToken()
		if num > 0 && num < maxObjects {
			f.entries[num] = entry{at: m[2], gen: gen} // the last one is the newest
		}
		head := f.data[m[1]:min(m[1]+300, len(f.data))]
		if bytes.Contains(head, []byte("/ObjStm")) {
			streams = append(streams, num)
		}
		if i := bytes.Index(head, []byte("/XRef")); i >= 0 || bytes.Contains(head, []byte("/Catalog")) {
			f.adopt(num, m[2])
		}
	}
	for at := 0; ; {
		i := bytes.Index(f.data[at:], []byte("trailer"))
		if i < 0 {
			break
		}
		at += i + len("trailer")
		if t, ok := f.lexer(at).object().(dict); ok {
			for k, v := range t {
				f.trailer[k] = v
			}
		}
	}
	f.openCrypt()
	for _, num := range streams {
		if p := f.pack(num); p != nil {
			for i, n := range p.numbers {
				f.add(n, entry{inside: num, index: i})
			}
		}
	}
	if f.dict(f.trailer["Root"]) == nil {
		f.findRoot()
	}
}

// adopt takes the trailer from a cross-reference stream, or the catalog.
func (f *file) adopt(num, at int) {
	switch v := f.objectAt(at, num).(type) {
	case *stream:
		for _, k := range []name{"Root", "Encrypt", "ID"} {
			if r, ok := v.dict[k]; ok {
				f.trailer[k] = r
			}
		}
	case dict:
		if v["Type"] == name("Catalog") {
			f.trailer["Root"] = ref{num, 0}
		}
	}
}

// findRoot searches the objects of object streams for the catalog.
func (f *file) findRoot() {
	for num, e := range f.entries {
		if e.inside == 0 {
			continue
		}
		if d, ok := f.resolve(ref{num, 0}).(dict); ok && d["Type"] == name("Catalog") {
			f.trailer["Root"] = ref{num, 0}
			return
		}
	}
}

// dict returns a dictionary, also that of a stream, or nil.
func (f *file) dict(v any) dict {
	switch v := f.resolve(v).(type) {
	case dict:
		return v
	case *stream:
		return v.dict
	}
	return nil
}

func (f *file) array(v any) array {
	a, _ := f.resolve(v).(array)
	return a
}

func (f *file) integer(v any, otherwise int) int {
	switch v := f.resolve(v).(type) {
	case int:
		return v
	case float64:
		return int(v)
	}
	return otherwise
}

func (f *file) float(v any, otherwise float64) float64 {
	switch v := f.resolve(v).(type) {
	case int:
		return float64(v)
	case float64:
		return v
	}
	return otherwise
}

func (f *file) floats(v any) []float64 {
	var all []float64
	for _, n := range f.array(v) {
		all = append(all, f.float(n, 0))
	}
	return all
}
