package code

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/stator-db/stator/internal/model"
)

// fail returns the statement that returns the errors of some tests; it is "" if there
// are none.
func (w *goWriter) fail(tests []string) string {
	if len(tests) == 0 {
		return ""
	}
	test := tests[0]
	if len(tests) > 1 {
		w.need("errors")
		test = "errors.Join(\n" + strings.Join(tests, ",\n") + ",\n)"
	}
	return fmt.Sprintf("if err := %s; err != nil {\nreturn nil, err\n}\n", test)
}

// checks returns the tests of values that become parts of keys. A Number and a listed
// value are text in Go, so that they are tested too.
func (w *goWriter) checks(all []keyCheck, value func(model.Param) string) (tests []string) {
	for _, c := range all {
		f := w.spec.field(c.param.Field)
		if f.shards > 0 {
			continue
		}
		arguments := []string{strconv.Quote(c.name()), strconv.Quote(c.key.Name), w.text(f, value(c.param))}
		function := "keyBound"
		if !c.bound() {
			function = "keyPart"
			arguments = append(arguments, strconv.Quote(c.next))
		}
		ends := c.others
		if c.bound() {
			ends = c.ends()
		}
		for _, end := range ends {
			arguments = append(arguments, strconv.Quote(end))
		}
		tests = append(tests, w.need(function)+"("+strings.Join(arguments, ", ")+")")
	}
	return tests
}

// stepFail returns the statement that returns the errors of the parameters of a step.
func (w *goWriter) stepFail(c *codeStep, variable string) string {
	tests := w.checks(w.spec.stepChecks(c), w.values(c, variable))
	for _, p := range c.addedSets(w.spec) {
		tests = append(tests, fmt.Sprintf("%s(%q, len(%s))", w.need("addedSet"), p.Field.Name+" of "+c.entity.Name, w.values(c, variable)(p)))
	}
	return w.fail(tests)
}

// updateExpression returns the UpdateExpression of a step that sets an attribute to a
// set of the caller's: an empty one removes the attribute. It is "" for other steps.
func (w *goWriter) updateExpression(c *codeStep, variable string) string {
	sets, replaced := w.spec.setParams(c), c.replacedSets(w.spec)
	if len(replaced) == 0 {
		return ""
	}
	w.need("updateExpression")
	var lines []string
	for _, clause := range c.Clauses {
		if p, ok := sets[clause.Value]; ok && clause.Section == "SET" {
			lines = append(lines, fmt.Sprintf("setClause(%q, %q, len(%s)),", clause.Name, clause.Value, w.values(c, variable)(p)))
		} else {
			lines = append(lines, fmt.Sprintf("updateClause{%q, %q},", clause.Section, clause.Text))
		}
	}
	return "aws.String(updateExpression(\n" + strings.Join(lines, "\n") + "\n))"
}

// quotedList returns texts as arguments, each after a comma.
func quotedList(texts []string, quote func(string) string) (list string) {
	for _, text := range texts {
		list += ", " + quote(text)
	}
	return list
}
