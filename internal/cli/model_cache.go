package cli

import (
	"fmt"
	"io"
	"math"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/cache"
)

// modelCacheFlags are the flags of stator model cache.
type modelCacheFlags struct {
	itemTTL, queryTTL time.Duration
	size              string
	nodeType          string
	nodes             int
	skew              float64
	writes            string
	prices            string
	json              bool
}

func modelCacheCommand() *cobra.Command {
	var f modelCacheFlags
	cmd := &cobra.Command{
		Use:   "cache FILE",
		Short: "Show whether DAX helps each access pattern, and what it saves",
		Long: `Forecast for each access pattern of a model what DAX would do: the share of reads that
it answers from memory, which of them are stale and for how long, and the read units and the
money that it saves, against the price of its nodes.

The requests for a key are random, and keys are as popular as Zipf's law says. Its exponent is
computed from hottest, hot and skew of the model where it has them, and is --skew elsewhere: 0 is
an even spread, 0.8 to 1 is usual for customers and products. A --skew that is given counts for
all patterns.

  stator model cache shop.model.yaml
  stator model cache shop.model.yaml --item-ttl 1h --query-ttl 10s
  stator model cache shop.model.yaml --node-type dax.r5.large --nodes 3 --skew 1
  stator model cache shop.model.yaml --writes around`,
		Args: arguments(1, "one file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(args[0], cmd.Flags().Changed("skew"), cmd.OutOrStdout())
		},
	}
	durationVar(cmd, &f.itemTTL, "item-ttl", 5*time.Minute, "how long items are cached; 0 does not expire them")
	durationVar(cmd, &f.queryTTL, "query-ttl", 5*time.Minute, "how long results of queries and scans are cached; 0 does not cache them")
	cmd.Flags().StringVar(&f.size, "cache-size", "", "memory of a node for entries, such as 500MB; defaults to 75 % of the node's memory")
	cmd.Flags().StringVar(&f.nodeType, "node-type", "dax.t3.small", "type of the nodes, of the prices")
	cmd.Flags().IntVar(&f.nodes, "nodes", 3, "number of nodes")
	cmd.Flags().Float64Var(&f.skew, "skew", 0.8, "Zipf exponent of the requests, where the model does not say how they are spread")
	cmd.Flags().StringVar(&f.writes, "writes", "through", "through: writes are sent to DAX; around: to DynamoDB")
	cmd.Flags().StringVar(&f.prices, "prices", "", "price file to use instead of the built-in prices")
	cmd.Flags().BoolVar(&f.json, "json", false, "print as JSON")
	return cmd
}

// maxCacheNodes is how many nodes a cluster may have.
const maxCacheNodes = 11

// options checks the flags.
func (f *modelCacheFlags) options(skewGiven bool) (o cache.Options, err error) {
	if o.Prices, err = readPrices(f.prices); err != nil {
		return o, err
	}
	if f.size != "" {
		size, err := model.ParseBytes(f.size)
		if err != nil || size < 1 {
			return o, usageError{fmt.Errorf("--cache-size is %s, but must be a size such as 500MB", f.size)}
		}
		o.Bytes = float64(size)
	}
	_, known := o.Prices.DAXNode(f.nodeType)
	switch {
	case f.itemTTL < 0 || f.queryTTL < 0:
		return o, usageError{fmt.Errorf("--item-ttl and --query-ttl cannot be negative")}
	case f.nodes < 1 || f.nodes > maxCacheNodes:
		return o, usageError{fmt.Errorf("--nodes is %d, but must be from 1 to %d", f.nodes, maxCacheNodes)}
	case math.IsNaN(f.skew) || f.skew < 0 || f.skew > 3:
		return o, usageError{fmt.Errorf("--skew is %v, but must be from 0 to 3", f.skew)}
	case f.writes != "through" && f.writes != "around":
		return o, usageError{fmt.Errorf("--writes is %s, but must be through or around", f.writes)}
	case !known:
		return o, usageError{fmt.Errorf("--node-type is %s, which the prices do not have; they have %v", f.nodeType, o.Prices.DAXNodeNames())}
	}
	o.ItemTTL, o.QueryTTL, o.NodeType, o.Nodes, o.Skew, o.Override, o.Around = f.itemTTL, f.queryTTL, f.nodeType, f.nodes, f.skew, skewGiven, f.writes == "around"
	return o, nil
}

