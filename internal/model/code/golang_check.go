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
	return w.fail(w.checks(w.spec.stepChecks(c), w.values(c, variable)))
}

// quotedList returns texts as arguments, each after a comma.
func quotedList(texts []string, quote func(string) string) (list string) {
	for _, text := range texts {
		list += ", " + quote(text)
	}
	return list
}
