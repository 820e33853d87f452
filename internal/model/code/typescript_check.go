package code

import (
	"fmt"
	"strings"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/model"
)

// checks returns the statements that test values before they become parts of keys. The
// compiler tests listed values, and a number has only digits, a sign and a point.
func (w *tsWriter) checks(all []keyCheck, value func(model.Param) string) (lines []string) {
	for _, c := range all {
		f := w.spec.field(c.param.Field)
		number := f.Type == item.N && !exactNumber(f) && !c.numeric()
		if f.shards > 0 || number || len(f.values) > 0 {
			continue
		}
		begin := fmt.Sprintf("(%s, %s, %s", quoteTS(c.name()), quoteTS(c.key.Name), w.text(f, value(c.param)))
		if c.bound() {
			lines = append(lines, w.need("keyBound")+begin+quotedList(c.ends(), quoteTS)+");")
		} else {
			lines = append(lines, w.need("keyPart")+begin+quotedList(append([]string{c.next}, c.others...), quoteTS)+");")
		}
	}
	return lines
}

// stepChecks returns the tests of the parameters of a step, each with the end of its line.
func (w *tsWriter) stepChecks(c *codeStep, variable string) (text string) {
	lines := w.checks(w.spec.stepChecks(c), w.values(c, variable))
	for _, p := range c.addedSets(w.spec) {
		lines = append(lines, fmt.Sprintf("%s(%s, %s.length);", w.need("addedSet"), quoteTS(p.Field.Name+" of "+c.entity.Name), w.values(c, variable)(p)))
	}
	for _, line := range lines {
		text += line + "\n"
	}
	return text
}

// updateExpression returns the UpdateExpression of a step that sets an attribute to a
// set of the caller's: an empty one removes the attribute.
func (w *tsWriter) updateExpression(c *codeStep, variable string) string {
	sets := w.spec.setParams(c)
	var lines []string
	for _, clause := range c.Clauses {
		if p, ok := sets[clause.Value]; ok && clause.Section == "SET" {
			lines = append(lines, fmt.Sprintf("%s(%s, %s, %s.length),", w.need("setClause"), quoteTS(clause.Name), quoteTS(clause.Value), w.values(c, variable)(p)))
		} else {
			lines = append(lines, fmt.Sprintf("[%s, %s],", quoteTS(clause.Section), quoteTS(clause.Text)))
		}
	}
	return w.need("updateExpression") + "(\n" + strings.Join(lines, "\n") + "\n)"
}
