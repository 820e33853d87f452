package ops

import (
	"iter"
	"slices"
	"strings"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/protocol/api"
)

func createsIndex(u api.GlobalSecondaryIndexUpdate) bool { return u.Create != nil }

// createsOrDeletesIndex reports whether indexes are created or deleted.
func createsOrDeletesIndex(updates []api.GlobalSecondaryIndexUpdate) bool {
	return slices.ContainsFunc(updates, func(u api.GlobalSecondaryIndexUpdate) bool { return u.Create != nil || u.Delete != nil })
}

func indexUpdatesListed(in *api.UpdateTable) error {
	if in.GlobalSecondaryIndexUpdates != nil && len(in.GlobalSecondaryIndexUpdates) == 0 {
		return apierror.InvalidValues("List of GlobalSecondaryIndexUpdates is empty")
	}
	return nil
}

func indexUpdatesFit(in *api.UpdateTable) error {
	var names []string
	for _, u := range in.GlobalSecondaryIndexUpdates {
		name, actions := "", 0
		if u.Update != nil {
			name, actions = *u.Update.IndexName, actions+1
		}
		if u.Create != nil {
			name, actions = *u.Create.IndexName, actions+1
		}
		if u.Delete != nil {
			name, actions = *u.Delete.IndexName, actions+1
		}
		switch {
		case actions == 0:
			return apierror.InvalidValues("One of GlobalSecondaryIndexUpdate.Update, GlobalSecondaryIndexUpdate.Create, " +
				"GlobalSecondaryIndexUpdate.Delete must not be null")
		case actions > 1:
			return apierror.InvalidValues("Only one global secondary index action is allowed per GlobalSecondaryIndexUpdate object")
		}
		if names = append(names, name); lastIsDuplicate(names) {
			return apierror.InvalidValues("Only one global secondary index update per index is allowed simultaneously. Index: %s", name)
		}
		switch {
		case u.Create != nil && len(in.AttributeDefinitions) == 0:
			return apierror.InvalidValues("AttributeDefinitions is not specified for index: %s", name)
		case u.Update != nil && u.Update.WarmThroughput != nil && !anyGiven(warmth(u.Update.WarmThroughput)):
			return apierror.InvalidValues("WarmThroughput must have at least one of ReadUnitsPerSecond or WriteUnitsPerSecond specified for index: %s", name)
		case u.Update != nil && u.Update.ProvisionedThroughput != nil && payPerRequest(in.BillingMode):
			return apierror.InvalidValues("Neither ReadCapacityUnits nor WriteCapacityUnits can be specified for index: %s when BillingMode is PAY_PER_REQUEST", name)
		}
	}
	return nil
}

// indexUpdate returns the update of an index.
func (u *tableUpdate) indexUpdate(name string) (*api.UpdateGlobalSecondaryIndexAction, bool) {
	for _, change := range u.GlobalSecondaryIndexUpdates {
		if change.Update != nil && *change.Update.IndexName == name {
			return change.Update, true
		}
	}
	return nil, false
}

