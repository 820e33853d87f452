package cli

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/diff"
)

func modelDiffCommand() *cobra.Command {
	var prices string
	var format formatFlag
	cmd := &cobra.Command{
		Use:   "diff OLD NEW",
		Short: "Show what changes from one model to another",
		Long: `Show what changes from one model to another: cost, heat, faults, and the migration
that stored data needs. The command fails if the second model has faults that the
first does not have.

  stator model diff main.model.yaml branch.model.yaml --format markdown`,
		Args: arguments(2, "two files"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := format.check(); err != nil {
				return err
			}
			p, err := readPrices(prices)
			if err != nil {
				return err
			}
			before, err := readModel(args[0])
			if err != nil {
				return err
			}
			after, err := readModel(args[1])
			if err != nil {
				return err
			}
			r, err := diff.Compare(before, after, p)
			if err != nil {
				return err
			}
			switch w := cmd.OutOrStdout(); format.name() {
			case "json":
				err = encodeIndented(w, r)
			case "markdown":
				err = printDiffMarkdown(w, args[1], r)
			default:
				err = printDiff(w, args, r)
			}
			if err == nil && len(r.NewFaults) > 0 {
				err = fmt.Errorf("%s: %s that %s does not have", args[1], plural(len(r.NewFaults), "fault"), args[0])
			}
			return err
		},
	}
	cmd.Flags().StringVar(&prices, "prices", "", "price file to use instead of the built-in prices")
	format.add(cmd, "text", "json", "markdown")
	return cmd
}

// maxHeatRows is how many changed partitions are printed.
const maxHeatRows = 10

func printDiff(w io.Writer, files []string, r *diff.Report) error {
	if err := printDifference(w, r.Cost); err != nil {
		return err
	}
	if len(r.Heat) > 0 {
		fmt.Fprintln(w)
		out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(out, "HEAT\tPARTITION\tOF ITS LIMIT")
		for _, h := range r.Heat[:min(len(r.Heat), maxHeatRows)] {
			fmt.Fprintf(out, "%s\t%s\t%s\n", h.Where(), h.Key, beforeAndAfter(h.Before, h.After, perCent))
		}
		if err := out.Flush(); err != nil {
			return err
		}
		printMore(w, len(r.Heat)-maxHeatRows)
	}
	fmt.Fprintln(w)
	if len(r.Migration) == 0 {
		fmt.Fprintln(w, "no migration is needed")
	} else {
		out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(out, "MIGRATION\tTABLE\tENTITY\tITEMS\tSTEP")
		for _, s := range r.Migration {
			fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\n", s.Kind, s.Table, orDash(s.Entity), orDash(itemsText(s)), stepText(s))
		}
		if err := out.Flush(); err != nil {
			return err
		}
	}
	fmt.Fprintln(w)
	paint := painterFor(w)
	for _, f := range r.NewFaults {
		printFinding(w, paint.status(model.StatusFault), files[1], f)
	}
	for _, f := range r.GoneFaults {
		fmt.Fprintf(w, "%s%s\n", paint.status("gone"), faultLine(files[0], f))
	}
	if len(r.NewFaults) == 0 {
		fmt.Fprintf(w, "%sno new faults\n", paint.status(model.StatusOK))
	}
	return nil
}

func printMore(w io.Writer, n int) {
	if n > 0 {
		fmt.Fprintf(w, "and %d more\n", n)
	}
}

func perCent(share float64) string { return fmt.Sprintf("%.1f %%", 100*share) }

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

func itemsText(s *diff.Step) string {
	if s.Items == 0 {
		return ""
	}
	return model.Figure(s.Items)
}

func stepText(s *diff.Step) string {
	if s.Loses == "" {
		return s.Text
	}
	return s.Text + " (lost: " + s.Loses + ")"
}

// faultLine is a fault with its file, position and pattern.
func faultLine(file string, f *model.Fault) string {
	about := ""
	if f.Pattern != "" {
		about = fmt.Sprintf("%q: ", f.Pattern)
	}
	return model.Located(file, f.Position, about+f.Message)
}

