package cli

import (
	"fmt"

	"github.com/spf13/cobra"
)

func policyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Check, store and explain IAM policies, and compare them with traffic",
		Long: `A policy is a JSON document in the language of IAM. docs/policies.md describes what
stator supports.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return usageError{fmt.Errorf("%s has no command %q", cmd.CommandPath(), args[0])}
			}
			return usageError{fmt.Errorf("%s needs a command", cmd.CommandPath())}
		},
		RunE: func(*cobra.Command, []string) error { return nil },
	}
	cmd.AddCommand(policyCheckCommand(), policyExplainCommand(), policyUnusedCommand())
	cmd.AddCommand(policyPutCommand(), policyGetCommand(), policyListCommand(), policyDeleteCommand())
	return cmd
}
