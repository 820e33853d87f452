package api

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/stator-db/stator/apps/documents/extract"
	"github.com/stator-db/stator/apps/documents/table"
	"github.com/stator-db/stator/apps/documents/workflow"
	"github.com/stator-db/stator/apps/internal/web"
)

// edited is the state of the editor's form: what a person has typed, which need not
// be valid.
type edited struct {
	AsJSON             bool   // whether JSON is edited
	JSON               string // then the definition
	Name               string
	Confidence, Review string
	Extractor, Verify  string
	Fields             []editedField

	Was    string // the time of the change that the editor has read
	Sample string // a document, as batch/document
	Text   string // a text as the sample
	Page   int    // of the preview
	Live   bool   // whether the script asks, not a person
	Action string // the button, such as add or remove:2

	file extract.File // the uploaded sample
}

// editedField is one field. Labels are lines.
type editedField struct {
	Name, Type, Labels, Pattern, Match, Minimum, Maximum string
	Required                                             bool
}

// Details reports whether the rarer settings are in use.
func (f editedField) Details() bool {
	return f.Pattern+f.Match+f.Minimum+f.Maximum != ""
}

// firstFields are the fields of a new workflow.
var firstFields = []editedField{
	{Name: "number", Type: "text", Labels: "Invoice number\nInvoice no", Required: true},
	{Name: "date", Type: "date", Labels: "Date", Required: true},
	{Name: "total", Type: "amount", Labels: "Total\nAmount due", Required: true},
}

// Places of problems that only a form has.
const (
	placeJSON   = "json"
	placeSample = "sample"
)

// editedOf returns the form of a stored workflow.
func editedOf(w table.Workflow) (edited, error) {
	e, err := fromDefinition(workflow.Definition{
		Name: w.Name, Extraction: json.RawMessage(w.Extraction), ConfidenceThreshold: w.ConfidenceThreshold, ReviewThreshold: w.ReviewThreshold,
	})
	e.Was = w.Updated
	return e, err
}

// fromDefinition returns the form of a definition.
func fromDefinition(d workflow.Definition) (edited, error) {
	x, err := extract.DecodeExtraction(d.Extraction)
	if err != nil {
		return edited{}, err
	}
	e := edited{
		Name: d.Name, Confidence: strconv.FormatFloat(d.ConfidenceThreshold, 'f', -1, 64), Review: strconv.FormatFloat(d.ReviewThreshold, 'f', -1, 64),
		Extractor: x.First(), Verify: x.Verify,
	}
	for _, f := range x.Fields {
		if f.Type == "" {
			f.Type = "text"
		}
		e.Fields = append(e.Fields, editedField{
			Name: f.Name, Type: string(f.Type), Labels: strings.Join(f.Labels, "\n"), Pattern: f.Pattern,
			Match: f.Match, Minimum: f.Minimum, Maximum: f.Maximum, Required: f.Required,
		})
	}
	return e, nil
}

// definition returns what the form defines. Problems are in texts that cannot be
// decoded; the rules of a definition are in package workflow.
func (e *edited) definition() (workflow.Definition, []workflow.Problem) {
	if e.AsJSON {
		return fromJSON(e.JSON)
	}
	d := workflow.Definition{Name: e.Name}
	var problems []workflow.Problem
	for _, t := range []struct {
		place, text string
		into        *float64
	}{{"confidenceThreshold", e.Confidence, &d.ConfidenceThreshold}, {"reviewThreshold", e.Review, &d.ReviewThreshold}} {
		v, err := strconv.ParseFloat(strings.Replace(strings.TrimSpace(t.text), ",", ".", 1), 64)
		if err != nil {
			problems = append(problems, workflow.Problem{Place: t.place, Code: workflow.BadThresholds, Message: fmt.Sprintf("the threshold is %.40q, but must be a number from 0 to 1", t.text)})
		}
		*t.into = v
	}
	x := extract.Extraction{Extractor: e.Extractor, Verify: e.Verify}
	for _, f := range e.Fields {
		x.Fields = append(x.Fields, extract.Spec{
			Name: strings.TrimSpace(f.Name), Type: extract.Type(f.Type), Labels: lines(f.Labels), Pattern: f.Pattern,
			Match: f.Match, Minimum: strings.TrimSpace(f.Minimum), Maximum: strings.TrimSpace(f.Maximum), Required: f.Required,
		})
	}
	d.Extraction, _ = json.Marshal(x) // text can always be encoded
	return d, problems
}

func fromJSON(text string) (workflow.Definition, []workflow.Problem) {
	var d workflow.Definition
	in := json.NewDecoder(strings.NewReader(text))
	in.DisallowUnknownFields()
	err := in.Decode(&d)
	if err == nil {
		if _, more := in.Token(); more != io.EOF {
			err = errors.New("there is text after the definition")
		}
	}
	if err != nil {
		return d, []workflow.Problem{{Place: placeJSON, Code: workflow.BadExtraction, Message: fmt.Sprintf("the definition is not JSON of the right form: %v", err)}}
	}
	return d, nil
}

