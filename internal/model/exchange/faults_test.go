package exchange

import (
	"fmt"
	"strings"
	"testing"
)

const terraformTable = `
resource "aws_dynamodb_table" "a" {
  name         = %s
  billing_mode = "PAY_PER_REQUEST"
  hash_key     = "id"
  attribute {
    name = "id"
    type = "S"
  }
}`

// The error of a Terraform file with an expression that cannot be evaluated names
// the expression and its position; with the missing value the file is read.
func TestTerraformFaults(t *testing.T) {
	for _, c := range []struct {
		name, expression, declared, want string
		vars                             map[string]string // with these it is read
	}{
		{"a variable without a default", `"x-${var.env}"`, `variable "env" {}`,
			"a.tf:3:18: name of aws_dynamodb_table.a cannot be evaluated: var.env has no default; give it a value with --var env=VALUE", map[string]string{"env": "e"}},
		{"a variable that is declared elsewhere", `"x-${var.env}"`, "",
			"a.tf:3:18: name of aws_dynamodb_table.a cannot be evaluated: var.env is not declared in these files; give it a value with --var env=VALUE", map[string]string{"env": "e"}},
		{"a data source", `data.aws_region.now.name`, "",
			"a.tf:3:18: name of aws_dynamodb_table.a cannot be evaluated: data.aws_region.now.name (a.tf:3) is known only when Terraform runs", nil},
		{"another resource", `"t-${random_id.x.hex}"`, `resource "random_id" "x" {}`,
			"a.tf:3:18: name of aws_dynamodb_table.a cannot be evaluated: random_id.x.hex (a.tf:3) is known only when Terraform runs", nil},
		{"a local that uses a variable", `local.full`, "variable \"env\" {}\nlocals {\n  full = \"x-${local.half}\"\n  half = var.env\n}",
			"a.tf:3:18: name of aws_dynamodb_table.a cannot be evaluated: local.full: local.half: var.env has no default; give it a value with --var env=VALUE", map[string]string{"env": "e"}},
		{"a local that uses itself", `local.a`, "locals {\n  a = local.b\n  b = local.a\n}",
			"a.tf:3:18: name of aws_dynamodb_table.a cannot be evaluated: local.a", nil},
		{"an unknown function", `file("x")`, "", "a.tf:3:18: Call to unknown function", nil},
		{"a list in place of text", `["x"]`, "", "a.tf:3:18: name of aws_dynamodb_table.a is not string", nil},
		{"an attribute that does not exist", `local.a.b`, `locals { a = { c = 1 } }`, "a.tf:3:", nil},
		{"a syntax error", `"x`, "", "a.tf:3:", nil},
		{"a name that doubles with each local", `local.z9`, bomb(40), "cannot be evaluated: local.z9", nil},
		{"a very large width", `format("%999999999d", 1)`, "", "Error in function call", nil},
		{"nested loops", `[for a in [1] : [for b in [1] : [for c in [1] : c]]]`, "", "a.tf:3:", nil},
		{"nested brackets", strings.Repeat("(", 100_000), "", "a.tf:3:", nil},
		{"many operators", strings.Repeat("!", 100_000) + "true", "", "a.tf:3:", nil},
		{"nested conditionals", strings.Repeat("true ?\n true :\n ", 50_000) + "false", "", "expressions are nested too deeply", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := fmt.Sprintf(terraformTable, c.expression) + "\n" + c.declared
			files := []File{{Name: "a.tf", Text: []byte(text), Wanted: true}}
			_, err := Read(files, nil)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want %s", err, c.want)
			}
			if c.vars != nil {
				if d, err := Read(files, c.vars); err != nil || d.Tables[0].Name != "x-e" {
					t.Errorf("with %v the result is %v, %v", c.vars, d, err)
				}
			}
		})
	}
}

