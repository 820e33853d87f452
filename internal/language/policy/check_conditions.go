package policy

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// checkKeyName finds a condition key that does not exist, or that requests to stator
// never have. needed says that the statement does not match without it.
func (c *checker) checkKeyName(at Position, what, key string, needed bool) {
	k := keyInfo(key)
	switch {
	case k == nil:
		severity := SeverityWarning
		if hasPrefix(key, service, true) || hasPrefix(key, "aws:", true) {
			severity = SeverityError
		}
		try := ""
		if near := nearest(key, keyNames()); near != "" {
			try = "did you mean " + near + "?"
		}
		c.add(at, "unknown-key", severity, try, "there is no condition key %s for DynamoDB; a request never has the %s", quote(key), what)
	case k.absent && needed:
		c.add(at, "absent-key", SeverityWarning, "", "requests to stator never have the %s %s, and the statement does not match without it", what, key)
	case k.absent:
		c.add(at, "absent-key", SeverityNote, "", "requests to stator never have the %s %s", what, key)
	}
}

// checkKeys finds conditions on keys that some or all actions of the statement never
// have.
func (c *checker) checkKeys() {
	for _, k := range c.statement.Conditions {
		c.checkKeyName(k.Position, "key", k.Key, !k.holdsAbsent())
		info := keyInfo(k.Key)
		if info == nil {
			continue
		}
		c.checkMultiple(k, info)
		// A condition that the key is there says what is missing for the others too.
		if info.set == 0 || k.op.family == familyNull && k.holdsAbsent() || k.op.family != familyNull && c.requiresKey(k.key) {
			continue
		}
		var without, with []*actionInfo
		for _, a := range c.possible {
			if a.allKeys()&info.set == 0 {
				without = append(without, a)
			} else {
				with = append(with, a)
			}
		}
		c.checkWithout(k, info, with, without)
	}
}

// requiresKey reports whether another condition of the statement requires the key to be
// there.
func (c *checker) requiresKey(key string) bool {
	return slices.ContainsFunc(c.statement.Conditions, func(k *Condition) bool {
		return k.key == key && k.op.family == familyNull && !slices.Contains(k.bools, true) && len(k.bools) > 0
	})
}

// checkWithout reports a condition for which some actions of the statement never have
// the key.
func (c *checker) checkWithout(k *Condition, info *conditionKey, with, without []*actionInfo) {
	// An Allow with such a key never allows SearchVectors, whatever the operator.
	if i := slices.IndexFunc(without, func(a *actionInfo) bool { return a.name == searchVectors }); i >= 0 && c.statement.Effect == Allow && info.fine && k.holdsAbsent() {
		c.checkExcluded(k, info, with, without[i:i+1])
		without = slices.Delete(slices.Clone(without), i, i+1)
	}
	if len(without) == 0 {
		return
	}
	// Those that act on items matter most.
	slices.SortStableFunc(without, func(a, b *actionInfo) int { return cmp.Compare(rank(a), rank(b)) })
	list := names(actionNames(without))
	switch {
	case k.holdsAbsent() && c.statement.Effect == Allow && k.quantity == forAll:
		c.add(k.Position, "for-all-values", SeverityWarning, `add "Null": {"`+k.Key+`": "false"}, or give what never has the key a statement of its own`,
			"the statement allows %s without this condition: %s %s, and ForAllValues is true for a missing key", list, neverHave(without), info.name)
	case k.ifExists: // it says so
	case k.holdsAbsent():
		c.add(k.Position, "key-missing", SeverityWarning, "give what never has the key a statement of its own",
			"the statement %s %s without this condition: %s %s, and %s is true for a missing key", c.does(), list, neverHave(without), info.name, k.Operator)
	default:
		c.checkExcluded(k, info, with, without)
	}
}

// checkExcluded reports actions that the statement never matches because of a condition.
func (c *checker) checkExcluded(k *Condition, info *conditionKey, with, without []*actionInfo) {
	if c.statement.Effect == Deny && info.set == keyLeading && !c.named(without) {
		// A Deny of all that concerns other partitions is expected to include what
		// reads all of them.
		without = slices.DeleteFunc(slices.Clone(without), func(a *actionInfo) bool { return a.subject != "items" })
		if len(without) > 0 {
			c.add(k.Position, "key-of-other-action", SeverityWarning, "deny it in a statement of its own",
				"the statement never denies %s: %s %s", names(actionNames(without)), neverHave(without), info.name)
		}
		return
	}
	switch {
	case len(with) == 0 && len(without) == len(c.possible) && c.onlyDynamoDB():
		c.add(k.Position, "never-matches", SeverityError, "", "the statement matches no request: its actions never have %s", info.name)
	case c.named(without):
		c.add(k.Position, "key-of-other-action", SeverityWarning, "give what never has the key a statement of its own",
			"the statement never %s %s: %s %s", c.does(), names(actionNames(without)), neverHave(without), info.name)
	}
}

func rank(a *actionInfo) int {
	if a.subject == "items" {
		return 0
	}
	return 1
}