// modelCacheResult is the result of cache as JSON.
type modelCacheResult struct {
	File string `json:"file"`
	*cache.Advice
}

func (f *modelCacheFlags) run(file string, skewGiven bool, w io.Writer) error {
	o, err := f.options(skewGiven)
	if err != nil {
		return err
	}
	m, err := readModel(file)
	if err != nil {
		return err
	}
	a, err := cache.Run(m, o)
	if err != nil {
		return fmt.Errorf("cannot forecast the cache of %s: %w", file, err)
	}
	if f.json {
		return encodeIndented(w, modelCacheResult{file, a})
	}
	return f.print(w, a)
}

func (f *modelCacheFlags) print(w io.Writer, a *cache.Advice) error {
	fmt.Fprintf(w, "%d x %s, item TTL %s, query TTL %s, writes %s the cache\n\n", a.Nodes, a.NodeType, ttlText(f.itemTTL), ttlText(f.queryTTL), a.Writes)
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "PATTERN\tOPERATION\tRATE\tKEYS\tSKEW\tHITS\tSTALE\tFOR UP TO\tSAVED UNITS/S\tSAVED $/MONTH\tDAX\tWHY")
	writes := 0
	for _, p := range a.Patterns {
		if p.Verdict == cache.Write {
			writes++
			continue
		}
		keys, skew, hits, stale, age, units, dollars := "-", "-", "-", "-", "-", "-", "-"
		if p.Keys > 0 {
			keys = model.Figure(rounded(p.Keys))
		}
		if p.SkewFrom != "" {
			skew = fmt.Sprintf("%.2f", p.Skew)
			if p.SkewFrom == cache.SkewFromModel {
				skew += " (model)"
			}
		}
		if p.HitRate > 0 {
			hits, stale = percentOf(p.HitRate), percentOf(p.StaleShare)
			units, dollars = model.Figure(rounded(p.SavedUnits)), model.Money(p.SavedDollars)
			switch {
			case p.StaleForever:
				age = "eviction"
			case p.StaleSeconds > 0:
				age = ttlText(time.Duration(p.StaleSeconds * float64(time.Second)))
			}
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", p.Name, p.Operation, p.Rate, keys, skew, hits, stale, age, units, dollars, p.Verdict, p.Reason)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if writes > 0 && a.Writes == "through" {
		fmt.Fprintf(w, "\nwrites of %s: each also refreshes its item in the cache, and no query\n", plural(writes, "pattern"))
	} else if writes > 0 {
		fmt.Fprintf(w, "\nwrites of %s: the cache does not see them\n", plural(writes, "pattern"))
	}
	fmt.Fprintf(w, "\nmemory: %s of %s on each node\n", model.Bytes(a.UsedBytes), model.Bytes(a.MemoryBytes))
	for _, note := range a.Notes {
		fmt.Fprintf(w, "note: %s\n", note)
	}
	share := 0.0
	if a.ReadUnits > 0 {
		share = a.SavedUnits / a.ReadUnits
	}
	fmt.Fprintf(w, "\nDAX saves %s of %s read units/s (%s), %s %s a month as the tables are billed; its nodes cost %s\n",
		model.Figure(rounded(a.SavedUnits)), model.Figure(rounded(a.ReadUnits)), percentOf(share), model.Money(a.SavedDollars), a.Prices.Currency, model.Money(a.NodeDollars))
	switch {
	case a.SavedDollars >= a.NodeDollars:
		fmt.Fprintf(w, "it pays for itself: %s %s a month less\n", model.Money(a.SavedDollars-a.NodeDollars), a.Prices.Currency)
	default:
		fmt.Fprintf(w, "it does not pay for itself: %s %s a month more; what remains is latency, and protection of hot keys\n", model.Money(a.NodeDollars-a.SavedDollars), a.Prices.Currency)
	}
	fmt.Fprintf(w, "prices of %s in %s\n", a.Prices.Date, a.Prices.Region)
	return nil
}

// ttlText is a time to live without the parts that are zero.
func ttlText(d time.Duration) string {
	if d == 0 {
		return "0"
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