// printDiffMarkdown prints a report for a pull request.
func printDiffMarkdown(w io.Writer, file string, r *diff.Report) error {
	out := &errorWriter{w: w}
	total := r.Cost.Changes[len(r.Cost.Changes)-1]
	out.printf("### Model %s\n\n", markdownText(file))
	out.printf("%s a month%s, %s new, %s gone, %s\n", beforeAndAfter(total.Before.Dollars, total.After.Dollars, model.Money), relative(total.Before.Dollars, total.After.Dollars),
		plural(len(r.NewFaults), "fault"), plural(len(r.GoneFaults), "fault"), migrationSummary(r.Migration))
	if len(r.NewFaults) > 0 {
		out.printf("\n**New faults**\n\n")
		for _, f := range r.NewFaults {
			out.printf("- `%s` %s", f.Code, markdownText(faultLine(file, f)))
			if f.Try != "" {
				out.printf(": %s", markdownText(f.Try))
			}
			out.printf("\n")
		}
	}
	if len(r.GoneFaults) > 0 {
		out.printf("\n**Faults that are gone**\n\n")
		for _, f := range r.GoneFaults {
			out.printf("- `%s` %s\n", f.Code, markdownText(f.Message))
		}
	}
	if len(r.Cost.Changes) > 1 {
		out.printf("\n**Cost**\n\n| what | name | read units | write units | $ a month | |\n|---|---|--:|--:|--:|---|\n")
		for _, x := range r.Cost.Changes {
			out.printf("| %s | %s | %s | %s | %s | %s |\n", x.What, markdownText(x.Name), beforeAndAfter(x.Before.Read, x.After.Read, model.Figure),
				beforeAndAfter(x.Before.Write, x.After.Write, model.Figure), beforeAndAfter(x.Before.Dollars, x.After.Dollars, model.Money), x.Change)
		}
	}
	if len(r.Heat) > 0 {
		out.printf("\n**Heat**\n\n| table or index | partition | of its limit |\n|---|---|--:|\n")
		for _, h := range r.Heat[:min(len(r.Heat), maxHeatRows)] {
			out.printf("| %s | %s | %s |\n", markdownText(h.Where()), markdownText(h.Key), beforeAndAfter(h.Before, h.After, perCent))
		}
	}
	if len(r.Migration) > 0 {
		out.printf("\n**Migration**\n\n| step | table | entity | items | |\n|---|---|---|--:|---|\n")
		for _, s := range r.Migration {
			out.printf("| %s | %s | %s | %s | %s |\n", s.Kind, markdownText(s.Table), markdownText(s.Entity), itemsText(s), markdownText(stepText(s)))
		}
	}
	return out.err
}

// relative is a change in per cent, "" if there is none.
func relative(before, after float64) string {
	if before <= 0 || before == after {
		return ""
	}
	return fmt.Sprintf(" (%+.1f %%)", 100*(after-before)/before)
}

func migrationSummary(steps []*diff.Step) string {
	copies, requests := 0, 0
	for _, s := range steps {
		switch s.Kind {
		case diff.Copy, diff.Rewrite:
			copies++
		default:
			requests++
		}
	}
	switch {
	case copies > 0:
		return "stored items must be migrated"
	case requests > 0:
		return "tables must be changed"
	}
	return "no migration is needed"
}

// markdownText escapes text for a cell of a Markdown table.
func markdownText(text string) string {
	return strings.NewReplacer("\\", "\\\\", "|", "\\|", "<", "&lt;", "*", "\\*", "_", "\\_", "`", "\\`", "\n", " ", "[", "\\[", "]", "\\]").Replace(text)
}

// errorWriter remembers the first error of its writes.
type errorWriter struct {
	w   io.Writer
	err error
}

func (w *errorWriter) printf(format string, args ...any) {
	if w.err == nil {
		_, w.err = fmt.Fprintf(w.w, format, args...)
	}
}
