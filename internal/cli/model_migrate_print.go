package cli

import (
	"cmp"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/migrate"
)

// printMigration prints the plan of a migration.
func printMigration(w io.Writer, plan *migrate.Plan, limited bool) error {
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(out, "ENTITY\tITEMS\tWHAT\tBEFORE\tAFTER")
	for _, e := range plan.Entities {
		items := "-"
		if e.Kind != migrate.Unchanged {
			items = model.Figure(float64(int64(e.Items)))
		}
		fmt.Fprintf(out, "%s\t%s\t%s\t%s\t%s\n", e.Entity, items, e.Kind, e.Before, e.After)
	}
	fmt.Fprintln(out, "\nPATTERN\tBEFORE\tAFTER")
	for _, p := range plan.Patterns {
		fmt.Fprintf(out, "%s\t%s\t%s\n", p.Pattern, cmp.Or(p.Before, "-"), cmp.Or(p.After, "-"))
	}
	if err := out.Flush(); err != nil {
		return err
	}
	fmt.Fprintln(w)
	for _, c := range plan.Changes {
		fmt.Fprintf(w, "%-9s%s\n", "change", c)
	}
	if e := plan.Estimate; e != nil && e.Items > 0 {
		printEstimate(w, e, limited)
	}
	for _, n := range plan.Notes {
		fmt.Fprintf(w, "%-9s%s\n", "note", n)
	}
	paint := painterFor(w)
	for _, f := range plan.Faults {
		fmt.Fprintf(w, "%s%s\n", paint.status(model.StatusFault), f)
	}
	return nil
}

func printEstimate(w io.Writer, e *migrate.Estimate, limited bool) {
	fmt.Fprintf(w, "%-9s%s read and %s write units, %s dollars on demand, estimated from %s items\n", "cost",
		model.Figure(float64(int64(e.ReadUnits))), model.Figure(float64(int64(e.WriteUnits))), model.Money(e.Dollars), model.Figure(float64(e.Sampled)))
	fmt.Fprintf(w, "%-9s%s dollars for each day of following\n", "", model.Money(e.DollarsDay))
	took := "as long as the server takes; --read-units and --write-units limit it"
	if limited {
		took = (time.Duration(e.Seconds) * time.Second).String() + " at the limits"
	}
	fmt.Fprintf(w, "%-9s%s\n", "duration", took)
}

// nextStep says what a migration needs next, by its phase.
var nextStep = map[migrate.Phase]string{
	migrate.Create:   "run goes on",
	migrate.Backfill: "run goes on",
	migrate.Verify:   "run verifies again; --repair copies items again that differ",
	migrate.Ready:    "keep run running; to switch, stop the writes of the application",
	migrate.Switched: "the application may write to the new tables; keep run running until drop or rollback",
	migrate.Dropping: "repeat drop",
	migrate.Dropped:  "",
	migrate.Aborting: "repeat abort",
	migrate.Aborted:  "run begins again",
}

// printMigrationState prints how far a migration has come.
func printMigrationState(w io.Writer, st *migrate.State) {
	fmt.Fprintf(w, "%-9s%s since %s\n", "phase", st.Phase, st.Since.Format(time.DateTime))
	fmt.Fprintf(w, "%-9s%s items copied, %s records read, %s of them caused writes; %s read and %s write units\n", "done",
		model.Figure(float64(st.Counts.Copied)), model.Figure(float64(st.Counts.Records)), model.Figure(float64(st.Counts.Followed)),
		model.Figure(st.Counts.ReadUnits), model.Figure(st.Counts.WriteUnits))
	if v := st.Verified; v != nil {
		for _, e := range v.Entities {
			fmt.Fprintf(w, "%-9s%s: %d old items with the checksum %016x, %d new items with %016x\n", "verified", cmp.Or(e.Entity, "(unmatched)"), e.OldItems, e.OldSum, e.NewItems, e.NewSum)
		}
		fmt.Fprintf(w, "%-9s%d items one by one, %d of them changed all the time, %d were repaired\n", "compared", v.Compared, v.Moving, v.Repaired)
		fmt.Fprintf(w, "%-9s%d of %d dual reads differed at first\n", "", v.DualDiffers, v.DualReads)
		for _, key := range v.RepairedKeys {
			fmt.Fprintf(w, "%-9s%s\n", "repaired", key)
		}
		if v.Kept > 0 {
			fmt.Fprintf(w, "%-9s%d new items of entities that the old model does not have\n", "", v.Kept)
		}
		for _, d := range v.Differences {
			fmt.Fprintf(w, "%s%s\n", painterFor(w).status(model.StatusFault), d)
		}
	}
	if st.Late > 0 {
		text := "%d writes to the old tables came after the switch and are not in the new ones, such as %s"
		if st.Phase == migrate.Ready {
			text = "%d writes to the new tables came before the switch and are not in the old ones, such as %s"
		}
		fmt.Fprintf(w, "%s"+text+"\n", painterFor(w).status(model.StatusFault), st.Late, st.LateKeys[0])
	}
	if q := st.Request; q.ID != st.Answered {
		fmt.Fprintf(w, "%-9s%s is requested\n", "goal", q.Goal)
	}
	if st.Unfinished != "" {
		fmt.Fprintf(w, "%-9s%s; run repeats it\n", "problem", st.Unfinished)
	}
	if st.Problem != "" {
		fmt.Fprintf(w, "%-9s%s\n", "problem", st.Problem)
	}
	next := nextStep[st.Phase]
	if st.RolledBack {
		next = "the application may write to the old tables; run verifies the new ones, and copies items again that differ"
	}
	if next != "" {
		fmt.Fprintf(w, "%-9s%s\n", "next", next)
	}
}
