// Package workflow has the rules of a workflow's definition. The API, the editor and
// trials use them.
package workflow

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/stator-db/stator/apps/documents/extract"
)

// Definition is what a person defines of a workflow.
type Definition struct {
	Name                string          `json:"name"`
	Extraction          json.RawMessage `json:"extraction"`
	ConfidenceThreshold float64         `json:"confidenceThreshold"`
	ReviewThreshold     float64         `json:"reviewThreshold"`
}

// The limits of a definition.
const (
	maxName       = 200
	MaxExtraction = 60 << 10 // bytes of JSON
)

// The codes of problems, for programs.
const (
	BadName       = "bad_name"
	BadThresholds = "bad_thresholds"
	BadExtraction = "bad_extraction"
	NoService     = "no_service"
	TooLarge      = "too_large"
)

// Problem is a rule that a definition breaks.
type Problem struct {
	Place   string `json:"place"` // the path of a member, such as extraction.fields[0].pattern
	Code    string `json:"code"`
	Message string `json:"message"`
}

// Checked is a definition without problems, and its parsed extraction.
type Checked struct {
	Definition
	Extract extract.Extraction
}

// Check returns a definition in its normal form, or its problems. Methods are the
// extractors that can be chosen.
func (d Definition) Check(methods []string) (Checked, []Problem) {
	var all []Problem
	add := func(place, code, format string, args ...any) {
		all = append(all, Problem{place, code, fmt.Sprintf(format, args...)})
	}
	d.Name = strings.TrimSpace(d.Name)
	if d.Name == "" || len(d.Name) > maxName || !utf8.ValidString(d.Name) {
		add("name", BadName, "the name must have 1 to %d bytes", maxName)
	}
	d.checkThresholds(add)
	if len(d.Extraction) > MaxExtraction {
		add("extraction", TooLarge, "the extraction has %d bytes, but can have at most %d", len(d.Extraction), MaxExtraction)
		return Checked{}, all
	}
	e, err := extract.DecodeExtraction(d.Extraction)
	if err != nil {
		add("extraction", BadExtraction, "%v", err)
		return Checked{}, all
	}
	for _, p := range e.Check() {
		add("extraction."+p.Place, BadExtraction, "%s", p.Message)
	}
	for _, chosen := range [][2]string{{"extractor", e.Extractor}, {"verify", e.Verify}} {
		place, x := chosen[0], chosen[1]
		if x != "" && !slices.Contains(methods, x) && !slices.ContainsFunc(all, at("extraction."+place)) {
			add("extraction."+place, NoService, "the extractor %q is not configured: choose the built-in extractor", x)
		}
	}
	if len(all) > 0 {
		return Checked{}, all
	}
	if d.Extraction, err = json.Marshal(e); err != nil {
		add("extraction", BadExtraction, "%v", err)
	}
	return Checked{d, e}, all
}

func at(place string) func(Problem) bool {
	return func(p Problem) bool { return p.Place == place }
}

// checkThresholds also finds numbers that are not ordered, such as NaN.
func (d *Definition) checkThresholds(add func(place, code, format string, args ...any)) {
	const must = "0 <= confidenceThreshold <= reviewThreshold <= 1"
	c, r := d.ConfidenceThreshold, d.ReviewThreshold
	switch {
	case !(c >= 0 && c <= 1):
		add("confidenceThreshold", BadThresholds, "the threshold is %v, but must be from 0 to 1", c)
	case !(r >= 0 && r <= 1):
		add("reviewThreshold", BadThresholds, "the threshold is %v, but must be from 0 to 1", r)
	case c > r:
		add("reviewThreshold", BadThresholds, "the thresholds are %v and %v, but must be "+must, c, r)
	}
}
