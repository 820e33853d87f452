package code

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/model"
)

// The generated Python does on a server what TestGeneratedGo requires, and mypy
// accepts it, if it is installed.
func TestGeneratedPython(t *testing.T) {
	needPython(t)
	for _, file := range testModels(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			m := readServed(t, file)
			s, err := newSpec(m, Options{})
			if err != nil {
				t.Fatal(err)
			}
			cases := casesOf(t, s, 3)
			server, url := newCaseServer(t, m, cases)
			runPython(t, m, url, pyProgram(s, cases))
			server.compare(t)
		})
	}
}

// The generated Python does what TestGeneratedGoKeys requires.
func TestGeneratedPythonKeys(t *testing.T) {
	needPython(t)
	testKeys(t, func(m *model.Model, url string, program []byte) string { return runPython(t, m, url, program) }, "program.py")
}

func needPython(t *testing.T) {
	t.Helper()
	if err := exec.CommandContext(t.Context(), "python3", "-c", "import boto3, sys; sys.exit(sys.version_info < (3, 10))").Run(); err != nil {
		t.Skip("boto3 with Python 3.10 or later is not installed")
	}
}

// runPython runs a program that imports the code of a model as generated.
func runPython(t *testing.T, m *model.Model, url string, program []byte) (output string) {
	t.Helper()
	generated, err := Python(m, Options{Source: "a model"})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, text := range map[string][]byte{"generated.py": generated, "program.py": program} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if exec.CommandContext(t.Context(), "python3", "-m", "mypy", "--version").Run() == nil {
		check := exec.CommandContext(t.Context(), "python3", "-m", "mypy", "--strict", "generated.py")
		check.Dir = dir
		if out, err := check.CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
	out, err := exec.CommandContext(t.Context(), "python3", filepath.Join(dir, "program.py"), url).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return string(out)
}

const pyProgramStart = `import sys
import urllib.request
from decimal import Decimal

import boto3
from botocore.config import Config

import generated as m

url = sys.argv[1]
client = boto3.client("dynamodb", endpoint_url=url, region_name="us-east-1", aws_access_key_id="test", aws_secret_access_key="test",
                      config=Config(retries={"total_max_attempts": 1}))


def start(n):
    urllib.request.urlopen(urllib.request.Request(f"{url}/case/{n}", method="POST")).close()


def decoded(item):
    client.put_item(TableName="decoded", Item=item)


def encoded(value):
    if isinstance(value, str):
        return {"S": value}
    if isinstance(value, bool):
        return {"BOOL": value}
    if isinstance(value, Decimal):
        return {"N": format(value, "f")}
    if isinstance(value, set):
        return {"SS": sorted(value)}
    raise TypeError(type(value))


`

// pyProgram returns a program that runs the cases.
func pyProgram(s *codeSpec, cases []*runCase) []byte {
	w := newPyWriter(s)
	w.all()
	w.Reset()
	w.WriteString(pyProgramStart)
	for i, c := range cases {
		w.f("start(%d)", i)
		w.runCase(c)
	}
	return []byte(w.String())
}

func (w *pyWriter) runCase(c *runCase) {
	p := c.pattern
	arguments := w.input(c)
	if p.operation == "Query" {
		w.runQuery(c, arguments)
		return
	}
	w.f("out = client.%s(**m.%s(%s))", snakeName(p.operation), w.funcs[p], arguments)
	decode := "m.decode_" + w.funcs[p]
	switch p.operation {
	case "GetItem":
		w.f("e = %s(out)\n%s", decode, w.decodedItem(p.steps[0]))
	case "BatchGetItem":
		w.f("found = %s(out)", decode)
		for _, e := range p.entities("") {
			w.f("for e in found.%s:\n    decoded(e.item())", pyList(e))
		}
	case "TransactGetItems":
		var lists []string
		for _, s := range p.limited() {
			lists = append(lists, fmt.Sprintf(", %s=[0] * %d", w.members[s], len(c.step(s))))
		}
		w.f("found = %s(out%s)", decode, strings.Join(lists, ""))
		for _, c := range p.steps {
			list := "found." + w.members[c]
			if !c.list {
				list = "[" + list + "]"
			}
			w.f("for e in %s:\n    %s", list, w.decodedItem(c))
		}
	}
}

func (w *pyWriter) runQuery(c *runCase, arguments string) {
	p, step := c.pattern, c.pattern.steps[0]
	if arguments != "" {
		arguments += ", "
	}
	follow := c.scenario.Calls[0].Follow
	if step.Shards > 1 {
		w.f("at = [m.Position()] * %d\nwhile queries := m.%s(%sstart=at):\n    for q in queries:\n        page = m.decode_%s(client.query(**q.request))", step.Shards, w.funcs[p], arguments, w.funcs[p])
		w.decodedPage(step)
		w.f("        at[q.shard] = page.next")
		if !follow {
			w.f("    break")
		}
		return
	}
	w.f("request = m.%s(%sstart=None)\nfor _ in range(1000):\n    if request:\n        page = m.decode_%s(client.query(**request))", w.funcs[p], arguments, w.funcs[p])
	w.decodedPage(step)
	if follow {
		w.f("    if page.next is not None:\n        request = m.%s(%sstart=page.next)\n        continue", w.funcs[p], arguments)
	}
	w.f("    break")
}

func (w *pyWriter) decodedPage(step *codeStep) {
	if len(step.with) == 0 {
		w.f("        for e in page.items:\n            %s", w.decodedItem(step))
		return
	}
	for _, e := range step.kinds() {
		w.f("        for e in page.%s:\n            decoded(e.item())", pyList(e))
	}
}

// decodedItem returns the statement that reports the decoded item e.
func (w *pyWriter) decodedItem(c *codeStep) string {
	if len(c.returns) == 0 {
		return "decoded(e.item())"
	}
	names := newNameSet(append([]string{"of"}, pyReserved...)...)
	var members []string
	for _, a := range c.returns {
		members = append(members, fmt.Sprintf("%s: e.%s", quotePy(a.Name), names.take(snakeName(a.Name), "_")))
	}
	return fmt.Sprintf("decoded({k: encoded(v) for k, v in {%s}.items() if v is not None})", strings.Join(members, ", "))
}

// input returns the arguments of a case.
func (w *pyWriter) input(c *runCase) string {
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
			text := w.stepInput(s, a)
			if len(s.params) > 0 {
				text = "m." + w.inputs[s] + "(" + text + ")"
			}
			all = append(all, text)
		}
		text := all[0]
		if s.list {
			text = "[" + strings.Join(all, ", ") + "]"
		}
		members = append(members, w.members[s]+"="+text)
	}
	return strings.Join(members, ", ")
}

func (w *pyWriter) stepInput(s *codeStep, a model.Arguments) string {
	var members []string
	if s.put() {
		var fields []string
		for _, f := range s.entity.fields {
			if v, ok := a.Item[f.Name]; ok {
				fields = append(fields, w.fields[f.Field]+"="+w.literal(f, v))
			}
		}
		text := "m." + w.types[s.entity] + "(" + strings.Join(fields, ", ") + ")"
		if len(s.params) == 0 {
			return text
		}
		members = append(members, "item="+text)
	}
	for _, x := range s.params {
		members = append(members, w.params[x]+"="+w.literal(x.field, a.Values[x.Param]))
	}
	return strings.Join(members, ", ")
}
