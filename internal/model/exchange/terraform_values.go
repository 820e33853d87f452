package exchange

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/ext/tryfunc"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/json"
	"github.com/zclconf/go-cty/cty"
	"github.com/zclconf/go-cty/cty/function"
	"github.com/zclconf/go-cty/cty/function/stdlib"
)

// parseHCL calls the parser, which is a library. It turns panics into errors
// and rejects texts that would overflow the parser's stack.
func parseHCL(f File) (body hcl.Body, diags hcl.Diagnostics) {
	reject := func(at hcl.Pos, why string) hcl.Diagnostics {
		return hcl.Diagnostics{{Severity: hcl.DiagError, Summary: why, Subject: &hcl.Range{Filename: f.Name, Start: at, End: at}}}
	}
	defer func() {
		if r := recover(); r != nil {
			body, diags = nil, reject(hcl.InitialPos, fmt.Sprintf("the parser failed: %v", r))
		}
	}()
	at, deep := tooDeep(f.Text)
	if !deep {
		at, deep = tooMany(f.Text, func(c, next byte) bool {
			return (c == '!' || c == '-') && (next == c || next == ' ' || next == '!' || next == '-') || c == '?' || c == '%' && next == '{'
		})
	}
	const mostBranches = 10_000
	if !deep && strings.Count(string(f.Text), "?")+strings.Count(string(f.Text), "%{") > mostBranches {
		deep = true
	}
	if deep {
		return nil, reject(hcl.Pos{Line: at.Line, Column: at.Column}, "expressions are nested too deeply")
	}
	if strings.HasSuffix(f.Name, ".json") {
		file, diags := json.Parse(f.Text, f.Name)
		return file.Body, diags
	}
	file, diags := hclsyntax.ParseConfig(f.Text, f.Name, hcl.InitialPos)
	if diags.HasErrors() {
		return nil, diags
	}
	if at, nested := nestedLoops(file.Body); nested {
		return nil, reject(at, "for expressions are nested too deeply")
	}
	return file.Body, nil
}

// nestedLoops looks for nested loops whose results would grow too large.
func nestedLoops(body hcl.Body) (hcl.Pos, bool) {
	tree, ok := body.(*hclsyntax.Body)
	if !ok {
		return hcl.Pos{}, false
	}
	w := new(loopWalker)
	_ = hclsyntax.Walk(tree, w)
	return w.at, w.found
}

const maxLoops = 2

type loopWalker struct {
	depth int
	found bool
	at    hcl.Pos
}

func (w *loopWalker) Enter(n hclsyntax.Node) hcl.Diagnostics {
	switch n.(type) {
	case *hclsyntax.ForExpr, *hclsyntax.SplatExpr:
		if w.depth++; w.depth > maxLoops && !w.found {
			w.found, w.at = true, n.Range().Start
		}
	}
	return nil
}

func (w *loopWalker) Exit(n hclsyntax.Node) hcl.Diagnostics {
	switch n.(type) {
	case *hclsyntax.ForExpr, *hclsyntax.SplatExpr:
		w.depth--
	}
	return nil
}

// scope is the names that expressions of a module may use. Values that only a
// run of Terraform knows are unknown.
type scope struct {
	vars      map[string]cty.Value
	locals    hcl.Attributes
	unknown   map[string]bool      // root names that only a run knows
	resources map[string]cty.Value // by type; as far as they are known here
	call      string               // the module call that sets the variables, "" for the root module
	arguments hcl.Attributes       // of the call
	caller    *scope

	values     map[string]cty.Value // of evaluated locals
	evaluating map[string]bool
	root       *hcl.EvalContext
	kinds      int
}

func newScope() *scope {
	return &scope{
		vars: make(map[string]cty.Value), locals: make(hcl.Attributes), resources: make(map[string]cty.Value),
		unknown: map[string]bool{"data": true, "module": true, "path": true, "self": true, "each": true, "count": true, "ephemeral": true},
	}
}

// setVars sets variables to values given by the caller. They are strings, which
// are converted to numbers where needed.
func (s *scope) setVars(vars map[string]string) {
	for name, text := range vars {
		s.vars[name] = cty.StringVal(text)
	}
}

// context returns the evaluation context of expressions.
func (s *scope) context() *hcl.EvalContext {
	if s.root != nil && s.kinds == len(s.resources) {
		return s.root
	}
	s.values, s.evaluating, s.kinds = make(map[string]cty.Value), make(map[string]bool), len(s.resources)
	s.root = &hcl.EvalContext{Variables: make(map[string]cty.Value), Functions: functions}
	for name := range s.unknown {
		s.root.Variables[name] = cty.DynamicVal
	}
	maps.Copy(s.root.Variables, s.resources)
	s.root.Variables["terraform"] = cty.ObjectVal(map[string]cty.Value{"workspace": cty.StringVal("default")})
	s.root.Variables["var"] = cty.ObjectVal(s.vars)
	for _, name := range slices.Sorted(maps.Keys(s.locals)) {
		s.local(name, 0)
	}
	s.root.Variables["local"] = cty.ObjectVal(s.values)
	return s.root
}

