package main

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/apps/documents"
	"github.com/stator-db/stator/apps/documents/keys"
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
		if _, ok := table.PlanOf(plan); name == "" || admin == "" || !ok {
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

func plan() *cobra.Command {
	cmd := &cobra.Command{Use: "plan TENANT [PLAN]", Short: "Show what a tenant uses of its plan, or change the plan"}
	cmd.Args = func(_ *cobra.Command, args []string) error {
		if len(args) != 1 && len(args) != 2 {
			return command.Usagef("documents plan takes the id of a tenant and, to change it, free, team or enterprise")
		}
		return nil
	}
	o := options(cmd)
	o.StoreFlags(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		t, err := keys.ParseTenant(args[0])
		if err != nil {
			return command.Usage(err)
		}
		if len(args) == 2 {
			if _, ok := table.PlanOf(args[1]); !ok {
				return command.Usagef("the plan is %q, but must be free, team or enterprise", args[1])
			}
		}
		o.Home.LookOnly = true
		return with(cmd.Context(), o, func(s *documents.System) error {
			if len(args) == 2 {
				if err := s.Store.SetPlan(cmd.Context(), t, args[1]); err != nil {
					return fmt.Errorf("change the plan of tenant %s: %w", t, err)
				}
			}
			u, err := s.Store.Usage(cmd.Context(), t)
			if err != nil {
				return fmt.Errorf("read the usage of tenant %s: %w", t, err)
			}
			w := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintf(w, "PLAN\t%s\t\n\tUSED\tLIMIT\n", u.Plan)
			for _, row := range []struct {
				name      string
				used, max int
			}{{"documents in " + u.Month, u.Documents, u.MaxDocuments}, {"projects", u.Projects, u.MaxProjects}, {"users", u.Users, u.MaxUsers}} {
				limit := "none"
				if row.max > 0 {
					limit = fmt.Sprint(row.max)
				}
				fmt.Fprintf(w, "%s\t%d\t%s\n", row.name, row.used, limit)
			}
			return w.Flush()
		})
	}
	return cmd
}

func deletion() *cobra.Command {
	var name string
	cmd := &cobra.Command{
		Use: "delete TENANT", Short: "Delete a tenant with everything that belongs to it", Args: command.Args(1, "the id of a tenant"),
		Long: `Deletes a tenant at once for its members. The processors then delete its projects,
documents, files, results, invitations and people; the last objects a few minutes
later.`,
	}
	o := options(cmd)
	o.StoreFlags(cmd.Flags())
	cmd.Flags().StringVar(&name, "name", "", "name of the tenant, as a confirmation")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		t, err := keys.ParseTenant(args[0])
		if err != nil {
			return command.Usage(err)
		}
		o.Home.LookOnly = true
		return with(cmd.Context(), o, func(s *documents.System) error {
			tenant, err := s.Store.Tenant(cmd.Context(), t)
			if err != nil {
				return fmt.Errorf("read tenant %s: %w", t, err)
			}
			if name != tenant.Name {
				return command.Usagef("--name must be the name of the tenant, %q, as a confirmation", tenant.Name)
			}
			return s.Store.DeleteTenant(cmd.Context(), t)
		})
	}
	return cmd
}
