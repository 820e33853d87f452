package exchange

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stator-db/stator/internal/model"
)

func parsed(t *testing.T, d *Design) *model.Model {
	t.Helper()
	text, err := d.Model()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	m, err := model.Parse("m", text)
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return m
}

// Any file is read or rejected; and a design that was read can be written for both
// tools and read back with the same number of tables.
func FuzzRead(f *testing.F) {
	names := []string{"a.tf", "a.tf.json", "a.yaml", "a.json"}
	files, err := filepath.Glob("testdata/*.*")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // a folder of what fuzzing found
		}
		for kind := range names {
			f.Add(kind, text)
		}
	}
	f.Add(0, []byte(`resource "aws_dynamodb_table" "a" { name = "${[for a in [1,2] : a]...}" }`))
	f.Add(2, []byte("Resources: {a: {Type: AWS::DynamoDB::Table, Properties: !If [a, !Ref b, !Sub ['${c}', {c: !GetAtt d}]]}}"))
	f.Add(3, []byte(`{"DataModel":[{"TableName":"abc","KeyAttributes":{"PartitionKey":{"AttributeName":"id","AttributeType":"S"}},"TableData":[{"id":{"S":"A#{b}#c"},"x":{"M":{"y":{"L":[{"NS":[]}]}}}}]}]}`))
	f.Fuzz(func(t *testing.T, kind int, text []byte) {
		name := names[((kind%len(names))+len(names))%len(names)]
		d, err := Read([]File{{Name: name, Text: text, Wanted: true}}, map[string]string{"x": "1"})
		if err != nil {
			return
		}
		out, err := d.Model()
		if err != nil {
			return
		}
		m, err := model.Parse("m", out)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		for to, written := range map[string][]byte{"b.tf": Terraform(m), "b.yaml": CloudFormation(m)} {
			again, err := Read([]File{{Name: to, Text: written, Wanted: true}}, nil)
			if err != nil {
				t.Fatalf("%s: %v\n%s", to, err, written)
			}
			if len(again.Tables) != len(m.Tables) {
				t.Errorf("%s has %d tables of %d\n%s", to, len(again.Tables), len(m.Tables), written)
			}
		}
	})
}
