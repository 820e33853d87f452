package ops

import (
	"context"
	"crypto/sha256"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/protocol/api"
)

// createTableChecks stand in the order in which DynamoDB reports the faults.
var createTableChecks = []func(*api.CreateTable) error{
	func(in *api.CreateTable) error { return tableNamed(in.TableName) },
	createWithUnitsOfMode,
	func(in *api.CreateTable) error { return unitsInBounds(in.ProvisionedThroughput) },
	attributesDefinedOnce,
	tableKeyDefined,
	func(in *api.CreateTable) error { return keyInOrder(in.KeySchema) },
	indexesListed,
	indexKeysDefined,
	definitionsUsed,
	localIndexesFit,
	globalIndexesFit,
	projectedWithinLimit,
	createWithCeilings,
	createWithWarmth,
	createWithStream,
	func(in *api.CreateTable) error { return encryptionFits(in.SSESpecification) },
	func(in *api.CreateTable) error { return knownClass(in.TableClass) },
	func(in *api.CreateTable) error { return tagsFit(in.Tags) },
	createOnlyWhatIsBuilt,
}

func (s *Service) createTable(ctx context.Context, in *api.CreateTable) (*api.TableReply, error) {
	if err := firstFault(in, createTableChecks); err != nil {
		return nil, err
	}
	def := s.definition(ctx, in)
	if err := withinAccount(ctx, &def); err != nil {
		return nil, err
	}
	made, err := s.DB.CreateTable(ctx, def)
	if err != nil {
		return nil, err
	}
	told := s.description(ctx, made)
	if told.BillingModeSummary != nil {
		told.BillingModeSummary.LastUpdateToPayPerRequestDateTime = nil
		told.TableThroughputModeSummary.LastUpdateToPayPerRequestDateTime = nil
	}
	// What the table is warm for is told here only if it was asked for, and
	// of the indexes never.
	if anyGiven(warmth(in.WarmThroughput)) {
		told.WarmThroughput.Status = string(schema.Updating)
	} else {
		told.WarmThroughput = nil
	}
	for i := range told.GlobalSecondaryIndexes {
		told.GlobalSecondaryIndexes[i].WarmThroughput = nil
	}
	return &api.TableReply{TableDescription: told}, nil
}

// tableNamed is for the operations on tables, which word an absent name in
// their own way.
func tableNamed(name string) error {
	if name == "" {
		return apierror.Validation("The parameter 'TableName' is required but was not present in the request")
	}
	return nil
}

// notBuilt refuses what would otherwise be accepted and ignored.
func notBuilt(member string) error { return apierror.InvalidValues("%s is not supported yet", member) }

func createOnlyWhatIsBuilt(in *api.CreateTable) error {
	switch {
	case in.StreamSpecification != nil && *in.StreamSpecification.StreamEnabled:
		return notBuilt("StreamSpecification")
	case in.ResourcePolicy != nil:
		return notBuilt("ResourcePolicy")
	case in.GlobalTableSourceArn != nil:
		return notBuilt("GlobalTableSourceArn")
	case in.GlobalTableSettingsReplicationMode != nil:
		return notBuilt("GlobalTableSettingsReplicationMode")
	}
	return nil
}

// Units

func payPerRequest(mode *string) bool { return isSet(mode, "PAY_PER_REQUEST") }

func createWithUnitsOfMode(in *api.CreateTable) error {
	switch {
	case payPerRequest(in.BillingMode) && in.ProvisionedThroughput != nil:
		return unitsOnDemand()
	case !payPerRequest(in.BillingMode) && in.ProvisionedThroughput == nil:
		return apierror.InvalidValues("ReadCapacityUnits and WriteCapacityUnits must both be specified when BillingMode is PROVISIONED")
	}
	return nil
}

func unitsOnDemand() error {
	return apierror.InvalidValues("Neither ReadCapacityUnits nor WriteCapacityUnits can be specified when BillingMode is PAY_PER_REQUEST")
}

// mostUnits is more than any table may have; the limits of the account are
// told later.
const mostUnits = 1_000_000_000_000

