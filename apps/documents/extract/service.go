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

// Service is an extractor that calls a model service. The request is a JSON object
// with name, content (base64) and fields; the reply is an object with fields: name,
// value or values, and confidence from 0 to 1.
//
// The operator configures the URL. Workflows choose the service, never its URL.
type Service struct {
	URL    string
	Client *http.Client
}

type question struct {
	Name    string `json:"name"`
	Content []byte `json:"content"`
	Fields  []Spec `json:"fields"`
}

// Extract implements Extractor. If the service is down or busy, the error is worth
// a retry; if it rejects the document, it is not.
func (s *Service) Extract(ctx context.Context, f File, e Extraction) (Result, error) {
	body, err := json.Marshal(question{f.Name, f.Data, e.Fields})
	if err != nil {
		return Result{}, err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, bytes.NewReader(body))
	if err != nil {
		return Result{}, fmt.Errorf("call the model service: %w", err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := s.Client.Do(r)
	if err != nil {
		return Result{}, &Unavailable{"the model service cannot be reached", err}
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, MaxResult+1))
	switch {
	case err != nil:
		return Result{}, fmt.Errorf("read the model service's reply: %w", err)
	case answer.StatusCode == http.StatusRequestTimeout || answer.StatusCode == http.StatusTooManyRequests || answer.StatusCode >= 500:
		return Result{}, fmt.Errorf("the model service replies %s", answer.Status)
	case answer.StatusCode != http.StatusOK:
		return Result{}, unreadable("the model service rejects the document: %s", answer.Status)
	case len(text) > MaxResult:
		return Result{}, unreadable("the model service's reply has more than %d bytes", MaxResult)
	}
	var reply struct{ Fields []Field }
	if err := json.Unmarshal(text, &reply); err != nil {
		return Result{}, fmt.Errorf("decode the model service's reply: %w", err)
	}
	fields := asked(e, reply.Fields)
	return Result{Extractor: "service", Confidence: Combined(e, fields), Fields: fields}, nil
}

// asked returns the requested fields, in their order, whatever the service
// returned.
func asked(e Extraction, found []Field) []Field {
	fields := make([]Field, len(e.Fields))
	for i, spec := range e.Fields {
		fields[i].Name = spec.Name
		for _, f := range found {
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
