package cli

import (
	"github.com/spf13/cobra"

	"github.com/stator-db/stator/internal/model"
)

func modelSchemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "schema",
		Short: "Print the JSON Schema of models, for editors",
		Long: `Print the JSON Schema of the format of models. Editors use it to complete and
explain the fields of a model, and to mark mistakes while it is written.

  stator model schema > model.schema.json`,
		Args: arguments(0, "no arguments"),
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := cmd.OutOrStdout().Write(model.JSONSchema())
			return err
		},
	}
}
