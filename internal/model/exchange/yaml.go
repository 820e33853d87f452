package exchange

import (
	"encoding/base64"
	"fmt"
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/stator-db/stator/internal/data/item"
)

var (
	plainWord = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_-]*(\.[A-Za-z0-9_-]+)*$`) })
	// Words that some version of YAML does not read as a string.
	yamlKeyword = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^(?i:true|false|null|yes|no|on|off|y|n)$`) })
)

// quote returns text as YAML, unquoted if that is safe.
func quote(text string) string {
	if plainWord().MatchString(text) && !yamlKeyword().MatchString(text) {
		return text
	}
	return inQuotes(text)
}

// inQuotes returns text in double quotes.
func inQuotes(text string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range strings.ToValidUTF8(text, "\ufffd") {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r == 0x85 || r == 0xa0 || r == 0x2028 || r == 0x2029 || r == 0xfeff:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

// comment returns text as one line, for a comment.
func comment(text string) string {
	text = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || r == 0x2028 || r == 0x2029 || r == utf8.RuneError || r == 0xfeff {
			return ' '
		}
		return r
	}, text)
	return strings.Join(strings.Fields(text), " ")
}

// nameOrList returns a list of names, or the only name by itself.
func nameOrList(names []string) string {
	if len(names) == 1 {
		return quote(names[0])
	}
	return flowList(names)
}

func flowList(names []string) string {
	quoted := make([]string, len(names))
	for i, name := range names {
		quoted[i] = quote(name)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

const (
	maxSampleText  = 2_000
	maxSampleDepth = 20
)

var plainNumber = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^-?(0|[1-9][0-9]{0,17})(\.[0-9]{1,18})?$`) })

// yamlLiteral returns a value of the API as YAML; ok is false if a model cannot
// represent it.
func yamlLiteral(kind string, v *sourceTree, depth int) (text string, ok bool) {
	if depth > maxSampleDepth {
		return "", false
	}
	switch kind {
	case "S":
		return inQuotes(truncate(v.text)), v.kind == treeString
	case "N":
		if _, err := item.ParseNumber(v.text); err != nil {
			return "", false
		}
		if plainNumber().MatchString(v.text) {
			return v.text, true
		}
		return inQuotes(v.text), true
	case "B":
		_, err := base64.StdEncoding.DecodeString(v.text)
		return inQuotes(v.text), err == nil && len(v.text) <= maxSampleText
	case "BOOL":
		return v.text, v.kind == treeBool
	case "NULL":
		return "null", true
	case "SS", "NS", "BS":
		if len(v.list) == 0 {
			return "", false
		}
		return listOf(v, func(e *sourceTree) (string, bool) { return yamlLiteral(kind[:1], e, depth+1) })
	case "L":
		return listOf(v, func(e *sourceTree) (string, bool) {
			inner, value, ok := typed(e)
			if !ok {
				return "", false
			}
			return yamlLiteral(inner, value, depth+1)
		})
	case "M":
		if v.kind != treeMap {
			return "", false
		}
		var parts []string
		for _, m := range v.members {
			inner, value, ok := typed(m.value)
			if !ok {
				return "", false
			}
			text, ok := yamlLiteral(inner, value, depth+1)
			if !ok {
				return "", false
			}
			parts = append(parts, quote(m.name)+": "+text)
		}
		return "{" + strings.Join(parts, ", ") + "}", true
	}
	return "", false
}

func listOf(v *sourceTree, each func(*sourceTree) (string, bool)) (string, bool) {
	if v.kind != treeList {
		return "", false
	}
	var parts []string
	for _, e := range v.list {
		text, ok := each(e)
		if !ok {
			return "", false
		}
		parts = append(parts, text)
	}
	return "[" + strings.Join(parts, ", ") + "]", true
}

func truncate(text string) string {
	if len(text) <= maxSampleText {
		return text
	}
	return strings.ToValidUTF8(text[:maxSampleText], "")
}

// guess is the type that a model infers from a literal.
func guess(text string) string {
	switch {
	case strings.HasPrefix(text, "["):
		return "L"
	case strings.HasPrefix(text, "{"):
		return "M"
	case strings.HasPrefix(text, `"`):
		return "S"
	case text == "null":
		return "NULL"
	case text == "true" || text == "false":
		return "BOOL"
	}
	return "N"
}
