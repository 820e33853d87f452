// Package exchange converts tables between models and other descriptions of
// them: Terraform, CloudFormation, NoSQL Workbench, schemas of ElectroDB, OneTable and
// dynamodb-toolbox, and a running server.
//
// It reads and writes text, and reads a server through a client that it is
// given; reading and writing files is left to the caller.
package exchange

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/stator-db/stator/internal/model"
)

// Design is what a source says about its tables, as far as a model can
// represent it.
type Design struct {
	Name        string // name of the design
	Description string
	Source      string // description of the source, for people
	Tables      []*Table
	Entities    []*Entity       // from sources that have samples or a schema
	Patterns    []SourcePattern // from sources that have a schema
	Omitted     []Omission
}

// Omission is a part of a source that may contain tables or items and is not
// in the design.
type Omission struct {
	File   string         `json:"file"`
	At     model.Position `json:"position"`
	What   string         `json:"what"`
	Reason string         `json:"reason"`
}

// String returns one line with file, line and column.
func (o Omission) String() string {
	return model.Located(o.File, o.At, o.What+" is left out: "+o.Reason)
}

// Table is a table with notes for readers of the model.
type Table struct {
	model.Table
	Notes []string
}

// File is one file of a source. A Terraform module consists of several files;
// those that are not Wanted only define names that the others use.
type File struct {
	Name   string
	Text   []byte
	Wanted bool
}

// Fault is something in a source that cannot be converted.
type Fault struct {
	File    string
	At      model.Position
	Message string
}

// Faults is everything that is wrong with a source.
type Faults []Fault

// Error returns one line for each fault, with file, line and column.
func (f Faults) Error() string {
	var lines []string
	for _, x := range f {
		lines = append(lines, model.Located(x.File, x.At, x.Message))
	}
	return strings.Join(lines, "\n")
}

// Limits of a source.
const (
	MaxFileBytes = 4 << 20 // largest size of a file
	maxNesting   = 100
	maxTables    = 2_500 // the default limit of an account
	maxFaults    = 20
	maxOmissions = 200
)

// Read is ReadFolders without access to the folders of modules: the design
// leaves out all modules.
func Read(files []File, vars map[string]string) (*Design, error) {
	return ReadFolders(files, vars, nil)
}

// ReadFolders reads files of any of the formats. It recognizes Terraform by the
// name of the file, and the other formats by their content. vars are values of
// Terraform variables or CloudFormation parameters, by name. open returns the
// Terraform files of the folder of a local module.
func ReadFolders(files []File, vars map[string]string, open FolderOpener) (*Design, error) {
	var wanted []File
	for _, f := range files {
		if len(f.Text) > MaxFileBytes {
			return nil, Faults{{File: f.Name, Message: fmt.Sprintf("the file has a size of %s; the limit is %s", model.Bytes(len(f.Text)), model.Bytes(MaxFileBytes))}}
		}
		if f.Wanted {
			wanted = append(wanted, f)
		}
	}
	if len(wanted) == 0 {
		return nil, fmt.Errorf("there is no file to read tables from")
	}
	d, err := read(wanted, files, vars, open)
	if err != nil {
		return nil, err
	}
	if len(d.Tables) == 0 {
		faults := Faults{{File: wanted[0].Name, Message: "it contains no DynamoDB tables"}}
		for _, o := range d.Omitted {
			faults = append(faults, Fault{o.File, o.At, o.What + " is left out: " + o.Reason})
		}
		return nil, faults
	}
	d.Name = cmp.Or(d.Name, plainName(wanted[0].Name))
	return d, checkDuplicates(wanted[0].Name, d.Tables)
}

func read(wanted, all []File, vars map[string]string, open FolderOpener) (*Design, error) {
	if IsTerraform(wanted[0].Name) {
		return readTerraform(all, vars, open)
	}
	if len(wanted) > 1 {
		return nil, fmt.Errorf("%s: only Terraform files can be read together", wanted[1].Name)
	}
	file := wanted[0]
	root, err := parseSource(file)
	if err != nil {
		return nil, err
	}
	if schemas := electroSchemas(root); len(schemas) > 0 {
		return readElectroDB(file.Name, schemas, vars)
	}
	if entities := toolboxEntities(root); len(entities) > 0 {
		return readToolbox(file.Name, entities, vars)
	}
	switch {
	case isOneTable(root):
		return readOneTable(file.Name, root, vars)
	case root.get("Resources") != nil:
		return readCloudFormation(file.Name, root, vars)
	case root.get("DataModel") != nil:
		return readWorkbench(file.Name, root)
	case root.get("model") != nil:
		return nil, Faults{{File: file.Name, Message: "this is already a model"}}
	}
	return nil, Faults{{File: file.Name, At: root.at, Message: "this format cannot be read: a CloudFormation template has Resources, a NoSQL Workbench model has DataModel, a schema of ElectroDB has model and indexes, one of OneTable has models and indexes, one of dynamodb-toolbox has entityName and schema, and a Terraform file is named *.tf"}}
}

// IsTerraform reports whether a file is a Terraform file, by its name.
func IsTerraform(name string) bool {
	return strings.HasSuffix(name, ".tf") || strings.HasSuffix(name, ".tf.json")
}

// checkDuplicates returns an error if two tables have the same name.
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

// plainName is the name of a design that is named after its file.
func plainName(file string) string {
	base := filepath.Base(file)
	name, _, _ := strings.Cut(base, ".")
	return cmp.Or(name, base)
}
