package transfer

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/stator-db/stator/internal/data/item"
)

// Of Ion only the text form is known, and of that what items are made of:
// structs, lists, strings, numbers, blobs, booleans and nulls. A set is a list
// with an annotation.

var ionSets = map[string]item.Type{"$dynamodb_SS": item.SS, "$dynamodb_NS": item.NS, "$dynamodb_BS": item.BS}

// appendIonStruct appends an item.
func appendIonStruct(dst []byte, it item.Item) []byte {
	dst = append(dst, '{')
	first := true
	for name, v := range it.Names() {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = append(appendIonSymbol(dst, name), ':')
		dst = appendIonValue(dst, v)
	}
	return append(dst, '}')
}

// appendIonSymbol appends a name, in quotes unless it is a plain word.
func appendIonSymbol(dst, name []byte) []byte {
	plain := len(name) > 0 && !('0' <= name[0] && name[0] <= '9')
	for _, c := range name {
		plain = plain && isWord(c)
	}
	switch string(name) {
	case "null", "true", "false", "nan":
		plain = false
	}
	if plain {
		return append(dst, name...)
	}
	return appendIonText(dst, name, '\'')
}

func isWord(c byte) bool {
	return c == '_' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

func appendIonText(dst, text []byte, quote byte) []byte {
	dst = append(dst, quote)
	for _, c := range text {
		switch {
		case c == quote || c == '\\':
			dst = append(dst, '\\', c)
		case c == '\n':
			dst = append(dst, `\n`...)
		case c == '\r':
			dst = append(dst, `\r`...)
		case c == '\t':
			dst = append(dst, `\t`...)
		case c < ' ' || c == 0x7f:
			dst = append(dst, '\\', 'x')
			dst = hex.AppendEncode(dst, []byte{c})
		default:
			dst = append(dst, c)
		}
	}
	return append(dst, quote)
}

func appendIonValue(dst []byte, v item.Value) []byte {
	switch v.Type() {
	case item.S:
		return appendIonText(dst, v.Bytes(), '"')
	case item.N:
		from := len(dst)
		dst = v.Number().AppendText(dst)
		if bytes.IndexByte(dst[from:], '.') < 0 {
			dst = append(dst, '.') // which makes it a decimal
		}
		return dst
	case item.B:
		dst = append(dst, "{{"...)
		dst = base64.StdEncoding.AppendEncode(dst, v.Bytes())
		return append(dst, "}}"...)
	case item.BOOL:
		return strconv.AppendBool(dst, v.Bool())
	case item.NULL:
		return append(dst, "null"...)
	case item.M:
		return appendIonStruct(dst, v.Item())
	case item.SS, item.NS, item.BS:
		dst = append(append(append(dst, "$dynamodb_"...), v.Type().String()...), "::"...)
	}
	dst = append(dst, '[')
	first := true
	for e := range v.Elements() {
		if !first {
			dst = append(dst, ',')
		}
		first = false
		dst = appendIonValue(dst, e)
	}
	return append(dst, ']')
}

// ionReader reads structs of the form {Item:{…}}.
type ionReader struct {
	from   *bufio.Reader
	number int // of the line
	at     int // the line of the item
	text   []byte
	build  item.Builder
	out    []byte
}

func newIonReader(from io.Reader) *ionReader {
	return &ionReader{from: newLineReader(from).from, number: 1}
}

func (r *ionReader) line() int { return r.at }

func (r *ionReader) next() (item.Item, error) {
	if err := r.scanStruct(); err != nil {
		return nil, err
	}
	p := ionParser{text: r.text}
	if err := p.item(&r.build); err != nil {
		return nil, &badItem{err}
	}
	r.out = r.build.AppendItem(r.out[:0])
	return r.out, nil
}

// readByte is the next one; between values the file may end.
func (r *ionReader) readByte() (byte, error) {
	c, err := r.from.ReadByte()
	if c == '\n' {
		r.number++
	}
	return c, err
}

// readInside is a byte within a value, where the file must not end. It is kept, as
// far as there is room.
func (r *ionReader) readInside() (byte, error) {
	c, err := r.readByte()
	if errors.Is(err, io.EOF) {
		return 0, errTruncated
	}
	if len(r.text) <= maxTextBytes {
		r.text = append(r.text, c)
	}
	return c, err
}

// peek tells whether some text comes next.
func (r *ionReader) peek(text string) bool {
	b, _ := r.from.Peek(len(text))
	return string(b) == text
}

// scanStruct finds the end of the next struct, without looking at what it means.
func (r *ionReader) scanStruct() error {
	r.text = r.text[:0]
	for {
		c, err := r.readByte()
		switch {
		case err != nil:
			return err
		case c == ' ' || c == '\t' || c == '\r' || c == '\n':
		case c == '/':
			if err := r.skipComment(); err != nil {
				return err
			}
		case c == '{':
			r.at = r.number
			r.text = append(r.text, c)
			if err := r.scanContainer(); err != nil {
				return err
			}
			if len(r.text) > maxTextBytes {
				return errTooLong
			}
			return nil
		case c == '$':
			r.at = r.number
			if err := r.skipVersion(); err != nil {
				return err
			}
		default:
			r.at = r.number
			return fmt.Errorf("line %d: %q stands where an item should begin", r.number, c)
		}
	}
}

// skipVersion passes over the mark of Ion's version, the $ of which is read.
func (r *ionReader) skipVersion() error {
	const mark = "ion_1_0"
	if !r.peek(mark) {
		return fmt.Errorf("line %d: the text is not of Ion 1.0", r.number)
	}
	_, err := r.from.Discard(len(mark))
	return err
}

// skipComment passes over a comment, the first slash of which is read.
func (r *ionReader) skipComment() error {
	c, err := r.readByte()
	if err != nil {
		return err
	}
	switch c {
	case '/':
		for c != '\n' {
			if c, err = r.readByte(); err != nil {
				return err
			}
		}
		return nil
	case '*':
		for {
			if c, err = r.readByte(); err != nil {
				return errTruncated
			}
			if c == '*' && r.peek("/") {
				_, err := r.readByte()
				return err
			}
		}
	}
	return fmt.Errorf("line %d: a slash stands where none can", r.number)
}

// scanContainer reads to the end of a struct that has begun.
func (r *ionReader) scanContainer() error {
	for depth := 1; depth > 0; {
		c, err := r.readInside()
		if err != nil {
			return err
		}
		switch c {
		case '{':
			if r.peek("{") {
				if err := r.scanUntil("}}"); err != nil {
					return err
				}
				continue
			}
			depth++
		case '[', '(':
			depth++
		case '}', ']', ')':
			depth--
		case '"':
			err = r.scanQuoted("\"")
		case '\'':
			if r.peek("''") {
				_, _ = r.readInside()
				_, _ = r.readInside()
				err = r.scanQuoted("'''")
			} else {
				err = r.scanQuoted("'")
			}
		case '/':
			if r.text[len(r.text)-1] == '/' { // unless there is no more room
				r.text[len(r.text)-1] = ' '
			}
			err = r.skipComment()
			if errors.Is(err, io.EOF) {
				err = errTruncated
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// scanQuoted reads to the end of a text.
func (r *ionReader) scanQuoted(quote string) error {
	for {
		c, err := r.readInside()
		if err != nil {
			return err
		}
		if c == '\\' {
			if _, err := r.readInside(); err != nil {
				return err
			}
		} else if c == quote[0] && r.peek(quote[1:]) {
			for range quote[1:] {
				if _, err := r.readInside(); err != nil {
					return err
				}
			}
			return nil
		}
	}
}

// scanUntil reads to the end of a blob.
func (r *ionReader) scanUntil(end string) error {
	for {
		c, err := r.readInside()
		if err != nil {
			return err
		}
		if c == end[0] && r.peek(end[1:]) {
			_, err := r.readInside()
			return err
		}
	}
}

// ionParser reads one struct. Comments are gone from its text.
type ionParser struct {
	text []byte
	at   int
}

var errIon = errors.New("it is not Ion as items are written in it")

func (p *ionParser) next() byte {
	for ; p.at < len(p.text); p.at++ {
		switch c := p.text[p.at]; c {
		case ' ', '\t', '\r', '\n':
		default:
			return c
		}
	}
	return 0
}

func (p *ionParser) accept(text string) bool {
	p.next()
	if !bytes.HasPrefix(p.text[p.at:], []byte(text)) {
		return false
	}
	p.at += len(text)
	return true
}

// item reads {Item:{…}}.
func (p *ionParser) item(b *item.Builder) error {
	found := false
	err := p.fields(func(name []byte) error {
		if string(name) != "Item" || p.next() != '{' {
			_, err := p.value(nil, 0)
			return err
		}
		found = true
		return p.attributes(b, 0)
	})
	switch {
	case err != nil:
		return err
	case p.next() != 0:
		return errIon
	case !found:
		return errors.New("there is no item")
	}
	return nil
}

func (p *ionParser) attributes(b *item.Builder, depth int) error {
	b.Reset()
	return p.fields(func(name []byte) error {
		name = bytes.Clone(name)
		v, err := p.value(nil, depth)
		if err == nil {
			b.Add(name, v)
		}
		return err
	})
}

// fields reads a struct and calls field after each name.
func (p *ionParser) fields(field func(name []byte) error) error {
	if !p.accept("{") {
		return errIon
	}
	for !p.accept("}") {
		name, err := p.name()
		if err != nil {
			return err
		}
		if !p.accept(":") {
			return errIon
		}
		if err := field(name); err != nil {
			return err
		}
		if !p.accept(",") && p.next() != '}' {
			return errIon
		}
	}
	return nil
}

func (p *ionParser) name() ([]byte, error) {
	switch c := p.next(); {
	case c == '"' || c == '\'':
		return p.string()
	case c == '$' || isWord(c) && (c < '0' || c > '9'):
		return p.word(), nil
	}
	return nil, errIon
}

// word reads letters, digits and what else numbers and symbols are made of.
func (p *ionParser) word() []byte {
	p.next()
	from := p.at
	for p.at < len(p.text) && (isWord(p.text[p.at]) || strings.IndexByte("$.+-", p.text[p.at]) >= 0) {
		p.at++
	}
	return p.text[from:p.at]
}

// value reads one value and appends it in stored form.
func (p *ionParser) value(dst []byte, depth int) ([]byte, error) {
	if depth >= item.MaxDepth {
		return nil, errors.New("it has too many levels of lists and structs")
	}
	switch c := p.next(); {
	case c == '{' && bytes.HasPrefix(p.text[p.at:], []byte("{{")):
		return p.blob(dst)
	case c == '{':
		var b item.Builder
		if err := p.attributes(&b, depth+1); err != nil {
			return nil, err
		}
		return b.AppendMap(dst), nil
	case c == '[':
		elements, err := p.list(depth + 1)
		return append(dst, item.List(elements...)...), err
	case c == '"' || c == '\'':
		text, err := p.string()
		return item.AppendText(dst, item.S, text), err
	case c == '-' || '0' <= c && c <= '9':
		return p.number(dst)
	}
	switch word := string(p.word()); word {
	case "true", "false":
		return item.AppendBool(dst, word == "true"), nil
	default:
		if t, ok := ionSets[word]; ok && p.accept("::") {
			return p.set(dst, t, depth+1)
		}
		if word == "null" || strings.HasPrefix(word, "null.") {
			return item.AppendNull(dst), nil
		}
	}
	return nil, errIon
}

func (p *ionParser) number(dst []byte) ([]byte, error) {
	word := p.word()
	text := strings.NewReplacer("_", "", "d", "E", "D", "E").Replace(string(word))
	mantissa, exponent, scaled := strings.Cut(strings.ToUpper(text), "E")
	mantissa = strings.TrimSuffix(mantissa, ".")
	if scaled {
		mantissa += "E" + exponent
	}
	n, err := item.ParseNumber(mantissa)
	if err != nil {
		return nil, fmt.Errorf("%s is not a number: %w", word, err)
	}
	return item.AppendNumber(dst, n), nil
}

func (p *ionParser) blob(dst []byte) ([]byte, error) {
	p.accept("{{")
	end := bytes.Index(p.text[p.at:], []byte("}}"))
	if end < 0 {
		return nil, errIon
	}
	text := bytes.Join(bytes.Fields(p.text[p.at:p.at+end]), nil)
	p.at += end + 2
	b, err := base64.StdEncoding.AppendDecode(nil, text)
	return item.AppendText(dst, item.B, b), err
}

func (p *ionParser) list(depth int) (elements []item.Value, err error) {
	if !p.accept("[") {
		return nil, errIon
	}
	for !p.accept("]") {
		v, err := p.value(nil, depth)
		if err != nil {
			return nil, err
		}
		elements = append(elements, v)
		if !p.accept(",") && p.next() != ']' {
			return nil, errIon
		}
	}
	return elements, nil
}

func (p *ionParser) set(dst []byte, t item.Type, depth int) ([]byte, error) {
	members, err := p.list(depth)
	switch {
	case err != nil:
		return nil, err
	case len(members) == 0:
		return nil, errors.New("a set is empty")
	case slices.ContainsFunc(members, func(v item.Value) bool { return v.Type() != t.Member() }):
		return nil, errors.New("a set has members of another type")
	}
	set := item.Set(t, members...)
	if set.Len() < len(members) {
		return nil, errors.New("a set has a member twice")
	}
	return append(dst, set...), nil
}

// string reads a text in quotes, of one kind or the other; long ones in three
// single quotes follow each other.
func (p *ionParser) string() ([]byte, error) {
	if !bytes.HasPrefix(p.text[p.at:], []byte("'''")) {
		quote := p.text[p.at : p.at+1]
		p.at++
		return p.quoted(nil, string(quote))
	}
	var out []byte
	for p.accept("'''") {
		var err error
		if out, err = p.quoted(out, "'''"); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (p *ionParser) quoted(out []byte, quote string) ([]byte, error) {
	from := len(out)
	for p.at < len(p.text) {
		if bytes.HasPrefix(p.text[p.at:], []byte(quote)) {
			p.at += len(quote)
			if !utf8.Valid(out[from:]) {
				return nil, errIon
			}
			return out, nil
		}
		c := p.text[p.at]
		p.at++
		if c != '\\' {
			out = append(out, c)
			continue
		}
		var err error
		if out, err = p.escape(out); err != nil {
			return nil, err
		}
	}
	return nil, errIon
}

var ionEscapes = map[byte]string{
	'0': "\x00", 'a': "\a", 'b': "\b", 't': "\t", 'n': "\n", 'f': "\f", 'r': "\r", 'v': "\v",
	'"': `"`, '\'': "'", '?': "?", '\\': `\`, '/': "/", '\n': "",
}

// escape reads what stands behind a backslash.
func (p *ionParser) escape(out []byte) ([]byte, error) {
	if p.at == len(p.text) {
		return nil, errIon
	}
	c := p.text[p.at]
	p.at++
	if text, ok := ionEscapes[c]; ok {
		return append(out, text...), nil
	}
	digits := map[byte]int{'x': 2, 'u': 4, 'U': 8}[c]
	r, ok := p.hex(digits)
	if !ok {
		return nil, errIon
	}
	if utf16.IsSurrogate(r) {
		if !bytes.HasPrefix(p.text[p.at:], []byte(`\u`)) {
			return nil, errIon
		}
		p.at += 2
		low, ok := p.hex(4)
		if r = utf16.DecodeRune(r, low); !ok || r == utf8.RuneError {
			return nil, errIon
		}
	}
	return utf8.AppendRune(out, r), nil
}

func (p *ionParser) hex(digits int) (rune, bool) {
	if digits == 0 || p.at+digits > len(p.text) {
		return 0, false
	}
	n, err := strconv.ParseUint(string(p.text[p.at:p.at+digits]), 16, 32)
	p.at += digits
	return rune(n), err == nil && n <= utf8.MaxRune
}
