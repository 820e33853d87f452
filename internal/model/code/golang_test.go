package code

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/model"
)

// The generated Go code compiles, sends exactly the requests of the model's
// scenarios, gets the predicted replies, and decodes their items without loss.
func TestGeneratedGo(t *testing.T) {
	for _, file := range testModels(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			m := readServed(t, file)
			s, err := newSpec(m, Options{})
			if err != nil {
				t.Fatal(err)
			}
			cases := casesOf(t, s, 3)
			generated, err := Go(m, Options{Source: filepath.Base(file), Package: "main"})
			if err != nil {
				t.Fatal(err)
			}
			o, url := newCaseServer(t, m, cases)
			runGo(t, url, generated, goProgram(s, cases))
			o.compare(t)
		})
	}
}

// runGo runs a program of two files as a package of this module.
func runGo(t *testing.T, url string, generated, program []byte) (output string) {
	t.Helper()
	dir := t.TempDir()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	replace := make(map[string]string)
	for name, text := range map[string][]byte{"generated.go": generated, "program.go": program} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(here, "program", name)] = path
	}
	overlay, _ := json.Marshal(map[string]any{"Replace": replace})
	path := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(path, overlay, 0o644); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "program")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "-overlay", path, "./program").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), binary, url).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

// The generated Go code rejects text that would make keys ambiguous, and empty sets that
// cannot be stored, and reads shards to their ends.
func TestGeneratedGoKeys(t *testing.T) {
	testKeys(t, func(m *model.Model, url string, program []byte) string {
		generated, err := Go(m, Options{Package: "main"})
		if err != nil {
			t.Fatal(err)
		}
		return runGo(t, url, generated, program)
	}, "program.go.txt")
}

const goProgramStart = `package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
)

var (
	zzContext = context.Background()
	zzClient  = dynamodb.New(dynamodb.Options{BaseEndpoint: aws.String(os.Args[1]), Region: "us-east-1",
		Credentials: credentials.NewStaticCredentialsProvider("test", "test", ""), Retryer: aws.NopRetryer{}, HTTPClient: zzWhole{}})
)

// zzWhole reads replies before it returns them. Without it, about one in 1,500 replies of 60 KB,
// also of a plain net/http server, fails in the SDK with "use of closed network connection".
type zzWhole struct{}

func (zzWhole) Do(r *http.Request) (*http.Response, error) {
	reply, err := http.DefaultClient.Do(r)
	if err != nil {
		return nil, err
	}
	defer reply.Body.Close()
	text, err := io.ReadAll(reply.Body)
	reply.Body = io.NopCloser(bytes.NewReader(text))
	return reply, err
}

func zzStart(n int) {
	reply, err := http.Post(os.Args[1]+"/case/"+strconv.Itoa(n), "", nil)
	zzCheck(err)
	zzCheck(reply.Body.Close())
	if reply.StatusCode != http.StatusOK {
		panic(reply.Status)
	}
}

func zzCheck(err error) {
	if err != nil {
		panic(err)
	}
}

func zzPointer[T any](v T) *T { return &v }

func zzOK[T any](v T, err error) T {
	zzCheck(err)
	return v
}

func zzDecoded(it map[string]types.AttributeValue, err error) {
	zzCheck(err)
	_, err = zzClient.PutItem(zzContext, &dynamodb.PutItemInput{TableName: aws.String("decoded"), Item: it})
	zzCheck(err)
}

`

// goProgram returns a program that runs the cases.
func goProgram(s *codeSpec, cases []*runCase) []byte {
	w := newGoWriter(s)
	for _, e := range s.entities {
		w.entity(e)
	}
	for _, p := range s.patterns {
		w.pattern(p)
	}
	w.Reset()
	w.f("%s", goProgramStart)
	w.f("func main() {")
	for i := range cases {
		w.f("zzStart(%d)\nzzCase%d()", i, i)
	}
	w.f("}\n")
	for i, c := range cases {
		w.f("func zzCase%d() {", i)
		w.runCase(c)
		w.f("}\n")
	}
	return w.Bytes()
}

// runCase writes one call, and what is done with its result.
func (w *goWriter) runCase(c *runCase) {
	p := c.pattern
	name, argument := w.funcs[p], ""
	if w.inputArgument(p) != "" {
		argument = "p"
		w.f("p := %s", w.input(c))
	}
	switch {
	case p.operation == "Query":
		w.runQuery(c, argument)
	default:
		w.f("out, err := zzClient.%s(zzContext, zzOK(%s(%s)))\nzzCheck(err)", p.operation, name, argument)
	}
	switch p.operation {
	case "Query":
	case "GetItem":
		w.f("e, err := Decode%s(out)\nzzCheck(err)\n%s", name, w.decodedItem(p.steps[0], "e"))
	case "BatchGetItem":
		w.f("found, err := Decode%s(out)\nzzCheck(err)", name)
		for _, c := range p.steps {
			w.f("for _, e := range found.%s {\nzzDecoded(e.Item())\n}", exportedName(plural(c.entity.Name)))
		}
	case "TransactGetItems":
		w.f("found, err := Decode%s(p, out)\nzzCheck(err)", name)
		for _, c := range p.steps {
			if c.list {
				w.f("for _, e := range found.%s {\n%s\n}", exportedName(c.name), w.decodedItem(c, "e"))
			} else {
				w.f("%s", w.decodedItem(c, "found."+exportedName(c.name)))
			}
		}
	default:
		w.f("_ = out")
	}
}

