package exchange

import (
	"strings"

	"github.com/zclconf/go-cty/cty"

	"github.com/stator-db/stator/internal/model"
)

var (
	targetSchema   = attributes("resource_id", "scalable_dimension", "service_namespace", "min_capacity", "max_capacity")
	policySchema   = withBlocks(attributes("resource_id", "scalable_dimension", "service_namespace"), "target_tracking_scaling_policy_configuration")
	trackingSchema = attributes("target_value")
)

// scaling applies the auto scaling resources to the capacities that they scale.
func (r *terraformReader) scaling() {
	targets := newReferences()
	for b, x := range r.scalingResources("aws_appautoscaling_target") {
		id, dimension := b.text("resource_id"), b.text("scalable_dimension")
		if c := r.scaledCapacityOf(id, dimension); c != nil {
			c.Min, c.Max = b.number("min_capacity"), b.number("max_capacity")
		}
		targets.add(x.label, x.key, map[string]cty.Value{
			"resource_id": cty.StringVal(id), "scalable_dimension": cty.StringVal(dimension), "service_namespace": cty.StringVal("dynamodb"), "id": cty.StringVal(id),
		})
	}
	r.scope.resources["aws_appautoscaling_target"] = targets.value()
	for b := range r.scalingResources("aws_appautoscaling_policy") {
		c := r.scaledCapacityOf(b.text("resource_id"), b.text("scalable_dimension"))
		if c == nil {
			continue
		}
		for _, t := range b.blocks("target_tracking_scaling_policy_configuration", trackingSchema) {
			if v := t.value("target_value", cty.Number); v != nil {
				f, _ := v.AsBigFloat().Float64()
				c.Target = wholePerCent(f)
			}
		}
	}
}

// wholePerCent converts a target utilization to that of a model.
func wholePerCent(f float64) int { return int(min(100, max(0, f))) }

type resourceLabel struct {
	label string
	key   *cty.Value
}

// scalingResources iterates over the DynamoDB instances of a resource type in
// the wanted files.
func (r *terraformReader) scalingResources(kind string) func(yield func(*block, resourceLabel) bool) {
	schema := targetSchema
	if kind == "aws_appautoscaling_policy" {
		schema = policySchema
	}
	return func(yield func(*block, resourceLabel) bool) {
		for _, x := range r.resources {
			if x.Labels[0] != kind || !x.wanted {
				continue
			}
			for _, i := range r.instances(x) {
				b := r.open(i.ctx, x.Body, x.DefRange, i.what, schema)
				if b == nil || b.text("service_namespace") != "dynamodb" {
					continue
				}
				if !yield(b, resourceLabel{x.Labels[1], i.key}) {
					return
				}
			}
		}
	}
}

// scaledCapacityOf returns the capacity that a resource scales, nil if it
// belongs to no table here.
func (r *terraformReader) scaledCapacityOf(id, dimension string) *model.Capacity {
	return findCapacity(r.tableDescriptions, id, dimension)
}

// findCapacity finds a capacity by its Application Auto Scaling resource and
// dimension.
func findCapacity(tables []*describedTable, id, dimension string) *model.Capacity {
	name, ok := strings.CutPrefix(id, "table/")
	if !ok {
		return nil
	}
	name, index, _ := strings.Cut(name, "/index/")
	for _, t := range tables {
		if t.name != name {
			continue
		}
		read, write := &t.read, &t.write
		if index != "" {
			read, write = nil, nil
			for _, x := range t.indexes {
				if x.name == index {
					read, write = &x.read, &x.write
				}
			}
		}
		if strings.HasSuffix(dimension, ":WriteCapacityUnits") {
			return write
		}
		return read
	}
	return nil
}
