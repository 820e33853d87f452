package extract

import (
	"strings"
	"testing"
)

// A value that breaks a rule of its field has little confidence, and the field says
// why. Bounds are valid themselves.
func TestValidation(t *testing.T) {
	for _, c := range []struct{ name, spec, text, problem string }{
		{"a match", `{"name":"no","match":"[A-Z]{2}-\\d+"}`, "no: NW-1", ""},
		{"a part matches", `{"name":"no","match":"[A-Z]{2}-\\d+"}`, "no: NW-1a", "does not match"},
		{"one of two alternatives", `{"name":"no","match":"a|b"}`, "no: b", ""},
		{"alternatives are whole too", `{"name":"no","match":"a|b"}`, "no: ax", "does not match"},
		{"the minimum", `{"name":"sum","type":"amount","minimum":"9.5"}`, "sum: 9.50", ""},
		{"below", `{"name":"sum","type":"amount","minimum":"9.5"}`, "sum: 9.49", "9.49 is below the minimum 9.5"},
		{"the maximum", `{"name":"sum","type":"number","maximum":"100"}`, "sum: 100.0", ""},
		{"above", `{"name":"sum","type":"number","maximum":"100"}`, "sum: 1000", "1000 is above the maximum 100"},
		{"not a number", `{"name":"sum","type":"number","maximum":"100"}`, "sum: many", `"many" is not a number`},
		{"a date", `{"name":"day","type":"date","minimum":"2026-01-01","maximum":"2026-01-31"}`, "day: 31.1.2026", ""},
		{"a late date", `{"name":"day","type":"date","minimum":"2026-01-01","maximum":"2026-01-31"}`, "day: 1.2.2026", "2026-02-01 is above the maximum 2026-01-31"},
		{"no value", `{"name":"sum","type":"number","maximum":"100"}`, "other: 1", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			e := extraction(t, `{"fields":[`+c.spec+`]}`)
			x := &Verified{First: new(Builtin)}
			r, err := x.Extract(t.Context(), File{"a.txt", []byte(c.text)}, e)
			if err != nil {
				t.Fatal(err)
			}
			f := r.Fields[0]
			if (f.Problem == "") != (c.problem == "") || !strings.Contains(f.Problem, c.problem) {
				t.Errorf("%+v, want the problem %q", f, c.problem)
			}
			if found := f.Value != ""; found && (f.Confidence > 0.3) != (c.problem == "") || r.Confidence != f.Confidence {
				t.Errorf("%q has the confidence %v, the document %v", f.Value, f.Confidence, r.Confidence)
			}
		})
	}
}

// Rows are validated one by one.
func TestValidationOfRows(t *testing.T) {
	e := extraction(t, `{"fields":[{"name":"sum","type":"number","maximum":"100"}]}`)
	r, err := (&Verified{First: new(Builtin)}).Extract(t.Context(), File{"a.csv", []byte("sum,x\n1,a\n101,b\n")}, e)
	if err != nil || len(r.Fields[0].Values) != 2 || r.Fields[0].Problem != "101 is above the maximum 100" || r.Fields[0].Confidence != 0.3 {
		t.Errorf("%+v, %v", r, err)
	}
}
