package cli

import (
	"fmt"
	"go/token"
	"io"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/code"
)

// modelLanguages are the languages that code is generated in.
var modelLanguages = []struct {
	name, title, sdk, file string
	generate               func(*model.Model, code.Options) ([]byte, error)
}{
	{"go", "Go", "the AWS SDK for Go v2", "shop.go", code.Go},
	{"ts", "TypeScript", "the AWS SDK for JavaScript v3", "shop.ts", code.TypeScript},
	{"python", "Python", "boto3", "shop.py", code.Python},
}

// modelCodeCommands returns a command for each language.
func modelCodeCommands() (all []*cobra.Command) {
	for _, language := range modelLanguages {
		var out string
		var o code.Options
		cmd := &cobra.Command{
			Use:   language.name + " FILE",
			Short: "Write the items and requests of a model as " + language.title,
			Long: fmt.Sprintf(`Write a type for each entity of a model, with its keys, and for each access pattern a
function that builds its request, as one %s file for %s. There are
no other requests, so a program that uses only this file asks only what the model
proves. The command fails if a pattern is not served as it should be.

  stator model %s shop.model.yaml -o %s`, language.title, language.sdk, language.name, language.file),
			Args: arguments(1, "one file"),
			RunE: func(cmd *cobra.Command, args []string) error {
				if o.Package != "" && !token.IsIdentifier(o.Package) {
					return usageError{fmt.Errorf("--package is %q, but must be an identifier", o.Package)}
				}
				m, err := readModel(args[0])
				if err != nil {
					return err
				}
				o.Source = filepath.Base(args[0])
				text, err := language.generate(m, o)
				if err != nil {
					return fmt.Errorf("cannot generate code: %s", strings.ReplaceAll(err.Error(), "\n", "\n        "))
				}
				if out == "" {
					_, err = cmd.OutOrStdout().Write(text)
					return err
				}
				return writeDocument(out, func(w io.Writer) error {
					_, err := w.Write(text)
					return err
				})
			},
		}
		cmd.Flags().StringVarP(&out, "output", "o", "", "file to write; defaults to standard output")
		if language.name == "go" {
			cmd.Flags().StringVar(&o.Package, "package", "", "name of the package; defaults to the name of the model")
		}
		all = append(all, cmd)
	}
	return all
}
