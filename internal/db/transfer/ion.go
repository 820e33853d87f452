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

// Only Ion text is supported, and only the types that items consist of: structs,
// lists, strings, numbers, blobs, booleans and nulls. A set is an annotated list.

var ionSets = map[string]item.Type{"$dynamodb_SS": item.SS, "$dynamodb_NS": item.NS, "$dynamodb_BS": item.BS}

// appendIonStruct appends an item as a struct.
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

// appendIonSymbol appends a name, in quotes if it is not an identifier or is a
// keyword.
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
			dst = append(dst, '.') // a number with a point is a decimal
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

// ionReader reads items from structs of the form {Item:{…}}.
type ionReader struct {
	from   *bufio.Reader
	number int // the current line
	at     int // the line at which the item starts
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

// readByte reads a byte between values, where the file may end.
func (r *ionReader) readByte() (byte, error) {
	c, err := r.from.ReadByte()
	if c == '\n' {
		r.number++
	}
	return c, err
}

// readInside reads a byte within a value, where the file must not end. It appends
// the byte to the text of the item, up to maxTextBytes.
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

// peek reports whether a text follows.
func (r *ionReader) peek(text string) bool {
	b, _ := r.from.Peek(len(text))
	return string(b) == text
}

// scanStruct reads the text of the next struct, without parsing it.
func (r *ionReader) scanStruct() error {
	r.text = r.text[:0]
	for {
		c, err := r.readByte()
		switch {
		case err != nil:
			return err
		case c == '\n':
			empty, err := skipEmptyLines(r.from)
			r.number += empty
			if err != nil {
				return err
			}
		case c == ' ' || c == '\t' || c == '\r':
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
			return fmt.Errorf("line %d: unexpected %q where an item should start", r.number, c)
		}
	}
}

// skipVersion skips the rest of the version marker $ion_1_0, after the $.
func (r *ionReader) skipVersion() error {
	const marker = "ion_1_0"
	if !r.peek(marker) {
		return fmt.Errorf("line %d: the text is not Ion 1.0", r.number)
	}
	_, err := r.from.Discard(len(marker))
	return err
}

// skipComment skips the rest of a comment, after its first slash.
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
	return fmt.Errorf("line %d: unexpected slash", r.number)
}

// scanContainer reads the rest of a struct, after its opening brace.
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
			if r.text[len(r.text)-1] == '/' { // false if the text is too long to be kept
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

// scanQuoted reads the rest of a quoted text, after its opening quote.
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

// scanUntil reads up to and including end.
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

// ionParser parses one struct. Its text contains no comments.
type ionParser struct {
	text []byte
	at   int
}

var errIon = errors.New("the text is not Ion in the form of an item")

// next skips white space and returns the next byte without reading it, 0 at the
// end.
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

// accept reads a text, and reports whether it followed.
func (p *ionParser) accept(text string) bool {
	p.next()
	if !bytes.HasPrefix(p.text[p.at:], []byte(text)) {
		return false
	}
	p.at += len(text)
	return true
}

// item parses {Item:{…}}.
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
		return errors.New("the struct has no field Item")
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

// fields parses a struct. It calls field after each name to parse the value.
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

// word reads the characters that numbers and symbols consist of.
func (p *ionParser) word() []byte {
	p.next()
	from := p.at
	for p.at < len(p.text) && (isWord(p.text[p.at]) || strings.IndexByte("$.+-", p.text[p.at]) >= 0) {
		p.at++
	}
	return p.text[from:p.at]
}

// value parses one value and appends it in stored form.
func (p *ionParser) value(dst []byte, depth int) ([]byte, error) {
	if depth >= item.MaxDepth {
		return nil, errors.New("lists and structs are nested too deeply")
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
		return nil, errors.New("a set has duplicate members")
	}
	return append(dst, set...), nil
}

// string parses a quoted string. Adjacent long strings, in three single quotes,
// are concatenated.
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

// escape parses an escape sequence, after its backslash.
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
