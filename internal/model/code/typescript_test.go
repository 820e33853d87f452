package code

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/model"
)

// The generated TypeScript compiles with all strict checks, and does on a server
// what TestGeneratedGo requires. It needs the packages that make model-code installs.
func TestGeneratedTypeScript(t *testing.T) {
	packages := needTypeScript(t)
	for _, file := range testModels(t) {
		t.Run(filepath.Base(file), func(t *testing.T) {
			m := readServed(t, file)
			s, err := newSpec(m, Options{})
			if err != nil {
				t.Fatal(err)
			}
			cases := casesOf(t, s, 3)
			server, url := newCaseServer(t, m, cases)
			runTypeScript(t, packages, m, url, tsProgram(s, cases))
			server.compare(t)
		})
	}
}

// The generated TypeScript does what TestGeneratedGoKeys requires.
func TestGeneratedTypeScriptKeys(t *testing.T) {
	packages := needTypeScript(t)
	testKeys(t, func(m *model.Model, url string, program []byte) string {
		return runTypeScript(t, packages, m, url, program)
	}, "program.ts")
}

// needTypeScript returns the folder with the packages that the programs need.
func needTypeScript(t *testing.T) (packages string) {
	t.Helper()
	packages, err := filepath.Abs("../../../clients/model-code")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(packages, "node_modules/typescript/bin/tsc")); err != nil {
		t.Skip("the npm packages are not installed: run make model-code")
	}
	return packages
}

// runTypeScript compiles and runs a program that imports the code of a model as
// generated.js.
func runTypeScript(t *testing.T, packages string, m *model.Model, url string, program []byte) (output string) {
	t.Helper()
	generated, err := TypeScript(m, Options{Source: "a model"})
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp(packages, "build-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for name, text := range map[string][]byte{"generated.ts": generated, "program.ts": program} {
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	compile := exec.CommandContext(t.Context(), "node", filepath.Join(packages, "node_modules/typescript/bin/tsc"), "--strict", "--target", "es2022", "--module", "nodenext", "--noUncheckedIndexedAccess",
		"--exactOptionalPropertyTypes", "--noUnusedLocals", "--noUnusedParameters", "--noImplicitReturns", "--skipLibCheck", "program.ts")
	compile.Dir = dir
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var warnings bytes.Buffer // of the SDK
	run := exec.CommandContext(t.Context(), "node", filepath.Join(dir, "program.js"), url)
	run.Stderr = &warnings
	out, err := run.Output()
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, &warnings)
	}
	return string(out)
}

const tsProgramStart = `import {
  BatchGetItemCommand, BatchWriteItemCommand, DeleteItemCommand, DynamoDBClient, GetItemCommand, PutItemCommand, QueryCommand,
  TransactGetItemsCommand, TransactWriteItemsCommand, UpdateItemCommand,
} from "@aws-sdk/client-dynamodb";
import * as m from "./generated.js";

export const commands = [BatchGetItemCommand, BatchWriteItemCommand, DeleteItemCommand, GetItemCommand, TransactGetItemsCommand,
  TransactWriteItemsCommand, UpdateItemCommand, QueryCommand];
const url = process.argv[2]!;
const client = new DynamoDBClient({ endpoint: url, region: "us-east-1", credentials: { accessKeyId: "test", secretAccessKey: "test" }, maxAttempts: 1 });

async function start(n: number): Promise<void> {
  const reply = await fetch(url + "/case/" + n, { method: "POST" });
  if (!reply.ok) {
    throw new Error(reply.statusText);
  }
}

async function decoded(Item: m.Item): Promise<void> {
  await client.send(new PutItemCommand({ TableName: "decoded", Item }));
}
`

// tsProgram returns a program that runs the cases.
func tsProgram(s *codeSpec, cases []*runCase) []byte {
	w := newTSWriter(s)
	w.all()
	w.Reset()
	w.f("%s", tsProgramStart)
	for i, c := range cases {
		w.f("await start(%d);\n{", i)
		w.runCase(c)
		w.f("}")
	}
	return []byte(w.String())
}

