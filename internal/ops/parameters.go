package ops

import (
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/language/expr"
	"github.com/stator-db/stator/internal/protocol/api"
	"github.com/stator-db/stator/internal/protocol/wire"
)

// parameters are the expressions of a request and the legacy parameters that
// they replace. Both are listed in the order of DynamoDB's messages.
type parameters struct {
	legacy      []parameter
	expressions []parameter
	names       map[string]string
	values      map[string]api.Value

	// write is set for PutItem, UpdateItem and DeleteItem. In Query the faults
	// of placeholders have no prefix, although other faults of the request do
	// (conformance/expr/prefix.txt).
	write bool
}

type parameter struct {
	name  string
	given bool
}

// check checks that the parameters can be combined, and the placeholders.
func (p *parameters) check() error {
	if err := p.combine(); err != nil {
		return err
	}
	return p.checkPlaceholders()
}

// combine checks that the parameters can be combined.
func (p *parameters) combine() error {
	expressions := oneGiven(p.expressions)
	if expressions && oneGiven(p.legacy) {
		return apierror.Request("Can not use both expression and non-expression parameters in the same request: "+
			"Non-expression parameters: {%s} Expression parameters: {%s}",
			strings.Join(namesOf(p.legacy), ", "), strings.Join(namesOf(p.expressions), ", "))
	}
	if p.names != nil && !expressions {
		return apierror.Validation("ExpressionAttributeNames can only be specified when using expressions")
	}
	if p.values != nil && !p.takeValues() {
		return apierror.Request("ExpressionAttributeValues can only be specified when using expressions: %s", p.withoutValues())
	}
	return nil
}

// checkPlaceholders checks the placeholders, then their names and values.
func (p *parameters) checkPlaceholders() error {
	if err := p.checkKeys(); err != nil {
		return err
	}
	if err := p.checkValues(); err != nil {
		return err
	}
	return expr.CheckSizes(p.names, p.values, func(v api.Value) item.Value { return v.Value })
}

// checkKeys checks the placeholders and the names that they stand for.
func (p *parameters) checkKeys() error {
	err := expr.CheckNames(p.names)
	if err == nil {
		err = expr.CheckValues(p.values)
	}
	if p.write {
		return err
	}
	return apierror.Bare(err)
}

func oneGiven(list []parameter) bool {
	for i := range list {
		if list[i].given {
			return true
		}
	}
	return false
}

// namesOf returns the names of the parameters that are given.
func namesOf(list []parameter) (names []string) {
	for _, p := range list {
		if p.given {
			names = append(names, p.name)
		}
	}
	return names
}

// takeValues reports whether one of the given expressions can use a value; a
// projection cannot.
func (p *parameters) takeValues() bool {
	return slices.ContainsFunc(p.expressions, func(e parameter) bool { return e.given && e.name != "ProjectionExpression" })
}

// withoutValues describes the missing expressions that could use a value.
func (p *parameters) withoutValues() string {
	var names []string
	for _, e := range p.expressions {
		if e.name != "ProjectionExpression" && e.name != "" {
			names = append(names, e.name)
		}
	}
	if len(names) == 1 {
		return names[0] + " is null"
	}
	return strings.Join(names, " and ") + " are null"
}

// checkValues returns the first fault of a placeholder's value.
func (p *parameters) checkValues() error {
	faults := false
	for _, v := range p.values {
		faults = faults || v.Fault != nil
	}
	if !faults {
		return nil
	}
	for _, key := range sortedKeys(p.values) {
		if fault := p.values[key].Fault; fault != nil {
			return p.valueFault(key, fault)
		}
	}
	return nil
}

// valueFault rewords the fault of a placeholder's value. Some have the same
// message as in an item, an empty set in writes only.
func (p *parameters) valueFault(key string, fault *apierror.Error) error {
	if fault == wire.ErrNullFalse || fault == wire.ErrTooDeep || p.write && wire.IsEmptySet(fault) {
		return fault
	}
	reworded := *fault
	reworded.Message = "ExpressionAttributeValues contains invalid value: " + fault.Message + " for key " + key
	return &reworded
}

// bindings returns the placeholders of a checked request.
func bindings(names map[string]string, values map[string]api.Value) *expr.Bindings {
	b := &expr.Bindings{Names: names}
	for ref, v := range values {
		b.Give(ref, v.Value)
	}
	return b
}

// condition parses and binds a condition or a filter; nil if there is none.
func (s *Service) condition(kind expr.Kind, text *string, b *expr.Bindings) (*expr.Condition, error) {
	if text == nil {
		return nil, nil
	}
	parsed, err := s.parsed.ParseCondition(kind, *text)
	if err != nil {
		return nil, err
	}
	return parsed.Bind(b)
}

// compiledCondition checks a condition or a filter that arrived compiled; nil if there is
// none.
func compiledCondition(kind expr.Kind, c *expr.Condition) (*expr.Condition, error) {
	if c == nil {
		return nil, nil
	}
	return c, c.CheckAs(kind)
}

// projection parses and binds a projection, or takes a compiled one or a legacy
// AttributesToGet; no paths mean all attributes.
func (s *Service) projection(compiled *api.Compiled, text *string, attributes []string, b *expr.Bindings) ([]item.Path, error) {
	if compiled != nil {
		return compiled.Projection, expr.CheckProjection(compiled.Projection)
	}
	if text == nil {
		return attributePaths(attributes)
	}
	parsed, err := s.parsed.ParseProjection(*text)
	if err != nil {
		return nil, err
	}
	p, err := parsed.Bind(b)
	if err != nil {
		return nil, err
	}
	return p.Paths(), nil
}

// onlyProjection returns the projection of a request that has no other
// expression.
func (s *Service) onlyProjection(compiled *api.Compiled, text *string, attributes []string, names map[string]string) ([]item.Path, error) {
	if compiled != nil {
		return compiled.Projection, expr.CheckProjection(compiled.Projection)
	}
	if text == nil {
		return attributePaths(attributes) // without an expression there are no names
	}
	b := bindings(names, nil)
	paths, err := s.projection(nil, text, nil, b)
	if err != nil {
		return nil, err
	}
	return paths, b.Unused()
}

// attributePaths returns the paths of an AttributesToGet.
func attributePaths(attributes []string) ([]item.Path, error) {
	var paths []item.Path
	seen := make(map[string]bool, len(attributes))
	for _, name := range attributes {
		if err := item.CheckName(name); err != nil {
			return nil, err
		}
		if seen[name] {
			return nil, apierror.InvalidValues("Duplicate value in attribute name: %s", name)
		}
		seen[name] = true
		paths = append(paths, item.Path{{Name: name}})
	}
	return paths, nil
}

// project returns the parts of an item at some paths; all of it if there are no
// paths.
func project(it item.Item, paths []item.Path) item.Item {
	if it == nil || paths == nil {
		return it
	}
	return it.Project(paths)
}

// fitsPaths returns the Fit of a read by key: no path of its projection may
// lead into a key attribute.
func fitsPaths(paths []item.Path) func(*schema.Table) error {
	if !slices.ContainsFunc(paths, func(p item.Path) bool { return len(p) > 1 }) {
		return nil
	}
	return func(t *schema.Table) error { return t.CheckPaths(paths) }
}
