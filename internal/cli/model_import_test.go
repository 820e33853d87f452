package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/exchange"
)

// import, export and doc return the right exit codes.
func TestModelExchangeExitCodes(t *testing.T) {
	folder := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	put("infra.tf", `variable "env" {}
resource "aws_dynamodb_table" "a" {
  name         = "${var.env}-a"
  billing_mode = "PAY_PER_REQUEST"
  hash_key     = "id"
  attribute {
    name = "id"
    type = "S"
  }
}`)
	empty := t.TempDir()
	there := put("there.model.yaml", "model: 1")
	for _, c := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"a folder", []string{"import", folder, "--var", "env=test"}, 0, "  test-a:\n    key: {partition: id}"},
		{"a missing value", []string{"import", folder}, 2, "infra.tf:3:18: name of aws_dynamodb_table.a cannot be evaluated: var.env has no default"},
		{"an invalid value", []string{"import", folder, "--var", "env"}, 2, "must be name=value"},
		{"a folder without files", []string{"import", empty}, 2, "there are no Terraform files in"},
		{"no file", []string{"import", filepath.Join(folder, "none.tf")}, 1, "cannot read what to import"},
		{"no argument", []string{"import"}, 2, "needs one file or folder, or --endpoint"},
		{"both a file and a server", []string{"import", folder, "--endpoint", "http://127.0.0.1:1"}, 2, "needs no file with --endpoint"},
		{"an invalid endpoint", []string{"import", "--endpoint", "local"}, 2, "must be a URL"},
		{"a file that exists", []string{"import", folder, "--var", "env=test", "-o", there}, 2, "already exists and would be overwritten"},
		{"a model", []string{"import", there}, 2, "this is already a model"},
		{"an export", []string{"export", goodModel, "--to", "terraform"}, 0, `resource "aws_dynamodb_table" "data_download_jobs" {`},
		{"another export", []string{"export", goodModel, "--to", "cloudformation"}, 0, "    Type: AWS::DynamoDB::Table"},
		{"an export without a format", []string{"export", goodModel}, 2, "must be terraform or cloudformation"},
		{"an export of an invalid file", []string{"export", invalid, "--to", "terraform"}, 2, "did you mean partition?"},
		{"a document", []string{"doc", goodModel}, 0, "## Access patterns"},
		{"a document of an invalid file", []string{"doc", invalid}, 2, "did you mean partition?"},
		{"a document that cannot be written", []string{"doc", goodModel, "--html", filepath.Join(folder, "no", "a.html")}, 1, "no such file"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, errs := runStator(t, append([]string{"model"}, c.args...)...)
			if code != c.code || !strings.Contains(out+errs, c.want) {
				t.Errorf("exit code %d, want %d; the output is\n%s%s\nwithout %q", code, c.code, out, errs, c.want)
			}
		})
	}
	if text, err := os.ReadFile(there); err != nil || string(text) != "model: 1" {
		t.Errorf("the file that existed is now %q, %v", text, err)
	}
}