func unitsInBounds(t *api.ProvisionedThroughput) error {
	if t == nil {
		return nil
	}
	if *t.ReadCapacityUnits > mostUnits {
		return apierror.Validation("Given value %d for ReadCapacityUnits is out of bounds", *t.ReadCapacityUnits)
	}
	if *t.WriteCapacityUnits > mostUnits {
		return apierror.Validation("Given value %d for WriteCapacityUnits is out of bounds", *t.WriteCapacityUnits)
	}
	return nil
}

// units is one member of a pair of reads and writes, nil when it was absent.
type units struct {
	name  string
	value *int64
}

func ceilings(t *api.OnDemandThroughput) []units {
	if t == nil {
		return nil
	}
	return []units{{"MaxReadRequestUnits", t.MaxReadRequestUnits}, {"MaxWriteRequestUnits", t.MaxWriteRequestUnits}}
}

func warmth(t *api.WarmThroughput) []units {
	if t == nil {
		return nil
	}
	return []units{{"ReadUnitsPerSecond", t.ReadUnitsPerSecond}, {"WriteUnitsPerSecond", t.WriteUnitsPerSecond}}
}

// anyGiven tells whether a pair says anything; an empty one counts as absent.
func anyGiven(pair []units) bool {
	return slices.ContainsFunc(pair, func(u units) bool { return u.value != nil })
}

// createWithCeilings looks at the ceilings of an on-demand table and of its
// indexes. That they do not go with the mode is told before a bad value.
func createWithCeilings(in *api.CreateTable) error {
	onDemand := payPerRequest(in.BillingMode)
	check := func(t *api.OnDemandThroughput, forbidden, place string) error {
		for _, u := range ceilings(t) {
			if u.value != nil && !onDemand {
				return apierror.InvalidValues("%s for OnDemandThroughput%s cannot be specified when table BillingMode is PROVISIONED.", u.name, forbidden)
			}
		}
		return ceilingsInRange(t, place, 1)
	}
	if err := check(in.OnDemandThroughput, "", "table"); err != nil {
		return err
	}
	for _, x := range in.GlobalSecondaryIndexes {
		if err := check(x.OnDemandThroughput, " for index: "+*x.IndexName, "index : "+*x.IndexName); err != nil {
			return err
		}
	}
	return nil
}

// ceilingsInRange wants at least so much of each member. -1 is let pass where
// it removes a ceiling.
func ceilingsInRange(t *api.OnDemandThroughput, place string, least int64) error {
	for _, u := range ceilings(t) {
		if u.value != nil && (*u.value < least || *u.value == 0) {
			return apierror.InvalidValues("Requested %s for OnDemandThroughput for %s is outside of valid range", u.name, place)
		}
	}
	return nil
}

// initialWarmth is what an on-demand table can take from the start.
var initialWarmth = schema.Throughput{Read: 12_000, Write: 4_000}

const initialWarmthPage = "https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/on-demand-capacity-mode.html#on-demand-capacity-mode-initial"

func createWithWarmth(in *api.CreateTable) error {
	check := func(t *api.WarmThroughput, p *api.ProvisionedThroughput, place string) error {
		least := throughput(p)
		floors := [2]string{"ReadCapacityUnits of ProvisionedThroughput", "WriteCapacityUnits of ProvisionedThroughput"}
		if payPerRequest(in.BillingMode) {
			least = initialWarmth
			floors[0] = "initial throughput for OnDemand. See: " + initialWarmthPage
			floors[1] = floors[0]
		}
		for i, u := range warmth(t) {
			if u.value != nil && *u.value < [2]int64{least.Read, least.Write}[i] {
				return apierror.InvalidValues("Requested %s for WarmThroughput for %s is lower than %s", u.name, place, floors[i])
			}
		}
		return nil
	}
	if err := check(in.WarmThroughput, in.ProvisionedThroughput, "table"); err != nil {
		return err
	}
	for _, x := range in.GlobalSecondaryIndexes {
		if err := check(x.WarmThroughput, x.ProvisionedThroughput, "index "+*x.IndexName); err != nil {
			return err
		}
	}
	return nil
}

// Keys

func attributesDefinedOnce(in *api.CreateTable) error {
	if name, twice := firstTwice(definitionNames(in)); twice {
		return apierror.Validation("Attribute Name is duplicated: %s", name)
	}
	return nil
}

// firstTwice is the first name that stands in a list a second time.
func firstTwice(names []string) (string, bool) {
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return name, true
		}
	}
	return "", false
}

