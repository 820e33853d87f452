package exchange

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/dynblock"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/convert"

	"github.com/stator-db/stator/internal/model"
)

// readTerraform reads the tables of a module's wanted files, and of the local
// modules that these call.
func readTerraform(files []File, vars map[string]string, open FolderOpener) (*Design, error) {
	r := &terraformReader{scope: newScope(), run: &terraformRun{open: open}, folders: []string{filepath.Dir(files[0].Name)}}
	for _, f := range files {
		r.file(f)
	}
	r.scope.setVars(vars)
	if len(r.faults) > 0 {
		return nil, r.faults
	}
	var names []string
	for _, f := range files {
		if f.Wanted {
			names = append(names, filepath.Base(f.Name))
		}
	}
	r.module()
	if len(r.faults) > 0 {
		return nil, r.faults
	}
	tables, faults := toTables(r.tableDescriptions)
	if len(faults) > 0 {
		return nil, faults
	}
	return &Design{Source: "Terraform, " + strings.Join(names, ", "), Tables: tables, Omitted: r.run.omitted}, nil
}

// terraformReader reads one module.
type terraformReader struct {
	run               *terraformRun
	address           string   // module.shop. in the module shop, "" in the root module
	folders           []string // the folders of the calling modules, for cycles
	scope             *scope
	resources         []*resource
	calls             []*resource // module blocks
	tableDescriptions []*describedTable
	faults            Faults
}

// module reads everything after the files of a module are parsed.
func (r *terraformReader) module() {
	r.tables()
	r.callModules()
	r.scaling()
}

type resource struct {
	*hcl.Block
	wanted bool
}

var moduleSchema = &hcl.BodySchema{Blocks: []hcl.BlockHeaderSchema{
	{Type: "variable", LabelNames: []string{"name"}},
	{Type: "locals"},
	{Type: "resource", LabelNames: []string{"type", "name"}},
	{Type: "module", LabelNames: []string{"name"}},
}}

// file reads the declarations of a file.
func (r *terraformReader) file(f File) {
	body, diags := parseHCL(f)
	if r.diagnose(diags) || body == nil {
		return
	}
	if strings.HasSuffix(f.Name, ".tfvars") || strings.HasSuffix(f.Name, ".tfvars.json") {
		attrs, diags := body.JustAttributes()
		r.diagnose(diags)
		for name, a := range attrs {
			if v, diags := a.Expr.Value(nil); !r.diagnose(diags) {
				r.scope.vars[name] = v
			}
		}
		return
	}
	content, _, diags := body.PartialContent(moduleSchema)
	if r.diagnose(diags) {
		return
	}
	for _, b := range content.Blocks {
		switch b.Type {
		case "variable":
			r.variable(b)
		case "locals":
			attrs, diags := b.Body.JustAttributes()
			r.diagnose(diags)
			maps.Copy(r.scope.locals, attrs)
		case "resource":
			r.resources = append(r.resources, &resource{b, f.Wanted})
			r.scope.unknown[b.Labels[0]] = true
		case "module":
			r.calls = append(r.calls, &resource{b, f.Wanted})
		}
	}
}

func (r *terraformReader) variable(b *hcl.Block) {
	name := b.Labels[0]
	content, _, _ := b.Body.PartialContent(&hcl.BodySchema{Attributes: []hcl.AttributeSchema{{Name: "default"}}})
	if _, set := r.scope.vars[name]; set {
		return
	}
	r.scope.vars[name] = cty.DynamicVal
	if a, ok := content.Attributes["default"]; ok {
		if v, diags := a.Expr.Value(nil); !r.diagnose(diags) {
			r.scope.vars[name] = v
		}
	}
}

// diagnose records the errors of a library, and reports whether there were any.
func (r *terraformReader) diagnose(diags hcl.Diagnostics) bool {
	for _, d := range diags.Errs() {
		var x *hcl.Diagnostic
		if !errors.As(d, &x) || x.Subject == nil {
			r.fault(hcl.Range{}, "%v", d)
			continue
		}
		text := x.Summary
		if x.Detail != "" {
			text += ": " + strings.Join(strings.Fields(x.Detail), " ")
		}
		r.fault(*x.Subject, "%s", text)
	}
	return diags.HasErrors()
}

func (r *terraformReader) fault(at hcl.Range, format string, args ...any) {
	f := Fault{File: at.Filename, At: positionIn(at), Message: fmt.Sprintf(format, args...)}
	if len(r.faults) < maxFaults && !slices.Contains(r.faults, f) {
		r.faults = append(r.faults, f)
	}
}