// bomb declares locals each of which is twice as long as the previous one.
func bomb(n int) string {
	var b strings.Builder
	b.WriteString("locals {\n  z0 = \"xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\"\n")
	for i := range n {
		fmt.Fprintf(&b, "  z%d = \"%s\"\n", i+1, strings.Repeat(fmt.Sprintf("${local.z%d}", i), 4))
	}
	b.WriteString("}")
	return b.String()
}

// A fault of a table is reported at its resource.
func TestTerraformTableFaults(t *testing.T) {
	whole := fmt.Sprintf(terraformTable, `"abc"`)
	for _, c := range []struct{ name, from, to, want string }{
		{"nothing", "", "", ""},
		{"no name", `  name         = "abc"` + "\n", "", "aws_dynamodb_table.a has no name"},
		{"no key", `hash_key     = "id"`, "", "aws_dynamodb_table.a: it has no partition key"},
		{"a key without a type", `name = "id"`, `name = "other"`, "a.tf:2:1: aws_dynamodb_table.a: id is in a key, but its type is not given"},
		{"a type that is not allowed in a key", `type = "S"`, `type = "SS"`, `id is in a key with the type "SS", not S, N or B`},
		{"no units", `"PAY_PER_REQUEST"`, `"PROVISIONED"`, "it is provisioned, but its read and write units are not given"},
		{"an unknown billing mode", `"PAY_PER_REQUEST"`, `"FREE"`, `billing_mode of aws_dynamodb_table.a is "FREE"`},
		{"an unknown projection", `hash_key     = "id"`, "hash_key = \"id\"\nglobal_secondary_index {\nname = \"x\"\nhash_key = \"id\"\nprojection_type = \"SOME\"\n}", `index x: the projection is "SOME"`},
		{"no tables", "aws_dynamodb_table", "aws_s3_bucket", "a.tf: it contains no DynamoDB tables"},
		{"an invalid table name", `"abc"`, `"a/b"`, "is not a valid table name"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.Replace(whole, c.from, c.to, 1)
			d, err := Read([]File{{Name: "a.tf", Text: []byte(text), Wanted: true}}, nil)
			if err == nil {
				_, err = d.Model()
			}
			if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
				t.Errorf("the error is %v, want %q", err, c.want)
			}
		})
	}
}

const stack = `Parameters:
  Env: {Type: String}
  Secret: {Type: "AWS::SSM::Parameter::Value<String>", Default: /a/b}
Conditions:
  A: !Condition B
  B: !Condition A
%s
Resources:
  Orders:
    Type: AWS::DynamoDB::Table
    Properties:
      TableName: %s
      AttributeDefinitions: [{AttributeName: id, AttributeType: S}]
      KeySchema: [{AttributeName: id, KeyType: HASH}]
      BillingMode: PAY_PER_REQUEST
`

