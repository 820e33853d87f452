package expr

import "github.com/stator-db/stator/internal/data/item"

// Projection is a bound ProjectionExpression: the paths that a reply shows.
type Projection struct{ paths []item.Path }

// Paths returns the document paths in the order of the text, for
// item.Item.Project. No path leads into another.
func (p *Projection) Paths() []item.Path { return p.paths }

// ParsedProjection is a parsed ProjectionExpression without a request's
// placeholders.
type ParsedProjection struct {
	paths []*node
	refs  refs
	steps int

	ready *Projection // set if there are no placeholders
}

// ParseProjection parses a ProjectionExpression.
func ParseProjection(text string) (*ParsedProjection, error) {
	parsed := new(ParsedProjection)
	refs, err := parse(ProjectionExpression, text, func(p *parser) {
		parsed.paths = p.projection()
		check := syntaxChecker{parser: p}
		for _, n := range parsed.paths {
			check.path(n.path)
		}
		parsed.steps = check.steps
	})
	if err != nil {
		return nil, err
	}
	parsed.refs = refs
	if len(refs.names.inOrder) == 0 {
		// Bind finds a fault again and reports it.
		parsed.ready, _ = parsed.bind(new(Bindings))
	}
	return parsed, nil
}

// Bind binds the placeholders of a request.
func (p *ParsedProjection) Bind(b *Bindings) (*Projection, error) {
	b.use(&p.refs)
	if p.ready != nil {
		return p.ready, nil
	}
	return p.bind(b)
}

func (p *ParsedProjection) bind(b *Bindings) (*Projection, error) {
	binding := newBinder(ProjectionExpression, b, &p.refs, p.steps)
	paths := make([]item.Path, len(p.paths))
	for i, n := range p.paths {
		paths[i] = n.path
	}
	if err := binding.targets(paths); err != nil {
		return nil, err
	}
	return &Projection{paths}, nil
}
