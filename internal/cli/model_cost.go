package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/internal/model"
)

func modelCostCommand() *cobra.Command {
	var prices string
	var asJSON, diff bool
	cmd := &cobra.Command{
		Use:   "cost FILE | cost --diff OLD NEW",
		Short: "Show the units and the money that a model costs",
		Long: `Show the read and write units of each access pattern, table and index, what indexes
add to each write, and the cost per month. With --diff, show what changes from one
model to another.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if diff {
				return arguments(2, "two files with --diff")(cmd, args)
			}
			return arguments(1, "one file")(cmd, args)
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			p, err := readPrices(prices)
			if err != nil {
				return err
			}
			var costs []*model.Cost
			for _, path := range args {
				m, err := readModel(path)
				if err != nil {
					return err
				}
				costs = append(costs, m.Cost(p))
			}
			w := cmd.OutOrStdout()
			switch {
			case diff && asJSON:
				return encodeIndented(w, model.Compare(costs[0], costs[1]))
			case diff:
				return printDifference(w, model.Compare(costs[0], costs[1]))
			case asJSON:
				return encodeIndented(w, costs[0])
			}
			return printCost(w, costs[0])
		},
	}
	cmd.Flags().StringVar(&prices, "prices", "", "price file to use instead of the built-in prices")
	cmd.Flags().BoolVar(&diff, "diff", false, "compare two models")
	cmd.Flags().BoolVar(&asJSON, "json", false, "print as JSON")
	return cmd
}

func encodeIndented(w io.Writer, v any) error {
	out := json.NewEncoder(w)
	out.SetIndent("", "  ")
	out.SetEscapeHTML(false)
	return out.Encode(v)
}

// period is the time unit of units: a second, or a day if there is less than
// one unit per second.
type period struct {
	name    string
	seconds float64
}

func periodOf(c *model.Cost) period {
	if c.Read+c.Write < 1 {
		return period{"DAY", 86400}
	}
	return period{"S", 1}
}

func printCost(w io.Writer, c *model.Cost) error {
	per := periodOf(c)
	units := func(n float64) string { return model.Figure(n * per.seconds) }
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(out, "PATTERN\tRATE\tREAD/RUN\tWRITE/RUN\tREAD/%s\tWRITE/%s\t$/MONTH\n", per.name, per.name)
	for _, p := range c.Patterns {
		if !p.Served {
			fmt.Fprintf(out, "%s\t%s\t-\t-\t-\t-\t-\n", p.Name, p.Rate)
			continue
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", p.Name, p.Rate, tableAndIndexUnits(p.Run.TableRead, p.Run.IndexRead), tableAndIndexUnits(p.Run.TableWrite, p.Run.IndexWrite),
			units(p.PerSecond.Read()), units(p.PerSecond.Write()), model.Money(p.Dollars))
	}
	if len(c.Groups) > 0 {
		fmt.Fprintf(out, "\nGROUP\t\tREAD/%s\tWRITE/%s\tOF THE TABLE\tOF INDEXES\t\n", per.name, per.name)
		for _, g := range c.Groups {
			fmt.Fprintf(out, "%s\t\t%s\t%s\t%s\t%s\t\n", g.Name, units(g.PerSecond.Read()), units(g.PerSecond.Write()), units(g.PerSecond.TableWrite), units(g.PerSecond.IndexWrite))
		}
	}
	fmt.Fprintf(out, "\nTABLE\tINDEX\tREAD/%s\tWRITE/%s\tPROVISIONED\tAMPLIFIED\t\n", per.name, per.name)
	for _, t := range c.Tables {
		fmt.Fprintf(out, "%s\t\t%s\t%s\t%s\tx %s\t\n", t.Name, units(t.PerSecond.TableRead), units(t.PerSecond.TableWrite), provisionedFor(t, ""), model.Figure(t.Amplification))
		for _, x := range t.Indexes {
			fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t\t\n", t.Name, x.Index, units(x.Read), units(x.Write), provisionedFor(t, x.Index))
		}
	}
	fmt.Fprintln(out, "\nTABLE\tON DEMAND\tPROVISIONED\tSTORAGE\tRECOVERY\tSTREAM\tAS BILLED")
	for _, t := range c.Tables {
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%s\t%s (%s)\n", t.Name, model.Money(t.OnDemandDollars), model.Money(t.ProvisionedDollars), model.Money(t.StorageDollars),
			model.Money(t.RecoveryDollars), model.Money(t.StreamDollars), model.Money(t.Dollars), t.Billing)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	for _, t := range c.Tables {
		if x := t.Stream; x != nil {
			fmt.Fprintf(w, "\nstream of %s: %s, %s polls a second of each, %s; functions that the service calls read it for free\n",
				t.Name, plural(int(x.Shards), "shard"), model.Figure(x.PollsPerSecond), plural(x.Readers, "reader"))
		}
	}
	fmt.Fprintf(w, "\n%s %s a month, at the prices of %s in %s\n", model.Money(c.Dollars), c.Prices.Currency, c.Prices.Date, c.Prices.Region)
	return nil
}

// tableAndIndexUnits formats the units of the table and of its indexes.
func tableAndIndexUnits(table, indexes float64) string {
	if indexes == 0 {
		return model.Figure(table)
	}
	return model.Figure(table) + " + " + model.Figure(indexes)
}

// provisionedFor formats the read and write units to provision for a table or
// an index.
func provisionedFor(t *model.TableCost, index string) string {
	for _, x := range t.Provisioned {
		if x.Index == index {
			return fmt.Sprintf("%s r, %s w", model.Figure(x.Read), model.Figure(x.Write))
		}
	}
	return "with the table"
}

// printDifference prints the changes in cost.
func printDifference(w io.Writer, d *model.Difference) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "WHAT\tNAME\tREAD\tWRITE\t$/MONTH\t")
	for _, x := range d.Changes {
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%s\n", x.What, x.Name, beforeAndAfter(x.Before.Read, x.After.Read, model.Figure), beforeAndAfter(x.Before.Write, x.After.Write, model.Figure),
			beforeAndAfter(x.Before.Dollars, x.After.Dollars, model.Money), x.Change)
	}
	return out.Flush()
}

// beforeAndAfter formats a figure before and after.
func beforeAndAfter(before, after float64, show func(float64) string) string {
	if show(before) == show(after) {
		return show(after)
	}
	return show(before) + " -> " + show(after)
}
