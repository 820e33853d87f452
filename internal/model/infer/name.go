package infer

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// generalWords are sort keys of an item that stands for the whole partition.
var generalWords = []string{"metadata", "meta", "profile", "info", "details", "detail", "data", "root", "self", "main", "record", "item", "a", "v0"}

// nameGroups returns a name for each group, all of them different.
func nameGroups(groups []*itemGroup) []string {
	names := make([]string, len(groups))
	taken := make(map[string]bool)
	assign := func(i int, candidates ...string) bool {
		for _, name := range candidates {
			if name != "" && !taken[name] {
				names[i], taken[name] = name, true
				return true
			}
		}
		return false
	}
	// Items that stand for a whole partition have the first right to its name.
	for i, g := range groups {
		if last := g.lastWord(1); g.mark == "" && (last == "" && len(g.words(1)) == 0 && len(g.keys) < 2 || slices.Contains(generalWords, last)) {
			assign(i, g.lastWord(0))
		}
	}
	for i, g := range groups {
		if names[i] != "" {
			continue
		}
		all := strings.Join(slices.Compact(append(g.words(0), g.words(1)...)), "-")
		last := g.lastWord(1)
		if slices.Contains(generalWords, last) {
			last = ""
		}
		table := singular(slugOf(g.sample.Table.Name))
		base := cmp.Or(slugOf(g.mark), last)
		if assign(i, base, joinWords(g.lastWord(0), base), all, table, joinWords(table, all)) {
			continue
		}
		for n := 2; !assign(i, cmp.Or(all, table, "item")+"-"+strconv.Itoa(n)); n++ {
		}
	}
	return names
}

// singular is the usual singular of a name.
func singular(name string) string {
	last := name[strings.LastIndexByte(name, '-')+1:]
	switch last {
	case "series", "species":
		return name
	case "movies", "cookies", "selfies", "calories":
		return strings.TrimSuffix(name, "s")
	}
	if stem, ok := strings.CutSuffix(name, "ies"); ok && len(stem) > 1 {
		return stem + "y"
	}
	for _, end := range []string{"ches", "shes", "xes", "sses"} {
		if strings.HasSuffix(name, end) {
			return strings.TrimSuffix(name, "es")
		}
	}
	if strings.HasSuffix(name, "ss") || len(name) < 4 {
		return name
	}
	return strings.TrimSuffix(name, "s")
}

func joinWords(a, b string) string { return strings.Trim(a+"-"+b, "-") }

// words returns the literals of a key, in lower case.
func (g *itemGroup) words(key int) (all []string) {
	if key >= len(g.keys) {
		return nil
	}
	for _, p := range g.keys[key].parts {
		if word := slugOf(p.literal); word != "" {
			all = append(all, word)
		}
	}
	return all
}

func (g *itemGroup) lastWord(key int) string {
	words := g.words(key)
	if len(words) == 0 {
		return ""
	}
	return words[len(words)-1]
}
