package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/internal/protocol/api"
	"github.com/stator-db/stator/internal/protocol/keys"
)

func keyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "key",
		Short: "Make, list and revoke access keys",
		Long: `Make, list and revoke access keys: in a file (--keys), or in the database of a running
server (--endpoint), whose servers all use a change at once.`,
	}
	cmd.AddCommand(keyNewCommand(), keyListCommand(), keyRevokeCommand())
	return cmd
}

// keyFlags are the flags of all commands about keys.
type keyFlags struct {
	endpointFlags
	file string
	json bool
}

func (f *keyFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.file, "keys", "keys.yaml", "file of the keys")
	f.endpointFlags.add(cmd, "URL of a server with --keys database, to use its keys in place of a file")
	cmd.Flags().BoolVar(&f.json, "json", false, "print as JSON")
}

// send sends a request to the server, and reads its reply.
func (f *keyFlags) send(cmd *cobra.Command, operation string, in, reply any) error {
	if cmd.Flags().Changed("keys") {
		return usageError{errors.New("--keys and --endpoint cannot be combined: the keys are those of a file, or of a server")}
	}
	return sendOwn(cmd.Context(), &f.endpointFlags, operation, in, reply)
}

// sendOwn sends a request of stator's own to a server, and reads its reply.
func sendOwn(ctx context.Context, f *endpointFlags, operation string, in, reply any) error {
	server, err := f.open()
	if err != nil {
		return err
	}
	text, err := server.SendOwn(ctx, operation, in)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(text, reply); err != nil {
		return fmt.Errorf("the reply of %s is not JSON", f.endpoint) // it may have a secret
	}
	return nil
}

// shownKey is a key as it is printed.
type shownKey struct {
	AccessKey string     `json:"accessKey"`
	Secret    string     `json:"secret,omitempty"` // of a new key only
	Principal string     `json:"principal"`
	Created   *time.Time `json:"created,omitempty"`
	Expires   *time.Time `json:"expires,omitempty"`
	Comment   string     `json:"comment,omitempty"`
	Source    string     `json:"source,omitempty"` // file or database, of a server
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
  stator serve --keys keys.yaml

With --endpoint the key is stored in the database of a server with --keys database. All
servers of the database accept it when the command returns.

  stator key new --endpoint http://127.0.0.1:8000 --comment "the shop"`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if wrong := keys.CheckPrincipal(principal); principal != "" && wrong != "" {
				return usageError{fmt.Errorf("--principal is %q, but %s", principal, wrong)}
			}
			if f.endpoint != "" {
				return newStoredKey(cmd, &f, principal, comment)
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

// newStoredKey makes a key in the database of a server.
func newStoredKey(cmd *cobra.Command, f *keyFlags, principal, comment string) error {
	in := map[string]string{"Comment": comment}
	if principal != "" {
		in["Principal"] = principal
	}
	var reply api.CreateAccessKeyReply
	if err := f.send(cmd, "CreateAccessKey", in, &reply); err != nil {
		return fmt.Errorf("cannot add a key on %s: %w", f.endpoint, err)
	}
	k := &keys.Key{AccessKey: reply.AccessKey, Secret: keys.NewSecret(reply.Secret), Principal: reply.Principal, Created: storedTime(reply.Created), Comment: reply.Comment}
	fmt.Fprintf(cmd.ErrOrStderr(), "added to the database of %s, whose servers accept it; the secret is not shown again\n", f.endpoint)
	return printNewKey(cmd.OutOrStdout(), k, f.json)
}

// storedTime returns the time of a reply; zero if there is none.
func storedTime(text string) time.Time {
	t, _ := time.Parse(time.RFC3339, text)
	return t
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
			if f.endpoint != "" {
				return listStoredKeys(cmd, &f)
			}
			set, err := keys.Read(f.file)
			if err != nil {
				return fmt.Errorf("cannot list keys: %w", err)
			}
			var list []shownKey
			for _, k := range set.All() {
				list = append(list, shown(k))
			}
			return printKeys(cmd.OutOrStdout(), list, f.json)
		},
	}
	f.add(cmd)
	return cmd
}

// listStoredKeys lists the keys of a server.
func listStoredKeys(cmd *cobra.Command, f *keyFlags) error {
	var reply api.ListAccessKeysReply
	if err := f.send(cmd, "ListAccessKeys", struct{}{}, &reply); err != nil {
		return fmt.Errorf("cannot list the keys of %s: %w", f.endpoint, err)
	}
	var list []shownKey
	for _, k := range reply.AccessKeys {
		s := shown(&keys.Key{AccessKey: k.AccessKey, Principal: k.Principal, Created: storedTime(k.Created), Expires: storedTime(k.Expires), Comment: k.Comment})
		s.Source = k.Source
		list = append(list, s)
	}
	return printKeys(cmd.OutOrStdout(), list, f.json)
}

func printKeys(w io.Writer, list []shownKey, asJSON bool) error {
	if asJSON {
		if list == nil {
			list = []shownKey{}
		}
		return json.NewEncoder(w).Encode(list)
	}
	date := func(t *time.Time) string {
		if t == nil {
			return "-"
		}
		return t.UTC().Format(time.RFC3339)
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	withSource := slices.ContainsFunc(list, func(k shownKey) bool { return k.Source != "" })
	fmt.Fprint(table, "ACCESS KEY\tPRINCIPAL\tCREATED\tEXPIRES\t")
	if withSource {
		fmt.Fprint(table, "SOURCE\t")
	}
	fmt.Fprintln(table, "COMMENT")
	for _, k := range list {
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t", k.AccessKey, k.Principal, date(k.Created), date(k.Expires))
		if withSource {
			fmt.Fprintf(table, "%s\t", k.Source)
		}
		fmt.Fprintln(table, k.Comment)
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
			if f.endpoint != "" {
				return revokeStoredKey(cmd, &f, args[0])
			}
			err := keys.Remove(f.file, args[0])
			if errors.Is(err, keys.ErrNoKey) {
				return fmt.Errorf("cannot revoke %s: %s has no such access key\n        stator key list --keys %s shows those that it has", args[0], f.file, f.file)
			}
			if err != nil {
				return fmt.Errorf("cannot revoke %s: %w", args[0], err)
			}
			fmt.Fprintf(cmd.ErrOrStderr(), "the key is accepted until then: %s\n", signalHint)
			return printRevoked(cmd, &f, args[0], f.file)
		},
	}
	f.add(cmd)
	return cmd
}

// revokeStoredKey removes a key from the database of a server.
func revokeStoredKey(cmd *cobra.Command, f *keyFlags, accessKey string) error {
	var reply api.DeleteAccessKeyReply
	if err := f.send(cmd, "DeleteAccessKey", map[string]string{"AccessKey": accessKey}, &reply); err != nil {
		return fmt.Errorf("cannot revoke %s on %s: %w", accessKey, f.endpoint, err)
	}
	return printRevoked(cmd, f, accessKey, "the database of "+f.endpoint+": no server accepts it any more")
}

func printRevoked(cmd *cobra.Command, f *keyFlags, accessKey, where string) error {
	if f.json {
		return json.NewEncoder(cmd.OutOrStdout()).Encode(struct {
			Revoked string `json:"revoked"`
		}{accessKey})
	}
	_, err := fmt.Fprintf(cmd.OutOrStdout(), "revoked %s in %s\n", accessKey, where)
	return err
}