func positionIn(at hcl.Range) model.Position {
	return model.Position{Line: at.Start.Line, Column: at.Start.Column}
}

// block is a block whose attributes can be read by name.
type block struct {
	r       *terraformReader
	ctx     *hcl.EvalContext
	content *hcl.BodyContent
	at      hcl.Range
	what    string // for messages: aws_dynamodb_table.orders
}

// open reads the attributes and blocks of a body that the schema names, and
// ignores the others.
func (r *terraformReader) open(ctx *hcl.EvalContext, body hcl.Body, at hcl.Range, what string, schema *hcl.BodySchema) *block {
	content, _, diags := dynblock.Expand(body, ctx).PartialContent(schema)
	if diags.HasErrors() {
		for _, d := range diags {
			if why := r.scope.whyUnknown(d.Expression); why != "" {
				r.fault(*d.Subject, "%s cannot be evaluated: %s", what, why)
				return nil
			}
		}
		r.diagnose(diags)
		return nil
	}
	return &block{r, ctx, content, at, what}
}

// value returns an attribute's value. It returns nil if the attribute is absent
// or null, or cannot be evaluated, which is a fault.
func (b *block) value(name string, kind cty.Type) *cty.Value {
	a, ok := b.content.Attributes[name]
	if !ok {
		return nil
	}
	v, diags := a.Expr.Value(b.ctx)
	if !diags.HasErrors() && v.IsWhollyKnown() && tooLarge(v) {
		b.r.fault(a.Expr.Range(), "%s of %s is larger than anything a table needs", name, b.what)
		return nil
	}
	if why := b.r.scope.whyUnknown(a.Expr); why != "" && (diags.HasErrors() || !v.IsWhollyKnown()) {
		b.r.fault(a.Expr.Range(), "%s of %s cannot be evaluated: %s", name, b.what, why)
		return nil
	}
	if b.r.diagnose(diags) {
		return nil
	}
	if v.IsNull() {
		return nil
	}
	if !v.IsWhollyKnown() {
		b.r.fault(b.at, "%s of %s cannot be evaluated: it depends on a for_each that is known only when Terraform runs", name, b.what)
		return nil
	}
	got, err := convert.Convert(v, kind)
	if err != nil || !got.IsWhollyKnown() || got.IsNull() {
		b.r.fault(a.Expr.Range(), "%s of %s is not %s", name, b.what, kind.FriendlyName())
		return nil
	}
	return &got
}

func (b *block) text(name string) string {
	if v := b.value(name, cty.String); v != nil {
		return v.AsString()
	}
	return ""
}

func (b *block) flag(name string) bool {
	v := b.value(name, cty.Bool)
	return v != nil && v.True()
}

// number returns a non-negative whole number.
func (b *block) number(name string) int {
	v := b.value(name, cty.Number)
	if v == nil {
		return 0
	}
	n, _ := v.AsBigFloat().Int64()
	if n < 0 || n > 1e9 || !v.AsBigFloat().IsInt() {
		b.r.fault(b.content.Attributes[name].Expr.Range(), "%s of %s is %s, not a whole number of units", name, b.what, v.AsBigFloat().Text('f', 3))
		return 0
	}
	return int(n)
}

func (b *block) texts(name string) (all []string) {
	v := b.value(name, cty.List(cty.String))
	if v == nil {
		return nil
	}
	for _, e := range v.AsValueSlice() {
		if e.IsNull() {
			b.r.fault(b.content.Attributes[name].Expr.Range(), "%s of %s contains null", name, b.what)
			return nil
		}
		all = append(all, e.AsString())
	}
	return all
}

// blocks returns the inner blocks of a type.
func (b *block) blocks(kind string, schema *hcl.BodySchema) (all []*block) {
	for _, inner := range b.content.Blocks.OfType(kind) {
		if x := b.r.open(b.ctx, inner.Body, inner.DefRange, kind+" of "+b.what, schema); x != nil {
			all = append(all, x)
		}
	}
	return all
}

func attributes(names ...string) *hcl.BodySchema {
	s := new(hcl.BodySchema)
	for _, name := range names {
		s.Attributes = append(s.Attributes, hcl.AttributeSchema{Name: name})
	}
	return s
}

