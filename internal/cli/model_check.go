package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/internal/model"
)

func modelCheckCommand() *cobra.Command {
	var prices string
	var requests bool
	var format formatFlag
	cmd := &cobra.Command{
		Use:   "check FILE",
		Short: "Show how each access pattern is served, and what is wrong",
		Long: `For each access pattern of a model, show the key or index that serves it and the
request that is sent, or why no key or index serves it and which index would. The
command fails when anything is wrong with the design.

The formats sarif (code scanning), junit (test reports) and github (annotations of a
workflow) are for other tools.`,
		Args: arguments(1, "one file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := format.check(); err != nil {
				return err
			}
			p, err := readPrices(prices)
			if err != nil {
				return err
			}
			w, printFindings := cmd.OutOrStdout(), findingFormats[format.name()]
			m, err := readModel(args[0])
			if err != nil {
				if format.name() == "json" {
					printFindings = printFindingsJSON
				}
				return errors.Join(printInvalid(w, args[0], err, printFindings), err)
			}
			report := m.Check(p)
			switch {
			case printFindings != nil:
				err = printFindings(w, &findings{args[0], report.Faults, report.Notes, report.Patterns})
			case format.name() == "json":
				err = printReportJSON(w, args[0], report)
			default:
				err = printReport(w, args[0], report, requests)
			}
			if err == nil && !report.OK() {
				err = fmt.Errorf("%s: %s", args[0], plural(len(report.Faults), "fault"))
			}
			return err
		},
	}
	cmd.Flags().StringVar(&prices, "prices", "", "price file to use instead of the built-in prices")
	cmd.Flags().BoolVar(&requests, "requests", false, "print the requests as they are sent")
	format.add(cmd, "text", "json", "sarif", "junit", "github")
	return cmd
}

// printInvalid prints the syntax errors of an invalid file as findings, if there
// is a function that prints them.
func printInvalid(w io.Writer, file string, err error, printFindings func(io.Writer, *findings) error) error {
	var syntax *model.SyntaxError
	if printFindings == nil || !errors.As(err, &syntax) {
		return nil
	}
	return printFindings(w, &findings{file: file, faults: syntax.Faults})
}

// printFindingsJSON prints the errors of an invalid file as a report without patterns.
func printFindingsJSON(w io.Writer, f *findings) error {
	return printReportJSON(w, f.file, &model.Report{Patterns: []*model.PatternReport{}, Faults: f.faults, Notes: []*model.Note{}, Heat: []*model.Partition{}})
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// checkResult is the result of check as JSON.
type checkResult struct {
	File string `json:"file"`
	OK   bool   `json:"ok"`
	*model.Report
}

func printReportJSON(w io.Writer, file string, r *model.Report) error {
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	out.SetEscapeHTML(false)
	return out.Encode(checkResult{file, r.OK(), r})
}

// printReport prints the patterns, then the faults.
func printReport(w io.Writer, file string, r *model.Report, requests bool) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "PATTERN\tSERVED BY\tREAD\tWRITE\tREQUEST")
	one := 0
	for _, p := range r.Patterns {
		if p.Status == model.StatusMissing || !p.Plan.Served() {
			fmt.Fprintf(out, "%s\t-\t-\t-\t-\n", p.Name)
			continue
		}
		if p.Requests == 1 {
			one++
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\n", p.Name, p.Plan.By(), model.Figure(p.Read), model.Figure(p.Write), p.Plan.Summary())
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if requests {
		if err := printRequests(w, r); err != nil {
			return err
		}
	}
	fmt.Fprintln(w)
	paint := painterFor(w)
	word := model.StatusOK
	if !r.OK() {
		word = "served"
	}
	fmt.Fprintf(w, "%s%s\n", paint.status(word), servedText(r, one))
	for _, f := range r.Faults {
		word := model.StatusFault
		if f.Code == "missing" {
			word = model.StatusMissing
		}
		printFinding(w, paint.status(word), file, f)
	}
	for _, n := range r.Notes {
		printFinding(w, paint.status("note"), file, (*model.Fault)(n))
	}
	return nil
}

// printFinding prints a fault or a note with what to try.
func printFinding(w io.Writer, word, file string, f *model.Fault) {
	fmt.Fprintf(w, "%s%s\n", word, faultLine(file, f))
	if f.Try != "" {
		fmt.Fprintf(w, "         %s\n", f.Try)
	}
}

// servedText summarizes how many patterns are served, and the hottest
// partition.
func servedText(r *model.Report, one int) string {
	all, several, faulty := len(r.Patterns), 0, 0
	for _, p := range r.Patterns {
		if p.Requests > 1 {
			several++
		}
		if p.Status != model.StatusOK {
			faulty++
		}
	}
	text := fmt.Sprintf("%d of %d access patterns are served by one request", one, all)
	if several > 0 {
		text += fmt.Sprintf(", %d by several", several)
	}
	if faulty > 0 {
		text += fmt.Sprintf("; %d of %d have faults", faulty, all)
	}
	if len(r.Heat) > 0 && r.Heat[0].Share >= 0.01 {
		x := r.Heat[0]
		where := x.Table
		if x.Index != "" {
			where += "." + x.Index
		}
		text += fmt.Sprintf("; the hottest partition, %s of %s, takes %.0f %% of its limit", x.Key, where, 100*x.Share)
	}
	return text
}

// printRequests prints the requests as JSON.
func printRequests(w io.Writer, r *model.Report) error {
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	out.SetEscapeHTML(false)
	for _, p := range r.Patterns {
		for _, q := range p.Request {
			fmt.Fprintf(w, "\n%s: %s ", p.Name, q.Operation)
			if err := out.Encode(q.Body); err != nil {
				return err
			}
		}
	}
	return nil
}
