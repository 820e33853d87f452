package exchange

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/stator-db/stator/internal/model"
)

// CloudFormation is the tables of a model as a template in YAML. Tables are
// kept when the stack goes.
func CloudFormation(m *model.Model) []byte {
	w := &cloudWriter{ids: make(map[string]bool)}
	w.line(0, "# Made by stator model export from the model %s.", comment(cmp.Or(m.Name, "without a name")))
	w.line(0, `AWSTemplateFormatVersion: "2010-09-09"`)
	if m.Description != "" {
		w.line(0, "Description: %s", inQuotes(m.Description))
	}
	w.line(0, "Resources:")
	for _, t := range m.Tables {
		w.table(t)
	}
	return w.Bytes()
}

type cloudWriter struct {
	writer
	ids map[string]bool
}

var noLetter = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`[^A-Za-z0-9]+`) })

// id is a name for a resource that no other has.
func (w *cloudWriter) id(name string) string {
	var base strings.Builder
	for _, word := range noLetter().Split(name, -1) {
		if word != "" {
			base.WriteString(strings.ToUpper(word[:1]) + word[1:])
		}
	}
	id := cmp.Or(base.String(), "Table")
	for n := 2; w.ids[id]; n++ {
		id = base.String() + strconv.Itoa(n)
	}
	w.ids[id] = true
	return id
}

func (w *cloudWriter) table(t *model.Table) {
	id := w.id(t.Name)
	if t.Description != "" {
		w.line(1, "# %s", comment(t.Description))
	}
	w.line(1, "%s:", quote(id))
	w.line(2, "Type: AWS::DynamoDB::Table")
	w.line(2, "DeletionPolicy: Retain")
	w.line(2, "UpdateReplacePolicy: Retain")
	w.line(2, "Properties:")
	w.line(3, "TableName: %s", quote(t.Name))
	w.line(3, "AttributeDefinitions:")
	for _, a := range t.Schema().Attributes {
		w.line(4, "- {AttributeName: %s, AttributeType: %s}", quote(a.Name), a.Type)
	}
	w.key(3, []string{t.Key.Partition}, nonempty(t.Key.Sort))
	if t.OnDemand() {
		w.line(3, "BillingMode: PAY_PER_REQUEST")
	} else {
		w.line(3, "BillingMode: PROVISIONED")
		w.units(3, t.Read, t.Write)
	}
	w.indexes(t, false)
	w.indexes(t, true)
	if t.TTL != "" {
		w.line(3, "TimeToLiveSpecification: {AttributeName: %s, Enabled: true}", quote(t.TTL))
	}
	if t.Stream != "" {
		w.line(3, "StreamSpecification: {StreamViewType: %s}", t.Stream)
	}
	if t.Recovery {
		w.line(3, "PointInTimeRecoverySpecification: {PointInTimeRecoveryEnabled: true}")
	}
	for _, s := range scaledIn(t) {
		w.scaling(id, s)
	}
}

func nonempty(name string) []string {
	if name == "" {
		return nil
	}
	return []string{name}
}

func (w *cloudWriter) key(indent int, partition, sort []string) {
	w.line(indent, "KeySchema:")
	for _, name := range partition {
		w.line(indent+1, "- {AttributeName: %s, KeyType: HASH}", quote(name))
	}
	for _, name := range sort {
		w.line(indent+1, "- {AttributeName: %s, KeyType: RANGE}", quote(name))
	}
}

func (w *cloudWriter) units(indent int, read, write *model.Capacity) {
	w.line(indent, "ProvisionedThroughput: {ReadCapacityUnits: %d, WriteCapacityUnits: %d}", first(read), first(write))
}

func (w *cloudWriter) indexes(t *model.Table, local bool) {
	begun := false
	for _, x := range t.Indexes {
		if x.Local != local {
			continue
		}
		if !begun && local {
			w.line(3, "LocalSecondaryIndexes:")
		} else if !begun {
			w.line(3, "GlobalSecondaryIndexes:")
		}
		begun = true
		w.line(4, "- IndexName: %s", quote(x.Name))
		partition := []string(x.Partition)
		if local {
			partition = []string{t.Key.Partition}
		}
		w.key(5, partition, x.Sort)
		projection := cmp.Or(x.Projection.Kind, "ALL")
		if projection == "INCLUDE" {
			w.line(5, "Projection: {ProjectionType: INCLUDE, NonKeyAttributes: %s}", list(x.Projection.Names))
		} else {
			w.line(5, "Projection: {ProjectionType: %s}", projection)
		}
		if !t.OnDemand() && !local {
			w.units(5, cmp.Or(x.Read, t.Read), cmp.Or(x.Write, t.Write))
		}
	}
}

// scaling writes what scales a capacity.
func (w *cloudWriter) scaling(table string, s scaled) {
	target := w.id(table + " " + s.suffix() + " target")
	of := fmt.Sprintf("table/${%s}", table)
	if s.index != "" {
		of += "/index/" + strings.ReplaceAll(s.index, "${", "${!")
	}
	w.line(1, "%s:", target)
	w.line(2, "Type: AWS::ApplicationAutoScaling::ScalableTarget")
	w.line(2, "Properties:")
	w.line(3, "ServiceNamespace: dynamodb")
	w.line(3, "ResourceId: !Sub %s", inQuotes(of))
	w.line(3, "ScalableDimension: %s", s.dimension())
	w.line(3, "MinCapacity: %d", max(1, s.capacity.Min))
	w.line(3, "MaxCapacity: %d", s.capacity.Max)
	policy := w.id(table + " " + s.suffix() + " policy")
	w.line(1, "%s:", policy)
	w.line(2, "Type: AWS::ApplicationAutoScaling::ScalingPolicy")
	w.line(2, "Properties:")
	w.line(3, "PolicyName: %s", policy)
	w.line(3, "PolicyType: TargetTrackingScaling")
	w.line(3, "ScalingTargetId: !Ref %s", target)
	w.line(3, "TargetTrackingScalingPolicyConfiguration:")
	w.line(4, "TargetValue: %d", cmp.Or(s.capacity.Target, defaultTarget))
	w.line(4, "PredefinedMetricSpecification: {PredefinedMetricType: %s}", s.metric())
}
