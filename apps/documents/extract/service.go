package extract

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"net/http"
)

// Service asks a model service. The request is a JSON object with name, content
// (base64) and fields; the answer is one with fields: name, value or values, and
// confidence from 0 to 1.
//
// The address is the operator's. Workflows choose the service, never where it is.
type Service struct {
	URL    string
	Client *http.Client
}

type question struct {
	Name    string `json:"name"`
	Content []byte `json:"content"`
	Fields  []Spec `json:"fields"`
}

// Extract reads a document. When the service is out of order, or busy, another
// try is worth it; when it refuses the document, none is.
func (s *Service) Extract(ctx context.Context, f File, e Extraction) (Result, error) {
	body, err := json.Marshal(question{f.Name, f.Data, e.Fields})
	if err != nil {
		return Result{}, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, bytes.NewReader(body))
	if err != nil {
		return Result{}, fmt.Errorf("ask the model service: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := s.Client.Do(r)
	if err != nil {
		return Result{}, fmt.Errorf("ask the model service: %w", err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, MaxResult+1))
	switch {
	case err != nil:
		return Result{}, fmt.Errorf("read the model service's answer: %w", err)
	case answer.StatusCode == http.StatusRequestTimeout || answer.StatusCode == http.StatusTooManyRequests || answer.StatusCode >= 500:
		return Result{}, fmt.Errorf("the model service answers %s", answer.Status)
	case answer.StatusCode != http.StatusOK:
		return Result{}, unreadable("the model service refuses the document: %s: %.200q", answer.Status, text)
	case len(text) > MaxResult:
		return Result{}, unreadable("the model service's answer has more than %d bytes", MaxResult)
	}
	var told struct{ Fields []Field }
	if err := json.Unmarshal(text, &told); err != nil {
		return Result{}, fmt.Errorf("the model service's answer is not what it should be: %w", err)
	}
	fields := asked(e, told.Fields)
	return Result{Extractor: "service", Confidence: Combined(e, fields), Fields: fields}, nil
}

// asked are the fields that were asked for, in their order, whatever the service
// made of it.
func asked(e Extraction, told []Field) []Field {
	fields := make([]Field, len(e.Fields))
	for i, spec := range e.Fields {
		fields[i].Name = spec.Name
		for _, f := range told {
			if f.Name != spec.Name {
				continue
			}
			f.Source = "service"
			if math.IsNaN(f.Confidence) || f.Confidence < 0 || f.Value == "" && len(f.Values) == 0 {
				f.Confidence = 0
			}
			f.Confidence = min(f.Confidence, 1)
			fields[i] = f
			break
		}
	}
	return fields
}
