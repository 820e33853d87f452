package code

import (
	"fmt"
	"strings"
	"unicode"
)

// wordsOf splits a name into lower-case words: at characters that are neither
// letters nor digits, and before a capital letter after a small one.
func wordsOf(name string) (words []string) {
	var word strings.Builder
	flush := func() {
		if word.Len() > 0 {
			words = append(words, strings.ToLower(word.String()))
			word.Reset()
		}
	}
	runes := []rune(name)
	for i, r := range runes {
		if r == '\'' || r == '’' {
			continue // customer's is one word
		}
		if r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r) {
			flush()
			continue
		}
		if unicode.IsUpper(r) && i > 0 {
			next := i+1 < len(runes) && unicode.IsLower(runes[i+1])
			if !unicode.IsUpper(runes[i-1]) || next {
				flush()
			}
		}
		word.WriteRune(r)
	}
	flush()
	if len(words) == 0 || unicode.IsDigit(rune(words[0][0])) {
		words = append([]string{"x"}, words...)
	}
	return words
}

// initialisms are words that Go writes in capital letters.
var initialisms = map[string]bool{"id": true, "url": true, "uri": true, "ttl": true, "api": true, "http": true, "json": true, "uuid": true, "sku": true}

func capitalized(word string) string { return strings.ToUpper(word[:1]) + word[1:] }

// exportedName returns a name as Go writes it: TaskID.
func exportedName(name string) string {
	var b strings.Builder
	for _, w := range wordsOf(name) {
		if initialisms[w] || len(w) > 0 && strings.HasPrefix(w, "gsi") {
			b.WriteString(strings.ToUpper(w))
		} else {
			b.WriteString(capitalized(w))
		}
	}
	return b.String()
}

// pascalName returns a name as types are written in TypeScript and Python: TaskId.
func pascalName(name string) string {
	var b strings.Builder
	for _, w := range wordsOf(name) {
		b.WriteString(capitalized(w))
	}
	return b.String()
}

// camelName returns a name as functions are written in TypeScript: taskId.
func camelName(name string) string {
	text := pascalName(name)
	return strings.ToLower(text[:1]) + text[1:]
}

// snakeName returns a name as Python writes it: task_id.
func snakeName(name string) string { return strings.Join(wordsOf(name), "_") }

// plural returns the plural of an English noun.
func plural(noun string) string {
	switch {
	case strings.HasSuffix(noun, "s"), strings.HasSuffix(noun, "x"), strings.HasSuffix(noun, "ch"), strings.HasSuffix(noun, "sh"):
		return noun + "es"
	case strings.HasSuffix(noun, "y") && len(noun) > 1 && !strings.ContainsAny(noun[len(noun)-2:len(noun)-1], "aeiou"):
		return noun[:len(noun)-1] + "ies"
	}
	return noun + "s"
}

// nameSet hands out names, each once.
type nameSet map[string]bool

func newNameSet(taken ...string) nameSet {
	s := make(nameSet)
	for _, name := range taken {
		s[name] = true
	}
	return s
}

// take returns name, or if it is taken, name with the suffix or with a number.
func (s nameSet) take(name, suffix string) string {
	if s[name] {
		name += suffix
	}
	free := name
	for i := 2; s[free]; i++ {
		free = fmt.Sprintf("%s%d", name, i)
	}
	s[free] = true
	return free
}

// wrapText breaks a text into lines of a length.
func wrapText(text string, length int) (lines []string) {
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && len(line)+1+len(word) > length {
			lines = append(lines, line)
			line = ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
