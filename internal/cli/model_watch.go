package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/apply"
)

func modelWatchCommand() *cobra.Command {
	var w modelWatcher
	cmd := &cobra.Command{
		Use:   "watch FILE",
		Short: "Check a model each time it is saved",
		Long: `Check a model now and each time the file is saved, until the command is
interrupted. On a terminal each report replaces the previous one.`,
		Args: arguments(1, "one file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if w.every <= 0 {
				return usageError{fmt.Errorf("--every is %v, but must be positive", w.every)}
			}
			if _, err := os.Stat(args[0]); err != nil {
				return fileError{fmt.Errorf("cannot read the model: %w", err)}
			}
			w.file, w.out = args[0], cmd.OutOrStdout()
			return w.run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&w.prices, "prices", "", "price file to use instead of the built-in prices")
	durationVar(cmd, &w.every, "every", 500*time.Millisecond, "how often to look for a change")
	return cmd
}

// modelWatcher checks a file each time it changes.
type modelWatcher struct {
	file   string
	prices string
	every  time.Duration
	out    io.Writer
}

// run checks the file until the context ends, which is the regular end.
func (w *modelWatcher) run(ctx context.Context) error {
	var last os.FileInfo
	missing := 0 // how often in a row the file was not there
	for first := true; ; first = false {
		info, err := os.Stat(w.file)
		missing++
		if err == nil {
			missing = 0
		}
		if missing == 2 { // editors replace files, so it may be absent for a moment
			fmt.Fprintf(w.out, "\n%swaiting for the file: %v\n", painterFor(w.out).status("note"), err)
		}
		if err == nil && (last == nil || !sameVersion(last, info)) {
			if err := w.check(first); err != nil {
				return err
			}
			last = info
		}
		if err := apply.Sleep(ctx, w.every); err != nil {
			return nil
		}
	}
}

// sameVersion reports whether a file was not written between two calls of stat.
func sameVersion(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

// check prints the report, or why there is none.
func (w *modelWatcher) check(first bool) error {
	switch {
	case bool(painterFor(w.out)):
		fmt.Fprint(w.out, "\x1b[H\x1b[2J\x1b[3J")
	case !first:
		fmt.Fprintln(w.out)
	}
	p, err := readPrices(w.prices)
	if err != nil {
		return err
	}
	m, err := readModel(w.file)
	var syntax *model.SyntaxError
	switch {
	case errors.As(err, &syntax):
		for _, f := range syntax.Faults {
			printFinding(w.out, painterFor(w.out).status(model.StatusFault), w.file, f)
		}
		return nil
	case err != nil:
		_, err = fmt.Fprintln(w.out, err)
		return err
	}
	return printReport(w.out, w.file, m.Check(p), false)
}
