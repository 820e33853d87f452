package exchange

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/hashicorp/hcl/v2"
	"github.com/zclconf/go-cty/cty"

	"github.com/stator-db/stator/internal/model"
)

// FolderOpener returns the Terraform files of a folder.
type FolderOpener func(folder string) ([]File, error)

// Limits of the modules of one source.
const (
	maxModuleDepth = 10
	maxModuleCalls = 1_000
	maxModuleBytes = 32 << 20
)

// terraformRun is what all modules of a source share.
type terraformRun struct {
	open    FolderOpener
	calls   int
	bytes   int
	omitted []Omission
}

func (run *terraformRun) omit(at hcl.Range, what, reason string) {
	o := Omission{File: at.Filename, At: positionIn(at), What: what, Reason: reason}
	if len(run.omitted) < maxOmissions && !slices.Contains(run.omitted, o) {
		run.omitted = append(run.omitted, o)
	}
}

var sourceSchema = attributes("source")

// callModules reads the local modules that the wanted files call. A module that
// cannot be read completely is left out.
func (r *terraformReader) callModules() {
	for _, x := range r.calls {
		if !x.wanted {
			continue
		}
		what := r.address + "module." + x.Labels[0]
		files, folder, reason := r.moduleFiles(x)
		if reason != "" {
			r.run.omit(x.DefRange, what, reason)
			continue
		}
		if !r.declaresTables(files) {
			continue
		}
		before := r.faults
		r.faults = nil
		instances := r.instances(x)
		reason = firstReason(r.faults)
		r.faults = before
		if reason != "" {
			r.run.omit(x.DefRange, what, reason)
			continue
		}
		for _, i := range instances {
			r.callModule(x, i, folder, files)
		}
	}
}

func firstReason(faults Faults) string {
	if len(faults) == 0 {
		return ""
	}
	return model.Located(faults[0].File, faults[0].At, faults[0].Message)
}

// moduleFiles returns the files of a called module, or the reason why they are
// not read.
func (r *terraformReader) moduleFiles(x *resource) (files []File, folder, reason string) {
	content, _, _ := x.Body.PartialContent(sourceSchema)
	a, ok := content.Attributes["source"]
	if !ok {
		return nil, "", "it has no source"
	}
	v, diags := a.Expr.Value(nil)
	if diags.HasErrors() || v.Type() != cty.String || !v.IsKnown() || v.IsNull() {
		return nil, "", "its source is not a literal text"
	}
	source := v.AsString()
	if !strings.HasPrefix(source, "./") && !strings.HasPrefix(source, "../") {
		return nil, "", fmt.Sprintf("its source %q is not a local folder", source)
	}
	if r.run.open == nil {
		return nil, "", "the folders of modules are not read"
	}
	folder = filepath.Join(filepath.Dir(x.DefRange.Filename), filepath.FromSlash(source))
	if slices.Contains(r.folders, folder) || len(r.folders) >= maxModuleDepth {
		return nil, "", "modules are nested too deeply or form a cycle"
	}
	files, err := r.run.open(folder)
	if err != nil {
		return nil, "", err.Error()
	}
	if len(files) == 0 {
		return nil, "", fmt.Sprintf("there are no Terraform files in %s", folder)
	}
	for _, f := range files {
		r.run.bytes += len(f.Text)
		if len(f.Text) > MaxFileBytes || r.run.bytes > maxModuleBytes {
			return nil, "", "its files are too large"
		}
	}
	return files, folder, ""
}

// declaresTables reports whether files may declare tables: whether they contain
// a table or another module.
func (r *terraformReader) declaresTables(files []File) bool {
	return slices.ContainsFunc(files, func(f File) bool {
		return strings.Contains(string(f.Text), "aws_dynamodb_") || strings.Contains(string(f.Text), "module")
	})
}

// callModule reads one instance of a module, and adds its tables.
func (r *terraformReader) callModule(x *resource, i instance, folder string, files []File) {
	if r.run.calls++; r.run.calls > maxModuleCalls {
		r.run.omit(x.DefRange, i.what, fmt.Sprintf("only %d modules are read", maxModuleCalls))
		return
	}
	in := &terraformReader{run: r.run, address: i.what + ".", folders: append(slices.Clip(r.folders), folder), scope: newScope()}
	in.scope.call, in.scope.caller = fmt.Sprintf("%s (%s:%d)", i.what, x.DefRange.Filename, x.DefRange.Start.Line), r.scope
	in.scope.arguments, _ = x.Body.JustAttributes()
	for name, a := range in.scope.arguments {
		if slices.Contains([]string{"source", "version", "providers", "count", "for_each", "depends_on"}, name) {
			continue
		}
		v, diags := a.Expr.Value(i.ctx)
		if diags.HasErrors() || tooLarge(v) {
			v = cty.DynamicVal
		}
		in.scope.vars[name] = v
	}
	for _, f := range files {
		f.Wanted = true
		in.file(f)
	}
	if len(in.faults) == 0 {
		in.module()
	}
	if len(in.faults) == 0 {
		_, in.faults = toTables(in.tableDescriptions)
	}
	if len(in.faults) > 0 {
		r.run.omit(x.DefRange, i.what, firstReason(in.faults))
		return
	}
	r.tableDescriptions = append(r.tableDescriptions, in.tableDescriptions...)
}

// whyArgument names the reason why a variable of a called module is unknown.
func (s *scope) whyArgument(name string, depth int) string {
	a, given := s.arguments[name]
	if !given {
		return fmt.Sprintf("var.%s has no default, and %s does not set it", name, s.call)
	}
	if why := s.caller.why(a.Expr, depth+1); why != "" {
		return fmt.Sprintf("var.%s: %s", name, why)
	}
	return fmt.Sprintf("var.%s has no value in %s", name, s.call)
}
