package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/internal/blob"
	"github.com/stator-db/stator/internal/encryption"
	"github.com/stator-db/stator/internal/store/pebble"
	"github.com/stator-db/stator/internal/store/pebble/encrypted"
)

// encryptionKeyVar adds the flag --encryption-key.
func encryptionKeyVar(cmd *cobra.Command, key *string, usage string) {
	cmd.Flags().StringVar(key, "encryption-key", "", usage+": a file, or command: and a command line that prints it; see docs/encryption.md")
}

// allowPlainVar adds the flag --allow-plain-backups.
func allowPlainVar(cmd *cobra.Command, allow *bool) {
	cmd.Flags().BoolVar(allow, "allow-plain-backups", false, "with --encryption-key, also read backups that are not encrypted, such as those from before there was a key; everybody who can write to the place of the backups can make one")
}

// checkAllowPlain returns the error of --allow-plain-backups without a key.
func checkAllowPlain(allow bool, key string) error {
	if allow && key == "" {
		return usageError{errors.New("--allow-plain-backups applies to --encryption-key only: without a key backups that are not encrypted are read")}
	}
	return nil
}

func encryptionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "encryption",
		Short: "Manage the encryption of data folders and backups",
	}
	cmd.AddCommand(newKeyCommand(), encryptionStatusCommand(), encryptionEnableCommand(), encryptionDisableCommand(), encryptionRotateCommand())
	return cmd
}

func newKeyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "new-key FILE",
		Short: "Create a file with a random key",
		Long: `Create a file with a random key, which only its owner can read.

Keep a copy of it elsewhere: without the key nobody can read what is encrypted.`,
		Args: arguments(1, "the name of the file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			f, err := os.OpenFile(args[0], os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
			if err != nil {
				return fmt.Errorf("cannot create a key: %w", err)
			}
			_, err = f.WriteString(encryption.NewKeyText())
			if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
				return fmt.Errorf("cannot create a key: %w", err)
			}
			key, err := encryption.LoadKey(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "key %s is in %s; keep a copy of the file elsewhere: without it nobody can read what it encrypts\n", key.ID(), args[0])
			return nil
		},
	}
}

func encryptionStatusCommand() *cobra.Command {
	var data string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show how many files of a data folder are encrypted with which key",
		Long: `Show how many files of a data folder are encrypted with which data key.

It reads only the beginning of each file, and needs no key. A server may be using
the folder.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := checkData(data); err != nil {
				return err
			}
			s, err := pebble.EncryptionState(data)
			if err != nil {
				return fmt.Errorf("cannot read the state of %s: %w", data, err)
			}
			return printState(cmd.OutOrStdout(), s, asJSON)
		},
	}
	cmd.Flags().StringVar(&data, "data", "stator-data", "data folder")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

func printState(w io.Writer, s encrypted.FolderState, asJSON bool) error {
	if asJSON {
		return json.NewEncoder(w).Encode(s)
	}
	switch {
	case s.Master == "":
		fmt.Fprintln(w, "not encrypted")
	case s.Mixed:
		fmt.Fprintf(w, "partly encrypted, with key %s: stator encryption enable or disable was interrupted; repeat it\n", s.Master)
	default:
		fmt.Fprintf(w, "encrypted with key %s\n", s.Master)
	}
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "DATA KEY\tCREATED\tFILES\tBYTES\tNEW FILES")
	for _, k := range s.Keys {
		name, created, active := k.Key, k.Created.Format(time.RFC3339), ""
		if name == "" {
			name = "(not encrypted)"
		}
		if k.Created.IsZero() {
			created = ""
		}
		if k.Active {
			active = "yes"
		}
		fmt.Fprintf(out, "%s\t%s\t%d\t%d\t%s\n", name, created, k.Files, k.Bytes, active)
	}
	return out.Flush()
}

// checkData returns an error if a folder has no data.
func checkData(data string) error {
	exists, err := pebble.Exists(data)
	if err != nil {
		return fmt.Errorf("cannot open data in %s: %w", data, err)
	}
	if !exists {
		return fmt.Errorf("there is no data in %s\n        name the folder that stator serve uses with --data", data)
	}
	return nil
}

func encryptionEnableCommand() *cobra.Command {
	return rewriteCommand("enable", "Encrypt all files of a data folder", `Encrypt all files of a data folder, which no server may be using.

One file after the other is replaced, so there must be space for the largest one.
If it is interrupted, repeat it. Backups are not changed; those that are made
later are encrypted. The old files are deleted, but a disk may keep what they had
until it is overwritten.`, "key to encrypt with", pebble.EncryptFolder)
}

func encryptionDisableCommand() *cobra.Command {
	return rewriteCommand("disable", "Decrypt all files of a data folder", `Decrypt all files of a data folder, which no server may be using.

One file after the other is replaced, so there must be space for the largest one.
If it is interrupted, repeat it. Backups are not changed.`, "key of the folder", pebble.DecryptFolder)
}

// rewriteCommand is a command that replaces all files of a folder.
func rewriteCommand(name, short, long, usage string, rewrite func(pebble.Options, encrypted.Progress) error) *cobra.Command {
	var data, source string
	var asJSON bool
	cmd := &cobra.Command{
		Use: name, Short: short, Long: long, Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if source == "" {
				return usageError{errors.New("--encryption-key must name the key")}
			}
			o, err := folderOptions(cmd, data, source)
			if err != nil {
				return err
			}
			if err := rewrite(o, bytesProgress(cmd.ErrOrStderr())); err != nil {
				return cannotOpen(data, err)
			}
			s, err := pebble.EncryptionState(data)
			if err != nil {
				return err
			}
			return printState(cmd.OutOrStdout(), s, asJSON)
		},
	}
	cmd.Flags().StringVar(&data, "data", "stator-data", "data folder")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	encryptionKeyVar(cmd, &source, usage)
	return cmd
}

// folderOptions returns the options of a folder that has data, with its key.
func folderOptions(cmd *cobra.Command, data, source string) (o pebble.Options, err error) {
	if err := checkData(data); err != nil {
		return o, err
	}
	key, err := encryption.LoadKey(cmd.Context(), source)
	if err != nil {
		return o, err
	}
	log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelError}))
	dir, err := filepath.Abs(data)
	return pebble.Options{Dir: dir, Key: key, Log: log}, err
}

// bytesProgress returns a function that prints progress, at most once a second.
func bytesProgress(w io.Writer) encrypted.Progress {
	last := time.Now()
	return func(done, total int64) {
		if time.Since(last) >= time.Second {
			last = time.Now()
			fmt.Fprintf(w, "%d of %d MB rewritten\n", done>>20, total>>20)
		}
	}
}

// filesProgress returns a function that prints progress, at most once a second.
func filesProgress(w io.Writer, what string) blob.FilesDone {
	last := time.Now()
	return func(done, total int) {
		if time.Since(last) >= time.Second {
			last = time.Now()
			fmt.Fprintf(w, "%d of %d files of backups %s\n", done, total, what)
		}
	}
}

type rotateFlags struct {
	data, backups, key, before string
	rewrite, asJSON            bool
}

func encryptionRotateCommand() *cobra.Command {
	var f rotateFlags
	cmd := &cobra.Command{
		Use:   "rotate",
		Short: "Replace the keys of a data folder or of backups",
		Long: `Replace the key of an encrypted data folder, which no server may be using, or of
encrypted backups, and use a new data key for the files that are written from now
on. It takes no longer for much data than for little, as no other file is changed:

  stator encryption rotate --data stator-data --old-encryption-key old.key --encryption-key new.key
  stator encryption rotate --backups stator-data-backups --old-encryption-key old.key --encryption-key new.key

Without --old-encryption-key the key stays, and only the data key is new. Files of
the folder keep the data key that they were written with until they are compacted;
--rewrite encrypts them with the new one at once. Each backup has its data key in it,
encrypted with the key of when it was made, which so still opens it: with --rewrite
backups are encrypted again, too, and only the new key opens them.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.key == "" {
				return usageError{errors.New("--encryption-key must name the new key")}
			}
			if f.before == "" {
				f.before = f.key
			}
			if f.backups != "" {
				if cmd.Flags().Changed("data") {
					return usageError{errors.New("--backups cannot be combined with --data")}
				}
				return f.rotateBackups(cmd.Context(), cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			return f.rotateFolder(cmd)
		},
	}
	cmd.Flags().StringVar(&f.data, "data", "stator-data", "data folder")
	cmd.Flags().StringVar(&f.backups, "backups", "", "folder or URL (file://, s3://) with backups, instead of a data folder")
	encryptionKeyVar(cmd, &f.key, "new key")
	cmd.Flags().StringVar(&f.before, "old-encryption-key", "", "present key; defaults to --encryption-key")
	cmd.Flags().BoolVar(&f.asJSON, "json", false, "print as JSON")
	cmd.Flags().BoolVar(&f.rewrite, "rewrite", false, "encrypt all files of the folder, or all backups, with the new data key, and remove the old ones")
	return cmd
}

