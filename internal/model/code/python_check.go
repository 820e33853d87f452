package code

import (
	"fmt"

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
	for _, line := range lines {
		w.f("%s", line)
	}
}
