package policy

import (
	"strings"
	"unicode/utf8"
)

// glob is a text with wildcards and variables, made when its document is parsed.
type glob struct {
	parts []globPart
	vars  bool // it has variables
}

type globPart struct {
	kind globKind
	text string // a literal, or the name of a variable in lower case

	// The value of a variable whose key the request does not have.
	preset    string
	hasPreset bool
}

type globKind byte

const (
	globLiteral globKind = iota
	globAny              // *: any number of characters
	globOne              // ?: one character
	globVar              // ${name}
)

// matchesAll reports whether the glob is *.
func (g *glob) matchesAll() bool { return len(g.parts) == 1 && g.parts[0].kind == globAny }

// resolved reports whether the request has a value for each variable.
func (g *glob) resolved(ctx Context) bool { return !g.vars || g.unresolved(ctx) == "" }

// unresolved returns the first variable without a value.
func (g *glob) unresolved(ctx Context) string {
	for i := range g.parts {
		if p := &g.parts[i]; p.kind == globVar {
			if _, ok := p.value(ctx); !ok {
				return p.text
			}
		}
	}
	return ""
}

// value returns the text that a literal or a variable stands for.
func (p *globPart) value(ctx Context) (string, bool) {
	if p.kind == globLiteral {
		return p.text, true
	}
	v := lookup(ctx, p.text)
	switch {
	case !v.Present():
		return p.preset, p.hasPreset
	case v.multi: // a variable stands for one value
		return "", false
	default:
		return v.one, true
	}
}

// match reports whether a text matches. The values of variables are literal, also if
// they contain wildcards. With fold, the case of ASCII letters does not matter.
func (g *glob) match(s string, ctx Context, fold bool) bool {
	// The usual algorithm: on a mismatch, the last * takes one more character.
	next, star, retry := 0, -1, ""
	for {
		if next < len(g.parts) {
			switch p := &g.parts[next]; p.kind {
			case globAny:
				next++
				if next == len(g.parts) {
					return true
				}
				star, retry = next, s
				continue
			case globOne:
				if s != "" {
					_, size := utf8.DecodeRuneInString(s)
					s = s[size:]
					next++
					continue
				}
			default:
				v, ok := p.value(ctx)
				if !ok {
					return false
				}
				if hasPrefix(s, v, fold) {
					s = s[len(v):]
					next++
					continue
				}
			}
		} else if s == "" {
			return true
		}
		if star < 0 || retry == "" {
			return false
		}
		_, size := utf8.DecodeRuneInString(retry)
		retry = retry[size:]
		next, s = star, retry
	}
}

func hasPrefix(s, prefix string, fold bool) bool {
	if !fold {
		return strings.HasPrefix(s, prefix)
	}
	return len(s) >= len(prefix) && equalFold(s[:len(prefix)], prefix)
}

// equalFold compares without the case of ASCII letters. strings.EqualFold would also
// take the Kelvin sign for a k.
func equalFold(a, b string) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range len(a) {
		if lower(a[i]) != lower(b[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

// compileGlob makes a glob of a text. Without wildcards, * and ? are literal; without
// variables, ${ is.
func compileGlob(text string, wildcards, variables bool) (g glob, fault string) {
	var literal strings.Builder
	add := func(p globPart) {
		if literal.Len() > 0 {
			g.parts = append(g.parts, globPart{text: literal.String()})
			literal.Reset()
		}
		if n := len(g.parts); p.kind == globAny && n > 0 && g.parts[n-1].kind == globAny {
			return // ** is the same as *
		}
		if p.kind != globLiteral {
			g.parts = append(g.parts, p)
		}
	}
	for rest := text; rest != ""; {
		i := strings.IndexAny(rest, "*?$")
		if i < 0 {
			literal.WriteString(rest)
			break
		}
		literal.WriteString(rest[:i])
		c := rest[i]
		rest = rest[i+1:]
		switch {
		case c == '$' && variables && strings.HasPrefix(rest, "{"):
			inside, after, closed := strings.Cut(rest[1:], "}")
			if !closed {
				return g, "the variable ${" + inside + " has no closing brace"
			}
			rest = after
			if inside == "*" || inside == "?" || inside == "$" {
				literal.WriteString(inside)
				continue
			}
			p, fault := compileVariable(inside)
			if fault != "" {
				return g, fault
			}
			add(p)
			g.vars = true
		case c == '*' && wildcards:
			add(globPart{kind: globAny})
		case c == '?' && wildcards:
			add(globPart{kind: globOne})
		default:
			literal.WriteByte(c)
		}
	}
	add(globPart{}) // what is left of the literal
	return g, ""
}

// compileVariable makes a variable of the text between its braces: a key, or a key
// and what to take if the request does not have it, in single quotes.
func compileVariable(inside string) (p globPart, fault string) {
	name, preset, hasPreset := strings.Cut(inside, ",")
	name = strings.TrimSpace(name)
	prefix, key, ok := strings.Cut(name, ":")
	if !ok || prefix == "" || key == "" || strings.ContainsAny(name, "${'\"") {
		return p, "the variable ${" + inside + "} does not name a condition key, such as ${aws:username}"
	}
	p = globPart{kind: globVar, text: strings.ToLower(name), hasPreset: hasPreset}
	if hasPreset {
		preset = strings.TrimSpace(preset)
		if len(preset) < 2 || preset[0] != '\'' || preset[len(preset)-1] != '\'' || strings.Contains(preset[1:len(preset)-1], "'") {
			return p, "the default of the variable ${" + inside + "} must be in single quotes, as in ${aws:username, 'none'}"
		}
		p.preset = preset[1 : len(preset)-1]
	}
	return p, ""
}

// splitGlob splits a glob at the first n-1 colons of its literals into n globs.
func splitGlob(g glob, n int) []glob {
	split := make([]glob, 1, n)
	add := func(p globPart) {
		last := &split[len(split)-1]
		last.parts = append(last.parts, p)
		last.vars = last.vars || p.kind == globVar
	}
	for _, p := range g.parts {
		for p.kind == globLiteral && len(split) < n {
			before, after, found := strings.Cut(p.text, ":")
			if !found {
				break
			}
			if before != "" {
				add(globPart{text: before})
			}
			split = append(split, glob{})
			p.text = after
		}
		if p.kind != globLiteral || p.text != "" {
			add(p)
		}
	}
	return split
}
