package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
)

// scheduleFlags say how often a server makes backups, and which it keeps.
type scheduleFlags struct {
	every  time.Duration
	keep   int
	maxAge time.Duration
}

func (f *scheduleFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	durationVar(cmd, &f.every, "backup-every", 0, "how often all tables are backed up to --backups, as of one moment; each backup is verified by restoring it; without it, none are made")
	flags.IntVar(&f.keep, "backup-keep", 24, "how many of these backups are kept")
	durationVar(cmd, &f.maxAge, "backup-max-age", 0, "age from which these backups are removed, except the newest; defaults to no limit")
}

// minBackupInterval is the shortest interval: a backup reads all data twice.
const minBackupInterval = time.Second

// check returns an error for a schedule that cannot be followed.
func (f *scheduleFlags) check(cmd *cobra.Command) error {
	flags := cmd.Flags()
	switch {
	case flags.Changed("backup-every") && f.every < minBackupInterval:
		return usageError{fmt.Errorf("--backup-every is %s, but must be at least %s", f.every, minBackupInterval)}
	case f.keep < 1:
		return usageError{fmt.Errorf("--backup-keep is %d, but must be at least 1", f.keep)}
	case flags.Changed("backup-max-age") && f.maxAge <= 0:
		return usageError{fmt.Errorf("--backup-max-age is %s, but must be positive", f.maxAge)}
	case f.every == 0 && (flags.Changed("backup-keep") || flags.Changed("backup-max-age")):
		return usageError{errors.New("--backup-keep and --backup-max-age require --backup-every")}
	}
	return nil
}
