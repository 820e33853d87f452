package model

import (
	"cmp"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
)

// filler is the attribute that pads items to their declared size.
const filler = "_"

func (r *resolver) entities() {
	for _, e := range r.m.Entities {
		if !r.tableOf(e) {
			continue
		}
		e.byName = make(map[string]*Field)
		r.keyFields(e)
		for _, a := range e.Attributes {
			r.attribute(e, a)
		}
		r.example(e)
		r.checkKeys(e)
	}
	if len(r.faults) > 0 {
		return
	}
	for _, e := range r.m.Entities {
		r.references(e)
	}
	if len(r.faults) > 0 {
		return
	}
	for _, e := range r.m.Entities {
		for _, f := range e.fields {
			f.requires = e.requirements(f, make(map[*Field]bool))
		}
		r.checkSize(e)
	}
}

func (r *resolver) tableOf(e *Entity) bool {
	if e.Table == "" && len(r.m.Tables) == 1 {
		e.table = r.m.Tables[0]
		return true
	}
	t, ok := r.m.Table(e.Table)
	switch {
	case e.Table == "":
		r.fault(e.Position, "%s does not say which table it is in%s", e.Name, suggest("", names(r.m.Tables)))
	case !ok:
		r.fault(e.At("table"), "unknown table %s%s", e.Table, suggest(e.Table, names(r.m.Tables)))
	}
	e.table = t
	return ok
}

// names returns the names of the attributes of an entity.
func (e *Entity) names() []string {
	all := make([]string, len(e.fields))
	for i, f := range e.fields {
		all[i] = f.Name
	}
	return all
}

func (e *Entity) add(f *Field) {
	f.entity = e
	e.fields = append(e.fields, f)
	e.byName[f.Name] = f
}

// keyType returns the type of a key attribute of a table.
func keyType(t *schema.Table, name string) (item.Type, bool) {
	for _, a := range t.Attributes {
		if a.Name == name {
			return a.Type, true
		}
	}
	return 0, false
}

func (r *resolver) keyFields(e *Entity) {
	for _, k := range e.Keys {
		t, ok := keyType(e.table.schema, k.Name)
		if !ok {
			var known []string
			for _, a := range e.table.schema.Attributes {
				known = append(known, a.Name)
			}
			r.fault(k.Position, "%s is not in any key of table %s%s", k.Name, e.table.Name, suggest(k.Name, known))
			continue
		}
		parsed, err := parseTemplate(k.Text)
		if err != nil {
			r.fault(k.At("template"), "%s", err)
			continue
		}
		if k.Text == "" {
			r.fault(k.At("template"), "a key cannot be empty")
		}
		k.template = parsed
		if _, single := parsed.single(); t != item.S && !single {
			r.fault(k.At("template"), "%s is of type %s, so its template must be a single attribute", k.Name, t)
		}
		if len(k.When) > 0 && e.table.schema.Key.Has(k.Name) {
			r.fault(k.At("when"), "%s is in the table's key and must always be present", k.Name)
		}
		e.add(&Field{Name: k.Name, Type: t, Key: k, Stored: true, template: &k.template, when: k.When, location: &k.Location})
	}
}

func (r *resolver) attribute(e *Entity, a *Attribute) {
	if _, twice := e.byName[a.Name]; twice {
		r.fault(a.Position, "%s is already declared under keys", a.Name)
		return
	}
	if a.Name == filler || a.Name == "" {
		r.fault(a.Position, "an attribute of a model cannot be named %q", a.Name)
		return
	}
	if a.Type == "" && a.Example != nil {
		a.Type = a.Example.guess().String()
	}
	t, _ := item.TypeNamed(cmp.Or(a.Type, "S"))
	f := &Field{Name: a.Name, Type: t, Attribute: a, Stored: a.Shards == 0, when: a.When, location: &a.Location}
	if a.Stored != nil {
		f.Stored = *a.Stored
	}
	if t == item.BOOL && len(a.Mix) > 0 && len(a.Values) == 0 {
		a.Values = boolValues
	}
	r.checkValues(a, t)
	r.checkMix(a)
	r.checkBounds(a, t)
	if a.Template != "" {
		parsed, err := parseTemplate(a.Template)
		if err != nil {
			r.fault(a.At("template"), "%s", err)
		}
		f.template = &parsed
	}
	if a.Example != nil {
		v, err := a.Example.value(t)
		if err != nil {
			r.fault(a.At("example"), "%s: %v", a.Name, err)
		}
		f.example = v
	}
	e.add(f)
}