func (w *tsWriter) runCase(c *runCase) {
	p := c.pattern
	argument := ""
	if w.arguments(p) != "" {
		argument = "p"
		w.f("const %s = %s;", w.arguments(p)[:3]+"m."+w.arguments(p)[3:], w.input(c))
	}
	if p.operation == "Query" {
		w.runQuery(c, argument)
		return
	}
	call := fmt.Sprintf("await client.send(new %sCommand(m.%s(%s)));", p.operation, w.funcs[p], argument)
	if !p.reads() {
		w.f("%s", call)
		return
	}
	w.f("const out = %s", call)
	decode := "m.decode" + capitalized(w.funcs[p])
	switch p.operation {
	case "GetItem":
		w.f("const e = %s(out)!;\n%s", decode, w.decodedItem(p.steps[0]))
	case "BatchGetItem":
		w.f("const found = %s(out);", decode)
		for _, e := range p.entities("") {
			w.f("for (const e of found.%s) {\nawait decoded(m.%s(e));\n}", camelName(plural(e.Name)), w.function(e, "Item"))
		}
	default:
		w.f("const found = %s(p, out);", decode)
		for _, c := range p.steps {
			list := "found." + camelName(c.name)
			if !c.list {
				list = "[" + list + "]"
			}
			w.f("for (const x of %s) {\nconst e = x!;\n%s\n}", list, w.decodedItem(c))
		}
	}
}

func (w *tsWriter) runQuery(c *runCase, argument string) {
	p, step := c.pattern, c.pattern.steps[0]
	if argument != "" {
		argument += ", "
	}
	follow := c.scenario.Calls[0].Follow
	if step.Shards > 1 {
		w.f("const at: m.Position[] = [];\nfor (;;) {\nconst queries = m.%s(%sat);\nif (queries.length === 0) {\nbreak;\n}\nfor (const q of queries) {", w.funcs[p], argument)
		w.f("const page = m.decode%s(await client.send(new QueryCommand(q.request)));", capitalized(w.funcs[p]))
		w.decodedPage(step)
		w.f("at[q.shard] = page.next;\n}\n%s}", map[bool]string{false: "break;\n"}[follow])
		return
	}
	w.f("let request = m.%s(%sundefined);\nfor (;;) {\nconst page = m.decode%s(await client.send(new QueryCommand(request)));", w.funcs[p], argument, capitalized(w.funcs[p]))
	w.decodedPage(step)
	if follow {
		w.f("if (page.next !== undefined) {\nrequest = m.%s(%spage.next);\ncontinue;\n}", w.funcs[p], argument)
	}
	w.f("break;\n}\nvoid request;")
}

func (w *tsWriter) decodedPage(step *codeStep) {
	if len(step.with) == 0 {
		w.f("for (const e of page.items) {\n%s\n}", w.decodedItem(step))
		return
	}
	for _, e := range step.kinds() {
		w.f("for (const e of page.%s) {\nawait decoded(m.%s(e));\n}", camelName(plural(e.Name)), w.function(e, "Item"))
	}
}

// decodedItem returns the statements that report the decoded item e.
func (w *tsWriter) decodedItem(c *codeStep) string {
	if len(c.returns) == 0 {
		return "await decoded(m." + w.function(c.entity, "Item") + "(e));"
	}
	text := "const it: m.Item = {};"
	for _, a := range c.returns {
		member := tsMember("e", a.Name)
		value := strings.ReplaceAll(tsTestEncode(w.spec, a), "$", member)
		text += fmt.Sprintf("\nif (%s !== undefined) {\n%s = %s;\n}", member, tsMember("it", a.Name), value)
	}
	return text + "\nawait decoded(it);"
}

// tsTestEncode returns the attribute value of $, without functions of the module.
func tsTestEncode(s *codeSpec, a *codeAttribute) string {
	f := s.field(a.Field)
	if f.Type.String() == "N" && !exactNumber(f) {
		return "{ N: String($) }"
	}
	return fmt.Sprintf("{ %s: $ }", f.Type)
}

// input returns the argument p of a case.
func (w *tsWriter) input(c *runCase) string {
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
			text = "[" + strings.Join(all, ", ") + "]"
		}
		members = append(members, camelName(s.name)+": "+text)
	}
	return "{ " + strings.Join(members, ", ") + " }"
}

func (w *tsWriter) stepInput(s *codeStep, a model.Arguments) string {
	var members []string
	if s.put() {
		var fields []string
		for _, f := range s.entity.fields {
			if v, ok := a.Item[f.Name]; ok {
				fields = append(fields, tsProperty(f.Name)+": "+w.literal(f, v))
			}
		}
		text := "{ " + strings.Join(fields, ", ") + " }"
		if len(s.params) == 0 {
			return text
		}
		members = append(members, "item: "+text)
	}
	for _, x := range s.params {
		members = append(members, tsProperty(tsParam(x))+": "+w.literal(x.field, a.Values[x.Param]))
	}
	return "{ " + strings.Join(members, ", ") + " }"
}
