package ops

import (
	"math/bits"
	"slices"
	"strings"
	"unicode/utf16"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/data/schema"
	"github.com/stator-db/stator/internal/protocol/api"
)

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
				"Keys: [%s], AttributeDefinitions: [%s]", hashSetOrder(names, 16), hashSetOrder(defined, bucketsFor(len(defined))))
		}
	}
	return nil
}

func attributesDefinedOnce(in *api.CreateTable) error {
	if name, twice := firstDuplicate(definitionNames(in)); twice {
		return apierror.Validation("Attribute Name is duplicated: %s", name)
	}
	return nil
}

// firstDuplicate returns the first name that occurs in a list for the second time.
func firstDuplicate(names []string) (string, bool) {
	for i, name := range names {
		if slices.Contains(names[:i], name) {
			return name, true
		}
	}
	return "", false
}

// keyInOrder checks the key of a table or a local index: a partition key and an
// optional sort key.
func keyInOrder(key []api.KeySchemaElement) error {
	if _, twice := firstDuplicate(keyNames(key)); twice {
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

// maxKeyParts is the maximum number of partition key attributes, and of sort
// key attributes, of a global index.
const maxKeyParts = 4

func globalKeyInOrder(key []api.KeySchemaElement) error {
	if _, twice := firstDuplicate(keyNames(key)); twice {
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

func attributesOf(definitions []api.AttributeDefinition) (attributes []schema.Attribute) {
	for _, a := range definitions {
		kind, _ := item.TypeNamed(*a.AttributeType)
		attributes = append(attributes, schema.Attribute{Name: *a.AttributeName, Type: kind})
	}
	return attributes
}

// hashSetOrder lists names in the order of DynamoDB's messages: that of a Java
// HashSet with this initial number of buckets.
func hashSetOrder(names []string, buckets int) string {
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

// bucketsFor returns the number of buckets of a HashSet made for n elements.
func bucketsFor(n int) int {
	if n < 3 {
		return 1 << bits.Len(uint(n))
	}
	return 1 << bits.Len(uint(4*n/3))
}