func (w *goWriter) runQuery(c *runCase, argument string) {
	p, step := c.pattern, c.pattern.steps[0]
	name := w.funcs[p]
	if argument != "" {
		argument += ", "
	}
	follow := c.scenario.Calls[0].Follow
	if step.Shards > 1 {
		w.f("var at [%d]Position\nfor {\nqueries := zzOK(%s(%sat))\nif len(queries) == 0 {\nbreak\n}\nfor _, q := range queries {", step.Shards, name, argument)
		w.f("page := zzOK(Decode%s(zzOK(zzClient.Query(zzContext, q.Input))))", name)
		w.decodedPage(step)
		w.f("at[q.Shard] = page.Next\n}\n%s}", map[bool]string{false: "break\n"}[follow])
		return
	}
	w.f("in := zzOK(%s(%snil))\nfor {\npage := zzOK(Decode%s(zzOK(zzClient.Query(zzContext, in))))", name, argument, name)
	w.decodedPage(step)
	if follow {
		w.f("if page.Next != nil {\nin = zzOK(%s(%spage.Next))\ncontinue\n}", name, argument)
	}
	w.f("break\n}")
}

func (w *goWriter) decodedPage(step *codeStep) {
	if len(step.with) == 0 {
		w.f("for _, e := range page.Items {\n%s\n}", w.decodedItem(step, "e"))
		return
	}
	for _, e := range step.kinds() {
		w.f("for _, e := range page.%s {\nzzDecoded(e.Item())\n}", exportedName(plural(e.Name)))
	}
}

// decodedItem returns the statement that reports a decoded item.
func (w *goWriter) decodedItem(c *codeStep, variable string) string {
	if len(c.returns) == 0 {
		return "zzDecoded(" + variable + ".Item())"
	}
	text := "it := map[string]types.AttributeValue{}"
	for _, a := range c.returns {
		f := a.own
		if f == nil {
			f = &codeField{Field: a.Field, optional: a.optional}
		}
		member := variable + "." + exportedName(a.Name)
		if isPointer(f) {
			text += fmt.Sprintf("\nif %s != nil {\nit[%q] = %s\n}", member, a.Name, w.encode(f, "*"+member))
		} else {
			text += fmt.Sprintf("\nit[%q] = %s", a.Name, w.encode(f, member))
		}
	}
	return text + "\nzzDecoded(it, nil)"
}

// input returns the argument p of a case.
func (w *goWriter) input(c *runCase) string {
	p := c.pattern
	if p.single() {
		return w.stepInput(p.steps[0], c.arguments[0])
	}
	var members []string
	for _, s := range p.steps {
		if !s.hasInput() {
			continue
		}
		var all []string
		for _, a := range c.step(s) {
			all = append(all, w.stepInput(s, a))
		}
		text := all[0]
		if s.list {
			text = "[]" + w.inputs[s] + "{" + strings.Join(all, ", ") + "}"
		}
		members = append(members, exportedName(s.name)+": "+text)
	}
	return w.funcs[p] + "Params{" + strings.Join(members, ", ") + "}"
}

func (w *goWriter) stepInput(s *codeStep, a model.Arguments) string {
	var members []string
	if s.put() {
		var fields []string
		for _, f := range s.entity.fields {
			if v, ok := a.Item[f.Name]; ok {
				fields = append(fields, w.fields[f.Field]+": "+w.argument(f, v, f.optional))
			}
		}
		text := w.types[s.entity] + "{" + strings.Join(fields, ", ") + "}"
		if len(s.params) == 0 {
			return text
		}
		members = append(members, "Item: "+text)
	}
	for _, x := range s.params {
		members = append(members, w.members[x]+": "+w.argument(x.field, a.Values[x.Param], false))
	}
	return w.inputs[s] + "{" + strings.Join(members, ", ") + "}"
}

func (w *goWriter) argument(f *codeField, v item.Value, optional bool) string {
	if optional && isPointer(f) {
		return fmt.Sprintf("zzPointer(%s(%s))", w.goType(f), w.goLiteral(f, v))
	}
	return w.goLiteral(f, v)
}