func tableKeyDefined(in *api.CreateTable) error {
	if len(in.KeySchema) > len(in.AttributeDefinitions) {
		return apierror.Validation("Invalid KeySchema: Some index key attribute have no definition")
	}
	return keyDefined(in.KeySchema, definitionNames(in))
}

func keyDefined(key []api.KeySchemaElement, defined []string) error {
	names := keyNames(key)
	for _, name := range names {
		if !slices.Contains(defined, name) {
			return apierror.InvalidValues("Some index key attributes are not defined in AttributeDefinitions. "+
				"Keys: [%s], AttributeDefinitions: [%s]", hashed(names, 16), hashed(defined, roomFor(len(defined))))
		}
	}
	return nil
}

// keyInOrder is for the keys of tables and local indexes: a partition key and
// perhaps a sort key.
func keyInOrder(key []api.KeySchemaElement) error {
	if _, twice := firstTwice(keyNames(key)); twice {
		return apierror.Validation("Both the Hash Key and the Range Key element in the KeySchema have the same name")
	}
	if err := hashFirst(key); err != nil {
		return err
	}
	if len(key) > 1 && !isSet(key[1].KeyType, "RANGE") {
		return apierror.Validation("Invalid KeySchema: The second KeySchemaElement is not a RANGE key type")
	}
	return nil
}

func hashFirst(key []api.KeySchemaElement) error {
	if !isSet(key[0].KeyType, "HASH") {
		return apierror.Validation("Invalid KeySchema: The first KeySchemaElement is not a HASH key type")
	}
	return nil
}

// maxKeyParts is how many attributes either part of a global index's key may
// have.
const maxKeyParts = 4

func globalKeyInOrder(key []api.KeySchemaElement) error {
	if _, twice := firstTwice(keyNames(key)); twice {
		return apierror.Validation("The KeySchema contains multiple key attributes with the same name")
	}
	if err := hashFirst(key); err != nil {
		return err
	}
	count := map[string]int{}
	for _, e := range key {
		if isSet(e.KeyType, "HASH") && count["RANGE"] > 0 {
			return apierror.InvalidValues("All HASH key attributes must precede RANGE key attributes in the KeySchema")
		}
		count[*e.KeyType]++
	}
	for _, kind := range []string{"HASH", "RANGE"} {
		if count[kind] > maxKeyParts {
			return apierror.InvalidValues("The KeySchema exceeds the maximum allowed number of %s key attributes", kind)
		}
	}
	return nil
}

func keyNames(key []api.KeySchemaElement) []string {
	names := make([]string, len(key))
	for i, e := range key {
		names[i] = *e.AttributeName
	}
	return names
}

func definitionNames(in *api.CreateTable) []string {
	names := make([]string, len(in.AttributeDefinitions))
	for i, a := range in.AttributeDefinitions {
		names[i] = *a.AttributeName
	}
	return names
}

// Indexes

func indexesListed(in *api.CreateTable) error {
	switch {
	case in.LocalSecondaryIndexes != nil && len(in.LocalSecondaryIndexes) == 0:
		return apierror.InvalidValues("List of LocalSecondaryIndexes is empty")
	case in.GlobalSecondaryIndexes != nil && len(in.GlobalSecondaryIndexes) == 0:
		return apierror.InvalidValues("List of GlobalSecondaryIndexes is empty")
	case len(in.LocalSecondaryIndexes) > 0 && len(in.KeySchema) < 2:
		return apierror.InvalidValues("Table KeySchema does not have a range key, which is required when specifying a LocalSecondaryIndex")
	}
	return nil
}

func indexKeysDefined(in *api.CreateTable) error {
	for _, key := range indexKeys(in) {
		if err := keyDefined(key, definitionNames(in)); err != nil {
			return err
		}
	}
	return nil
}

// definitionsUsed wants no more attributes defined than keys are made of. It
// is told before anything else that is wrong with an index.
func definitionsUsed(in *api.CreateTable) error {
	used := keyNames(in.KeySchema)
	for _, key := range indexKeys(in) {
		used = append(used, keyNames(key)...)
	}
	defined := definitionNames(in)
	for _, name := range defined {
		switch {
		case slices.Contains(used, name):
		case len(indexKeys(in)) == 0:
			return apierror.InvalidValues("Number of attributes in KeySchema does not exactly match number of attributes defined in AttributeDefinitions")
		default:
			return apierror.InvalidValues("Some AttributeDefinitions are not used. AttributeDefinitions: [%s], keys used: [%s]",
				hashed(defined, roomFor(len(defined))), hashed(used, 16))
		}
	}
	return nil
}

