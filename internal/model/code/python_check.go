package code

import (
	"fmt"
	"strings"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/model"
)

// checks returns the statements that test values before they become parts of keys. A
// number has only digits, a sign and a point.
func (w *pyWriter) checks(all []keyCheck, value func(model.Param) string) (lines []string) {
	for _, c := range all {
		f := w.spec.field(c.param.Field)
		if f.shards > 0 || f.Type == item.N && !c.numeric() {
			continue
		}
		begin := fmt.Sprintf("(%s, %s, %s", quotePy(c.name()), quotePy(c.key.Name), w.text(f, value(c.param)))
		if c.bound() {
			lines = append(lines, w.need("_key_bound")+begin+quotedList(c.ends(), quotePy)+")")
		} else {
			lines = append(lines, w.need("_key_part")+begin+quotedList(append([]string{c.next}, c.others...), quotePy)+")")
		}
	}
	return lines
}

// stepChecks writes the tests of the parameters of a step.
func (w *pyWriter) stepChecks(c *codeStep, variable string) {
	lines := w.checks(w.spec.stepChecks(c), w.values(c, variable))
	for _, p := range c.addedSets(w.spec) {
		lines = append(lines, fmt.Sprintf("%s(%s, %s)", w.need("_added_set"), quotePy(p.Field.Name+" of "+c.entity.Name), w.values(c, variable)(p)))
	}
	for _, line := range lines {
		w.f("%s", line)
	}
}

// updateExpression returns the UpdateExpression of a step that sets an attribute to a
// set of the caller's: an empty one removes the attribute.
func (w *pyWriter) updateExpression(c *codeStep, variable string) string {
	sets := w.spec.setParams(c)
	var lines []string
	for _, clause := range c.Clauses {
		if p, ok := sets[clause.Value]; ok && clause.Section == "SET" {
			lines = append(lines, fmt.Sprintf("%s(%s, %s, %s),", w.need("_set_clause"), quotePy(clause.Name), quotePy(clause.Value), w.values(c, variable)(p)))
		} else {
			lines = append(lines, fmt.Sprintf("(%s, %s),", quotePy(clause.Section), quotePy(clause.Text)))
		}
	}
	return w.need("_update_expression") + "(\n" + strings.Join(lines, "\n") + "\n)"
}
