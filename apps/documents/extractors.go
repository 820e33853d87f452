package documents

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/config"

	"github.com/stator-db/stator/apps/documents/extract"
)

// ModelKey is the environment variable with the key of the language model. Without
// it, requests to Bedrock are signed with AWS's own environment.
const ModelKey = "DOCUMENTS_MODEL_KEY"

// LanguageModel configures a language model.
type LanguageModel struct {
	API  string // "openai" or "bedrock"; empty means that there is none
	URL  string
	Name string
}

func (m LanguageModel) valid() bool {
	switch m.API {
	case "":
		return m.URL == "" && m.Name == ""
	case "openai":
		return m.URL != "" && m.Name != ""
	case "bedrock":
		return m.Name != ""
	}
	return false
}

// extractors returns the extractors that workflows can choose. Each can verify the
// others.
func (o *Options) extractors(ctx context.Context, reader *extract.Builtin) (map[string]extract.Extractor, error) {
	single := map[string]extract.Extractor{"builtin": reader}
	if o.ModelService != "" {
		single["service"] = &extract.Service{URL: o.ModelService, Client: &http.Client{Timeout: 45 * time.Second}}
	}
	if o.Model.API != "" {
		m, err := o.model(ctx, reader)
		if err != nil {
			return nil, err
		}
		single["model"] = m
	}
	all := make(map[string]extract.Extractor)
	for name, x := range single {
		all[name] = &extract.Verified{First: x, Seconds: single}
	}
	return all, nil
}

// reader returns the extractor that also reads files for previews.
func (o *Options) reader() *extract.Builtin {
	return &extract.Builtin{
		PDF: extract.NewPDFReader(2, 20*time.Second),
		OCR: extract.NewOCR(o.OCR, o.OCRLanguages, 2, 45*time.Second),
	}
}

func (o *Options) model(ctx context.Context, reader extract.Reader) (*extract.Model, error) {
	m := &extract.Model{
		API: o.Model.API, URL: o.Model.URL, Name: o.Model.Name, Key: os.Getenv(ModelKey),
		Client: &http.Client{Timeout: 45 * time.Second}, Reader: reader, Now: o.Now,
	}
	if m.API != "bedrock" || m.URL != "" && m.Key != "" {
		return m, nil
	}
	settings, err := config.LoadDefaultConfig(ctx)
	if err != nil {
		return nil, fmt.Errorf("read AWS's settings for the language model: %w", err)
	}
	m.Credentials, m.Region = settings.Credentials, settings.Region
	if m.Region == "" {
		return nil, fmt.Errorf("--model-api bedrock needs a region, such as AWS_REGION=eu-west-1")
	}
	if m.URL == "" {
		m.URL = "https://bedrock-runtime." + m.Region + ".amazonaws.com"
	}
	return m, nil
}