func indexKeys(in *api.CreateTable) (keys [][]api.KeySchemaElement) {
	for _, x := range in.LocalSecondaryIndexes {
		keys = append(keys, x.KeySchema)
	}
	for _, x := range in.GlobalSecondaryIndexes {
		keys = append(keys, x.KeySchema)
	}
	return keys
}

// How many indexes a table may have.
const (
	maxLocalIndexes  = 5
	maxGlobalIndexes = 20
)

func localIndexesFit(in *api.CreateTable) error {
	var names []string
	for _, x := range in.LocalSecondaryIndexes {
		if err := keyInOrder(x.KeySchema); err != nil {
			return err
		}
		if len(x.KeySchema) < 2 {
			return apierror.InvalidValues("Index KeySchema does not have a range key for index: %s", *x.IndexName)
		}
		if of, table := *x.KeySchema[0].AttributeName, *in.KeySchema[0].AttributeName; of != table {
			return apierror.InvalidValues("Index KeySchema does not have the same leading hash key as table KeySchema for index: %s. "+
				"index hash key: %s, table hash key: %s", *x.IndexName, of, table)
		}
		if err := projectionFits(x.Projection); err != nil {
			return err
		}
		if names = append(names, *x.IndexName); namedTwice(names) {
			return duplicateIndex(*x.IndexName)
		}
	}
	if len(in.LocalSecondaryIndexes) > maxLocalIndexes {
		return apierror.InvalidValues("Number of LocalSecondaryIndexes exceeds per-table limit of %d", maxLocalIndexes)
	}
	return nil
}

func globalIndexesFit(in *api.CreateTable) error {
	var names []string
	for _, x := range in.LocalSecondaryIndexes {
		names = append(names, *x.IndexName)
	}
	for _, x := range in.GlobalSecondaryIndexes {
		if err := globalIndexFits(&x, payPerRequest(in.BillingMode)); err != nil {
			return err
		}
		if names = append(names, *x.IndexName); namedTwice(names) {
			return duplicateIndex(*x.IndexName)
		}
	}
	if len(in.GlobalSecondaryIndexes) > maxGlobalIndexes {
		return apierror.InvalidValues("GlobalSecondaryIndex count exceeds the per-table limit of %d", maxGlobalIndexes)
	}
	return nil
}

// globalIndexFits tells whether an index makes sense on a table that is paid
// for in this way.
func globalIndexFits(x *api.GlobalSecondaryIndex, onDemand bool) error {
	if err := globalKeyInOrder(x.KeySchema); err != nil {
		return err
	}
	if err := projectionFits(x.Projection); err != nil {
		return err
	}
	switch {
	case onDemand && x.ProvisionedThroughput != nil:
		return apierror.InvalidValues("ProvisionedThroughput should not be specified for index: %s when BillingMode is PAY_PER_REQUEST", *x.IndexName)
	case !onDemand && x.ProvisionedThroughput == nil:
		return apierror.InvalidValues("ProvisionedThroughput is not specified for index: %s", *x.IndexName)
	}
	return unitsInBounds(x.ProvisionedThroughput)
}

// namedTwice tells whether the last name stands in the list before.
func namedTwice(names []string) bool {
	last := len(names) - 1
	return slices.Contains(names[:last], names[last])
}

func duplicateIndex(name string) error {
	return apierror.InvalidValues("Duplicate index name: %s", name)
}

func projectionFits(p *api.Projection) error {
	switch {
	case p.ProjectionType == nil:
		return apierror.InvalidValues("Unknown ProjectionType: null")
	case *p.ProjectionType != schema.ProjectInclude && p.NonKeyAttributes != nil:
		return apierror.InvalidValues("ProjectionType is %s, but NonKeyAttributes is specified", *p.ProjectionType)
	case *p.ProjectionType == schema.ProjectInclude && p.NonKeyAttributes == nil:
		return apierror.InvalidValues("ProjectionType is INCLUDE, but NonKeyAttributes is not specified")
	}
	if name, twice := firstTwice(p.NonKeyAttributes); twice {
		return apierror.InvalidValues("Duplicate element in NonKeyAttributes: %s", name)
	}
	return nil
}

