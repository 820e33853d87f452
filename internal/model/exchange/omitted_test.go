package exchange

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/model"
)

const moduleTable = `
variable "env" {}
variable "stream" { default = false }
variable "settings" { default = { hash = "id" } }
resource "aws_dynamodb_table" "a" {
  name           = "${var.env}-orders"
  billing_mode   = "PAY_PER_REQUEST"
  hash_key       = var.settings.hash
  stream_enabled = var.stream
  stream_view_type = "NEW_IMAGE"
  attribute {
    name = var.settings.hash
    type = "S"
  }
}`

// folders is an opener of folders in memory.
func folders(all map[string]string) FolderOpener {
	return func(folder string) ([]File, error) {
		text, ok := all[folder]
		if !ok {
			return nil, errors.New("there is no such folder")
		}
		return []File{{Name: folder + "/main.tf", Text: []byte(text)}}, nil
	}
}

func tableNames(d *Design) (names []string) {
	for _, t := range d.Tables {
		names = append(names, t.Name)
	}
	return names
}

// Local modules are followed; a module that is not read is named, with the
// reason.
func TestTerraformModules(t *testing.T) {
	own := fmt.Sprintf(terraformTable, `"abc"`) + "\nlocals { env = \"prod\" }\nvariable \"given\" {}\n"
	modules := folders(map[string]string{
		"root/orders":      moduleTable,
		"shared":           moduleTable,
		"root/outer":       "variable \"env\" {}\nmodule \"inner\" {\n  source = \"./inner\"\n  env = \"in-${var.env}\"\n}",
		"root/outer/inner": moduleTable,
		"root/cycle":       "module \"again\" { source = \"../cycle\" }",
		"root/vpc":         `resource "aws_vpc" "v" {}`,
		"root/broken":      `resource "aws_dynamodb_table" "a" {`,
	})
	for _, c := range []struct {
		name, call string
		tables     []string
		omitted    string // "" if nothing is
	}{
		{"a literal argument", `source = "./orders"` + "\n" + `env = "dev"`, []string{"abc", "dev-orders"}, ""},
		{"an argument from a local", `source = "./orders"` + "\n" + `env = local.env`, []string{"abc", "prod-orders"}, ""},
		{"an argument from a table", `source = "./orders"` + "\n" + `env = aws_dynamodb_table.a.name`, []string{"abc", "abc-orders"}, ""},
		{"an object as an argument", `source = "./orders"` + "\n" + `env = "dev"` + "\n" + `settings = { hash = "key" }`, []string{"abc", "dev-orders"}, ""},
		{"a folder above the root", `source = "../shared"` + "\n" + `env = "dev"`, []string{"abc", "dev-orders"}, ""},
		{"a module within a module", `source = "./outer"` + "\n" + `env = "dev"`, []string{"abc", "in-dev-orders"}, ""},
		{"count", `source = "./orders"` + "\n" + `count = 2` + "\n" + `env = "n${count.index}"`, []string{"abc", "n0-orders", "n1-orders"}, ""},
		{"for_each", `source = "./orders"` + "\n" + `for_each = toset(["b", "c"])` + "\n" + `env = each.key`, []string{"abc", "b-orders", "c-orders"}, ""},
		{"no instances", `source = "./orders"` + "\n" + `count = 0` + "\n" + `env = "dev"`, []string{"abc"}, ""},
		{"a module without tables", `source = "./vpc"` + "\n" + `count = data.x.y.z`, []string{"abc"}, ""},
		{"a module of a registry", `source = "terraform-aws-modules/dynamodb-table/aws"`, []string{"abc"},
			`root/main.tf:13:1: module.m is left out: its source "terraform-aws-modules/dynamodb-table/aws" is not a local folder`},
		{"a module of a repository", `source = "git::https://example.com/m.git"`, []string{"abc"}, `is not a local folder`},
		{"an absolute folder", `source = "/etc"`, []string{"abc"}, `is not a local folder`},
		{"a source that is not literal", `source = "./${var.given}"`, []string{"abc"}, "its source is not a literal text"},
		{"no source", ``, []string{"abc"}, "it has no source"},
		{"a missing folder", `source = "./nothing"`, []string{"abc"}, "there is no such folder"},
		{"a count that is not known", `source = "./orders"` + "\n" + `count = data.x.y.z`, []string{"abc"}, "module.m is left out: root/main.tf:15:9: count of module.m cannot be evaluated: data.x.y.z"},
		{"an argument that is not known", `source = "./orders"` + "\n" + `env = data.x.y.z`, []string{"abc"},
			"module.m is left out: root/orders/main.tf:6:20: name of module.m.aws_dynamodb_table.a cannot be evaluated: var.env: data.x.y.z (root/main.tf:15) is known only when Terraform runs"},
		{"an argument without a default", `source = "./orders"` + "\n" + `env = var.given`, []string{"abc"}, "var.env: var.given has no default; give it a value with --var given=VALUE"},
		{"a missing argument", `source = "./orders"`, []string{"abc"}, "var.env has no default, and module.m (root/main.tf:13) does not set it"},
		{"a module that calls itself", `source = "./cycle"`, []string{"abc"}, "module.m.module.again is left out: modules are nested too deeply or form a cycle"},
		{"a syntax error", `source = "./broken"`, []string{"abc"}, "module.m is left out: root/broken/main.tf:1:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := own + "module \"m\" {\n" + c.call + "\n}"
			d, err := ReadFolders([]File{{Name: "root/main.tf", Text: []byte(text), Wanted: true}}, nil, modules)
			if err != nil {
				t.Fatal(err)
			}
			checkOmitted(t, d, c.omitted)
			if got := tableNames(d); !slices.Equal(got, c.tables) {
				t.Errorf("the tables are %v, want %v", got, c.tables)
			}
		})
	}
}

