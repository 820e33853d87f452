package main

import (
	"encoding/json"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/apps/documents"
	"github.com/stator-db/stator/apps/documents/table"
	"github.com/stator-db/stator/apps/internal/command"
)

func tenant() *cobra.Command {
	var name, plan, admin string
	var asJSON bool
	cmd := &cobra.Command{Use: "tenant", Short: "Create a tenant, and an invitation for its first admin", Args: command.NoArgs}
	o := options(cmd)
	o.StoreFlags(cmd.Flags())
	cmd.Flags().StringVar(&name, "name", "", "name of the tenant")
	cmd.Flags().StringVar(&admin, "admin", "", "email of the first admin")
	cmd.Flags().StringVar(&plan, "plan", "free", "free, team or enterprise")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if name == "" || admin == "" || (plan != "free" && plan != "team" && plan != "enterprise") {
			return command.Usagef("a tenant needs a --name, an --admin, and a --plan that is free, team or enterprise")
		}
		return with(cmd.Context(), o, func(s *documents.System) error {
			t, err := s.Store.CreateTenant(cmd.Context(), name, plan, nil)
			if err != nil {
				return err
			}
			code, err := s.Store.Invite(cmd.Context(), t.ID, table.Email(admin), table.RoleAdmin)
			if err != nil {
				return err
			}
			if asJSON {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]string{"tenantId": t.ID.String(), "invitation": code})
			}
			fmt.Fprintf(cmd.OutOrStdout(), "tenant      %s\ninvitation  %s\n", t.ID, code)
			return nil
		})
	}
	return cmd
}