// maxProjected is how many attributes the indexes of a table may name in
// their projections, all together. One named in two indexes counts twice.
const maxProjected = 100

func projectedWithinLimit(in *api.CreateTable) error {
	count := 0
	for _, x := range in.LocalSecondaryIndexes {
		count += len(x.Projection.NonKeyAttributes)
	}
	for _, x := range in.GlobalSecondaryIndexes {
		count += len(x.Projection.NonKeyAttributes)
	}
	if count > maxProjected {
		return apierror.InvalidValues("Number of NonKeyAttributes in all indexes exceeds the per-table limit of %d", maxProjected)
	}
	return nil
}

// Other settings

func createWithStream(in *api.CreateTable) error {
	s := in.StreamSpecification
	switch {
	case s == nil:
	case *s.StreamEnabled && s.StreamViewType == nil:
		return apierror.InvalidValues("Table is being created with a stream enabled, UpdateViewType is required")
	case !*s.StreamEnabled && s.StreamViewType != nil:
		return apierror.InvalidValues("Table is being created with a stream disabled, UpdateViewType should not be specified")
	}
	return nil
}

func encryptionFits(e *api.SSESpecification) error {
	switch {
	case e == nil:
	case e.Enabled != nil && !*e.Enabled && e.SSEType != nil:
		return apierror.InvalidValues("SSEType can not be specified if Enabled is false")
	case e.Enabled != nil && !*e.Enabled && e.KMSMasterKeyId != nil:
		return apierror.InvalidValues("KMSMasterKeyId can not be specified if Enabled is false")
	case isSet(e.SSEType, "AES256"):
		return apierror.InvalidValues("SSEType AES256 is not supported")
	case e.KMSMasterKeyId != nil && e.SSEType == nil:
		return apierror.InvalidValues("SSEType KMS is required if KMSMasterKeyId is specified")
	}
	return nil
}

// encryption is what a table is encrypted with, when the customer wants
// another key than the one all tables have.
func (s *Service) encryption(ctx context.Context, e *api.SSESpecification) schema.Encryption {
	if e == nil || !orZero(e.Enabled) && e.SSEType == nil {
		return schema.Encryption{}
	}
	return schema.Encryption{Enabled: true, KeyARN: s.keyARN(ctx, e.KMSMasterKeyId)}
}

