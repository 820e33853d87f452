// Package exchange carries tables between models and the other places that
// describe them: Terraform, CloudFormation, NoSQL Workbench and a running
// server.
//
// It reads and writes text and asks a server that it is given; files are left
// to the caller.
package exchange

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/stator-db/stator/internal/model"
)

// Design is what a source says of its tables, as far as a model can hold it.
type Design struct {
	Name        string // what the design is called
	Description string
	Source      string // what it was read from, for people
	Tables      []*Table
	Entities    []*Entity // of a source that has samples
}

// Table is a table with sentences about it for whoever reads the model.
type Table struct {
	model.Table
	Notes []string
}

// File is one file of a source. A Terraform module is made of several: those
// that are not Wanted explain names that the others use.
type File struct {
	Name   string
	Text   []byte
	Wanted bool
}

// Fault is something in a source that cannot be carried over.
type Fault struct {
	File    string
	At      model.Position
	Message string
}

// Faults is all that is wrong with a source, a line for each.
type Faults []Fault

// Error is a line for each fault, with file, line and column.
func (f Faults) Error() string {
	var lines []string
	for _, x := range f {
		lines = append(lines, model.Located(x.File, x.At, x.Message))
	}
	return strings.Join(lines, "\n")
}

// What a source may hold at most.
const (
	maxFileBytes = 4 << 20
	maxNesting   = 100
	maxTables    = 2_500 // of an account, by default
	maxFaults    = 20
)

// Read reads files of any of the formats; it tells them apart by their names,
// and JSON and YAML by what they have in them. vars are values of Terraform's
// variables or of CloudFormation's parameters, by name.
func Read(files []File, vars map[string]string) (*Design, error) {
	var wanted []File
	for _, f := range files {
		if len(f.Text) > maxFileBytes {
			return nil, Faults{{File: f.Name, Message: fmt.Sprintf("the file has a size of %s; the limit is %s", model.Bytes(len(f.Text)), model.Bytes(maxFileBytes))}}
		}
		if f.Wanted {
			wanted = append(wanted, f)
		}
	}
	if len(wanted) == 0 {
		return nil, fmt.Errorf("there is no file to read tables from")
	}
	d, err := read(wanted, files, vars)
	if err != nil {
		return nil, err
	}
	if len(d.Tables) == 0 {
		message := "it contains no DynamoDB tables"
		if IsTerraform(wanted[0].Name) {
			message += "; tables that modules create are not read"
		}
		return nil, Faults{{File: wanted[0].Name, Message: message}}
	}
	d.Name = cmp.Or(d.Name, plainName(wanted[0].Name))
	return d, checkDuplicates(wanted[0].Name, d.Tables)
}

func read(wanted, all []File, vars map[string]string) (*Design, error) {
	if IsTerraform(wanted[0].Name) {
		return readTerraform(all, vars)
	}
	if len(wanted) > 1 {
		return nil, fmt.Errorf("%s: only Terraform files can be read together", wanted[1].Name)
	}
	file := wanted[0]
	root, err := parseSource(file)
	if err != nil {
		return nil, err
	}
	switch {
	case root.get("Resources") != nil:
		return readCloudFormation(file.Name, root, vars)
	case root.get("DataModel") != nil:
		return readWorkbench(file.Name, root)
	case root.get("model") != nil:
		return nil, Faults{{File: file.Name, Message: "this is already a model"}}
	}
	return nil, Faults{{File: file.Name, At: root.at, Message: "this format cannot be read: a CloudFormation template has Resources, a NoSQL Workbench model has DataModel, and a Terraform file is named *.tf"}}
}

// IsTerraform tells by its name whether a file is one of Terraform.
func IsTerraform(name string) bool {
	return strings.HasSuffix(name, ".tf") || strings.HasSuffix(name, ".tf.json")
}

// checkDuplicates tells of tables that have one name.
func checkDuplicates(file string, tables []*Table) error {
	seen := make(map[string]bool)
	for _, t := range tables {
		if seen[t.Name] {
			return Faults{{File: file, At: t.Position, Message: fmt.Sprintf("two tables are named %s", t.Name)}}
		}
		seen[t.Name] = true
	}
	return nil
}

// plainName is what a design is called after its file.
func plainName(file string) string {
	base := filepath.Base(file)
	name, _, _ := strings.Cut(base, ".")
	return cmp.Or(name, base)
}