func withBlocks(s *hcl.BodySchema, names ...string) *hcl.BodySchema {
	for _, name := range names {
		s.Blocks = append(s.Blocks, hcl.BlockHeaderSchema{Type: name})
	}
	return s
}

var (
	instanceSchema  = attributes("count", "for_each")
	tableSchema     = withBlocks(attributes("name", "billing_mode", "hash_key", "range_key", "read_capacity", "write_capacity", "stream_enabled", "stream_view_type", "tags", "table_class", "deletion_protection_enabled"), "attribute", "key_schema", "global_secondary_index", "local_secondary_index", "ttl", "point_in_time_recovery", "server_side_encryption", "replica")
	indexSchema     = withBlocks(attributes("name", "hash_key", "range_key", "projection_type", "non_key_attributes", "read_capacity", "write_capacity"), "key_schema")
	attributeSchema = attributes("name", "type")
	keySchema       = attributes("attribute_name", "key_type")
	ttlSchema       = attributes("attribute_name", "enabled")
	recoverySchema  = attributes("enabled")
)

// instance is one instance of a resource with count or for_each.
type instance struct {
	ctx  *hcl.EvalContext
	what string
	key  *cty.Value // nil if the resource has neither
}

// instances returns all instances of a resource.
func (r *terraformReader) instances(x *resource) (all []instance) {
	what := r.address + x.Type + "." + x.Labels[0]
	if x.Type == "resource" {
		what = r.address + x.Labels[0] + "." + x.Labels[1]
	}
	ctx := r.scope.context()
	b := r.open(ctx, x.Body, x.DefRange, what, instanceSchema)
	if b == nil {
		return nil
	}
	under := func(name string, fields map[string]cty.Value) *hcl.EvalContext {
		inner := ctx.NewChild()
		inner.Variables = map[string]cty.Value{name: cty.ObjectVal(fields)}
		return inner
	}
	_, counted := b.content.Attributes["count"]
	each, repeated := b.content.Attributes["for_each"]
	switch {
	case counted:
		for i := range min(b.number("count"), maxTables) {
			index := cty.NumberIntVal(int64(i))
			all = append(all, instance{under("count", map[string]cty.Value{"index": index}), fmt.Sprintf("%s[%d]", what, i), &index})
		}
		return all
	case repeated:
		v := b.value("for_each", cty.DynamicPseudoType)
		if v == nil {
			return nil
		}
		if !v.CanIterateElements() || v.Type().IsTupleType() || v.Type().IsListType() || v.LengthInt() > maxTables {
			r.fault(each.Expr.Range(), "for_each of %s is neither a map nor a set of strings", what)
			return nil
		}
		for it := v.ElementIterator(); it.Next(); {
			key, value := it.Element()
			if v.Type().IsSetType() {
				key = value
			}
			name, err := convert.Convert(key, cty.String)
			if err != nil || name.IsNull() || !name.IsKnown() {
				r.fault(each.Expr.Range(), "for_each of %s is neither a map nor a set of strings", what)
				return nil
			}
			all = append(all, instance{under("each", map[string]cty.Value{"key": name, "value": value}), fmt.Sprintf("%s[%q]", what, name.AsString()), &name})
		}
		return all
	}
	return []instance{{ctx: ctx, what: what}}
}

// tables reads all tables. Tables of unwanted files only define names.
func (r *terraformReader) tables() {
	references := newReferences()
	for _, x := range r.resources {
		if x.Labels[0] == "aws_dynamodb_global_secondary_index" && x.wanted {
			r.run.omit(x.DefRange, r.address+x.Labels[0]+"."+x.Labels[1], "an index that is a resource of its own is not read; add it to its table")
		}
		if x.Labels[0] != "aws_dynamodb_table" {
			continue
		}
		before := len(r.faults)
		for _, i := range r.instances(x) {
			b := r.open(i.ctx, x.Body, x.DefRange, i.what, tableSchema)
			if b == nil {
				continue
			}
			name := b.text("name")
			references.add(x.Labels[1], i.key, map[string]cty.Value{"name": known(name), "id": known(name)})
			if x.wanted {
				r.tableDescriptions = append(r.tableDescriptions, r.table(b))
			}
		}
		if !x.wanted {
			r.faults = r.faults[:before] // faults of an unwanted file
		}
	}
	r.scope.resources["aws_dynamodb_table"] = references.value()
}

// known is a text, or an unknown value if it is empty.
func known(text string) cty.Value {
	if text == "" {
		return cty.DynamicVal
	}
	return cty.StringVal(text)
}