// keyARN names a key. An alias is not resolved, since there is no service of
// keys; without a key it is the one that AWS manages for the account.
func (s *Service) keyARN(ctx context.Context, id *string) string {
	region := callerOf(ctx).Region
	prefix := "arn:aws:kms:" + region + ":" + s.Account + ":"
	switch {
	case id == nil || *id == "alias/aws/dynamodb":
		sum := sha256.Sum256([]byte("aws/dynamodb " + region + " " + s.Account))
		return fmt.Sprintf("%skey/%x-%x-%x-%x-%x", prefix, sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
	case strings.HasPrefix(*id, "arn:"):
		return *id
	case strings.HasPrefix(*id, "alias/"):
		return prefix + *id
	}
	return prefix + "key/" + *id
}

// The classes of tables. One without a class is standard.
const (
	classStandard   = "STANDARD"
	classInfrequent = "STANDARD_INFREQUENT_ACCESS"
)

func knownClass(class *string) error {
	if class == nil || isSet(class, classStandard) || isSet(class, classInfrequent) {
		return nil
	}
	return apierror.Validation("Invalid table-class parameter provided. Please try again with a valid table-class value: [%s, %s].",
		classStandard, classInfrequent)
}

// The definition

// definition is the table that a request asks for. The checks have passed.
func (s *Service) definition(ctx context.Context, in *api.CreateTable) schema.Table {
	def := schema.Table{
		Name:               in.TableName,
		OnDemand:           payPerRequest(in.BillingMode),
		Throughput:         throughput(in.ProvisionedThroughput),
		MaxRequests:        merge(schema.Throughput{}, ceilings(in.OnDemandThroughput)),
		Class:              orZero(in.TableClass),
		DeletionProtection: orZero(in.DeletionProtectionEnabled),
		Encryption:         s.encryption(ctx, in.SSESpecification),
		Tags:               withTags(nil, in.Tags),
	}
	def.Warm = warmFor(def.OnDemand, in.ProvisionedThroughput, in.WarmThroughput)
	def.Attributes = attributesOf(in.AttributeDefinitions)
	def.Key = keyOf(in.KeySchema, def.Attributes)
	for _, x := range in.LocalSecondaryIndexes {
		def.AddIndex(schema.Index{
			Name:       *x.IndexName,
			Key:        keyOf(x.KeySchema, def.Attributes),
			Projection: projection(x.Projection),
		})
	}
	for _, x := range in.GlobalSecondaryIndexes {
		def.AddIndex(newGlobalIndex(&def, &x))
	}
	return def
}

// newGlobalIndex is the index that a request asks for on a table.
func newGlobalIndex(t *schema.Table, x *api.GlobalSecondaryIndex) schema.Index {
	return schema.Index{
		Name:        *x.IndexName,
		Global:      true,
		Key:         keyOf(x.KeySchema, t.Attributes),
		Projection:  projection(x.Projection),
		Throughput:  throughput(x.ProvisionedThroughput),
		MaxRequests: merge(schema.Throughput{}, ceilings(x.OnDemandThroughput)),
		Warm:        warmFor(t.OnDemand, x.ProvisionedThroughput, x.WarmThroughput),
	}
}

// warmFor is what a table or an index can take at once when it is new.
func warmFor(onDemand bool, p *api.ProvisionedThroughput, t *api.WarmThroughput) schema.Throughput {
	if onDemand {
		return merge(initialWarmth, warmth(t))
	}
	return merge(throughput(p), warmth(t))
}

func attributesOf(definitions []api.AttributeDefinition) (attributes []schema.Attribute) {
	for _, a := range definitions {
		kind, _ := item.TypeNamed(*a.AttributeType)
		attributes = append(attributes, schema.Attribute{Name: *a.AttributeName, Type: kind})
	}
	return attributes
}

func keyOf(elements []api.KeySchemaElement, defined []schema.Attribute) (key schema.Key) {
	for _, e := range elements {
		i := slices.IndexFunc(defined, func(a schema.Attribute) bool { return a.Name == *e.AttributeName })
		if isSet(e.KeyType, "HASH") {
			key.Partition = append(key.Partition, defined[i])
		} else {
			key.Sort = append(key.Sort, defined[i])
		}
	}
	return key
}

func projection(p *api.Projection) schema.Projection {
	return schema.Projection{Kind: *p.ProjectionType, Names: p.NonKeyAttributes}
}

func throughput(t *api.ProvisionedThroughput) schema.Throughput {
	if t == nil {
		return schema.Throughput{}
	}
	return schema.Throughput{Read: *t.ReadCapacityUnits, Write: *t.WriteCapacityUnits}
}

// merge puts the members given in place of those that are.
func merge(is schema.Throughput, pair []units) schema.Throughput {
	if len(pair) == 0 {
		return is
	}
	if read := pair[0].value; read != nil {
		is.Read = *read
	}
	if write := pair[1].value; write != nil {
		is.Write = *write
	}
	return is
}

func orZero[T any](member *T) (value T) {
	if member != nil {
		value = *member
	}
	return value
}

// hashed lists names as DynamoDB's messages list a set of them: in the order
// of a Java HashSet that had so many buckets at first.
func hashed(names []string, buckets int) string {
	var set []string
	for _, name := range names {
		if !slices.Contains(set, name) {
			set = append(set, name)
		}
	}
	for 4*len(set) > 3*buckets {
		buckets *= 2
	}
	bucket := func(name string) int {
		var h uint32
		for _, c := range utf16.Encode([]rune(name)) {
			h = 31*h + uint32(c)
		}
		return int((h ^ h>>16) & uint32(buckets-1))
	}
	slices.SortStableFunc(set, func(a, b string) int { return bucket(a) - bucket(b) })
	return strings.Join(set, ", ")
}

// roomFor is how many buckets a set has that was made for n elements.
func roomFor(n int) int {
	if n < 3 {
		return 1 << bits.Len(uint(n))
	}
	return 1 << bits.Len(uint(4*n/3))
}
