package exchange

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/model"
)

var rewrite = flag.Bool("rewrite", false, "update the expected files; read the difference before you commit it")

func readTest(t *testing.T, name string, vars map[string]string) (*Design, error) {
	t.Helper()
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return Read([]File{{Name: name, Text: text, Wanted: true}}, vars)
}

// Each source becomes the model in the file next to it.
func TestRead(t *testing.T) {
	for _, name := range []string{"shop.tf", "stack.yaml", "stack.json", "workbench.json", "electrodb.json", "onetable.json", "toolbox.json"} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join("testdata", name)
			d, err := readTest(t, file, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := d.Model()
			if err != nil {
				t.Fatal(err)
			}
			if *rewrite {
				if err := os.WriteFile(file+".model.yaml", got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(file + ".model.yaml")
			if err != nil {
				t.Fatal(err)
			}
			if string(got) != string(want) {
				t.Errorf("the model is\n%s\nwant\n%s", got, want)
			}
		})
	}
}

// Given values override defaults.
func TestVars(t *testing.T) {
	for _, c := range []struct {
		file, name, value, want string
	}{
		{"testdata/shop.tf", "env", "prod", "shop-prod-orders"},
		{"testdata/stack.yaml", "Names", "sales,x", "dev-sales"},
		{"testdata/stack.json", "Name", "sales", "app-sales"},
	} {
		t.Run(c.file, func(t *testing.T) {
			d, err := readTest(t, c.file, map[string]string{c.name: c.value})
			if c.file == "testdata/shop.tf" {
				// The table that exists only in production has no units.
				if err == nil || !strings.Contains(err.Error(), `aws_dynamodb_table.off[0]: it is provisioned`) {
					t.Fatalf("in production the error is %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := d.Tables[0].Name; got != c.want {
				t.Errorf("the first table is %s, want %s", got, c.want)
			}
		})
	}
}

var skeletonLine = regexp.MustCompile(`(?m)^#( {2}.*)$`)

// The skeleton in an imported model is valid once its # are removed.
func TestSkeleton(t *testing.T) {
	for _, name := range []string{"shop.tf", "stack.yaml", "stack.json", "workbench.json", "electrodb.json", "onetable.json", "toolbox.json"} {
		t.Run(name, func(t *testing.T) {
			d, err := readTest(t, filepath.Join("testdata", name), nil)
			if err != nil {
				t.Fatal(err)
			}
			text, err := d.Model()
			if err != nil {
				t.Fatal(err)
			}
			filled := strings.ReplaceAll(string(text), `#     keys: {PK: "ORDER#{orderId}"}`, "")
			filled = strings.ReplaceAll(strings.ReplaceAll(filled, "entities: {}", "entities:"), "patterns: []", "patterns:")
			filled = skeletonLine.ReplaceAllString(filled, "$1")
			m, err := model.Parse(name, []byte(filled))
			if err != nil {
				t.Fatalf("%v\n%s", err, filled)
			}
			if len(m.Patterns) == 0 || len(m.Entities) == 0 {
				t.Errorf("the model has %d patterns of %d entities", len(m.Patterns), len(m.Entities))
			}
			for _, p := range m.Patterns {
				if !m.Plan(p).Served() {
					t.Errorf("%s is not served: %v", p.Name, m.Plan(p).Faults)
				}
			}
		})
	}
}

// Tables stay the same when they are exported and imported again.
func TestRoundTrip(t *testing.T) {
	files, err := filepath.Glob("../../../apps/*/*.model.yaml")
	if err != nil || len(files) < 4 {
		t.Fatalf("found the models %v, %v", files, err)
	}
	for _, file := range append(files, "testdata/all.model.yaml") {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		m, err := model.Parse(file, text)
		if err != nil {
			t.Fatal(err)
		}
		for _, to := range []struct {
			name  string
			write func(*model.Model) []byte
		}{{"tables.tf", Terraform}, {"tables.yaml", CloudFormation}} {
			t.Run(filepath.Base(file)+" "+to.name, func(t *testing.T) {
				out := to.write(m)
				d, err := Read([]File{{Name: to.name, Text: out, Wanted: true}}, nil)
				if err != nil {
					t.Fatalf("%v\n%s", err, out)
				}
				again, err := d.Model()
				if err != nil {
					t.Fatal(err)
				}
				m2, err := model.Parse(file, again)
				if err != nil {
					t.Fatal(err)
				}
				if got, want := show(m2), show(m); got != want {
					t.Errorf("the tables become\n%swant\n%sthrough\n%s", got, want, out)
				}
			})
		}
	}
}

// show describes all properties of a model's tables that must be preserved.
func show(m *model.Model) string {
	var b strings.Builder
	for _, t := range m.Tables {
		fmt.Fprintf(&b, "%s key %v ttl %q stream %q recovery %v on demand %v\n", t.Name, t.Schema().Key, t.TTL, t.Stream, t.Recovery, t.OnDemand())
		if !t.OnDemand() {
			fmt.Fprintf(&b, "  read %s write %s\n", showUnits(t.Read), showUnits(t.Write))
		}
		indexes := slices.Clone(t.Indexes)
		slices.SortFunc(indexes, func(a, b *model.Index) int { return cmp.Compare(a.Name, b.Name) })
		for _, x := range indexes {
			fmt.Fprintf(&b, "  %s local %v key %v projects %v\n", x.Name, x.Local, x.Schema().Key, x.Schema().Projection)
			if !t.OnDemand() && !x.Local {
				fmt.Fprintf(&b, "    read %s write %s\n", showUnits(cmp.Or(x.Read, t.Read)), showUnits(cmp.Or(x.Write, t.Write)))
			}
		}
	}
	return b.String()
}

func showUnits(c *model.Capacity) string {
	if c.Max == 0 {
		return fmt.Sprint(c.Units)
	}
	return fmt.Sprintf("%d from %d to %d at %d %%", max(c.Units, c.Min), c.Min, c.Max, cmp.Or(c.Target, 70))
}

// show distinguishes tables that differ; otherwise the comparison would prove nothing.
func TestShowDistinguishesTables(t *testing.T) {
	const text = `{model: 1, tables: {tab: {key: {partition: a}, indexes: {byB: {partition: b}}, billing: provisioned, read: {units: 1}, write: {min: 1, max: 5}}}, entities: {}, patterns: []}`
	for _, change := range [][2]string{{"partition: a", "partition: c"}, {"partition: b", "partition: b, sort: c"}, {"units: 1", "units: 2"}, {"max: 5", "max: 6"}, {"read:", "recovery: true, read:"}, {"read:", "ttl: t, read:"}} {
		a, err := model.Parse("a", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		b, err := model.Parse("b", []byte(strings.Replace(text, change[0], change[1], 1)))
		if err != nil {
			t.Fatal(err)
		}
		if show(a) == show(b) {
			t.Errorf("%s and %s look the same", change[0], change[1])
		}
	}
}

// A Terraform file may use the declarations of other files in its folder; the
// tables of those files are not imported.
func TestOtherFilesOfModule(t *testing.T) {
	main := File{Name: "a.tf", Wanted: true, Text: []byte(`resource "aws_dynamodb_table" "a" {
  name = "${var.env}-a"
  billing_mode = "PAY_PER_REQUEST"
  hash_key = local.key
  attribute {
    name = local.key
    type = "S"
  }
}`)}
	vars := File{Name: "b.tf", Text: []byte(`variable "env" {}
locals { key = "id" }
resource "aws_dynamodb_table" "b" { name = data.x.y }`)}
	values := File{Name: "terraform.tfvars", Text: []byte(`env = "test"`)}
	d, err := Read([]File{main, vars, values}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(d.Tables) != 1 || d.Tables[0].Name != "test-a" || d.Tables[0].Key.Partition != "id" {
		t.Errorf("found %+v", d.Tables)
	}
	_, err = Read([]File{main, vars}, nil)
	if err == nil || !strings.Contains(err.Error(), "a.tf:2:10: name of aws_dynamodb_table.a cannot be evaluated: var.env has no default; give it a value with --var env=VALUE") {
		t.Errorf("without the values the error is %v", err)
	}
}

// The keys are those that the libraries write; they were compared with electrodb 3.4.3 and
// dynamodb-onetable 2.7.5. clients/node/test/schemas.test.js compares those of functions, and of
// dynamodb-toolbox.
func TestKeysOfSchemas(t *testing.T) {
	const electro = `{"model": {"entity": "Order", "version": "1", "service": "Shop"},
		"attributes": {"id": {"type": "string"}, "num": {"type": "number"}, "st": {"type": "string"}},
		"indexes": {"p": {"pk": {"field": "pk", "composite": ["id"]}, "sk": {"field": "sk", "composite": []}}, "g": %s}}`
	for index, want := range map[string]string{
		`{"index": "gsi", "scope": "abc", "pk": {"field": "g1", "composite": ["st"]}, "sk": {"field": "g2", "composite": ["num"]}}`:       `g1: "$shop_abc#st_{st}"`,
		`{"index": "gsi", "type": "clustered", "pk": {"field": "g1", "composite": ["st"]}, "sk": {"field": "g2", "composite": ["num"]}}`:  `g2: "#num_{num}$order_1"`,
		`{"index": "gsi", "pk": {"field": "g1", "facets": ["st"]}, "sk": {"field": "g2", "facets": ["num"]}}`:                             `g1: "$shop#st_{st}"`,
		`{"index": "gsi", "pk": {"field": "st", "composite": ["st"]}, "sk": {"field": "num", "composite": ["num"]}}`:                      `types: {num: N}`,
		`{"index": "gsi", "pk": {"field": "g1", "composite": ["st"], "template": "{x}#${st}"}, "sk": {"field": "g2", "composite": []}}`:   `g1: "{{x}}#{st}"`,
		`{"index": "gsi", "pk": {"field": "g1", "composite": ["st"]}, "sk": {"field": "g2", "composite": ["num"], "template": "${num}"}}`: `types: {g2: N}`,
		`{"index": "gsi", "condition": "condition", "pk": {"field": "g1", "composite": ["st"]}, "sk": {"field": "g2", "composite": []}}`:  `# A function decides which items have the keys of g`,
	} {
		checkKeys(t, fmt.Sprintf(electro, index), want)
	}
	const one = `{"indexes": {"primary": {"hash": "PK", "sort": "sk"}}, "models": {"User": {"pk": {"type": "String", "map": "PK", "value": "U#${id}"}, "id": {"type": "String"}, "n": {"type": "Number"}, %s}}}`
	for attribute, want := range map[string]string{
		`"sk": {"type": "String", "value": "A"}`:                                             `PK: "U#{id}"`,
		`"sk": {"type": "Number", "value": "${n}"}`:                                          `types: {sk: N}`,
		`"sk": {"type": "String", "value": "${n:5:0}"}`:                                      `sk: "{nPadded}"`,
		`"sk": {"type": "String", "value": "X"}, "mail": {"type": "String", "unique": true}`: "# mail is unique",
	} {
		checkKeys(t, fmt.Sprintf(one, attribute), want)
	}
	for attributes, want := range map[string]string{
		`"id": {"type": "string", "savedAs": "pk", "transform": {"transformerId": "pipe", "transformers": [{"transformerId": "suffix", "suffix": "X", "delimiter": "/"}, {"transformerId": "prefix", "prefix": "U", "delimiter": "#"}]}}`: `pk: "U#{id}/X"`,
		`"pk": {"type": "number"}`: `types: {pk: N}`,
		`"pk": {"type": "string", "transform": {"transformerId": "prefix", "prefix": "U", "delimiter": ":"}}`:                      `pk: "U:{pkValue}"`,
		`"pk": {"type": "string"}, "n": {"type": "any"}`:                                                                           "# n may be of any type",
		`"pk": {"type": "string"}, "n": {"type": "string", "transform": {"transformerId": "custom"}}`:                              "# n is stored in another form",
		`"a": {"type": "string"}, "pk": {"type": "string", "hidden": true, "link": "A#${a}"}`:                                      `pk: "A#{a}"`,
		`"a": {"type": "string", "enum": ["x", "z"], "savedAs": "pk", "transform": {"transformerId": "custom", "text": "A#${a}"}}`: `a: {values: [x, z], stored: false}`,
		`"pk": {"type": "string"}, "a": {"type": "string", "enum": ["x", "z", "x"]}`:                                               `a: {type: S, values: [x, z]}`,
	} {
		kind := "string"
		if strings.Contains(want, "N}") {
			kind = "number"
		}
		checkKeys(t, fmt.Sprintf(toolboxSchemaText, attributes, kind), want)
	}
}

const toolboxSchemaText = `{"entities": {"e": {"entityName": "User", "schema": {"type": "item", "attributes": {%s}}, "table": {"partitionKey": {"name": "pk", "type": "%s"}}}}}`

// Keys that a function computes, and that are not exported, are faults.
func TestComputedKeysOfSchemas(t *testing.T) {
	toolbox := func(attributes string) string { return fmt.Sprintf(toolboxSchemaText, attributes, "string") }
	for _, schema := range []string{
		toolbox(`"pk": {"type": "string", "hidden": true}`),
		toolbox(`"pk": {"type": "string", "transform": {"transformerId": "custom"}}`),
		`{"indexes": {"primary": {"hash": "pk"}}, "models": {"User": {"pk": {"type": "String", "value": true}}}}`,
	} {
		_, err := Read([]File{{Name: "schema.json", Text: []byte(schema), Wanted: true}}, nil)
		if err == nil || !strings.Contains(err.Error(), "by a function") {
			t.Errorf("%s: %v", schema, err)
		}
	}
}

// Entities of several tables are those of several tables.
func TestToolboxTables(t *testing.T) {
	entity := func(name, table string) string {
		return fmt.Sprintf(`{"entityName": %q, "schema": {"attributes": {"pk": {"type": "string"}}}, "table": {"tableName": %q, "partitionKey": {"name": "pk", "type": "string"}}}`, name, table)
	}
	text := "[" + entity("A", "one") + "," + entity("B", "two") + "," + entity("B", "one") + "]"
	d, err := Read([]File{{Name: "schema.json", Text: []byte(text), Wanted: true}}, nil)
	if err != nil || len(d.Tables) != 2 || len(d.Entities) != 3 || d.Entities[2].Name != "b-2" || d.Entities[2].Table != "two" {
		t.Errorf("%+v, %v", d, err)
	}
}

func checkKeys(t *testing.T, schema, want string) {
	t.Helper()
	d, err := Read([]File{{Name: "schema.json", Text: []byte(schema), Wanted: true}}, nil)
	if err != nil {
		t.Errorf("%s: %v", schema, err)
		return
	}
	text, err := d.Model()
	if err != nil || !strings.Contains(string(text), want) {
		t.Errorf("%v, %q is not in\n%s", err, want, text)
	}
}
