package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/apply"
	"github.com/stator-db/stator/internal/model/exchange"
)

type importFlags struct {
	endpoint string
	region   string
	output   string
	vars     []string
	partial  bool
	asJSON   bool
}

// importResult is the result of import as JSON.
type importResult struct {
	Model    string              `json:"model"` // the text; empty if it is not made
	Tables   []string            `json:"tables"`
	Entities []string            `json:"entities"`
	Omitted  []exchange.Omission `json:"omitted"`
}

func modelImportCommand() *cobra.Command {
	var f importFlags
	cmd := &cobra.Command{
		Use:   "import FILE | import --endpoint URL",
		Short: "Make a model from tables that are described elsewhere",
		Long: `Make a model from the tables in a Terraform file or folder, a CloudFormation
template, a NoSQL Workbench data model, a schema of ElectroDB, OneTable or dynamodb-toolbox as JSON,
or a running server. The parts that these do not describe, such as access patterns, are
added as comments to fill in. Local modules of Terraform are followed. Parts that cannot be read, such as modules of a registry, are
named, and no model is made, except with --allow-partial.

  stator model import infra/ --var env=prod -o shop.model.yaml
  stator model import template.yaml --var AWS::StackName=shop
  stator model import --endpoint http://127.0.0.1:8000`,
		Args: func(cmd *cobra.Command, args []string) error {
			if f.endpoint != "" {
				return arguments(0, "no file with --endpoint")(cmd, args)
			}
			return arguments(1, "one file or folder, or --endpoint")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			d, err := f.read(cmd.Context(), args, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			return f.write(d, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.endpoint, "endpoint", "", "URL of a server whose tables to read")
	flags.StringVar(&f.region, "region", "us-east-1", "region to sign requests for")
	flags.StringArrayVar(&f.vars, "var", nil, "value of a Terraform variable or a CloudFormation parameter, as name=value; may be given several times")
	flags.StringVarP(&f.output, "output", "o", "", "file to write the model to; it must not exist")
	flags.BoolVar(&f.partial, "allow-partial", false, "make the model even if parts of the source are left out")
	flags.BoolVar(&f.asJSON, "json", false, "print the model and what is left out as JSON")
	return cmd
}

// read reads the source.
func (f *importFlags) read(ctx context.Context, args []string, stderr io.Writer) (*exchange.Design, error) {
	if f.endpoint != "" {
		return f.readServer(ctx, stderr)
	}
	return f.readFiles(args[0])
}

// write names what is left out, and writes the model unless something is and
// that is not allowed.
func (f *importFlags) write(d *exchange.Design, stdout, stderr io.Writer) error {
	result := importResult{Tables: []string{}, Entities: []string{}, Omitted: append([]exchange.Omission{}, d.Omitted...)}
	for _, o := range d.Omitted {
		fmt.Fprintln(stderr, o)
	}
	text, err := d.Model()
	if err != nil {
		return invalidFile(err)
	}
	var incomplete error
	if len(d.Omitted) > 0 && !f.partial {
		incomplete = fmt.Errorf("no model is made, since the source has %s that cannot be read\n        accept a model without them with --allow-partial", plural(len(d.Omitted), "part"))
	} else {
		result.Model = string(text)
	}
	for _, t := range d.Tables {
		result.Tables = append(result.Tables, t.Name)
	}
	for _, e := range d.Entities {
		result.Entities = append(result.Entities, e.Name)
	}
	if incomplete == nil && f.output != "" {
		if err := writeNew(f.output, text); err != nil {
			return err
		}
	}
	if f.asJSON {
		err = encodeIndented(stdout, result)
	} else if incomplete == nil && f.output == "" {
		_, err = stdout.Write(text)
	}
	return errors.Join(err, incomplete)
}

func (f *importFlags) readFiles(path string) (*exchange.Design, error) {
	vars := make(map[string]string)
	for _, v := range f.vars {
		name, value, ok := strings.Cut(v, "=")
		if !ok || name == "" {
			return nil, usageError{fmt.Errorf("--var is %q, but must be name=value", v)}
		}
		vars[name] = value
	}
	files, err := sourceFiles(path)
	if err != nil {
		return nil, err
	}
	d, err := exchange.ReadFolders(files, vars, moduleFolder)
	var faults exchange.Faults
	if errors.As(err, &faults) {
		return nil, usageError{errors.New(strings.ReplaceAll(err.Error(), "\n", "\n        "))}
	}
	return d, err
}

// sourceFiles returns a file, or the Terraform files of a folder. A Terraform
// file is read with the others of its folder, which define the names that it
// uses.
func sourceFiles(path string) ([]exchange.File, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("cannot read what to import: %w", err)
	}
	folder, names := path, []string(nil)
	switch {
	case info.IsDir():
	case exchange.IsTerraform(path):
		folder = filepath.Dir(path)
	default:
		folder, names = "", []string{path}
	}
	if folder != "" {
		// Later files override earlier ones, in Terraform's order.
		found, err := globAll(folder, "*.tf", "*.tf.json", "terraform.tfvars", "terraform.tfvars.json", "*.auto.tfvars", "*.auto.tfvars.json")
		if err != nil {
			return nil, err
		}
		names = found
	}
	var files []exchange.File
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("cannot read what to import: %w", err)
		}
		wanted := info.IsDir() && exchange.IsTerraform(name) || filepath.Clean(name) == filepath.Clean(path)
		files = append(files, exchange.File{Name: name, Text: text, Wanted: wanted})
	}
	if !slices.ContainsFunc(files, func(f exchange.File) bool { return f.Wanted }) {
		return nil, usageError{fmt.Errorf("there are no Terraform files in %s; name a template or a data model itself", path)}
	}
	return files, nil
}