// checkMultiple compares the operator with the number of values of the key.
func (c *checker) checkMultiple(k *Condition, info *conditionKey) {
	switch {
	case k.op.family == familyNull:
	case info.many && k.quantity == single:
		c.add(k.Position, "several-values", SeverityError, "use ForAllValues:"+k.Operator+" or ForAnyValue:"+k.Operator,
			"%s can have several values, and %s without ForAllValues or ForAnyValue never matches them", info.name, k.Operator)
	case !info.many && k.quantity == forAll && !k.ifExists && c.statement.Effect == Allow:
		c.add(k.Position, "one-value", SeverityWarning, "use "+strings.TrimPrefix(k.Operator, "ForAllValues:"),
			"%s has one value, and ForAllValues also allows requests without it", info.name)
	case !info.many && k.quantity != single:
		c.add(k.Position, "one-value", SeverityNote, "use the operator without ForAllValues or ForAnyValue", "%s has one value", info.name)
	}
}

// checkContradictions finds conditions that cannot hold together, or alone.
func (c *checker) checkContradictions() {
	all := c.statement.Conditions
	for i, k := range all {
		if len(k.Values) == 0 {
			c.checkEmpty(k)
		}
		for _, other := range all[:i] {
			if other.key == k.key && len(k.Values) > 0 && len(other.Values) > 0 && (k.contradicts(other) || other.contradicts(k)) {
				c.add(k.Position, "contradiction", SeverityError, "", "the statement matches no request: %s and %s of %s cannot both hold", other.Operator, k.Operator, k.Key)
			}
		}
	}
}

// checkEmpty reports a condition without values.
func (c *checker) checkEmpty(k *Condition) {
	switch {
	case k.op.negated:
		c.add(k.Position, "empty-values", SeverityWarning, "", "%s without values holds for every value of %s", k.Operator, k.Key)
	case k.holdsAbsent():
		c.add(k.Position, "empty-values", SeverityWarning, "", "%s without values holds only for requests that do not have %s", k.Operator, k.Key)
	default:
		c.add(k.Position, "empty-values", SeverityError, "", "the statement matches no request: %s of %s has no values", k.Operator, k.Key)
	}
}

// contradicts reports whether no request can satisfy both conditions, which have the
// same key.
func (k *Condition) contradicts(other *Condition) bool {
	switch {
	case other.op.family == familyNull && !slices.Contains(other.bools, false):
		// The key must be missing, and this one needs it.
		return !k.holdsAbsent()
	case other.op.family == familyNull || k.op.family == familyNull || k.quantity != single || other.quantity != single:
		return false
	case k.holdsAbsent() && other.holdsAbsent():
		return false // a request without the key satisfies both
	case k.op.family == familyBool && other.op.family == familyBool:
		return !slices.ContainsFunc(k.bools, func(b bool) bool { return slices.Contains(other.bools, b) })
	case k.op.family == familyString && other.op.family == familyString && !k.vars && !other.vars && !k.op.negated:
		// Whether each value that the one needs is excluded by the other.
		return !slices.ContainsFunc(k.Values, func(v string) bool { return slices.Contains(other.Values, v) != other.op.negated })
	case k.op.family == familyNumber && other.op.family == familyNumber:
		return emptyRange(k.op, k.numbers, other.op, other.numbers, decimal.compare)
	case k.op.family == familyDate && other.op.family == familyDate:
		return emptyRange(k.op, k.dates, other.op, other.dates, time.Time.Compare)
	default:
		return false
	}
}

// emptyRange reports whether no value is below one of the values of one operator and above one
// of the other's.
func emptyRange[T any](below operator, upper []T, above operator, lower []T, compare func(T, T) int) bool {
	if below.compare != less && below.compare != lessOrEqual || above.compare != greater && above.compare != greaterOrEqual {
		return false
	}
	order := compare(slices.MinFunc(lower, compare), slices.MaxFunc(upper, compare))
	return order > 0 || order == 0 && (below.compare == less || above.compare == greater)
}

// checkAttributes finds a restriction of attributes that does not restrict what is
// returned: the condition looks at the attributes that a request names, and a request
// that names none returns all.
func (c *checker) checkAttributes() {
	s := c.statement
	at := slices.IndexFunc(s.Conditions, func(k *Condition) bool { return k.key == "dynamodb:attributes" })
	if at < 0 || s.Effect == Deny {
		return
	}
	for _, r := range []struct {
		set       keySet
		key, try  string
		unlimited []string
	}{
		{keySelect, "dynamodb:Select", `add "StringEqualsIfExists": {"dynamodb:Select": "SPECIFIC_ATTRIBUTES"}`, []string{"ALL_ATTRIBUTES", "ALL_PROJECTED_ATTRIBUTES"}},
		{keyReturn, "dynamodb:ReturnValues", `add "StringEqualsIfExists": {"dynamodb:ReturnValues": ["NONE", "UPDATED_OLD", "UPDATED_NEW"]}`, []string{"ALL_OLD", "ALL_NEW"}},
	} {
		var returning []string
		for _, a := range c.possible {
			if a.keys&r.set != 0 && (r.set == keySelect || a.level == LevelWrite) {
				returning = append(returning, a.name)
			}
		}
		restricted := slices.ContainsFunc(s.Conditions, func(k *Condition) bool {
			return equalFold(k.Key, r.key) && k.op.family != familyNull && !slices.ContainsFunc(r.unlimited, func(v string) bool { return k.test(v, nil) })
		})
		if len(returning) > 0 && !restricted {
			c.add(s.Conditions[at].Position, "attributes", SeverityWarning, r.try,
				"%s can return attributes that are not listed: dynamodb:Attributes is about those that a request names, and %s is not restricted", names(returning), r.key)
		}
	}
}