func (f *rotateFlags) rotateFolder(cmd *cobra.Command) error {
	o, err := folderOptions(cmd, f.data, f.before)
	if err != nil {
		return err
	}
	after, err := encryption.LoadKey(cmd.Context(), f.key)
	if err != nil {
		return err
	}
	if err := pebble.RotateKeys(o, after); err != nil {
		return cannotOpen(f.data, err)
	}
	if f.rewrite {
		o.Key = after
		if err := pebble.RewriteFolder(o, bytesProgress(cmd.ErrOrStderr())); err != nil {
			return cannotOpen(f.data, err)
		}
	}
	s, err := pebble.EncryptionState(f.data)
	if err != nil {
		return err
	}
	return printState(cmd.OutOrStdout(), s, f.asJSON)
}

// rotatedBackups is the result of a rotation of the keys of backups.
type rotatedBackups struct {
	Master    string `json:"master"`              // id of the new key
	Rotated   int    `json:"rotated"`             // data keys that it encrypts now
	Rewritten int    `json:"rewritten,omitempty"` // files that are encrypted with the new data key, with --rewrite
}

func (f *rotateFlags) rotateBackups(ctx context.Context, w, stderr io.Writer) error {
	before, err := encryption.LoadKey(ctx, f.before)
	if err != nil {
		return err
	}
	after, err := encryption.LoadKey(ctx, f.key)
	if err != nil {
		return err
	}
	place, err := blob.Open(ctx, f.backups)
	if err != nil {
		return err
	}
	result := rotatedBackups{Master: after.ID()}
	result.Rotated, err = blob.RotateKeys(ctx, place, before, after, filesProgress(stderr, "read"))
	if err == nil && f.rewrite {
		result.Rewritten, err = blob.RewriteFiles(ctx, place, after, filesProgress(stderr, "rewritten"))
	}
	if err = errors.Join(err, place.Close()); err != nil {
		return fmt.Errorf("cannot rotate the keys of the backups in %s: %w", f.backups, err)
	}
	if f.asJSON {
		return json.NewEncoder(w).Encode(result)
	}
	fmt.Fprintf(w, "%d data keys of backups are encrypted with key %s; backups that are made from now on have a new one\n", result.Rotated, after.ID())
	if f.rewrite {
		fmt.Fprintf(w, "%d files of backups are encrypted with the new data key\n", result.Rewritten)
	}
	return nil
}
