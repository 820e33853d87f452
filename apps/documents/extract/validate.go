package extract

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"
)

// invalid is the highest confidence of a value that is not valid, as of a value of
// another type.
const invalid = 0.3

// checkRange validates the minimum and the maximum.
func (s *Spec) checkRange(add func(member, format string, args ...any)) {
	for _, b := range [][2]string{{"minimum", s.Minimum}, {"maximum", s.Maximum}} {
		member, bound := b[0], b[1]
		switch {
		case bound == "":
		case !s.numeric() && s.Type != "date":
			add(member, "only a number, an amount or a date has a %s", member)
		case !s.bounds(bound):
			add(member, "the %s is %.60q, but must be %s", member, bound, map[bool]string{true: "a number such as 10.5", false: "a date such as 2026-01-31"}[s.numeric()])
		}
	}
	if s.Minimum != "" && s.Maximum != "" && s.bounds(s.Minimum) && s.bounds(s.Maximum) && s.less(s.Maximum, s.Minimum) {
		add("maximum", "the maximum %.60s is below the minimum %.60s", s.Maximum, s.Minimum)
	}
}

func (s *Spec) numeric() bool { return s.Type == "number" || s.Type == "amount" }

// bounds reports whether a text can be compared with values of the field.
func (s *Spec) bounds(text string) bool {
	if s.numeric() {
		v, err := strconv.ParseFloat(text, 64)
		return err == nil && !math.IsNaN(v)
	}
	_, err := time.Parse(time.DateOnly, text)
	return err == nil
}

// less compares two texts that can be compared.
func (s *Spec) less(a, b string) bool {
	if !s.numeric() {
		return a < b
	}
	x, _ := strconv.ParseFloat(a, 64)
	y, _ := strconv.ParseFloat(b, 64)
	return x < y
}

// problem returns why a value is not valid, or "".
func (s *Spec) problem(ctx context.Context, value string) string {
	switch {
	case s.match != nil && s.match.find(ctx, value) == nil:
		return fmt.Sprintf("%.60q does not match %s", value, s.Match)
	case s.Minimum == "" && s.Maximum == "":
		return ""
	case !s.bounds(value):
		return fmt.Sprintf("%.60q is not a %s", value, map[bool]string{true: "number", false: "date"}[s.numeric()])
	case s.Minimum != "" && s.less(value, s.Minimum):
		return fmt.Sprintf("%.60s is below the minimum %s", value, s.Minimum)
	case s.Maximum != "" && s.less(s.Maximum, value):
		return fmt.Sprintf("%.60s is above the maximum %s", value, s.Maximum)
	}
	return ""
}

// validate lowers the confidence of values that are not valid, and says why.
func validate(ctx context.Context, e Extraction, r *Result) error {
	for i := range r.Fields {
		f, s := &r.Fields[i], &e.Fields[i]
		f.Problem = ""
		values := f.Values
		if f.Value != "" {
			values = []string{f.Value}
		}
		for _, v := range values {
			if f.Problem = s.problem(ctx, v); f.Problem != "" {
				f.Confidence = min(f.Confidence, invalid)
				break
			}
		}
		if err := inTime(ctx); err != nil {
			return err
		}
	}
	r.Confidence = Combined(e, r.Fields)
	return nil
}
