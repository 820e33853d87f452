package cloudwatch

import (
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/cloudwatch/metricmath"
	"github.com/stator-db/stator/internal/meter"
)

// foundMetric is a metric as searches see it.
type foundMetric struct {
	namespace, name string
	dimensions      []dimension
}

func (s *Service) found(id meter.ID) foundMetric {
	return foundMetric{namespaceOf(id), id.Name, s.dimensions(id)}
}

// values returns a property of a metric, which is a name of a dimension, MetricName or Namespace; for "",
// all names and values that it has.
func (m foundMetric) values(property string) (all []string) {
	switch property {
	case "MetricName":
		return []string{m.name}
	case "Namespace":
		return []string{m.namespace}
	case "":
		all = append(all, m.namespace, m.name)
	}
	for _, d := range m.dimensions {
		switch property {
		case "":
			all = append(all, d[0], d[1])
		case d[0]:
			all = append(all, d[1])
		}
	}
	return all
}

// search reports whether it finds a metric.
type search func(foundMetric) bool

// searchToken is a word, which may be in quotes, or one of { } ( ) , = -.
type searchToken struct {
	text   string
	word   bool
	quoted bool
}

func searchFault(format string) error { return &metricmath.Error{Message: "SEARCH: " + format} }

// parseSearch parses the text of a search, such as {AWS/DynamoDB,TableName} MetricName="UserErrors" NOT Test.
func parseSearch(text string) (search, error) {
	tokens, err := splitSearch(text)
	if err != nil {
		return nil, err
	}
	p := &searchParser{tokens: tokens}
	all := func(foundMetric) bool { return true }
	matches := search(all)
	if p.next("{") {
		if matches, err = p.schema(); err != nil {
			return nil, err
		}
	}
	if len(p.tokens) > 0 {
		schema := matches
		words, err := p.or()
		if err != nil {
			return nil, err
		}
		matches = func(m foundMetric) bool { return schema(m) && words(m) }
	}
	if len(p.tokens) > 0 {
		return nil, searchFault(p.tokens[0].text + " is not expected")
	}
	if len(tokens) == 0 {
		return nil, searchFault("it is empty")
	}
	return matches, nil
}

func splitSearch(text string) (all []searchToken, err error) {
	const special = "{}(),="
	for text = strings.TrimSpace(text); text != ""; text = strings.TrimSpace(text) {
		switch {
		case text[0] == '"':
			var b strings.Builder
			i := 1
			for ; i < len(text) && text[i] != '"'; i++ {
				if text[i] == '\\' && i+1 < len(text) {
					i++
				}
				b.WriteByte(text[i])
			}
			if i >= len(text) {
				return nil, searchFault("a quote is not closed")
			}
			all, text = append(all, searchToken{b.String(), true, true}), text[i+1:]
		case strings.Contains(special, text[:1]):
			all, text = append(all, searchToken{text: text[:1]}), text[1:]
		case text[0] == '-':
			all, text = append(all, searchToken{text: "NOT"}), text[1:]
		default:
			n := strings.IndexAny(text, special+"\" \t\r\n")
			if n < 0 {
				n = len(text)
			}
			word := text[:n]
			all = append(all, searchToken{text: word, word: word != "AND" && word != "OR" && word != "NOT"})
			text = text[n:]
		}
	}
	return all, nil
}

type searchParser struct{ tokens []searchToken }

// next reports whether the next token is one that is no word, and skips it then.
func (p *searchParser) next(text string) bool {
	if len(p.tokens) == 0 || p.tokens[0].word || p.tokens[0].text != text {
		return false
	}
	p.tokens = p.tokens[1:]
	return true
}

func (p *searchParser) word() (searchToken, error) {
	if len(p.tokens) == 0 {
		return searchToken{}, searchFault("it ends too early")
	}
	t := p.tokens[0]
	if !t.word {
		return t, searchFault(t.text + " is not expected")
	}
	p.tokens = p.tokens[1:]
	return t, nil
}

// schema parses a namespace, and the names of exactly the dimensions that metrics have.
func (p *searchParser) schema() (search, error) {
	var names []string
	for {
		t, err := p.word()
		if err != nil {
			return nil, err
		}
		names = append(names, t.text)
		if p.next("}") {
			break
		}
		if !p.next(",") {
			return nil, searchFault("the names of the schema are separated by commas, and end with }")
		}
	}
	dimensions := names[1:]
	return func(m foundMetric) bool {
		return m.namespace == names[0] && len(m.dimensions) == len(dimensions) &&
			!slices.ContainsFunc(m.dimensions, func(d dimension) bool { return !slices.Contains(dimensions, d[0]) })
	}, nil
}

func (p *searchParser) or() (search, error) {
	left, err := p.and()
	for err == nil && p.next("OR") {
		var right search
		right, err = p.and()
		one := left
		left = func(m foundMetric) bool { return one(m) || right(m) }
	}
	return left, err
}

// and parses what is joined by AND, or by nothing.
func (p *searchParser) and() (search, error) {
	left, err := p.not()
	for err == nil && (p.next("AND") || p.begins()) {
		var right search
		right, err = p.not()
		one := left
		left = func(m foundMetric) bool { return one(m) && right(m) }
	}
	return left, err
}

// begins reports whether a term begins here.
func (p *searchParser) begins() bool {
	return len(p.tokens) > 0 && (p.tokens[0].word || p.tokens[0].text == "(" || p.tokens[0].text == "NOT")
}

func (p *searchParser) not() (search, error) {
	if p.next("NOT") {
		of, err := p.not()
		return func(m foundMetric) bool { return !of(m) }, err
	}
	if p.next("(") {
		of, err := p.or()
		if err == nil && !p.next(")") {
			err = searchFault("a parenthesis is not closed")
		}
		return of, err
	}
	t, err := p.word()
	if err != nil {
		return nil, err
	}
	if !p.next("=") {
		return t.matches(""), nil
	}
	return p.property(t.text)
}

// property parses the value of a property, or several that are joined by OR in parentheses.
func (p *searchParser) property(name string) (search, error) {
	several := p.next("(")
	var any []search
	for {
		t, err := p.word()
		if err != nil {
			return nil, err
		}
		any = append(any, t.matches(name))
		if !several || p.next(")") {
			break
		}
		if !p.next("OR") {
			return nil, searchFault("the values of a property are joined by OR")
		}
	}
	return func(m foundMetric) bool {
		return slices.ContainsFunc(any, func(matches search) bool { return matches(m) })
	}, nil
}

// matches finds metrics with a word: a whole name or value if it is in quotes, otherwise a part of one.
func (t searchToken) matches(property string) search {
	return func(m foundMetric) bool {
		return slices.ContainsFunc(m.values(property), func(value string) bool {
			if t.quoted {
				return value == t.text
			}
			return containsFold(value, t.text)
		})
	}
}

// containsFold reports whether a text contains another one, in upper or lower case.
func containsFold(text, part string) bool {
	return strings.Contains(strings.ToLower(text), strings.ToLower(part))
}
