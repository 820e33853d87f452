package exchange

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
)

// maxSteps is how many functions are evaluated, which bounds functions that
// refer to each other many times.
const maxSteps = 1_000_000

// resolve evaluates a value of a template if it is a function. Values within
// the result are evaluated when they are needed. On an error it returns the
// tree where the error is.
func (c *cloudFormationReader) resolve(t *sourceTree, depth int) (*sourceTree, error) {
	if c.steps++; depth > maxNesting || c.steps > maxSteps {
		return t, errors.New("functions are nested too deeply or form a cycle")
	}
	if t.kind != treeMap || len(t.members) != 1 {
		return t, nil
	}
	m := t.members[0]
	if m.name == "Ref" {
		return c.reference(m.value, depth)
	}
	name, ok := strings.CutPrefix(m.name, "Fn::")
	if !ok {
		return t, nil
	}
	work, ok := map[string]func(*sourceTree, int) (*sourceTree, error){
		"Sub": c.sub, "Join": c.join, "Select": c.selectElement, "Split": c.split, "If": c.branch, "FindInMap": c.lookup,
	}[name]
	if !ok {
		return t, fmt.Errorf("the function Fn::%s%s is known only when the stack is created", name, describeArguments(m.value))
	}
	return work(m.value, depth+1)
}

// describeArguments returns the arguments of a function that are short texts.
func describeArguments(t *sourceTree) string {
	var words []string
	for _, e := range append([]*sourceTree{t}, t.list...) {
		if e.kind == treeString && len(e.text) < 60 {
			words = append(words, e.text)
		}
	}
	if len(words) == 0 {
		return ""
	}
	return " of " + strings.Join(words, ".")
}

// maxText is the longest text in the description of a table.
const maxText = 1 << 16

func textNode(at *sourceTree, text string) (*sourceTree, error) {
	if len(text) > maxText {
		return at, errors.New("the text is longer than anything a table needs")
	}
	return &sourceTree{at: at.at, kind: treeString, text: text}, nil
}

// scalar evaluates a value to text.
func (c *cloudFormationReader) scalar(t *sourceTree, depth int) (string, *sourceTree, error) {
	t, err := c.resolve(t, depth)
	if err != nil {
		return "", t, err
	}
	if t.kind == treeList || t.kind == treeMap {
		return "", t, fmt.Errorf("it needs text, not %s", t.kind)
	}
	return t.text, t, nil
}

// reference returns the value of a parameter, or the name of a table.
func (c *cloudFormationReader) reference(t *sourceTree, depth int) (*sourceTree, error) {
	name := t.text
	if t.kind != treeString {
		return t, errors.New("a Ref must be a name")
	}
	if name == "AWS::NoValue" {
		return &sourceTree{at: t.at}, nil
	}
	if text, ok := c.vars[name]; ok {
		return c.parameterValue(t, text)
	}
	if p := c.root.get("Parameters", name); p != nil {
		d := p.get("Default")
		if kind := p.get("Type"); kind != nil && strings.HasPrefix(kind.text, "AWS::SSM::") {
			return t, fmt.Errorf("the parameter %s is looked up when the stack is created; give it a value with --var %s=VALUE", name, name)
		}
		if d == nil {
			return t, fmt.Errorf("the parameter %s has no default; give it a value with --var %s=VALUE", name, name)
		}
		return c.parameterValue(t, d.text)
	}
	if r := c.root.get("Resources", name); r != nil {
		if isTableType(textOf(r.get("Type"))) {
			if table := r.get("Properties", "TableName"); table != nil {
				return c.resolve(table, depth+1)
			}
			return textNode(t, name)
		}
		return t, fmt.Errorf("the resource %s is known only when the stack is created", name)
	}
	if strings.HasPrefix(name, "AWS::") {
		return t, fmt.Errorf("%s is known only when the stack is created; give it a value with --var %s=VALUE", name, name)
	}
	return t, fmt.Errorf("there is no parameter and no resource %s", name)
}

// parameterValue returns a parameter's text, or a list of texts if its type is
// a list.
func (c *cloudFormationReader) parameterValue(t *sourceTree, text string) (*sourceTree, error) {
	if kind := c.root.get("Parameters", t.text, "Type"); kind != nil && (kind.text == "CommaDelimitedList" || strings.HasPrefix(kind.text, "List<")) {
		list := &sourceTree{at: t.at, kind: treeList}
		for part := range strings.SplitSeq(text, ",") {
			list.list = append(list.list, &sourceTree{at: t.at, kind: treeString, text: strings.TrimSpace(part)})
		}
		return list, nil
	}
	return textNode(t, text)
}

