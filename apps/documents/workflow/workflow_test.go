package workflow

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// Every problem of a definition is reported, each at its place.
func TestCheck(t *testing.T) {
	valid := func(change func(*Definition)) Definition {
		d := Definition{Name: " Invoices ", Extraction: json.RawMessage(`{"fields":[{"name":"total","type":"amount"}]}`), ConfidenceThreshold: 0.5, ReviewThreshold: 0.8}
		change(&d)
		return d
	}
	fields := func(text string) Definition {
		return valid(func(d *Definition) { d.Extraction = json.RawMessage(`{"fields":[` + text + `]}`) })
	}
	for _, c := range []struct {
		name   string
		d      Definition
		places []string
	}{
		{"valid", valid(func(*Definition) {}), nil},
		{"all thresholds", valid(func(d *Definition) { d.ConfidenceThreshold, d.ReviewThreshold = 0, 1 }), nil},
		{"equal thresholds", valid(func(d *Definition) { d.ConfidenceThreshold = 0.8 }), nil},
		{"the longest name", valid(func(d *Definition) { d.Name = strings.Repeat("n", 200) }), nil},
		{"no name", valid(func(d *Definition) { d.Name = "  " }), []string{"name"}},
		{"a long name", valid(func(d *Definition) { d.Name = strings.Repeat("n", 201) }), []string{"name"}},
		{"crossed", valid(func(d *Definition) { d.ConfidenceThreshold = 0.9 }), []string{"reviewThreshold"}},
		{"negative", valid(func(d *Definition) { d.ConfidenceThreshold = -0.1 }), []string{"confidenceThreshold"}},
		{"above 1", valid(func(d *Definition) { d.ReviewThreshold = 1.1 }), []string{"reviewThreshold"}},
		{"no JSON", valid(func(d *Definition) { d.Extraction = json.RawMessage(`{`) }), []string{"extraction"}},
		{"too large", valid(func(d *Definition) { d.Extraction = json.RawMessage(strings.Repeat(" ", MaxExtraction+1)) }), []string{"extraction"}},
		{"no field", fields(""), []string{"extraction.fields"}},
		{"not configured", valid(func(d *Definition) {
			d.Extraction = json.RawMessage(`{"extractor":"service","verify":"model","fields":[{"name":"a"}]}`)
		}), []string{"extraction.extractor", "extraction.verify"}},
		{"unknown extractors", valid(func(d *Definition) {
			d.Extraction = json.RawMessage(`{"extractor":"x","verify":"y","fields":[{"name":"a"}]}`)
		}), []string{"extraction.extractor", "extraction.verify"}},
		{"verified by itself", valid(func(d *Definition) { d.Extraction = json.RawMessage(`{"verify":"builtin","fields":[{"name":"a"}]}`) }), []string{"extraction.verify"}},
		{"everything", valid(func(d *Definition) {
			d.Name, d.ReviewThreshold = "", 7
			d.Extraction = json.RawMessage(`{"fields":[{"name":"a"},{"name":"a","type":"x","labels":[""],"pattern":"(","match":")","minimum":"1"},{"name":""}]}`)
		}), []string{"name", "reviewThreshold", "extraction.fields[1].type", "extraction.fields[1].labels", "extraction.fields[1].pattern", "extraction.fields[1].match", "extraction.fields[1].minimum", "extraction.fields[1].name", "extraction.fields[2].name"}},
		{"bounds of text", fields(`{"name":"a","minimum":"1"}`), []string{"extraction.fields[0].minimum"}},
		{"a date as the bound of an amount", fields(`{"name":"a","type":"amount","maximum":"2026-01-01"}`), []string{"extraction.fields[0].maximum"}},
		{"a number as the bound of a date", fields(`{"name":"a","type":"date","minimum":"5"}`), []string{"extraction.fields[0].minimum"}},
		{"crossed bounds", fields(`{"name":"a","type":"number","minimum":"10","maximum":"9"}`), []string{"extraction.fields[0].maximum"}},
		{"equal bounds", fields(`{"name":"a","type":"number","minimum":"10","maximum":"10.0"}`), nil},
		{"bounds of dates", fields(`{"name":"a","type":"date","minimum":"2026-01-01","maximum":"2026-12-31"}`), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			checked, problems := c.d.Check([]string{"builtin"})
			var places []string
			for _, p := range problems {
				places = append(places, p.Place)
				if p.Message == "" || p.Code == "" {
					t.Errorf("%+v", p)
				}
			}
			if !slices.Equal(places, c.places) {
				t.Errorf("problems at %q, want %q: %+v", places, c.places, problems)
			}
			if len(problems) == 0 && (checked.Name != strings.TrimSpace(c.d.Name) || len(checked.Extract.Fields) != 1) {
				t.Errorf("%+v", checked)
			}
		})
	}
}
