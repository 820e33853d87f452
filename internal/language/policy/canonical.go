package policy

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// Canonical returns the form in which the service returns a resource policy: without
// white space, members in one order, lists of one as strings, account ids as ARNs, and
// with a Version. Two documents with the same canonical form are the same.
func (d *Document) Canonical() []byte {
	w := &canonicalWriter{}
	w.open('{')
	w.member("Version", d.Version)
	if d.ID != "" {
		w.member("Id", d.ID)
	}
	w.name("Statement")
	w.open('[')
	for _, s := range d.Statements {
		w.comma()
		s.write(w, true)
	}
	w.close(']')
	w.close('}')
	return w.buf.Bytes()
}

// Equal reports whether two documents have the same canonical form.
func (d *Document) Equal(e *Document) bool { return bytes.Equal(d.Canonical(), e.Canonical()) }

// write writes the statement, with its Sid or without.
func (s *Statement) write(w *canonicalWriter, sid bool) {
	w.open('{')
	if s.Sid != "" && sid {
		w.member("Sid", s.Sid)
	}
	w.member("Effect", s.Effect.String())
	if s.Principals != nil {
		w.name(negated("Principal", s.NotPrincipal))
		s.writePrincipals(w)
	}
	w.list(negated("Action", s.NotAction), texts(s.Actions))
	w.list(negated("Resource", s.NotResource), texts(s.Resources))
	if len(s.Conditions) > 0 {
		w.name("Condition")
		s.writeConditions(w)
	}
	w.close('}')
}

func negated(name string, not bool) string {
	if not {
		return "Not" + name
	}
	return name
}

func texts(patterns []Pattern) []string {
	all := make([]string, len(patterns))
	for i := range patterns {
		all[i] = patterns[i].Text
	}
	return all
}

// canonical returns the text of a principal: that of an account is its root's ARN.
func (n *PrincipalName) canonical() string {
	if n.account == n.Text && n.account != "" {
		return "arn:aws:iam::" + n.account + ":root"
	}
	return n.Text
}

func (s *Statement) writePrincipals(w *canonicalWriter) {
	if len(s.Principals) == 1 && s.Principals[0].Type == "" {
		w.value("*")
		return
	}
	w.open('{')
	for _, kind := range principalTypes {
		var names []string
		for i := range s.Principals {
			if s.Principals[i].Type == kind {
				names = append(names, s.Principals[i].canonical())
			}
		}
		if names != nil {
			w.list(kind, names)
		}
	}
	w.close('}')
}

// writeConditions writes the conditions by operator and key in alphabetical order, since
// the order of members has no meaning.
func (s *Statement) writeConditions(w *canonicalWriter) {
	sorted := slices.Clone(s.Conditions)
	slices.SortStableFunc(sorted, func(a, b *Condition) int {
		return slices.Compare([]string{a.Operator, a.Key}, []string{b.Operator, b.Key})
	})
	w.open('{')
	for i, c := range sorted {
		if i == 0 || sorted[i-1].Operator != c.Operator {
			if i > 0 {
				w.close('}')
			}
			w.name(c.Operator)
			w.open('{')
		}
		w.list(c.Key, c.Values)
	}
	w.close('}')
	w.close('}')
}

// canonicalWriter writes JSON without white space.
type canonicalWriter struct{ buf bytes.Buffer }

func (w *canonicalWriter) open(c byte)  { w.buf.WriteByte(c) }
func (w *canonicalWriter) close(c byte) { w.buf.WriteByte(c) }

// comma writes a comma, unless the object or list has just begun.
func (w *canonicalWriter) comma() {
	if last := w.buf.Bytes()[w.buf.Len()-1]; last != '{' && last != '[' && last != ':' {
		w.buf.WriteByte(',')
	}
}

func (w *canonicalWriter) value(s string) {
	var text strings.Builder
	out := json.NewEncoder(&text)
	out.SetEscapeHTML(false)
	_ = out.Encode(s) // a string has no errors
	w.buf.WriteString(strings.TrimSuffix(text.String(), "\n"))
}

func (w *canonicalWriter) name(name string) {
	w.comma()
	w.value(name)
	w.buf.WriteByte(':')
}

func (w *canonicalWriter) member(name, value string) {
	w.name(name)
	w.value(value)
}

// list writes a member that is a string or a list of strings.
func (w *canonicalWriter) list(name string, values []string) {
	if len(values) == 1 {
		w.member(name, values[0])
		return
	}
	w.name(name)
	w.open('[')
	for _, v := range values {
		w.comma()
		w.value(v)
	}
	w.close(']')
}