// The error of a template with a value that only a stack knows names the value and
// its position.
func TestCloudFormationFaults(t *testing.T) {
	var doubled strings.Builder
	for i := range 60 {
		fmt.Fprintf(&doubled, "  C%d: !And [!Condition C%d, !Condition C%d]\n", i, i+1, i+1)
	}
	doubled.WriteString("  C60: !Equals [a, a]\n")
	for _, c := range []struct {
		name, value, want string
		vars              map[string]string
	}{
		{"a parameter without a default", `!Sub "x-${Env}"`, "s.yaml:%d:22: TableName of Orders cannot be evaluated: the parameter Env has no default; give it a value with --var Env=VALUE", map[string]string{"Env": "e"}},
		{"a parameter that is looked up", `!Ref Secret`, "the parameter Secret is looked up when the stack is created; give it a value with --var Secret=VALUE", map[string]string{"Secret": "x-e"}},
		{"the name of the stack", `!Join ["-", [x, !Ref "AWS::StackName"]]`, "AWS::StackName is known only when the stack is created; give it a value with --var AWS::StackName=VALUE", map[string]string{"AWS::StackName": "e"}},
		{"an attribute of a resource", `!GetAtt Queue.Name`, "the function Fn::GetAtt of Queue.Name is known only when the stack is created", nil},
		{"an attribute within text", `!Sub "${Queue.Name}"`, "Name of Queue is known only when the stack is created", nil},
		{"a value of another stack", `!ImportValue shared`, "the function Fn::ImportValue of shared is known only when the stack is created", nil},
		{"an unknown name", `!Ref Nothing`, "there is no parameter and no resource Nothing", nil},
		{"a table that refers to itself", `!Ref Orders`, "form a cycle", nil},
		{"conditions that form a cycle", `!If [A, x, y]`, "form a cycle", nil},
		{"an unknown condition", `!If [Z, x, y]`, "there is no condition Z", nil},
		{"an unknown mapping", `!FindInMap [a, b, c]`, "there is no mapping a.b.c", nil},
		{"an element beyond the end", `!Select [3, [a, b]]`, "Fn::Select asks for element 3 of a list of 2", nil},
		{"a list in place of text", `[a]`, "TableName of Orders is a list, not text", nil},
		{"an anchor", `&a x`, "anchors, aliases and merges are not supported", nil},
		{"nested conditions", `!If [C0, x, y]`, "form a cycle", nil},
		{"nested lists", strings.Repeat("[", 100_000), "nested too deeply", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := fmt.Sprintf(stack, doubled.String(), c.value)
			if strings.Contains(c.want, "%d") {
				line := 1 + strings.Count(text[:strings.Index(text, "TableName")], "\n")
				c.want = fmt.Sprintf(c.want, line)
			}
			files := []File{{Name: "s.yaml", Text: []byte(text), Wanted: true}}
			_, err := Read(files, nil)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want %s", err, c.want)
			}
			if c.vars != nil {
				if d, err := Read(files, c.vars); err != nil || d.Tables[0].Name != "x-e" {
					t.Errorf("with %v the result is %v, %v", c.vars, d, err)
				}
			}
		})
	}
}

// Files of other formats are rejected with a message that names the formats.
func TestOtherFiles(t *testing.T) {
	for _, c := range []struct{ name, file, text, want string }{
		{"an empty file", "a.yaml", "", "the file is empty"},
		{"another format", "a.yaml", "a: 1", "this format cannot be read"},
		{"a model", "a.model.yaml", "model: 1", "this is already a model"},
		{"broken JSON", "a.json", "{\n \"a\": }", "a.json:2:"},
		{"broken YAML", "a.yaml", "a: [", "this is not valid YAML"},
		{"text", "a.txt", "hello", "this format cannot be read"},
		{"resources that are not a mapping", "a.yaml", "Resources: 5", "Resources is not a mapping"},
		{"a data model that is not a list", "a.json", `{"DataModel": {}}`, "DataModel is not a list"},
		{"a data model without keys", "a.json", `{"DataModel": [{"TableName": "abc"}]}`, "a.json:1:16: table abc: it has no partition key"},
		{"a key without a name", "a.json", strings.Replace(`{"DataModel": [`+oneTable+"]}", `"id"`, `""`, 1), "table abc: an attribute of its key has no name"},
		{"two tables with the same name", "a.json", `{"DataModel": [` + oneTable + "," + oneTable + "]}", "two tables are named abc"},
		{"too large", "a.json", strings.Repeat(" ", MaxFileBytes+1), "the limit is 4 MB"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Read([]File{{Name: c.file, Text: []byte(c.text), Wanted: true}}, nil)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want %s", err, c.want)
			}
		})
	}
}

const oneTable = `{"TableName": "abc", "KeyAttributes": {"PartitionKey": {"AttributeName": "id", "AttributeType": "S"}}}`

