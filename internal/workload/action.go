package workload

import (
	"slices"
	"strings"
)

// MaxActions is how many different actions of a batch or a transaction its shape
// contains.
const MaxActions = 16

// Action is what one action of a batch or a transaction has in common with others of
// its kind.
type Action struct {
	Verb            string // Get, Put, Update, Delete or ConditionCheck
	Partition, Sort string // prefixes of the key
	Conditional     bool
}

// String returns the action as it is in a shape: Put C# O# if.
func (a Action) String() string {
	text := a.Verb + " " + orDash(a.Partition) + " " + orDash(a.Sort)
	if a.Conditional {
		text += " if"
	}
	return text
}

func orDash(prefix string) string {
	if prefix == "" {
		return "-"
	}
	return prefix
}

// Actions returns the different actions of a batch or a transaction as text, in an order
// that does not depend on the request. It ends with … if there are too many.
func Actions(all []Action) string {
	var texts []string
	for _, a := range all {
		texts = append(texts, a.String())
	}
	slices.Sort(texts)
	texts = slices.Compact(texts)
	if len(texts) > MaxActions {
		texts = append(texts[:MaxActions], cut)
	}
	return strings.Join(texts, "; ")
}

// ParseActions returns the actions of a shape; not all if there were too many.
func ParseActions(text string) (all []Action, complete bool) {
	if text == "" {
		return nil, true
	}
	for part := range strings.SplitSeq(text, "; ") {
		words := strings.Fields(part)
		if len(words) < 3 {
			return all, false
		}
		all = append(all, Action{words[0], fromDash(words[1]), fromDash(words[2]), len(words) > 3})
	}
	return all, true
}

func fromDash(prefix string) string {
	if prefix == "-" {
		return ""
	}
	return prefix
}
