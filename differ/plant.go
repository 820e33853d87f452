package main

import (
	"regexp"
	"strings"
)

// A plant is a kind of fault that the control gives to stator's answers.
type plant struct {
	name string
	// alter changes an answer to a step, and reports whether it could. other is
	// an earlier answer to the same operation with another error.
	alter func(a *answer, st step, other answer) bool
}

var plants = []plant{
	{"a word of the message is another", func(a *answer, _ step, _ answer) bool {
		if a.ok() || a.Text == "" {
			return false
		}
		a.Text = changeWord(a.Text)
		return true
	}},
	{"another type of error", func(a *answer, _ step, _ answer) bool {
		if a.ok() {
			return false
		}
		if a.Code = "ResourceInUseException"; a.Text == "" {
			a.Code = "ValidationException"
		}
		return true
	}},
	{"another fault of the same operation is reported", func(a *answer, _ step, other answer) bool {
		if a.ok() || other.Code == "" || other.bare() == a.bare() {
			return false
		}
		*a = other
		return true
	}},
	{"status 500", func(a *answer, _ step, _ answer) bool {
		*a = answer{Status: 500, Code: "InternalServerError", Text: "Internal server error"}
		return true
	}},
	{"a success in place of an error", func(a *answer, _ step, _ answer) bool {
		if a.ok() {
			return false
		}
		*a = answer{Status: 200, Body: object{}}
		return true
	}},
	{"an error in place of a success", func(a *answer, _ step, _ answer) bool {
		if !a.ok() {
			return false
		}
		*a = answer{Status: 400, Code: "ValidationException", Text: "The provided key element does not match the schema"}
		return true
	}},
	{"a failed condition in place of a success", func(a *answer, st step, _ answer) bool {
		if !a.ok() || !itemWrites[st.Op] {
			return false
		}
		*a = answer{Status: 400, Code: "ConditionalCheckFailedException", Text: "The conditional request failed"}
		return true
	}},
	{"another reason of a cancelled transaction", func(a *answer, _ step, _ answer) bool {
		changed := changeMember(a.Body["CancellationReasons"], "Code", func(v any) any {
			if v == "None" {
				return "ConditionalCheckFailed"
			}
			return "None"
		})
		if changed {
			head, _, _ := strings.Cut(a.Text, "[")
			a.Text = head + "[" + strings.Join(reasonCodes(*a), ", ") + "]"
		}
		return changed
	}},
	{"another error of a statement in a batch", func(a *answer, st step, _ answer) bool {
		return st.Op == "BatchExecuteStatement" && changeMember(a.Body["Responses"], "Code", func(any) any { return "InternalServerError" })
	}},
	{"half a unit more", func(a *answer, _ step, _ answer) bool {
		return changeMember(a.Body["ConsumedCapacity"], capacityUnits, func(v any) any { f, _ := v.(float64); return f + 0.5 })
	}},
	{"half a unit less", func(a *answer, _ step, _ answer) bool {
		return changeMember(a.Body["ConsumedCapacity"], capacityUnits, func(v any) any { f, _ := v.(float64); return f - 0.5 })
	}},
	{"no consumed capacity", func(a *answer, _ step, _ answer) bool { return removeMember(a.Body, "ConsumedCapacity") }},
	{"no units of an index", func(a *answer, _ step, _ answer) bool {
		return removeBelow(a.Body["ConsumedCapacity"], "GlobalSecondaryIndexes") || removeBelow(a.Body["ConsumedCapacity"], "LocalSecondaryIndexes")
	}},
	{"an attribute is missing", func(a *answer, _ step, _ answer) bool {
		for _, it := range itemsOf(a.Body) {
			if keys := sortedKeys(it); len(keys) > 1 {
				delete(it, keys[len(keys)-1])
				return true
			}
		}
		return false
	}},
	{"another value of an attribute", func(a *answer, _ step, _ answer) bool {
		for _, it := range itemsOf(a.Body) {
			for _, k := range sortedKeys(it) {
				it[k] = object{"S": "planted"}
				return true
			}
		}
		return false
	}},
	{"another type of an attribute", func(a *answer, _ step, _ answer) bool {
		for _, it := range itemsOf(a.Body) {
			for _, k := range sortedKeys(it) {
				if n, ok := member(it[k], "N").(string); ok {
					it[k] = object{"S": n}
					return true
				}
			}
		}
		return false
	}},
	{"an item is missing", func(a *answer, _ step, _ answer) bool {
		items, ok := a.Body["Items"].([]any)
		if ok && len(items) > 0 {
			a.Body["Items"] = items[1:]
			return true
		}
		return removeMember(a.Body, "Item") || removeBelow(a.Body["Responses"], "Item")
	}},
	{"an item too many", func(a *answer, _ step, _ answer) bool {
		items, ok := a.Body["Items"].([]any)
		if ok && len(items) > 0 {
			a.Body["Items"] = append(items[:len(items):len(items)], items[0])
		}
		return ok && len(items) > 0
	}},
	{"items in another order", func(a *answer, st step, _ answer) bool {
		items, ok := a.Body["Items"].([]any)
		if !ok || st.Order == "any" || len(items) < 2 || canonical(items[0]) == canonical(items[1]) {
			return false
		}
		items[0], items[1] = items[1], items[0]
		return st.Order == ""
	}},
	{"another count", func(a *answer, _ step, _ answer) bool {
		n, ok := a.Body["Count"].(float64)
		if ok {
			a.Body["Count"] = n + 1
		}
		return ok
	}},
	{"no returned attributes", func(a *answer, _ step, _ answer) bool { return removeMember(a.Body, "Attributes") }},
	{"no returned item of a failed condition", func(a *answer, _ step, _ answer) bool {
		return !a.ok() && (removeMember(a.Body, "Item") || removeBelow(a.Body["CancellationReasons"], "Item"))
	}},
	{"a member of a table's description is missing", func(a *answer, _ step, _ answer) bool {
		for _, name := range []string{"Table", "TableDescription"} {
			if removeBelow(a.Body[name], "KeySchema") {
				return true
			}
		}
		return false
	}},
	{"another member of a table's description", func(a *answer, _ step, _ answer) bool {
		for _, name := range []string{"Table", "TableDescription"} {
			for _, m := range []string{"ProjectionType", "StreamViewType", "AttributeType", "BillingMode"} {
				if changeMember(a.Body[name], m, func(any) any { return "PLANTED" }) {
					return true
				}
			}
		}
		return false
	}},
	{"a record of a stream is missing", func(a *answer, _ step, _ answer) bool {
		records, ok := a.Body["Records"].([]any)
		if ok && len(records) > 0 {
			a.Body["Records"] = records[1:]
		}
		return ok && len(records) > 0
	}},
	{"an image of a stream's record is missing", func(a *answer, _ step, _ answer) bool {
		return removeBelow(a.Body["Records"], "NewImage") || removeBelow(a.Body["Records"], "OldImage")
	}},
}

