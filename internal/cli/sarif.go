package cli

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"maps"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/stator-db/stator/internal/model"
)

// The objects of SARIF 2.1.0, as far as they are used.
type (
	sarifLog struct {
		Schema  string     `json:"$schema"`
		Version string     `json:"version"`
		Runs    []sarifRun `json:"runs"`
	}
	sarifRun struct {
		Tool       sarifTool       `json:"tool"`
		Automation sarifAutomation `json:"automationDetails"`
		ColumnKind string          `json:"columnKind"`
		Results    []sarifResult   `json:"results"`
	}
	sarifTool struct {
		Driver sarifDriver `json:"driver"`
	}
	sarifDriver struct {
		Name           string      `json:"name"`
		Version        string      `json:"version"`
		InformationURI string      `json:"informationUri"`
		Rules          []sarifRule `json:"rules"`
	}
	sarifRule struct {
		ID               string    `json:"id"`
		ShortDescription sarifText `json:"shortDescription"`
		HelpURI          string    `json:"helpUri"`
	}
	sarifText struct {
		Text string `json:"text"`
	}
	sarifAutomation struct {
		ID string `json:"id"`
	}
	sarifResult struct {
		RuleID       string            `json:"ruleId"`
		RuleIndex    int               `json:"ruleIndex"`
		Level        string            `json:"level"`
		Message      sarifText         `json:"message"`
		Locations    []sarifLocation   `json:"locations"`
		Fingerprints map[string]string `json:"partialFingerprints"`
	}
	sarifLocation struct {
		Physical sarifPhysical `json:"physicalLocation"`
	}
	sarifPhysical struct {
		Artifact sarifArtifact `json:"artifactLocation"`
		Region   *sarifRegion  `json:"region,omitempty"`
	}
	sarifArtifact struct {
		URI  string `json:"uri"`
		Base string `json:"uriBaseId,omitempty"`
	}
	sarifRegion struct {
		Line   int `json:"startLine"`
		Column int `json:"startColumn,omitempty"`
	}
)

const (
	projectURI  = "https://github.com/stator-db/stator"
	modelDocURI = projectURI + "/blob/main/docs/model.md"
)

// printSARIF prints findings as a SARIF log, with a rule for each code. The
// identifier of the run contains the file, so that the logs of several models
// can be uploaded together.
func printSARIF(w io.Writer, r *findings) error {
	codes := slices.Sorted(maps.Keys(faultDescriptions))
	run := sarifRun{
		Tool:       sarifTool{sarifDriver{Name: "stator", Version: version().Version, InformationURI: projectURI, Rules: []sarifRule{}}},
		Automation: sarifAutomation{"stator-model-check/" + fileURI(r.file) + "/"},
		ColumnKind: "unicodeCodePoints",
		Results:    []sarifResult{},
	}
	for _, code := range codes {
		run.Tool.Driver.Rules = append(run.Tool.Driver.Rules, sarifRule{code, sarifText{faultDescriptions[code]}, modelDocURI})
	}
	artifact := sarifArtifact{URI: fileURI(r.file), Base: "%SRCROOT%"}
	if filepath.IsAbs(r.file) {
		artifact.Base = ""
	}
	seen := make(map[string]int)
	add := func(level string, f *model.Fault) {
		result := sarifResult{RuleID: f.Code, RuleIndex: slices.Index(codes, f.Code), Level: level, Message: sarifText{fullMessage(f)}}
		location := sarifLocation{sarifPhysical{Artifact: artifact}}
		if f.Position.Line > 0 {
			location.Physical.Region = &sarifRegion{f.Position.Line, f.Position.Column}
		}
		result.Locations = []sarifLocation{location}
		// The fingerprint is the same after lines are added above the fault.
		id := f.Code + "\x00" + f.Pattern + "\x00" + cmp.Or(f.Pattern, f.Message)
		seen[id]++
		sum := sha256.Sum256([]byte(id + strconv.Itoa(seen[id])))
		result.Fingerprints = map[string]string{"statorFault/v1": hex.EncodeToString(sum[:16])}
		run.Results = append(run.Results, result)
	}
	for _, f := range r.faults {
		add("error", f)
	}
	for _, n := range r.notes {
		add("note", (*model.Fault)(n))
	}
	return encodeIndented(w, sarifLog{Schema: "https://json.schemastore.org/sarif-2.1.0.json", Version: "2.1.0", Runs: []sarifRun{run}})
}
