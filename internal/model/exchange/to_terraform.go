package exchange

import (
	"cmp"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"

	"github.com/stator-db/stator/internal/model"
)

// Terraform is the tables of a model as resources of Terraform's AWS provider.
func Terraform(m *model.Model) []byte {
	file := hclwrite.NewEmptyFile()
	w := &terraformWriter{body: file.Body(), labels: make(map[string]bool)}
	w.comment("Made by stator model export from the model " + cmp.Or(m.Name, "without a name") + ".")
	for _, t := range m.Tables {
		w.table(t)
	}
	return hclwrite.Format(file.Bytes())
}

type terraformWriter struct {
	body   *hclwrite.Body
	labels map[string]bool
}

func (w *terraformWriter) comment(text string) {
	w.body.AppendUnstructuredTokens(hclwrite.Tokens{{Type: hclsyntax.TokenComment, Bytes: []byte("# " + comment(text) + "\n")}})
}

var noIdentifier = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[^A-Za-z0-9_]+`) })

// label is a name for a resource that no other has.
func (w *terraformWriter) label(name string) string {
	base := strings.Trim(noIdentifier().ReplaceAllString(name, "_"), "_")
	if base == "" || base[0] >= '0' && base[0] <= '9' {
		base = "table_" + base
	}
	label := base
	for n := 2; w.labels[label]; n++ {
		label = base + "_" + strconv.Itoa(n)
	}
	w.labels[label] = true
	return label
}

func (w *terraformWriter) resource(kind, label string) *hclwrite.Body {
	w.body.AppendNewline()
	return w.body.AppendNewBlock("resource", []string{kind, label}).Body()
}

func set(b *hclwrite.Body, name, text string) { b.SetAttributeValue(name, cty.StringVal(text)) }

func setNumber(b *hclwrite.Body, name string, n int) {
	b.SetAttributeValue(name, cty.NumberIntVal(int64(n)))
}

func (w *terraformWriter) table(t *model.Table) {
	label := w.label(t.Name)
	w.body.AppendNewline()
	if t.Description != "" {
		w.comment(t.Description)
	}
	b := w.body.AppendNewBlock("resource", []string{"aws_dynamodb_table", label}).Body()
	set(b, "name", t.Name)
	if t.OnDemand() {
		set(b, "billing_mode", "PAY_PER_REQUEST")
	} else {
		set(b, "billing_mode", "PROVISIONED")
		setNumber(b, "read_capacity", first(t.Read))
		setNumber(b, "write_capacity", first(t.Write))
	}
	set(b, "hash_key", t.Key.Partition)
	if t.Key.Sort != "" {
		set(b, "range_key", t.Key.Sort)
	}
	if t.Stream != "" {
		b.SetAttributeValue("stream_enabled", cty.True)
		set(b, "stream_view_type", t.Stream)
	}
	for _, a := range t.Schema().Attributes {
		b.AppendNewline()
		attr := b.AppendNewBlock("attribute", nil).Body()
		set(attr, "name", a.Name)
		set(attr, "type", a.Type.String())
	}
	for _, x := range t.Indexes {
		w.index(b, t, x)
	}
	if t.TTL != "" {
		b.AppendNewline()
		ttl := b.AppendNewBlock("ttl", nil).Body()
		set(ttl, "attribute_name", t.TTL)
		ttl.SetAttributeValue("enabled", cty.True)
	}
	if t.Recovery {
		b.AppendNewline()
		b.AppendNewBlock("point_in_time_recovery", nil).Body().SetAttributeValue("enabled", cty.True)
	}
	w.scaling(b, t, label)
}

// first is how many units a capacity begins with.
func first(c *model.Capacity) int { return max(c.Units, c.Min) }

func (w *terraformWriter) index(b *hclwrite.Body, t *model.Table, x *model.Index) {
	b.AppendNewline()
	kind := "global_secondary_index"
	if x.Local {
		kind = "local_secondary_index"
	}
	inner := b.AppendNewBlock(kind, nil).Body()
	set(inner, "name", x.Name)
	several := len(x.Partition) > 1 || len(x.Sort) > 1
	if !several {
		if !x.Local {
			set(inner, "hash_key", x.Partition[0])
		}
		if len(x.Sort) > 0 {
			set(inner, "range_key", x.Sort[0])
		}
	}
	projection := cmp.Or(x.Projection.Kind, "ALL")
	set(inner, "projection_type", projection)
	if projection == "INCLUDE" {
		var names []cty.Value
		for _, name := range x.Projection.Names {
			names = append(names, cty.StringVal(name))
		}
		inner.SetAttributeValue("non_key_attributes", cty.ListVal(names))
	}
	if !t.OnDemand() && !x.Local {
		setNumber(inner, "read_capacity", first(cmp.Or(x.Read, t.Read)))
		setNumber(inner, "write_capacity", first(cmp.Or(x.Write, t.Write)))
	}
	if several {
		// hash_key and range_key hold one attribute each.
		for _, part := range []struct {
			kind  string
			names []string
		}{{"HASH", x.Partition}, {"RANGE", x.Sort}} {
			for _, name := range part.names {
				key := inner.AppendNewBlock("key_schema", nil).Body()
				set(key, "attribute_name", name)
				set(key, "key_type", part.kind)
			}
		}
	}
}

// scaled is a capacity that is scaled, and what it is of.
type scaled struct {
	index    string // "": the table
	write    bool
	capacity *model.Capacity
}

// scaledIn are all capacities of a table that are scaled.
func scaledIn(t *model.Table) (all []scaled) {
	add := func(index string, read, write *model.Capacity) {
		for i, c := range []*model.Capacity{read, write} {
			if c != nil && c.Max > 0 {
				all = append(all, scaled{index, i == 1, c})
			}
		}
	}
	if t.OnDemand() {
		return nil
	}
	add("", t.Read, t.Write)
	for _, x := range t.Indexes {
		if !x.Local {
			add(x.Name, cmp.Or(x.Read, t.Read), cmp.Or(x.Write, t.Write))
		}
	}
	return all
}

// dimension is what Application Auto Scaling calls a capacity.
func (s scaled) dimension() string {
	of, what := "table", "Read"
	if s.index != "" {
		of = "index"
	}
	if s.write {
		what = "Write"
	}
	return fmt.Sprintf("dynamodb:%s:%sCapacityUnits", of, what)
}

func (s scaled) metric() string {
	if s.write {
		return "DynamoDBWriteCapacityUtilization"
	}
	return "DynamoDBReadCapacityUtilization"
}

// suffix tells the scaled capacities of one table apart.
func (s scaled) suffix() string {
	suffix := "read"
	if s.write {
		suffix = "write"
	}
	if s.index != "" {
		return s.index + "_" + suffix
	}
	return suffix
}

// scaling writes the resources that scale a table, and keeps Terraform from
// scaling it back.
func (w *terraformWriter) scaling(table *hclwrite.Body, t *model.Table, label string) {
	all := scaledIn(t)
	if len(all) == 0 {
		return
	}
	ignored := []string{"read_capacity", "write_capacity"}
	if slices.ContainsFunc(all, func(s scaled) bool { return s.index != "" }) {
		ignored = append(ignored, "global_secondary_index")
	}
	var tokens []hclwrite.Tokens
	for _, name := range ignored {
		tokens = append(tokens, hclwrite.TokensForIdentifier(name))
	}
	table.AppendNewline()
	table.AppendNewBlock("lifecycle", nil).Body().SetAttributeRaw("ignore_changes", hclwrite.TokensForTuple(tokens))
	for _, s := range all {
		own := w.label(label + "_" + s.suffix())
		b := w.resource("aws_appautoscaling_target", own)
		set(b, "service_namespace", "dynamodb")
		b.SetAttributeRaw("resource_id", resourceID(label, s.index))
		set(b, "scalable_dimension", s.dimension())
		setNumber(b, "min_capacity", max(1, s.capacity.Min))
		setNumber(b, "max_capacity", s.capacity.Max)

		b = w.resource("aws_appautoscaling_policy", own)
		set(b, "name", own)
		set(b, "policy_type", "TargetTrackingScaling")
		for _, name := range []string{"service_namespace", "resource_id", "scalable_dimension"} {
			b.SetAttributeTraversal(name, hcl.Traversal{hcl.TraverseRoot{Name: "aws_appautoscaling_target"}, hcl.TraverseAttr{Name: own}, hcl.TraverseAttr{Name: name}})
		}
		b.AppendNewline()
		c := b.AppendNewBlock("target_tracking_scaling_policy_configuration", nil).Body()
		setNumber(c, "target_value", cmp.Or(s.capacity.Target, defaultTarget))
		c.AppendNewline()
		set(c.AppendNewBlock("predefined_metric_specification", nil).Body(), "predefined_metric_type", s.metric())
	}
}

// resourceID is "table/${aws_dynamodb_table.label.name}", of an index with its
// name behind it.
func resourceID(label, index string) hclwrite.Tokens {
	rest := ""
	if index != "" {
		quoted := hclwrite.TokensForValue(cty.StringVal("/index/" + index)).Bytes()
		rest = strings.Trim(string(quoted), `" `)
	}
	return hclwrite.Tokens{{Type: hclsyntax.TokenQuotedLit, Bytes: []byte(`"table/${aws_dynamodb_table.` + label + `.name}` + rest + `"`)}}
}
