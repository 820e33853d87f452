package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/internal/protocol/keys"
)

func keyCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "key", Short: "Make, list and revoke access keys"}
	cmd.AddCommand(keyNewCommand(), keyListCommand(), keyRevokeCommand())
	return cmd
}

// keyFlags are the flags of all commands about keys.
type keyFlags struct {
	file string
	json bool
}

func (f *keyFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.file, "keys", "keys.yaml", "file of the keys")
	cmd.Flags().BoolVar(&f.json, "json", false, "print as JSON")
}

// shownKey is a key as it is printed.
type shownKey struct {
	AccessKey string     `json:"accessKey"`
	Secret    string     `json:"secret,omitempty"` // of a new key only
	Principal string     `json:"principal"`
	Created   *time.Time `json:"created,omitempty"`
	Expires   *time.Time `json:"expires,omitempty"`
	Comment   string     `json:"comment,omitempty"`
}

func shown(k *keys.Key) shownKey {
	s := shownKey{AccessKey: k.AccessKey, Principal: k.Principal, Comment: k.Comment}
	if !k.Created.IsZero() {
		s.Created = &k.Created
	}
	if !k.Expires.IsZero() {
		s.Expires = &k.Expires
	}
	return s
}

// signalHint says how a change of the keys takes effect.
const signalHint = "a running server reads the file again on SIGHUP: kill -HUP PID"

func keyNewCommand() *cobra.Command {
	var f keyFlags
	var principal, comment string
	cmd := &cobra.Command{
		Use:   "new",
		Short: "Make an access key",
		Long: `Make an access key and add it to a file, which is created if it does not exist.

The secret is printed once. The file has it too, and only its owner may read it.

  stator key new --keys keys.yaml --comment "the shop"
  stator serve --keys keys.yaml`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if wrong := keys.CheckPrincipal(principal); principal != "" && wrong != "" {
				return usageError{fmt.Errorf("--principal is %q, but %s", principal, wrong)}
			}
			k := &keys.Key{Principal: principal, Comment: comment, Created: time.Now().UTC().Truncate(time.Second)}
			k.AccessKey, k.Secret = keys.Generate()
			if principal == "" {
				k.Principal = keys.DefaultPrincipal(k.AccessKey)
			}
			if err := keys.Add(f.file, k); err != nil {
				return fmt.Errorf("cannot add a key: %w", err)
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "added to %s; the secret is not shown again\n%s\n", f.file, signalHint)
			return printNewKey(cmd.OutOrStdout(), k, f.json)
		},
	}
	f.add(cmd)
	cmd.Flags().StringVar(&principal, "principal", "", "ARN of the user or assumed role that the key belongs to; defaults to a user named after the key")
	cmd.Flags().StringVar(&comment, "comment", "", "what the key is for")
	return cmd
}

func printNewKey(w io.Writer, k *keys.Key, asJSON bool) error {
	if asJSON {
		s := shown(k)
		s.Secret = k.Secret.Reveal()
		return json.NewEncoder(w).Encode(s)
	}
	_, err := fmt.Fprintf(w, "access key  %s\nsecret      %s\nprincipal   %s\n", k.AccessKey, k.Secret.Reveal(), k.Principal)
	return err
}

func keyListCommand() *cobra.Command {
	var f keyFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List access keys, without their secrets",
		Args:  noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			set, err := keys.Read(f.file)
			if err != nil {
				return fmt.Errorf("cannot list keys: %w", err)
			}
			return printKeys(cmd.OutOrStdout(), set.All(), f.json)
		},
	}
	f.add(cmd)
	return cmd
}

func printKeys(w io.Writer, all []*keys.Key, asJSON bool) error {
	list := make([]shownKey, 0, len(all))
	for _, k := range all {
		list = append(list, shown(k))
	}
	if asJSON {
		return json.NewEncoder(w).Encode(list)
	}
	date := func(t *time.Time) string {
		if t == nil {
			return "-"
		}
		return t.UTC().Format(time.RFC3339)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ACCESS KEY\tPRINCIPAL\tCREATED\tEXPIRES\tCOMMENT")
	for _, k := range list {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\n", k.AccessKey, k.Principal, date(k.Created), date(k.Expires), k.Comment)
	}
	return table.Flush()
}

func keyRevokeCommand() *cobra.Command {
	var f keyFlags
	cmd := &cobra.Command{
		Use:   "revoke ACCESS-KEY",
		Short: "Remove an access key",
		Args:  arguments(1, "an access key"),
		RunE: func(cmd *cobra.Command, args []string) error {
			err := keys.Remove(f.file, args[0])
			if errors.Is(err, keys.ErrNoKey) {
				return fmt.Errorf("cannot revoke %s: %s has no such access key\n        stator key list --keys %s shows those that it has", args[0], f.file, f.file)
			}
			if err != nil {
				return fmt.Errorf("cannot revoke %s: %w", args[0], err)
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "the key is accepted until then: %s\n", signalHint)
			if f.json {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(struct {
					Revoked string `json:"revoked"`
				}{args[0]})
			}
			_, err = fmt.Fprintf(cmd.OutOrStdout(), "revoked %s in %s\n", args[0], f.file)
			return err
		},
	}
	f.add(cmd)
	return cmd
}