// plainWord matches a word that is probably no name.
var plainWord = regexp.MustCompile(`^[a-z]{3,}$`)

// changeWord changes one word in the middle of a message.
func changeWord(text string) string {
	list := strings.Split(text, " ")
	for i := range list {
		if j := (i + len(list)/2) % len(list); plainWord.MatchString(list[j]) {
			list[j] = "planted"
			return strings.Join(list, " ")
		}
	}
	return text + " planted"
}

// changeMember changes the first member of a name, at any depth.
func changeMember(v any, name string, change func(any) any) bool {
	for _, n := range nodes(v) {
		if n.name == name {
			n.set(change(n.get()))
			return true
		}
	}
	return false
}

func removeMember(body object, name string) bool {
	_, ok := body[name]
	delete(body, name)
	return ok
}

// removeBelow removes the first member of a name, at any depth.
func removeBelow(v any, name string) bool {
	for _, n := range nodes(v) {
		if n.name == name {
			n.remove()
			return true
		}
	}
	return false
}

// itemsOf lists the items of a reply.
func itemsOf(body object) (items []object) {
	add := func(v any) {
		if it, ok := v.(object); ok {
			items = append(items, it)
		}
	}
	add(body["Item"])
	add(body["Attributes"])
	addAll := func(v any) {
		list, _ := v.([]any)
		for _, x := range list {
			add(x)
		}
	}
	addAll(body["Items"])
	switch r := body["Responses"].(type) {
	case object:
		for _, k := range sortedKeys(r) {
			addAll(r[k])
		}
	case []any:
		for _, x := range r {
			add(member(x, "Item"))
		}
	}
	return items
}