// checkValues checks that the format and the values of an attribute fit its
// type.
func (r *resolver) checkValues(a *Attribute, t item.Type) {
	if known, ok := formats[a.Format]; ok && !slices.Contains(known.types, t) {
		r.fault(a.At("format"), "the format %s is for type %s, not %s", a.Format, known.types[0], t)
	}
	if len(a.Values) > 0 && t != item.S && t != item.N && t != item.BOOL {
		r.fault(a.At("values"), "values can be listed only for types S, N and BOOL, not %s", t)
	}
	times := make(map[string]int)
	for _, v := range a.Values {
		if times[v]++; times[v] == 2 {
			r.fault(a.At("values"), "%s lists %q more than once", a.Name, v)
		}
		n, err := item.ParseNumber(v)
		switch {
		case t != item.N:
		case err != nil:
			r.fault(a.At("values"), "%q is not a number, but %s is of type N", v, a.Name)
		case n.String() != v:
			r.fault(a.At("values"), "write %s as %s, the form in which it is stored", v, n)
		}
		if t == item.BOOL && !slices.Contains(boolValues, v) {
			r.fault(a.At("values"), "%q is neither true nor false, but %s is of type BOOL", v, a.Name)
		}
	}
}

// boolValues are the values of an attribute of type BOOL.
var boolValues = []string{"true", "false"}

// checkBounds checks the numbers that an attribute declares.
func (r *resolver) checkBounds(a *Attribute, t item.Type) {
	if a.Shards > 0 && t != item.S && t != item.N {
		r.fault(a.At("shards"), "a shard number is of type S or N, not %s", t)
	}
	if a.Shards > maxShards {
		r.fault(a.At("shards"), "%d shards are too many; the limit is %d", a.Shards, maxShards)
	}
	if a.Digits > item.MaxDigits {
		r.fault(a.At("digits"), "a number can have at most %d digits", item.MaxDigits)
	}
	if a.Hottest > 1 {
		r.fault(a.At("hottest"), "a share must be at most 1, not %v", a.Hottest)
	}
	distinct, busiest := float64(a.Distinct), a.Hottest/float64(a.HotValues())
	switch {
	case a.Hot > 0 && a.Hottest == 0:
		r.fault(a.At("hot"), "hot says how many values share hottest, which %s does not have", a.Name)
	case a.Hot > 0 && len(a.Values) > 0:
		r.fault(a.At("hot"), "%s lists its values: give their shares as a mix", a.Name)
	case distinct > 0 && float64(a.Hot) > distinct:
		r.fault(a.At("hot"), "%s has only %v values, so %d of them cannot be hot", a.Name, distinct, a.Hot)
	case distinct > 0 && a.Hottest > 0 && busiest*distinct < 0.999:
		r.fault(a.At("hottest"), "the busiest of %v values has at least 1/%v of the traffic, not %v", distinct, distinct, busiest)
	}
	if a.Largest != 0 && a.Largest < a.Size || a.Most != 0 && a.Most < a.Count {
		r.fault(a.Position, "the largest size or count of %s is below its typical one", a.Name)
	}
}

// checkMix checks that shares are of declared values and do not exceed 1
// together.
func (r *resolver) checkMix(a *Attribute) {
	sum := 0.0
	for _, s := range a.Mix {
		share, err := parseFloat(s.Value.text)
		if err != nil || share < 0 || !slices.Contains(a.Values, s.Name) {
			r.fault(s.Position, "a mix gives values a share from 0 to 1%s", suggest(s.Name, a.Values))
		}
		sum += share
	}
	if sum > 1.0001 {
		r.fault(a.At("mix"), "the shares of %s sum to more than 1", a.Name)
	}
	if len(a.Mix) > 0 && len(a.Mix) == len(a.Values) && sum < 0.9999 {
		r.fault(a.At("mix"), "the shares of %s sum to less than 1, and all its values have one", a.Name)
	}
}