// Names that YAML could read as another type are preserved.
func TestHostileNames(t *testing.T) {
	for _, name := range []string{"true", "null", "~", "- a", "a: b", "a #b", "{", "[x", "'", `"`, `\`, "\n", "\x00", "\x1b[31m", "é", "\u2028", "\u0085", "😀", " ", "123", "1e5", "0x1", "${a}", "%{a}", "&a", "*a", "!a", "a\tb", "|", ">", "@", "`", "=", "<<", "?", "a:b", "\ufeff"} {
		t.Run(fmt.Sprintf("%q", name), func(t *testing.T) {
			table := &describedTable{name: "abc", what: "abc", onDemand: true, types: []attributeType{{name, "S"}}, key: []keyPart{{name, "HASH"}}}
			table.ttl, table.dropped = name, []string{name}
			done, err := table.table()
			if err != nil {
				t.Fatal(err)
			}
			m := parsed(t, &Design{Name: name, Description: name, Source: name, Tables: []*Table{done}})
			if got := m.Tables[0].Key.Partition; got != name || m.Tables[0].TTL != name || m.Name != name {
				t.Errorf("the key is %q", got)
			}
			for to, write := range map[string][]byte{"a.tf": Terraform(m), "a.yaml": CloudFormation(m)} {
				d, err := Read([]File{{Name: to, Text: write, Wanted: true}}, nil)
				if err != nil {
					t.Fatalf("%s: %v\n%s", to, err, write)
				}
				if got := d.Tables[0].Key.Partition; got != name {
					t.Errorf("through %s the key is %q", to, got)
				}
			}
		})
	}
}

// A fault of an index or a dynamic block names its table.
func TestTerraformInnerFaults(t *testing.T) {
	whole := fmt.Sprintf(terraformTable, `"abc"`)
	for _, c := range []struct{ name, block, want string }{
		{"an index", "local_secondary_index {\n name = \"x\"\n range_key = data.a.b.c\n projection_type = \"ALL\"\n}",
			"range_key of index x of aws_dynamodb_table.a cannot be evaluated: data.a.b.c (a.tf:8) is known only when Terraform runs"},
		{"a dynamic block", "dynamic \"attribute\" {\n for_each = data.a.b.c\n content {\n name = attribute.value\n type = \"S\"\n }\n}",
			"cannot be evaluated"},
		{"a dynamic block over a variable", "dynamic \"attribute\" {\n for_each = var.many\n content {\n name = attribute.value\n type = \"S\"\n }\n}",
			"var.many is not declared in these files; give it a value with --var many=VALUE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.Replace(whole, `  attribute {`, c.block+"\n  attribute {", 1)
			_, err := Read([]File{{Name: "a.tf", Text: []byte(text), Wanted: true}}, nil)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("the error is %v, want %s", err, c.want)
			}
		})
	}
}

// Schemas that cannot be a table are reported with their position.
func TestSchemaFaults(t *testing.T) {
	for text, want := range map[string]string{
		`{"model": {"entity": "a", "service": "s"}, "attributes": {}, "indexes": {"x": {"pk": {"field": "pk", "composite": ["b"]}}}}`:         "built from b, which is not an attribute",
		`{"model": {"entity": "a", "service": "s"}, "attributes": {"b": {"type": "string"}}, "indexes": {"x": {"pk": {"composite": ["b"]}}}}`: "a key has no name",
		`{"model": {"entity": "a", "service": "s"}, "attributes": {"b": {"type": "string"}}, "indexes": []}`:                                  "not a mapping",
		`{"model": {"entity": "a", "service": "sss"}, "attributes": {"b": {"type": "string"}}, "indexes": {"x": {}}}`:                         "a key has no name",
		`{"models": {"A": {"pk": {"value": "${b}"}}}, "indexes": {"primary": {"hash": "pk"}}}`:                                                `"${b}" contains b, which is not an attribute`,
		`{"models": [], "indexes": {"primary": {"hash": "pk"}}}`:                                                                              "not a mapping",
		`{"models": {"A": {}}, "indexes": {"primary": {}}}`:                                                                                   "a key has no name",
		`{"models": {"A": {"pk": {"value": "a"}}}, "indexes": {"primary": {"hash": "pk"}, "x": {"sort": "y"}}}`:                               "a key has no name",
	} {
		_, err := Read([]File{{Name: "schema.json", Text: []byte(text), Wanted: true}}, nil)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: the error is %v, want %s", text, err, want)
		}
	}
}