// setIndexes changes the settings of indexes, and creates or deletes one.
func (u *tableUpdate) setIndexes(t *schema.Table) error {
	moved := 0
	for _, change := range u.GlobalSecondaryIndexUpdates {
		if change.Update == nil {
			moved++
		}
	}
	if moving := slices.ContainsFunc(t.Indexes, func(x schema.Index) bool { return x.State != "" }); moved > 1 || moved == 1 && moving {
		return apierror.LimitExceeded("Subscriber limit exceeded: Only 1 online index can be created or deleted simultaneously per table")
	}
	for _, change := range u.GlobalSecondaryIndexUpdates {
		var err error
		switch {
		case change.Create != nil:
			err = u.createIndex(t, change.Create)
		case change.Delete != nil:
			var x *schema.Index
			if x, err = globalIndex(t, *change.Delete.IndexName, "delete"); err == nil {
				x.State = schema.Deleting
			}
		default:
			err = u.setIndex(t, change.Update)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// createIndex adds an index, which is built in the background. The request must
// define the attributes of its key; an attribute that the table already defines
// keeps its type.
func (u *tableUpdate) createIndex(t *schema.Table, x *api.GlobalSecondaryIndex) error {
	if _, is := t.Index(*x.IndexName); is {
		return apierror.Validation("Attempting to create an index which already exists")
	}
	defined := attributesOf(u.AttributeDefinitions)
	for _, name := range keyNames(x.KeySchema) {
		if !slices.ContainsFunc(defined, func(a schema.Attribute) bool { return a.Name == name }) {
			return apierror.InvalidValues("Some index key attributes are not defined in AttributeDefinitions. Keys: [%s], AttributeDefinitions: [%s]",
				strings.Join(keyNames(x.KeySchema), ", "), strings.Join(attributeNames(defined), ", "))
		}
	}
	if err := redefined(t, x.KeySchema, defined); err != nil {
		return err
	}
	if !t.OnDemand && x.ProvisionedThroughput == nil {
		return unitsMissing(*x.IndexName) // CreateTable has another message
	}
	if err := globalIndexFits(x, t.OnDemand); err != nil {
		return err
	}
	if count := len(slices.Collect(globalIndexes(t))); count >= maxGlobalIndexes {
		return apierror.LimitExceeded("Subscriber limit exceeded: Number of global secondary indexes exceeds per-table limit of %d", maxGlobalIndexes)
	}
	t.Attributes = slices.Clone(t.Attributes)
	for _, a := range defined {
		known := slices.ContainsFunc(t.Attributes, func(b schema.Attribute) bool { return a.Name == b.Name })
		if !known && slices.Contains(keyNames(x.KeySchema), a.Name) {
			t.Attributes = append(t.Attributes, a)
		}
	}
	made := newGlobalIndex(t, x)
	made.State = schema.Creating
	t.AddIndex(made)
	return nil
}

// redefined returns a fault if a new index has a key attribute under another type
// than the table or an index has. Other definitions of the request are ignored.
func redefined(t *schema.Table, key []api.KeySchemaElement, defined []schema.Attribute) error {
	keys := []schema.Key{t.Key}
	for i := range t.Indexes {
		keys = append(keys, t.Indexes[i].Key)
	}
	made := keyOf(key, defined)
	for _, a := range made.All() {
		for _, k := range keys {
			if slices.ContainsFunc(k.All(), func(b schema.Attribute) bool { return a.Name == b.Name && a.Type != b.Type }) {
				return apierror.InvalidValues("Attributes cannot be redefined. Please check that your attribute has the same type as previously defined. "+
					"Existing schema: %s New schema: %s", schemaText(k), schemaText(made))
			}
		}
	}
	return nil
}

// schemaText is a key as messages show it.
func schemaText(k schema.Key) string {
	var elements []string
	for _, a := range k.Partition {
		elements = append(elements, "SchemaElement: key{"+a.Name+":"+a.Type.String()+":HASH}")
	}
	for _, a := range k.Sort {
		elements = append(elements, "SchemaElement: key{"+a.Name+":"+a.Type.String()+":RANGE}")
	}
	return "Schema:[" + strings.Join(elements, ", ") + "]"
}

func attributeNames(attributes []schema.Attribute) (names []string) {
	for _, a := range attributes {
		names = append(names, a.Name)
	}
	return names
}

func globalIndexes(t *schema.Table) iter.Seq[*schema.Index] {
	return func(yield func(*schema.Index) bool) {
		for i := range t.Indexes {
			if t.Indexes[i].Global && !yield(&t.Indexes[i]) {
				return
			}
		}
	}
}

// globalIndex returns an index that is to be changed.
func globalIndex(t *schema.Table, name, do string) (*schema.Index, error) {
	x, ok := t.Index(name)
	switch {
	case !ok:
		return nil, apierror.NotFound("Requested resource not found: Index %s for table %s", name, t.Name)
	case !x.Global:
		return nil, apierror.Validation("Cannot %s an index that is not a GlobalSecondaryIndex: %s", do, name)
	}
	return x, nil
}

func (u *tableUpdate) setIndex(t *schema.Table, to *api.UpdateGlobalSecondaryIndexAction) error {
	x, err := globalIndex(t, *to.IndexName, "update")
	if err != nil {
		return err
	}
	other := anyGiven(ceilings(to.OnDemandThroughput)) || anyGiven(warmth(to.WarmThroughput))
	switch {
	case t.OnDemand && (to.ProvisionedThroughput != nil || !other):
		return apierror.InvalidValues("The only Updates for index: %s when TableThroughputMode is PAY_PER_REQUEST can be to OnDemandThroughput, WarmThroughput", x.Name)
	case to.ProvisionedThroughput == nil && !other:
		return unitsMissing(x.Name)
	}
	if to.ProvisionedThroughput != nil {
		units := throughput(to.ProvisionedThroughput)
		switch {
		case u.switched(t):
			switchUnits(&x.Throughput, &x.Warm, units)
		case x.Throughput.SameUnits(units):
			return unchanged("the index "+x.Name, "index "+x.Name, units)
		default:
			if err := x.ChangeUnits(units, u.now); err != nil {
				return err
			}
		}
	}
	if x.MaxRequests, err = withCeilings(t, x.MaxRequests, to.OnDemandThroughput, " for index : "+x.Name, "index : "+x.Name); err != nil {
		return err
	}
	x.Warm, err = withWarmth(x.Warm, to.WarmThroughput, "index "+x.Name)
	return err
}

func unitsMissing(index string) error {
	return apierror.InvalidValues("Both ReadCapacityUnits and WriteCapacityUnits must be specified for index: %s", index)
}

func (u *tableUpdate) showIndexBefore(s *Service, desc *api.GlobalSecondaryIndexDescription, switched bool) {
	was, ok := u.before.Index(desc.IndexName)
	if !ok {
		return // it is new
	}
	to, ok := u.indexUpdate(desc.IndexName)
	if !ok {
		to = new(api.UpdateGlobalSecondaryIndexAction)
	}
	switch {
	case switched && payPerRequest(u.BillingMode):
		desc.ProvisionedThroughput = &api.ProvisionedThroughputDescription{NumberOfDecreasesToday: was.Throughput.DecreasesOn(u.now)}
	case to.ProvisionedThroughput != nil && !switched:
		unitsAsBefore(desc.ProvisionedThroughput, s.unitsReply(was.Throughput))
	}
	if to.OnDemandThroughput != nil {
		desc.OnDemandThroughput = ceilingsReply(merge(was.MaxRequests, ceilings(to.OnDemandThroughput)))
	}
	desc.WarmThroughput = warmthAsBefore(was.Warm, to.WarmThroughput)
	if switched || to.ProvisionedThroughput != nil || to.OnDemandThroughput != nil {
		desc.IndexStatus = string(schema.Updating)
	}
}