// example takes undeclared attributes from the example item, and example values
// for the declared ones.
func (r *resolver) example(e *Entity) {
	if e.Example == nil {
		return
	}
	if e.Example.kind != literalMap {
		r.fault(e.At("example"), "an example item must be a mapping of attributes to values")
		return
	}
	for _, s := range e.Example.entries {
		f, ok := e.byName[s.Name]
		if !ok {
			a := &Attribute{Name: s.Name, Type: s.Value.guess().String()}
			a.Position = s.Position
			f = &Field{Name: s.Name, Type: s.Value.guess(), Attribute: a, Stored: true, location: &a.Location}
			e.add(f)
		}
		if f.template != nil {
			continue // its template says more
		}
		v, err := s.Value.value(f.Type)
		if err != nil {
			r.fault(s.Value.Position, "%s: %v", s.Name, err)
			continue
		}
		f.example = v
	}
}

// checkKeys checks that the entity has the table's key, and that its keys have
// the right types.
func (r *resolver) checkKeys(e *Entity) {
	for _, a := range e.table.schema.Key.All() {
		_, tried := named(e.Keys, a.Name) // its faults are reported already
		if f, ok := e.byName[a.Name]; !tried && (!ok || !f.Stored || len(f.when) > 0) {
			r.fault(e.Position, "%s has no %s, which is in the key of table %s", e.Name, a.Name, e.table.Name)
		}
	}
	for _, f := range e.fields {
		if t, ok := keyType(e.table.schema, f.Name); ok && t != f.Type {
			r.fault(f.location.Position, "%s is of type %s in a key, but is declared as %s", f.Name, t, f.Type)
		}
	}
}

// references checks that templates and conditions name attributes that exist,
// without cycles.
func (r *resolver) references(e *Entity) {
	for _, f := range e.fields {
		if f.template != nil {
			r.checkTemplate(e, f)
		}
		if a := f.Attribute; a != nil && a.Of != "" {
			r.checkShardOf(e, a)
		}
		r.when(e, f.when)
	}
	r.checkCycles(e)
}

// requirements returns the conditions under which an item has a field: its own, and those
// of the attributes in its template and in its conditions.
func (e *Entity) requirements(f *Field, seen map[*Field]bool) (all []*Setting) {
	if seen[f] {
		return nil
	}
	seen[f] = true
	all = slices.Clone(f.when)
	for _, name := range slices.Concat(f.parts(), names(f.when)) {
		for _, w := range e.requirements(e.byName[name], seen) {
			if !slices.Contains(all, w) {
				all = append(all, w)
			}
		}
	}
	return all
}

// checkTemplate checks that the template of a field is built from attributes of
// the right types.
func (r *resolver) checkTemplate(e *Entity, f *Field) {
	at := f.location.At("template")
	for _, name := range f.template.names() {
		part, ok := e.byName[name]
		if !ok {
			r.fault(at, "the template %q names %s, which %s does not have%s", f.template.text, name, e.Name, suggest(name, e.names()))
		} else if part.Type != item.S && part.Type != item.N {
			r.fault(at, "%s is of type %s, which cannot be used in a template", name, part.Type)
		}
	}
	name, single := f.template.single()
	switch {
	case single:
		if part, ok := e.byName[name]; ok && part.Type != f.Type {
			r.fault(at, "%s is of type %s, but %s is of type %s", f.Name, f.Type, name, part.Type)
		}
	case f.Type != item.S:
		r.fault(at, "%s is of type %s, so its template must be a single attribute", f.Name, f.Type)
	case len(f.template.parts) > maxTemplateParts:
		r.fault(at, "a template can have at most %d parts", maxTemplateParts)
	}
}