// check returns the definition without problems, or all problems.
func (e *edited) check(methods []string) (workflow.Checked, []workflow.Problem) {
	d, problems := e.definition()
	if e.AsJSON && len(problems) > 0 {
		return workflow.Checked{}, problems
	}
	checked, more := d.Check(methods)
	for _, p := range more {
		known := func(q workflow.Problem) bool { return q.Place == p.Place }
		if !slices.ContainsFunc(problems, known) {
			problems = append(problems, p)
		}
	}
	return checked, problems
}

// act does what a button of the form asks for.
func (e *edited) act() []workflow.Problem {
	name, number, _ := strings.Cut(e.Action, ":")
	i, err := strconv.Atoi(number)
	valid := err == nil && i >= 0 && i < len(e.Fields)
	switch {
	case name == "add":
		e.Fields = append(e.Fields, editedField{Type: "text"})
	case name == "remove" && valid:
		e.Fields = slices.Delete(e.Fields, i, i+1)
	case name == "up" && valid && i > 0:
		e.Fields[i-1], e.Fields[i] = e.Fields[i], e.Fields[i-1]
	case name == "page" && err == nil:
		e.Page = max(i, 1)
	case name == "json" && !e.AsJSON:
		d, problems := e.definition()
		if len(problems) > 0 {
			return problems
		}
		text, _ := json.MarshalIndent(d, "", "  ")
		e.AsJSON, e.JSON = true, string(text)
	case name == "form" && e.AsJSON:
		return e.toFields()
	}
	return nil
}

// toFields replaces JSON with its fields.
func (e *edited) toFields() []workflow.Problem {
	d, problems := fromJSON(e.JSON)
	if len(problems) > 0 {
		return problems
	}
	f, err := fromDefinition(d)
	if err != nil {
		return []workflow.Problem{{Place: placeJSON, Code: workflow.BadExtraction, Message: err.Error()}}
	}
	e.AsJSON, e.JSON = false, ""
	e.Name, e.Confidence, e.Review, e.Extractor, e.Verify, e.Fields = f.Name, f.Confidence, f.Review, f.Extractor, f.Verify, f.Fields
	return nil
}

// readEdited reads the form. The sample is read up to a size, or not at all if that
// is 0.
func readEdited(c *call, limit int64) (edited, error) {
	values := make(url.Values)
	var file extract.File
	kind, _, _ := mime.ParseMediaType(c.r.Header.Get("Content-Type"))
	c.r.Body = http.MaxBytesReader(c.w, c.r.Body, max(limit, extract.MaxFile)+maxTexts)
	if kind == "multipart/form-data" {
		if err := readParts(c, values, &file, limit); err != nil {
			return edited{}, err
		}
	} else if err := c.r.ParseForm(); err != nil {
		return edited{}, web.Refuse(http.StatusBadRequest, "bad_form", "the form cannot be read: %v", err)
	} else {
		values = c.r.PostForm
	}
	return editedFrom(values, file), nil
}

// maxTexts is the maximum size of the editor's form without its file, in bytes.
const maxTexts = 1 << 20

func readParts(c *call, values url.Values, file *extract.File, limit int64) error {
	form, err := c.r.MultipartReader()
	if err != nil {
		return web.Refuse(http.StatusBadRequest, "bad_form", "the form cannot be read: %v", err)
	}
	for left := int64(maxTexts); ; {
		part, err := form.NextPart()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return web.Refuse(http.StatusBadRequest, "bad_form", "the form cannot be read: %v", err)
		}
		isFile := part.FormName() == "file"
		most := left
		if isFile {
			most = limit
		}
		if isFile && limit == 0 {
			continue
		}
		data, err := io.ReadAll(io.LimitReader(part, most+1))
		if err != nil {
			return web.Refuse(http.StatusBadRequest, "bad_form", "the form cannot be read: %v", err)
		}
		if int64(len(data)) > most {
			return web.Refuse(http.StatusRequestEntityTooLarge, "too_large", "the %s has more than %d bytes", part.FormName(), most)
		}
		if isFile {
			*file = extract.File{Name: part.FileName(), Data: data}
			continue
		}
		left -= int64(len(data))
		values.Add(part.FormName(), string(data))
	}
}

// editedFrom returns the form with these values. A person's line ends are CR and LF.
func editedFrom(v url.Values, file extract.File) edited {
	text := func(name string) string { return strings.ReplaceAll(v.Get(name), "\r\n", "\n") }
	e := edited{
		AsJSON: v.Get("tab") == "json", JSON: text("json"), Name: v.Get("name"), Confidence: v.Get("confidence"), Review: v.Get("review"),
		Extractor: v.Get("extractor"), Verify: v.Get("verify"), Was: v.Get("was"), Sample: v.Get("sample"), Text: text("text"),
		Live: v.Has("live"), Action: v.Get("action"), file: file,
	}
	if over := v.Get("over"); over != "" {
		e.Was = over
	}
	e.Page, _ = strconv.Atoi(v.Get("page"))
	e.Page = max(e.Page, 1)
	for i := 0; i <= 1000 && v.Has(fmt.Sprintf("field.%d.name", i)); i++ {
		of := func(member string) string { return text(fmt.Sprintf("field.%d.%s", i, member)) }
		e.Fields = append(e.Fields, editedField{
			Name: of("name"), Type: of("type"), Labels: of("labels"), Pattern: of("pattern"), Match: of("match"),
			Minimum: of("minimum"), Maximum: of("maximum"), Required: of("required") != "",
		})
	}
	return e
}