// globAll returns the files of a folder that match any of the patterns, in the
// order of the patterns.
func globAll(folder string, patterns ...string) (names []string, err error) {
	for _, pattern := range patterns {
		found, err := filepath.Glob(filepath.Join(folder, pattern))
		if err != nil {
			return nil, fmt.Errorf("cannot list %s: %w", folder, err)
		}
		names = append(names, found...)
	}
	return names, nil
}

// maxModuleFiles is the most files that are read of a module's folder.
const maxModuleFiles = 500

// moduleFolder returns the Terraform files of the folder of a module.
func moduleFolder(folder string) (files []exchange.File, err error) {
	names, err := globAll(folder, "*.tf", "*.tf.json")
	if err != nil {
		return nil, err
	}
	if len(names) > maxModuleFiles {
		return nil, fmt.Errorf("cannot read the module: %s has %d Terraform files; the limit is %d", folder, len(names), maxModuleFiles)
	}
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			return nil, fmt.Errorf("cannot read the module: %w", err)
		}
		if !info.Mode().IsRegular() || info.Size() > exchange.MaxFileBytes {
			return nil, fmt.Errorf("cannot read the module: %s is not a file of at most %s", name, model.Bytes(exchange.MaxFileBytes))
		}
		text, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("cannot read the module: %w", err)
		}
		files = append(files, exchange.File{Name: name, Text: text})
	}
	return files, nil
}

func (f *importFlags) readServer(ctx context.Context, stderr io.Writer) (*exchange.Design, error) {
	if u, err := url.Parse(f.endpoint); err != nil || u.Host == "" {
		return nil, usageError{fmt.Errorf("--endpoint is %q, but must be a URL such as http://127.0.0.1:8000", f.endpoint)}
	}
	if len(f.vars) > 0 {
		return nil, usageError{errors.New("--var is for files; a server needs no variables")}
	}
	server := &apply.Endpoint{URL: f.endpoint, Client: serverClient(time.Minute), Sign: signFor(f.region)}
	seen := painterFor(stderr)
	return exchange.ReadServer(ctx, server.Send, f.endpoint, func(done, all int) {
		if seen {
			fmt.Fprintf(stderr, "\r%d of %d tables", done, all)
			if done == all {
				fmt.Fprintln(stderr)
			}
		}
	})
}

// writeNew writes a file that does not exist yet: an existing one may contain
// work that the source does not.
func writeNew(path string, text []byte) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return usageError{fmt.Errorf("%s already exists and would be overwritten; choose another name, or remove it", path)}
	}
	if err != nil {
		return fmt.Errorf("cannot write the model: %w", err)
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Close())
}
