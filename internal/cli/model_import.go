package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/internal/model/apply"
	"github.com/stator-db/stator/internal/model/exchange"
)

type importFlags struct {
	endpoint string
	region   string
	output   string
	vars     []string
}

func modelImportCommand() *cobra.Command {
	var f importFlags
	cmd := &cobra.Command{
		Use:   "import FILE | import --endpoint URL",
		Short: "Make a model from tables that are described elsewhere",
		Long: `Make a model from the tables in a Terraform file or folder, a CloudFormation
template, a NoSQL Workbench data model, or a running server. The parts that these do
not describe, such as access patterns, are added as comments to fill in.

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
			text, err := f.read(cmd.Context(), args, cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if f.output == "" {
				_, err = cmd.OutOrStdout().Write(text)
				return err
			}
			return writeNew(f.output, text)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.endpoint, "endpoint", "", "URL of a server whose tables to read")
	flags.StringVar(&f.region, "region", "us-east-1", "region to sign requests for")
	flags.StringArrayVar(&f.vars, "var", nil, "value of a Terraform variable or a CloudFormation parameter, as name=value; may be given several times")
	flags.StringVarP(&f.output, "output", "o", "", "file to write the model to; it must not exist")
	return cmd
}

// read returns the text of the model.
func (f *importFlags) read(ctx context.Context, args []string, stderr io.Writer) ([]byte, error) {
	var d *exchange.Design
	var err error
	if f.endpoint != "" {
		d, err = f.readServer(ctx, stderr)
	} else {
		d, err = f.readFiles(args[0])
	}
	if err != nil {
		return nil, err
	}
	text, err := d.Model()
	return text, syntaxUsageError(err)
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
	d, err := exchange.Read(files, vars)
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
		for _, pattern := range []string{"*.tf", "*.tf.json", "terraform.tfvars", "terraform.tfvars.json", "*.auto.tfvars", "*.auto.tfvars.json"} {
			found, err := filepath.Glob(filepath.Join(folder, pattern))
			if err != nil {
				return nil, fmt.Errorf("cannot list %s: %w", folder, err)
			}
			names = append(names, found...)
		}
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

func (f *importFlags) readServer(ctx context.Context, stderr io.Writer) (*exchange.Design, error) {
	if u, err := url.Parse(f.endpoint); err != nil || u.Host == "" {
		return nil, usageError{fmt.Errorf("--endpoint is %q, but must be a URL such as http://127.0.0.1:8000", f.endpoint)}
	}
	if len(f.vars) > 0 {
		return nil, usageError{errors.New("--var is for files; a server needs no variables")}
	}
	server := &apply.Endpoint{URL: f.endpoint, Client: &http.Client{Timeout: time.Minute}, Sign: signFor(f.region)}
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