// local evaluates a local after those that it refers to. It is unknown if it
// cannot be evaluated.
func (s *scope) local(name string, depth int) {
	a, ok := s.locals[name]
	if _, done := s.values[name]; done || !ok || s.evaluating[name] {
		return
	}
	s.evaluating[name] = true
	ctx := s.root.NewChild()
	seen := make(map[string]cty.Value)
	for _, t := range a.Expr.Variables() {
		if other, ok := firstName(t); ok && t.RootName() == "local" && depth < maxNesting {
			s.local(other, depth+1)
			if v, ok := s.values[other]; ok {
				seen[other] = v
			} else {
				seen[other] = cty.DynamicVal
			}
		}
	}
	ctx.Variables = map[string]cty.Value{"local": cty.ObjectVal(seen)}
	v, diags := a.Expr.Value(ctx)
	if diags.HasErrors() || tooLarge(v) {
		v = cty.DynamicVal
	}
	s.values[name] = v
}

// firstName is the first name after the root: env of var.env.
func firstName(t hcl.Traversal) (string, bool) {
	if len(t) < 2 {
		return "", false
	}
	switch x := t[1].(type) {
	case hcl.TraverseAttr:
		return x.Name, true
	case hcl.TraverseIndex:
		if x.Key.Type() == cty.String && x.Key.IsKnown() && !x.Key.IsNull() {
			return x.Key.AsString(), true
		}
	}
	return "", false
}

// whyUnknown names the unknown value that an expression depends on, "" if all
// are known.
func (s *scope) whyUnknown(e hcl.Expression) string { return s.why(e, 0) }

func (s *scope) why(e hcl.Expression, depth int) string {
	if e == nil || depth > maxNesting {
		return ""
	}
	for _, t := range e.Variables() {
		name, named := firstName(t)
		root := t.RootName()
		at := fmt.Sprintf("%s:%d", t.SourceRange().Filename, t.SourceRange().Start.Line)
		switch {
		case root == "var" && named:
			v, declared := s.vars[name]
			if s.call != "" && !(declared && v.IsWhollyKnown()) {
				return s.whyArgument(name, depth)
			}
			if !declared {
				return fmt.Sprintf("var.%s is not declared in these files; give it a value with --var %s=VALUE", name, name)
			}
			if !v.IsWhollyKnown() {
				return fmt.Sprintf("var.%s has no default; give it a value with --var %s=VALUE", name, name)
			}
		case root == "local" && named:
			a, declared := s.locals[name]
			if !declared {
				return fmt.Sprintf("local.%s is not declared in these files", name)
			}
			if v, ok := s.values[name]; ok && v.IsWhollyKnown() {
				continue
			}
			if why := s.why(a.Expr, depth+1); why != "" {
				return fmt.Sprintf("local.%s: %s", name, why)
			}
			return fmt.Sprintf("local.%s of %s:%d has no value here", name, a.Range.Filename, a.Range.Start.Line)
		case s.unknown[root] && root != "each" && root != "count":
			if _, known := s.resources[root]; known && resolves(s.resources[root], t) {
				continue
			}
			return fmt.Sprintf("%s (%s) is known only when Terraform runs", traversalText(t), at)
		}
	}
	return ""
}

// resolves reports whether a reference leads to a known value.
func resolves(v cty.Value, t hcl.Traversal) bool {
	got, diags := t[1:].TraverseRel(v)
	if len(t) < 2 {
		return v.IsWhollyKnown()
	}
	return !diags.HasErrors() && got.IsWhollyKnown()
}

// traversalText is a reference as it was written, up to the first index.
func traversalText(t hcl.Traversal) string {
	text := t.RootName()
	for _, step := range t[1:] {
		a, ok := step.(hcl.TraverseAttr)
		if !ok {
			break
		}
		text += "." + a.Name
	}
	return text
}

// Limits of a value, so that nested values cannot grow without bound.
const (
	maxValueParts = 10_000
	maxValueBytes = 1 << 16
)

func tooLarge(v cty.Value) bool { return exceeds(v, maxValueBytes) }

func exceeds(v cty.Value, bytes int) bool {
	parts, size := 0, 0
	err := cty.Walk(v, func(_ cty.Path, x cty.Value) (bool, error) {
		parts++
		if x.Type() == cty.String && x.IsKnown() && !x.IsNull() {
			size += len(x.AsString())
		}
		if parts > maxValueParts || size > bytes {
			return false, fmt.Errorf("too large")
		}
		return true, nil
	})
	return err != nil
}

// references is the attributes of resources of one type that expressions may
// use.
type references struct {
	one  map[string]cty.Value
	many map[string]map[string]cty.Value
	list map[string][]cty.Value
}

func newReferences() *references {
	return &references{make(map[string]cty.Value), make(map[string]map[string]cty.Value), make(map[string][]cty.Value)}
}