// checkShardOf checks the attribute that a shard number is the hash of.
func (r *resolver) checkShardOf(e *Entity, a *Attribute) {
	if _, ok := e.byName[a.Of]; !ok {
		r.fault(a.At("of"), "%s has no %s%s", e.Name, a.Of, suggest(a.Of, e.names()))
	}
	if a.Shards == 0 {
		r.fault(a.At("of"), "of names the attribute that a shard number is the hash of, but %s has no shards", a.Name)
	}
}

// checkCycles checks that no template contains itself, and none is nested too
// deeply.
func (r *resolver) checkCycles(e *Entity) {
	walk := dependencyWalk{e: e, depth: make(map[string]int)}
	for _, f := range e.fields {
		depth, cycle := walk.visit(f, nil)
		if cycle != nil {
			r.fault(f.location.At("template"), "%s refers to itself: %s", cycle[0], strings.Join(cycle, " -> "))
			return
		}
		if depth > maxTemplateDepth {
			r.fault(f.location.At("template"), "the templates of %s are nested more than %d levels deep", f.Name, maxTemplateDepth)
		}
	}
}

func (r *resolver) when(e *Entity, when []*Setting) {
	for _, s := range when {
		f, ok := e.byName[s.Name]
		if !ok {
			r.fault(s.Position, "%s has no %s%s", e.Name, s.Name, suggest(s.Name, e.names()))
			continue
		}
		if f.Attribute != nil && f.Type == item.BOOL && len(f.Attribute.Values) == 0 {
			f.Attribute.Values = boolValues
		}
		if f.template != nil {
			r.fault(s.Position, "%s follows from its template; name the attributes that the template uses", s.Name)
			continue
		}
		if f.Attribute == nil || len(f.Attribute.Values) == 0 {
			r.fault(s.Position, "%s does not list its values, so nothing can depend on them", s.Name)
			continue
		}
		if len(s.Value.Texts()) == 0 {
			r.fault(s.Value.Position, "%s needs at least one value here", s.Name)
		}
		for _, v := range s.Value.Texts() {
			if !slices.Contains(f.Attribute.Values, v) {
				r.fault(s.Value.Position, "%s of %s cannot be %q%s", s.Name, e.Name, v, suggest(v, f.Attribute.Values))
			}
		}
	}
}

// parts returns the names that a field depends on directly.
func (f *Field) parts() []string {
	switch {
	case f.template != nil:
		return f.template.names()
	case f.Attribute != nil && f.Attribute.Of != "":
		return []string{f.Attribute.Of}
	}
	return nil
}

// dependencyWalk follows fields to the fields they are built from, each field
// once.
type dependencyWalk struct {
	e     *Entity
	depth map[string]int // by name, of the visited fields
}

// visit returns how deeply the templates of a field are nested, or the cycle
// from a field back to itself.
func (w *dependencyWalk) visit(f *Field, path []string) (depth int, cycle []string) {
	if depth, ok := w.depth[f.Name]; ok {
		return depth, nil
	}
	if i := slices.Index(path, f.Name); i >= 0 {
		return 0, append(path[i:], f.Name)
	}
	path = append(slices.Clip(path), f.Name)
	for _, name := range f.parts() {
		if part, ok := w.e.byName[name]; ok {
			below, cycle := w.visit(part, path)
			if cycle != nil {
				return 0, cycle
			}
			depth = max(depth, 1+below)
		}
	}
	w.depth[f.Name] = depth
	return depth, nil
}

// checkSize checks that an entity can have its declared size.
func (r *resolver) checkSize(e *Entity) {
	if e.Size == nil {
		return
	}
	if e.Size.Largest != 0 && e.Size.Largest < e.Size.Typical {
		r.fault(e.At("size"), "the largest size of %s is below its typical size", e.Name)
	}
	if e.Size.Typical > item.MaxSize {
		return // Check reports it
	}
	bare := *e
	bare.Size = nil
	if it := (Generator{}).Item(&bare, 0); it.Size() > int(e.Size.Typical) {
		r.fault(e.Size.At("typical"), "the attributes of %s alone take %d bytes, so its typical size cannot be %d", e.Name, it.Size(), e.Size.Typical)
	}
}
