package infer

import (
	"regexp"
	"strings"
	"sync"
)

// keyToken is a part of a key's text between delimiters.
type keyToken struct {
	before string // the delimiters before it
	text   string
}

// maxTokens is the most parts of a key that is split.
const maxTokens = 9

// delimiters separate the parts of a key in most designs. A hyphen, a dot and
// an underscore also occur within words and identifiers; they separate only a
// word from what follows it.
const delimiters = "#|/:~&="

var (
	// wholeToken is a form that contains delimiters and is one part.
	wholeToken = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(?:[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}` +
			`|\d{4}-\d\d-\d\dT\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?` +
			`|[0-9A-Za-z._%+-]+@[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)+|\d{4}-\d\d(?:-\d\d)?|\d{4}-W\d\d)`)
	})
	prefixedToken = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^([A-Za-z]{2,20})([-_.])(.*\d.*)$`) })
	wordToken     = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z$_@][A-Za-z_-]{0,39}$|^[vV]\d{1,3}$`) })
	capitals      = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Z$_@][A-Z_-]+$`) })
)

// tokensOf splits the text of a key. If prefixes is set, a word before a hyphen,
// a dot or an underscore is a part of its own.
func tokensOf(text string, prefixes bool) []keyToken {
	var all []keyToken
	before := ""
	for rest := text; ; {
		n := delimiterIn(rest)
		if whole := wholeToken().FindString(rest); whole != "" && (len(whole) == len(rest) || strings.Contains(delimiters, rest[len(whole):len(whole)+1])) {
			n = len(whole)
			if n == len(rest) {
				n = -1
			}
		}
		token := rest
		if n >= 0 {
			token = rest[:n]
		}
		all = appendToken(all, before, token, prefixes)
		if len(all) > maxTokens {
			return []keyToken{{text: text}}
		}
		if n < 0 {
			return all
		}
		before, rest = rest[n:n+1], rest[n+1:]
		for rest != "" && strings.Contains(delimiters, rest[:1]) {
			before, rest = before+rest[:1], rest[1:]
		}
	}
}

// delimiterIn returns where the first delimiter of a text is, -1 if there is none. A
// delimiter next to a space is punctuation, as in a title.
func delimiterIn(text string) int {
	isSpace := func(i int) bool { return i >= 0 && i < len(text) && text[i] == ' ' }
	for i := range len(text) {
		if strings.IndexByte(delimiters, text[i]) >= 0 && !isSpace(i-1) && !isSpace(i+1) {
			return i
		}
	}
	return -1
}

func appendToken(all []keyToken, before, token string, prefixes bool) []keyToken {
	if m := prefixedToken().FindStringSubmatch(token); prefixes && m != nil && wholeToken().FindString(token) != token {
		return append(all, keyToken{before, m[1]}, keyToken{m[2], m[3]})
	}
	return append(all, keyToken{before, token})
}

// delimitersOf is the delimiters of a key: keys with the same ones have parts
// that can be compared.
func delimitersOf(tokens []keyToken) string {
	var b strings.Builder
	for _, t := range tokens {
		b.WriteString(t.before)
		b.WriteByte(' ')
	}
	return b.String()
}

// usesPrefixes reports whether the values of a key begin with different words
// before a hyphen, a dot or an underscore, as in user_1 and order_1.
func usesPrefixes(rows []*sampleRow, name string) bool {
	seen := make(map[string]int)
	for _, r := range rows {
		text := r.text[name]
		if m := prefixedToken().FindStringSubmatch(text); m != nil && wholeToken().FindString(text) != text {
			seen[m[1]]++
		}
	}
	total := 0
	for _, n := range seen {
		total += n
	}
	return len(seen) >= 2 && len(seen) <= maxWords && total >= 2*len(seen)
}