func (r *terraformReader) table(b *block) *describedTable {
	t := &describedTable{file: b.at.Filename, at: positionIn(b.at), what: b.what, name: b.text("name"), stream: b.text("stream_view_type")}
	if _, named := b.content.Attributes["name"]; !named {
		r.fault(b.at, "%s has no name", b.what)
	}
	switch mode := b.text("billing_mode"); mode {
	case "PAY_PER_REQUEST":
		t.onDemand = true
	case "PROVISIONED", "":
		t.read.Units, t.write.Units = b.number("read_capacity"), b.number("write_capacity")
	default:
		r.fault(b.at, "billing_mode of %s is %q, not PROVISIONED or PAY_PER_REQUEST", b.what, mode)
	}
	if !b.flag("stream_enabled") {
		t.stream = ""
	}
	t.key = b.key()
	for _, a := range b.blocks("attribute", attributeSchema) {
		t.types = append(t.types, attributeType{a.text("name"), a.text("type")})
	}
	for _, kind := range []string{"global_secondary_index", "local_secondary_index"} {
		for _, x := range b.blocks(kind, indexSchema) {
			t.indexes = append(t.indexes, r.index(t, x, kind == "local_secondary_index"))
		}
	}
	for _, x := range b.blocks("ttl", ttlSchema) {
		if _, given := x.content.Attributes["enabled"]; !given || x.flag("enabled") {
			t.ttl = x.text("attribute_name")
		}
	}
	for _, x := range b.blocks("point_in_time_recovery", recoverySchema) {
		t.recovery = x.flag("enabled")
	}
	t.dropped = b.dropped()
	return t
}

// key reads a key from hash_key and range_key, or from key_schema blocks.
func (b *block) key() (key []keyPart) {
	for _, e := range b.blocks("key_schema", keySchema) {
		key = append(key, keyPart{e.text("attribute_name"), e.text("key_type")})
	}
	for _, part := range []struct{ name, kind string }{{"hash_key", "HASH"}, {"range_key", "RANGE"}} {
		if attr := b.text(part.name); attr != "" {
			key = append(key, keyPart{attr, part.kind})
		}
	}
	slices.SortStableFunc(key, func(a, b keyPart) int { return strings.Compare(a.kind, b.kind) })
	return key
}

func (r *terraformReader) index(t *describedTable, b *block, local bool) *describedIndex {
	name := b.text("name")
	_, table, _ := strings.Cut(b.what, " of ")
	b.what = fmt.Sprintf("index %s of %s", name, table)
	x := &describedIndex{name: name, key: b.key(), local: local, projection: b.text("projection_type"), names: b.texts("non_key_attributes")}
	if local && !slices.ContainsFunc(x.key, func(e keyPart) bool { return e.kind == "HASH" }) {
		x.key = append(slices.Clip(t.key[:min(1, len(t.key))]), x.key...)
	}
	if !t.onDemand && !local {
		x.read.Units, x.write.Units = b.number("read_capacity"), b.number("write_capacity")
	}
	return x
}

// dropped returns the properties that a model cannot represent. Those that
// cannot be evaluated are ignored.
func (b *block) dropped() (all []string) {
	before := b.r.faults
	defer func() { b.r.faults = before }()
	if a, ok := b.content.Attributes["tags"]; ok {
		text := "tags known only to Terraform"
		if v, diags := a.Expr.Value(b.ctx); !diags.HasErrors() && v.IsWhollyKnown() && !v.IsNull() && v.CanIterateElements() && !tooLarge(v) {
			var tags []string
			for it := v.ElementIterator(); it.Next(); {
				key, value := it.Element()
				name, err := convert.Convert(key, cty.String)
				tag, err2 := convert.Convert(value, cty.String)
				if err == nil && err2 == nil && !tag.IsNull() {
					tags = append(tags, name.AsString()+"="+tag.AsString())
				}
			}
			text = "tags " + strings.Join(tags, ", ")
		}
		all = append(all, text)
	}
	if class := b.text("table_class"); class != "" && class != "STANDARD" {
		all = append(all, "table class "+class)
	}
	if b.flag("deletion_protection_enabled") {
		all = append(all, "deletion protection")
	}
	if len(b.content.Blocks.OfType("server_side_encryption")) > 0 {
		all = append(all, "server-side encryption")
	}
	if n := len(b.content.Blocks.OfType("replica")); n > 0 {
		all = append(all, replicaNote(n))
	}
	return all
}