func (r *references) add(label string, key *cty.Value, fields map[string]cty.Value) {
	v := cty.ObjectVal(fields)
	switch {
	case key == nil:
		r.one[label] = v
	case key.Type() == cty.String:
		if r.many[label] == nil {
			r.many[label] = make(map[string]cty.Value)
		}
		r.many[label][key.AsString()] = v
	default:
		r.list[label] = append(r.list[label], v)
	}
}

func (r *references) value() cty.Value {
	all := maps.Clone(r.one)
	for label, v := range r.many {
		all[label] = cty.ObjectVal(v)
	}
	for label, v := range r.list {
		all[label] = cty.TupleVal(v)
	}
	return cty.ObjectVal(all)
}

// identityFunc returns its argument.
var identityFunc = function.New(&function.Spec{
	Params: []function.Parameter{{Name: "value", Type: cty.DynamicPseudoType, AllowNull: true, AllowUnknown: true, AllowDynamicType: true}},
	Type:   func(args []cty.Value) (cty.Type, error) { return args[0].Type(), nil },
	Impl:   func(args []cty.Value, _ cty.Type) (cty.Value, error) { return args[0], nil },
})

// bounded limits the text that a function takes to a number of bytes, since its
// result can be much larger.
func bounded(bytes int, f function.Function) function.Function {
	return function.New(&function.Spec{
		Params: f.Params(), VarParam: f.VarParam(),
		Type: func(args []cty.Value) (cty.Type, error) {
			for _, a := range args {
				if exceeds(a, bytes) {
					return cty.NilType, fmt.Errorf("the arguments are larger than anything a table needs")
				}
			}
			return f.ReturnTypeForValues(args)
		},
		Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return f.Call(args) },
	})
}

var wideVerb = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`%[^%a-zA-Z]*[0-9]{4}`) })

// format is Terraform's, without very large widths.
var format = function.New(&function.Spec{
	Params:   stdlib.FormatFunc.Params(),
	VarParam: stdlib.FormatFunc.VarParam(),
	Type: func(args []cty.Value) (cty.Type, error) {
		if args[0].Type() == cty.String && args[0].IsKnown() && !args[0].IsNull() && wideVerb().MatchString(args[0].AsString()) {
			return cty.NilType, fmt.Errorf("the width is larger than anything a table needs")
		}
		return stdlib.FormatFunc.ReturnTypeForValues(args)
	},
	Impl: func(args []cty.Value, _ cty.Type) (cty.Value, error) { return stdlib.FormatFunc.Call(args) },
})

// functions are the Terraform functions that descriptions of tables use.
// Functions that can make large results, such as range and setproduct, and
// functions that read files or the clock are left out.
var functions = map[string]function.Function{
	"abs": stdlib.AbsoluteFunc, "ceil": stdlib.CeilFunc, "chomp": stdlib.ChompFunc, "coalesce": stdlib.CoalesceFunc,
	"coalescelist": stdlib.CoalesceListFunc, "compact": stdlib.CompactFunc, "concat": stdlib.ConcatFunc, "contains": stdlib.ContainsFunc,
	"distinct": stdlib.DistinctFunc, "element": stdlib.ElementFunc, "flatten": stdlib.FlattenFunc, "floor": stdlib.FloorFunc,
	"format": bounded(1<<16, format), "join": bounded(1<<13, stdlib.JoinFunc), "jsondecode": stdlib.JSONDecodeFunc, "jsonencode": stdlib.JSONEncodeFunc,
	"keys": stdlib.KeysFunc, "length": stdlib.LengthFunc, "lookup": stdlib.LookupFunc, "lower": stdlib.LowerFunc, "max": stdlib.MaxFunc,
	"merge": stdlib.MergeFunc, "min": stdlib.MinFunc, "replace": bounded(1<<12, stdlib.ReplaceFunc), "reverse": stdlib.ReverseListFunc,
	"setunion": stdlib.SetUnionFunc, "slice": stdlib.SliceFunc, "sort": stdlib.SortFunc, "split": stdlib.SplitFunc, "substr": stdlib.SubstrFunc,
	"title": stdlib.TitleFunc, "trim": stdlib.TrimFunc, "trimprefix": stdlib.TrimPrefixFunc, "trimspace": stdlib.TrimSpaceFunc,
	"trimsuffix": stdlib.TrimSuffixFunc, "upper": stdlib.UpperFunc, "values": stdlib.ValuesFunc, "zipmap": stdlib.ZipmapFunc,
	"tobool": stdlib.MakeToFunc(cty.Bool), "tolist": stdlib.MakeToFunc(cty.List(cty.DynamicPseudoType)),
	"tomap": stdlib.MakeToFunc(cty.Map(cty.DynamicPseudoType)), "tonumber": stdlib.MakeToFunc(cty.Number),
	"toset": stdlib.MakeToFunc(cty.Set(cty.DynamicPseudoType)), "tostring": stdlib.MakeToFunc(cty.String),
	"try": tryfunc.TryFunc, "can": tryfunc.CanFunc, "sensitive": identityFunc, "nonsensitive": identityFunc,
}
