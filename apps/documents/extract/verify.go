package extract

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"
)

// Verified extracts fields with one extractor, verifies them with a second one if
// the workflow asks for it, and validates the values.
type Verified struct {
	First   Extractor
	Seconds map[string]Extractor // by name
}

// Extract implements Extractor. An error of the second extractor that is worth a
// retry is returned; if it can never read the document, the result has a note and
// less confidence.
func (v *Verified) Extract(ctx context.Context, f File, e Extraction) (Result, error) {
	r, err := v.extract(ctx, f, e)
	if err == nil {
		err = validate(ctx, e, &r)
	}
	return r, err
}

func (v *Verified) extract(ctx context.Context, f File, e Extraction) (Result, error) {
	r, err := v.First.Extract(ctx, f, e)
	if err != nil || e.Verify == "" {
		return r, err
	}
	second := v.Seconds[e.Verify]
	if second == nil {
		return r, fmt.Errorf("the workflow is verified by the extractor %q, which is not configured", e.Verify)
	}
	o, err := second.Extract(ctx, f, e)
	if IsUnreadable(err) {
		r.Notes = append(r.Notes, fmt.Sprintf("the verification by %s failed: %v", e.Verify, err))
		o, err = Result{Extractor: e.Verify, Fields: make([]Field, len(r.Fields))}, nil
	}
	if err != nil {
		return r, fmt.Errorf("verify with %s: %w", e.Verify, err)
	}
	return verify(e, r, o), nil
}

// verify compares two results field by field and combines their confidences.
//
// Two that agree are surer than each alone: the result is wrong only if both are. A
// value that only one found loses a fifth, or two fifths if it is the second. Of two
// that differ, the surer one is kept, with the less confidence the surer the other
// was.
func verify(e Extraction, r, o Result) Result {
	r.Verifier = o.Extractor
	r.Fields = slices.Clone(r.Fields)
	for i := range r.Fields {
		a, b := &r.Fields[i], o.Fields[i]
		found, other := a.Value != "" || len(a.Values) > 0, b.Value != "" || len(b.Values) > 0
		check := &Check{Value: b.Value, Confidence: b.Confidence, Agrees: found == other && agree(&e.Fields[i], *a, b)}
		switch {
		case !found && !other:
		case check.Agrees:
			a.Confidence = 1 - (1-a.Confidence)*(1-b.Confidence)
		case !other:
			a.Confidence *= 0.8
		case !found:
			name := a.Name
			*a = b
			a.Name, a.Confidence = name, 0.6*b.Confidence
		case b.Confidence > a.Confidence:
			*check = Check{Value: a.Value, Confidence: a.Confidence}
			sure := b.Confidence * (1 - a.Confidence/2)
			*a = b
			a.Confidence = sure
		default:
			a.Confidence *= 1 - b.Confidence/2
		}
		a.Check = check
	}
	r.Confidence = Combined(e, r.Fields)
	return r
}

// agree reports whether two values are the same for a reader.
func agree(s *Spec, a, b Field) bool {
	if len(a.Values) != len(b.Values) {
		return false
	}
	for i := range a.Values {
		if !same(s, a.Values[i], b.Values[i]) {
			return false
		}
	}
	return same(s, a.Value, b.Value)
}

func same(s *Spec, a, b string) bool {
	if v, ok := types[s.Type](b); ok {
		b = v
	}
	if s.Type == "number" || s.Type == "amount" {
		x, err := strconv.ParseFloat(a, 64)
		y, err2 := strconv.ParseFloat(b, 64)
		if err == nil && err2 == nil {
			return x == y
		}
	}
	return essence(a) == essence(b)
}

// essence returns the letters and digits of a text, in lower case.
func essence(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			return unicode.ToLower(r)
		}
		return -1
	}, text)
}