// Local modules of Terraform are imported. A module that is not read is named,
// and no model is made, except with --allow-partial.
func TestModelImportModules(t *testing.T) {
	folder := t.TempDir()
	put := func(name, text string) {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("orders/main.tf", `variable "env" {}
resource "aws_dynamodb_table" "a" {
  name         = "${var.env}-orders"
  billing_mode = "PAY_PER_REQUEST"
  hash_key     = "id"
  attribute {
    name = "id"
    type = "S"
  }
}`)
	local := "module \"orders\" {\n  source = \"./orders\"\n  env    = \"dev\"\n}\n"
	put("main.tf", local)
	if code, out, errs := runStator(t, "model", "import", folder); code != 0 || !strings.Contains(out, "  dev-orders:\n    key: {partition: id}") || errs != "" {
		t.Errorf("exit code %d, the output is\n%s%s", code, out, errs)
	}
	put("main.tf", local+"module \"vpc\" {\n  source = \"terraform-aws-modules/vpc/aws\"\n}\n")
	file := filepath.Join(folder, "new.model.yaml")
	code, out, errs := runStator(t, "model", "import", folder, "-o", file)
	if want := `main.tf:5:1: module.vpc is left out: its source "terraform-aws-modules/vpc/aws" is not a local folder`; code != 1 || out != "" || !strings.Contains(errs, want) || !strings.Contains(errs, "--allow-partial") {
		t.Errorf("exit code %d, the output is\n%s%s", code, out, errs)
	}
	if _, err := os.Stat(file); err == nil {
		t.Error("the model was written")
	}
	type result struct {
		Model   string
		Tables  []string
		Omitted []struct {
			What, Reason string
			Position     struct{ Line int }
		}
	}
	for _, c := range []struct {
		args []string
		code int
		text bool
	}{{[]string{"--json"}, 1, false}, {[]string{"--json", "--allow-partial", "-o", file}, 0, true}} {
		code, out, _ := runStator(t, append([]string{"model", "import", folder}, c.args...)...)
		var got result
		if err := json.Unmarshal([]byte(out), &got); err != nil || code != c.code {
			t.Fatalf("exit code %d, %v: %s", code, err, out)
		}
		if (got.Model != "") != c.text || len(got.Tables) != 1 || len(got.Omitted) != 1 || got.Omitted[0].What != "module.vpc" || got.Omitted[0].Position.Line != 5 {
			t.Errorf("with %v the result is %+v", c.args, got)
		}
	}
	if text, err := os.ReadFile(file); err != nil || !strings.Contains(string(text), "# main.tf:5:1: module.vpc is left out") {
		t.Errorf("the model is %s, %v", text, err)
	}
}

// A folder of a module with files that are too many or too large is not read.
func TestModuleFolderIsBounded(t *testing.T) {
	many, large, good := t.TempDir(), t.TempDir(), t.TempDir()
	write := func(folder, name string, size int) {
		if err := os.WriteFile(filepath.Join(folder, name), make([]byte, size), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for i := range maxModuleFiles + 1 {
		write(many, fmt.Sprintf("%d.tf", i), 0)
	}
	write(large, "a.tf", exchange.MaxFileBytes+1)
	write(good, "a.tf", 10)
	write(good, "terraform.tfvars", 10)
	for _, c := range []struct{ folder, want string }{{many, "has 501 Terraform files; the limit is 500"}, {large, "is not a file of at most 4 MB"}} {
		if _, err := moduleFolder(c.folder); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("the error is %v, want %s", err, c.want)
		}
	}
	if files, err := moduleFolder(good); err != nil || len(files) != 1 {
		t.Errorf("the files are %v, %v", files, err)
	}
}

// An imported model can be checked; the check reports what is still missing.
func TestModelImportThenCheck(t *testing.T) {
	file := filepath.Join(t.TempDir(), "new.model.yaml")
	if code, out, errs := runStator(t, "model", "import", "../model/exchange/testdata/shop.tf", "-o", file); code != 0 || out+errs != "" {
		t.Fatalf("exit code %d, the output is %s%s", code, out, errs)
	}
	code, out, _ := runStator(t, "model", "check", file)
	if want := "no pattern uses the index byStatus of shop-dev-orders"; code != 1 || !strings.Contains(out, want) {
		t.Errorf("exit code %d, the output is\n%s\nwithout %q", code, out, want)
	}
}

// doc writes HTML and Markdown at once.
func TestModelDocFiles(t *testing.T) {
	folder := t.TempDir()
	html, markdown := filepath.Join(folder, "a.html"), filepath.Join(folder, "a.md")
	if code, out, errs := runStator(t, "model", "doc", goodModel, "--html", html, "--markdown", markdown); code != 0 || out+errs != "" {
		t.Fatalf("exit code %d, the output is %s%s", code, out, errs)
	}
	for file, want := range map[string]string{html: "<!doctype html>", markdown: "# downloads"} {
		if text, err := os.ReadFile(file); err != nil || !strings.HasPrefix(string(text), want) {
			t.Errorf("%s does not start with %s: %v", file, want, err)
		}
	}
}

// The tables of a server become a model with all their properties.
func TestModelImportEndpoint(t *testing.T) {
	ctx := context.Background()
	endpoint, stop, err := servePrivately(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := stop(); err != nil {
			t.Error(err)
		}
	}()
	if code, _, errs := runStator(t, "model", "import", "--endpoint", endpoint); code != 1 || !strings.Contains(errs, "has no tables") {
		t.Errorf("for an empty server the exit code is %d: %s", code, errs)
	}
	makeTables(ctx, t, endpoint)
	code, out, errs := runStator(t, "model", "import", "--endpoint", endpoint)
	if code != 0 {
		t.Fatalf("exit code %d: %s", code, errs)
	}
	if _, err := model.Parse("imported", []byte(out)); err != nil {
		t.Fatal(err)
	}
	const want = `
tables:
  large:
    # Not part of a model: deletion protection; tags team=shop.
    key: {partition: PK, sort: SK}
    types: {total: N}
    indexes:
      GSI1: {partition: SK, sort: total, projection: [a, b], read: {units: 7}}
      LSI1: {sort: total, projection: KEYS_ONLY, local: true}
    ttl: expiresAt
    stream: NEW_IMAGE
    recovery: true
    billing: provisioned
    read: {units: 5}
    write: {units: 6}
  small:
    key: {partition: id}
    types: {id: B}
    billing: on-demand
`
	if !strings.Contains(out, want) {
		t.Errorf("the model is\n%s\nwithout\n%s", out, want)
	}
}

// makeTables creates a table with all properties and one without any.
func makeTables(ctx context.Context, t *testing.T, endpoint string) {
	t.Helper()
	client := dynamodb.New(dynamodb.Options{
		BaseEndpoint: &endpoint, Region: "us-east-1",
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) { return environmentCredentials(), nil }),
	})
	key := func(names ...string) (key []types.KeySchemaElement) {
		for i, name := range names {
			key = append(key, types.KeySchemaElement{AttributeName: &name, KeyType: []types.KeyType{types.KeyTypeHash, types.KeyTypeRange}[i]})
		}
		return key
	}
	large, err := client.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName: aws.String("large"), KeySchema: key("PK", "SK"),
		AttributeDefinitions: []types.AttributeDefinition{
			{AttributeName: aws.String("PK"), AttributeType: "S"}, {AttributeName: aws.String("SK"), AttributeType: "S"}, {AttributeName: aws.String("total"), AttributeType: "N"},
		},
		ProvisionedThroughput: &types.ProvisionedThroughput{ReadCapacityUnits: aws.Int64(5), WriteCapacityUnits: aws.Int64(6)},
		GlobalSecondaryIndexes: []types.GlobalSecondaryIndex{{
			IndexName: aws.String("GSI1"), KeySchema: key("SK", "total"), Projection: &types.Projection{ProjectionType: "INCLUDE", NonKeyAttributes: []string{"a", "b"}},
			ProvisionedThroughput: &types.ProvisionedThroughput{ReadCapacityUnits: aws.Int64(7), WriteCapacityUnits: aws.Int64(6)},
		}},
		LocalSecondaryIndexes: []types.LocalSecondaryIndex{{
			IndexName: aws.String("LSI1"), KeySchema: key("PK", "total"), Projection: &types.Projection{ProjectionType: "KEYS_ONLY"},
		}},
		StreamSpecification:       &types.StreamSpecification{StreamEnabled: aws.Bool(true), StreamViewType: "NEW_IMAGE"},
		DeletionProtectionEnabled: aws.Bool(true),
		Tags:                      []types.Tag{{Key: aws.String("team"), Value: aws.String("shop")}},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.CreateTable(ctx, &dynamodb.CreateTableInput{
		TableName: aws.String("small"), KeySchema: key("id"), BillingMode: types.BillingModePayPerRequest,
		AttributeDefinitions: []types.AttributeDefinition{{AttributeName: aws.String("id"), AttributeType: "B"}},
	}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.UpdateTimeToLive(ctx, &dynamodb.UpdateTimeToLiveInput{TableName: large.TableDescription.TableName,
		TimeToLiveSpecification: &types.TimeToLiveSpecification{AttributeName: aws.String("expiresAt"), Enabled: aws.Bool(true)}}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.UpdateContinuousBackups(ctx, &dynamodb.UpdateContinuousBackupsInput{TableName: large.TableDescription.TableName,
		PointInTimeRecoverySpecification: &types.PointInTimeRecoverySpecification{PointInTimeRecoveryEnabled: aws.Bool(true)}}); err != nil {
		t.Fatal(err)
	}
}