var subPart = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\$\{(!?)([^}]*)\}`) })

// sub evaluates Fn::Sub.
func (c *cloudFormationReader) sub(t *sourceTree, depth int) (*sourceTree, error) {
	text, own := t, (*sourceTree)(nil)
	if t.kind == treeList && len(t.list) == 2 {
		text, own = t.list[0], t.list[1]
	}
	if text.kind != treeString {
		return text, errors.New("the function Fn::Sub takes a text, or a list of a text and a mapping")
	}
	var b strings.Builder
	rest := text.text
	for rest != "" {
		at := subPart().FindStringSubmatchIndex(rest)
		if at == nil {
			break
		}
		b.WriteString(rest[:at[0]])
		name, literal := strings.TrimSpace(rest[at[4]:at[5]]), at[3] > at[2]
		rest = rest[at[1]:]
		if literal {
			b.WriteString("${" + name + "}")
			continue
		}
		value := &sourceTree{at: text.at, kind: treeMap, members: []treeMember{{"Ref", text.at, &sourceTree{at: text.at, kind: treeString, text: name}}}}
		if v := own.get(name); v != nil {
			value = v
		} else if resource, attr, ok := strings.Cut(name, "."); ok {
			return text, fmt.Errorf("%s of %s is known only when the stack is created", attr, resource)
		}
		part, where, err := c.scalar(value, depth+1)
		if err != nil {
			return where, err
		}
		if b.WriteString(part); b.Len() > maxText {
			break
		}
	}
	b.WriteString(rest)
	return textNode(text, b.String())
}

// arguments returns the n arguments of a function.
func arguments(t *sourceTree, n int, name string) ([]*sourceTree, error) {
	if t.kind != treeList || len(t.list) != n {
		return nil, fmt.Errorf("the function Fn::%s takes a list of %d values", name, n)
	}
	return t.list, nil
}

func (c *cloudFormationReader) join(t *sourceTree, depth int) (*sourceTree, error) {
	args, err := arguments(t, 2, "Join")
	if err != nil {
		return t, err
	}
	between, where, err := c.scalar(args[0], depth)
	if err != nil {
		return where, err
	}
	list, err := c.resolve(args[1], depth)
	if err != nil {
		return list, err
	}
	var b strings.Builder
	for i, e := range list.list {
		text, where, err := c.scalar(e, depth)
		if err != nil {
			return where, err
		}
		if i > 0 {
			b.WriteString(between)
		}
		if b.WriteString(text); b.Len() > maxText {
			break
		}
	}
	return textNode(t, b.String())
}

func (c *cloudFormationReader) selectElement(t *sourceTree, depth int) (*sourceTree, error) {
	args, err := arguments(t, 2, "Select")
	if err != nil {
		return t, err
	}
	text, where, err := c.scalar(args[0], depth)
	if err != nil {
		return where, err
	}
	list, err := c.resolve(args[1], depth)
	if err != nil {
		return list, err
	}
	i, err := strconv.Atoi(text)
	if err != nil || i < 0 || i >= len(list.list) {
		return t, fmt.Errorf("the function Fn::Select asks for element %s of a list of %d", text, len(list.list))
	}
	return c.resolve(list.list[i], depth)
}

func (c *cloudFormationReader) split(t *sourceTree, depth int) (*sourceTree, error) {
	args, err := arguments(t, 2, "Split")
	if err != nil {
		return t, err
	}
	between, where, err := c.scalar(args[0], depth)
	if err != nil {
		return where, err
	}
	text, where, err := c.scalar(args[1], depth)
	if err != nil {
		return where, err
	}
	list := &sourceTree{at: t.at, kind: treeList}
	for part := range strings.SplitSeq(text, between) {
		list.list = append(list.list, &sourceTree{at: t.at, kind: treeString, text: part})
	}
	return list, nil
}

func (c *cloudFormationReader) lookup(t *sourceTree, depth int) (*sourceTree, error) {
	if t.kind != treeList || len(t.list) < 3 {
		return t, errors.New("the function Fn::FindInMap takes a list of 3 values")
	}
	var names []string
	for _, e := range t.list[:3] {
		text, where, err := c.scalar(e, depth)
		if err != nil {
			return where, err
		}
		names = append(names, text)
	}
	found := c.root.get(append([]string{"Mappings"}, names...)...)
	if found == nil {
		return t, fmt.Errorf("there is no mapping %s", strings.Join(names, "."))
	}
	return found, nil
}

func (c *cloudFormationReader) branch(t *sourceTree, depth int) (*sourceTree, error) {
	args, err := arguments(t, 3, "If")
	if err != nil {
		return t, err
	}
	holds, err := c.condition(args[0].text, depth)
	if err != nil {
		return t, err
	}
	if holds {
		return c.resolve(args[1], depth)
	}
	return c.resolve(args[2], depth)
}

// condition reports whether a condition of the template holds.
func (c *cloudFormationReader) condition(name string, depth int) (bool, error) {
	t := c.root.get("Conditions", name)
	if t == nil {
		return false, fmt.Errorf("there is no condition %s", name)
	}
	return c.holds(t, depth+1)
}

func (c *cloudFormationReader) holds(t *sourceTree, depth int) (bool, error) {
	if c.steps++; depth > maxNesting || c.steps > maxSteps {
		return false, errors.New("conditions are nested too deeply or form a cycle")
	}
	if t.kind != treeMap || len(t.members) != 1 {
		return false, errors.New("a condition must be one function")
	}
	m := t.members[0]
	switch m.name {
	case "Condition":
		return c.condition(m.value.text, depth)
	case "Fn::Equals":
		args, err := arguments(m.value, 2, "Equals")
		if err != nil {
			return false, err
		}
		a, _, err := c.scalar(args[0], depth)
		if err != nil {
			return false, err
		}
		b, _, err := c.scalar(args[1], depth)
		return a == b, err
	case "Fn::Not":
		args, err := arguments(m.value, 1, "Not")
		if err != nil {
			return false, err
		}
		holds, err := c.holds(args[0], depth+1)
		return !holds, err
	case "Fn::And", "Fn::Or":
		if m.value.kind != treeList || len(m.value.list) > 10 {
			return false, fmt.Errorf("%s takes a list of 2 to 10 conditions", m.name)
		}
		all := m.name == "Fn::And"
		for _, e := range m.value.list {
			holds, err := c.holds(e, depth+1)
			if err != nil || holds != all {
				return holds, err
			}
		}
		return all, nil
	}
	return false, fmt.Errorf("%s is not a condition function", m.name)
}