// checkOmitted compares what a design leaves out, in the design and in its model.
func checkOmitted(t *testing.T, d *Design, want string) {
	t.Helper()
	text, err := d.Model()
	if err != nil {
		t.Fatal(err)
	}
	if want == "" {
		if len(d.Omitted) > 0 || strings.Contains(string(text), "left out") {
			t.Errorf("%v is left out", d.Omitted)
		}
		return
	}
	if len(d.Omitted) != 1 || !strings.Contains(d.Omitted[0].String(), want) {
		t.Errorf("left out is %v, want %s", d.Omitted, want)
	}
	if !strings.Contains(string(text), " is left out: ") {
		t.Errorf("the model does not say what is left out:\n%s", text)
	}
}

// A source whose tables are all in modules that are not read is an error that
// names the modules.
func TestTerraformOnlyModules(t *testing.T) {
	_, err := Read([]File{{Name: "a.tf", Text: []byte(`module "m" { source = "x/y/z" }`), Wanted: true}}, nil)
	if err == nil || !strings.Contains(err.Error(), "it contains no DynamoDB tables") || !strings.Contains(err.Error(), `a.tf:1:1: module.m is left out: its source "x/y/z"`) {
		t.Errorf("the error is %v", err)
	}
}

// An index that is a resource of its own is named.
func TestTerraformIndexResource(t *testing.T) {
	text := fmt.Sprintf(terraformTable, `"abc"`) + "\nresource \"aws_dynamodb_global_secondary_index\" \"x\" {}"
	d, err := Read([]File{{Name: "a.tf", Text: []byte(text), Wanted: true}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	checkOmitted(t, d, "aws_dynamodb_global_secondary_index.x is left out: an index that is a resource of its own is not read")
}

// A table of a serverless application is read; resources that may create tables
// are named.
func TestCloudFormationOmissions(t *testing.T) {
	for _, c := range []struct{ name, resources, want, omitted string }{
		{"defaults", "  Abc: {Type: 'AWS::Serverless::SimpleTable'}", "  Abc:\n    # CloudFormation generates its name; this is the name of the resource.\n    key: {partition: id}\n    billing: on-demand\n", ""},
		{"all properties", `  Abc:
    Type: AWS::Serverless::SimpleTable
    Properties:
      TableName: !Sub "${Env}-abc"
      PrimaryKey: {Name: num, Type: Number}
      ProvisionedThroughput: {ReadCapacityUnits: 2, WriteCapacityUnits: 3}
      PointInTimeRecoverySpecification: {PointInTimeRecoveryEnabled: true}
`, "  dev-abc:\n    key: {partition: num}\n    types: {num: N}\n    recovery: true\n    billing: provisioned\n    read: {units: 2}\n    write: {units: 3}\n", ""},
		{"a nested stack", "  Abc: {Type: 'AWS::Serverless::SimpleTable'}\n  Inner: {Type: 'AWS::CloudFormation::Stack', Properties: {TemplateURL: inner.yaml}}", "key: {partition: id}",
			"s.yaml:5:3: Inner is left out: nested stacks are not read; import their templates"},
		{"a nested application", "  Abc: {Type: 'AWS::Serverless::SimpleTable'}\n  Inner: {Type: 'AWS::Serverless::Application'}", "key: {partition: id}", "Inner is left out: nested applications are not read"},
		{"a nested stack that is not created", "  Abc: {Type: 'AWS::Serverless::SimpleTable'}\n  Inner: {Type: 'AWS::CloudFormation::Stack', Condition: Never}", "key: {partition: id}", ""},
		{"a loop", "  Abc: {Type: 'AWS::Serverless::SimpleTable'}\n  'Fn::ForEach::Tables': [a, [b], {}]", "key: {partition: id}", "Fn::ForEach::Tables is left out: resources that a function generates are not read"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := "Parameters: {Env: {Type: String, Default: dev}}\nConditions: {Never: {'Fn::Equals': [a, b]}}\nResources:\n" + c.resources
			d, err := Read([]File{{Name: "s.yaml", Text: []byte(text), Wanted: true}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			checkOmitted(t, d, c.omitted)
			if got, _ := d.Model(); !strings.Contains(string(got), c.want) {
				t.Errorf("the model is\n%s\nwithout\n%s", got, c.want)
			}
		})
	}
	_, err := Read([]File{{Name: "s.yaml", Text: []byte("Resources:\n  Abc: {Type: 'AWS::Serverless::SimpleTable', Properties: {PrimaryKey: {Name: a, Type: List}}}"), Wanted: true}}, nil)
	if err == nil || !strings.Contains(err.Error(), `the type of the PrimaryKey of Abc is "List", not String, Number or Binary`) {
		t.Errorf("the error is %v", err)
	}
}

// A facet without rows becomes an entity by its key aliases; other facets and
// rows that are not read are named.
func TestWorkbenchFacets(t *testing.T) {
	const table = `{"DataModel": [{"TableName": "abc",
 "KeyAttributes": {"PartitionKey": {"AttributeName": "PK", "AttributeType": "S"}, "SortKey": {"AttributeName": "SK", "AttributeType": "%s"}},
 "NonKeyAttributes": [{"AttributeName": "age", "AttributeType": "N"}],
 "TableFacets": [%s]}]}`
	const row = `{"FacetName": "One", "TableData": [{"PK": {"S": "ORDER#1"}, "SK": {"S": "META"}}]}`
	for _, c := range []struct{ name, sort, facets, want, omitted string }{
		{"both aliases", "S", `{"FacetName": "User Order", "KeyAttributeAlias": {"PartitionKeyAlias": "userId", "SortKeyAlias": "orderId"}, "NonKeyAttributes": ["age"], "TableData": []}`,
			"  user-order:\n    table: abc\n    keys:\n      PK: \"{userId}\"\n      SK: \"{orderId}\"\n    attributes:\n      age: {type: N}\n      userId: {stored: false}\n      orderId: {stored: false}\n", ""},
		{"an alias that is the key", "S", `{"FacetName": "A", "KeyAttributeAlias": {"PartitionKeyAlias": "userId", "SortKeyAlias": "SK"}}`, "      PK: \"{userId}\"\n    attributes:\n      userId: {stored: false}\n      SK: {type: S}\n", ""},
		{"a number as sort key", "N", `{"FacetName": "A", "KeyAttributeAlias": {"PartitionKeyAlias": "userId", "SortKeyAlias": "at"}}`, "      SK: {type: N}\n", ""},
		{"an alias that is no name", "S", `{"FacetName": "A", "KeyAttributeAlias": {"PartitionKeyAlias": "user {id}", "SortKeyAlias": "x"}}`, "      PK: {type: S}\n", ""},
		{"two facets", "S", row + `, {"FacetName": "Two", "KeyAttributeAlias": {"PartitionKeyAlias": "userId", "SortKeyAlias": "x"}}`, "  two:\n    table: abc\n    keys:\n      PK: \"{userId}\"\n", ""},
		{"neither rows nor aliases", "S", row + `, {"FacetName": "Two"}`, "  one:\n", `facet "Two" of table abc is left out: it has neither rows nor key aliases`},
		{"rows of another facet", "S", row + "," + strings.Replace(row, "One", "Two", 1), "  one:\n", `facet "Two" of table abc is left out: its rows are also rows of other facets`},
		{"a row without a key", "S", row + `, {"FacetName": "Two", "TableData": [{"PK": {"S": "x"}}]}`, "  one:\n", `facet "Two" of table abc is left out: 1 of its 1 rows have no valid key`},
	} {
		t.Run(c.name, func(t *testing.T) {
			d, err := Read([]File{{Name: "w.json", Text: fmt.Appendf(nil, table, c.sort, c.facets), Wanted: true}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			checkOmitted(t, d, c.omitted)
			got, err := d.Model()
			if err != nil || !strings.Contains(string(got), c.want) {
				t.Errorf("the model is\n%s\nwithout\n%s", got, c.want)
			}
			if _, err := model.Parse("w", got); err != nil {
				t.Error(err)
			}
		})
	}
}
