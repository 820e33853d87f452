package main

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/apps/goals/stream"
	"github.com/stator-db/stator/apps/internal/command"
)

func deadCommand() *cobra.Command {
	flags := new(kafkaFlags)
	var since time.Duration
	var asJSON bool
	c := &cobra.Command{
		Use:   "dead",
		Short: "Show the dead letters: events that could not be handled, with the reason",
		Args:  command.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			kafka, err := flags.settings()
			if err != nil {
				return err
			}
			from := time.Unix(0, 0)
			if since > 0 {
				from = now().Add(-since)
			}
			out, n := c.OutOrStdout(), 0
			err = stream.DeadLetters(c.Context(), kafka, stream.DefaultTopics, from, func(l stream.DeadLetter) error {
				n++
				if asJSON {
					return json.NewEncoder(out).Encode(l)
				}
				if n == 1 {
					fmt.Fprintf(out, "%-20s  %-24s  %s\n", "TIME", "WAS AT", "REASON")
				}
				fmt.Fprintf(out, "%-20s  %-24s  %s\n", l.Time.Format(time.RFC3339), fmt.Sprintf("%s/%d/%d", l.Topic, l.Partition, l.Offset), l.Reason)
				_, err := fmt.Fprintf(out, "%-20s  %.300q\n", "", l.Value)
				return err
			})
			if err == nil && n == 0 && !asJSON {
				fmt.Fprintln(c.ErrOrStderr(), "there are no dead letters")
			}
			return err
		},
	}
	flags.flags(c.Flags(), "")
	c.Flags().DurationVar(&since, "since", 0, "show those of the last time, such as 24h; the default is all")
	c.Flags().BoolVar(&asJSON, "json", false, "print each as a line of JSON")
	return c
}
