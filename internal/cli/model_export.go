package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/internal/model/exchange"
)

func modelExportCommand() *cobra.Command {
	var to string
	cmd := &cobra.Command{
		Use:   "export FILE --to terraform|cloudformation",
		Short: "Write a model's tables for Terraform or CloudFormation",
		Long: `Write the tables of a model, and the auto scaling of their units, as Terraform
resources or as a CloudFormation template. stator model import reads them back.

  stator model export shop.model.yaml --to terraform > tables.tf`,
		Args: arguments(1, "one file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if to != "terraform" && to != "cloudformation" {
				return usageError{fmt.Errorf("--to is %q, but must be terraform or cloudformation", to)}
			}
			m, err := readModel(args[0])
			if err != nil {
				return err
			}
			write := exchange.Terraform
			if to == "cloudformation" {
				write = exchange.CloudFormation
			}
			_, err = cmd.OutOrStdout().Write(write(m))
			return err
		},
	}
	cmd.Flags().StringVar(&to, "to", "", "terraform or cloudformation")
	return cmd
}
