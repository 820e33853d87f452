package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
)

func triggerCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "trigger",
		Short: "Show triggers, and replay the records that they have given up",
		Long: `Show the triggers of a running server, how far each is, and the records that they have
given up (dead letters), and post these again.`,
	}
	cmd.AddCommand(triggerListCommand(), triggerDeadLettersCommand(), triggerReplayCommand())
	return cmd
}

// triggerFlags are the flags of all commands about triggers.
type triggerFlags struct {
	endpointFlags
	json bool
}

func (f *triggerFlags) add(cmd *cobra.Command) {
	f.endpointFlags.add(cmd, "URL of the server")
	cmd.Flags().BoolVar(&f.json, "json", false, "print as JSON")
}

// shownTrigger is a trigger in the reply to ListTriggers.
type shownTrigger struct {
	TriggerName, TableName, Endpoint, State string

	DeadLetters        *int64
	DeadLettersCounted bool
	Parts              []struct {
		RecordsBehind       int
		RecordsBehindIsMore bool
		OldestRecordAt      float64
		ConsecutiveErrors   int
		LastError           string
		LastErrorAt         float64
	}
}

func triggerListCommand() *cobra.Command {
	var f triggerFlags
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List triggers, with how far behind each is",
		Long: `List the triggers of a server: how many records each has not delivered yet, and how old
the first of them is; how often the batch that is being retried has failed; how many
records were given up; and the last error.

  stator trigger list --endpoint http://127.0.0.1:8000`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.list(cmd.Context(), cmd.OutOrStdout(), time.Now())
		},
	}
	f.add(cmd)
	return cmd
}

func (f *triggerFlags) list(ctx context.Context, stdout io.Writer, now time.Time) error {
	raw := []json.RawMessage{}
	for token := ""; ; {
		var page struct {
			Triggers  []json.RawMessage
			NextToken string
		}
		if err := sendOwn(ctx, &f.endpointFlags, "ListTriggers", withToken(nil, token), &page); err != nil {
			return fmt.Errorf("cannot list the triggers of %s: %w", f.endpoint, err)
		}
		raw = append(raw, page.Triggers...)
		if token = page.NextToken; token == "" {
			break
		}
	}
	if f.json {
		return json.NewEncoder(stdout).Encode(map[string]any{"Triggers": raw})
	}
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tTABLE\tSTATE\tBEHIND\tAGE\tRETRIES\tDEAD LETTERS\tENDPOINT\tLAST ERROR")
	for _, text := range raw {
		var t shownTrigger
		if err := json.Unmarshal(text, &t); err != nil {
			return fmt.Errorf("read the reply of %s: %w", f.endpoint, err)
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", t.TriggerName, t.TableName, t.State, t.progress(now))
	}
	return table.Flush()
}

// progress returns the columns from BEHIND on.
func (t *shownTrigger) progress(now time.Time) string {
	behind, retries, more := 0, 0, ""
	oldest, failed, last := 0.0, 0.0, ""
	for _, p := range t.Parts {
		behind, retries = behind+p.RecordsBehind, max(retries, p.ConsecutiveErrors)
		if p.RecordsBehindIsMore {
			more = "+"
		}
		if p.OldestRecordAt > 0 && (oldest == 0 || p.OldestRecordAt < oldest) {
			oldest = p.OldestRecordAt
		}
		if p.LastErrorAt > failed {
			failed, last = p.LastErrorAt, p.LastError
		}
	}
	age, letters := "", ""
	if oldest > 0 {
		age = max(0, now.Sub(time.UnixMilli(int64(oldest*1000)))).Round(time.Second).String()
	}
	if t.DeadLetters != nil {
		letters = strconv.FormatInt(*t.DeadLetters, 10)
		if !t.DeadLettersCounted {
			letters += "+"
		}
	}
	return fmt.Sprintf("%d%s\t%s\t%d\t%s\t%s\t%s", behind, more, age, retries, letters, t.Endpoint, last)
}

// withToken adds the token of a page to a request.
func withToken(in map[string]any, token string) map[string]any {
	if in == nil {
		in = make(map[string]any)
	}
	if token != "" {
		in["NextToken"] = token
	}
	return in
}

func triggerDeadLettersCommand() *cobra.Command {
	var f triggerFlags
	var limit int
	cmd := &cobra.Command{
		Use:   "deadletters NAME",
		Short: "List the records that a trigger has given up",
		Long: `List the records that a trigger has given up, the oldest first. With --json each has the
whole record.

  stator trigger deadletters confirmations --endpoint http://127.0.0.1:8000`,
		Args: arguments(1, "the name of a trigger"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if limit < 0 {
				return usageError{fmt.Errorf("--limit is %d, but must not be negative", limit)}
			}
			return f.deadLetters(cmd.Context(), args[0], limit, cmd.OutOrStdout())
		},
	}
	f.add(cmd)
	cmd.Flags().IntVar(&limit, "limit", 100, "number of records to print; 0 for all")
	return cmd
}

// shownLetter is a dead letter in the reply to ListDeadLetters.
type shownLetter struct {
	DeadLetterId string
	GivenUpAt    float64
	Condition    string
	Attempts     int
	Error        string
	Record       string
}

func (f *triggerFlags) deadLetters(ctx context.Context, trigger string, limit int, stdout io.Writer) error {
	table := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	out := json.NewEncoder(stdout)
	if !f.json {
		fmt.Fprintln(table, "ID\tGIVEN UP\tCONDITION\tATTEMPTS\tEVENT\tKEY\tERROR")
	}
	printed := 0
	for token := ""; ; {
		var page struct {
			DeadLetters []shownLetter
			NextToken   string
		}
		if err := sendOwn(ctx, &f.endpointFlags, "ListDeadLetters", withToken(map[string]any{"TriggerName": trigger}, token), &page); err != nil {
			return fmt.Errorf("cannot list the dead letters of trigger %s on %s: %w", trigger, f.endpoint, err)
		}
		for i := range page.DeadLetters {
			if limit > 0 && printed == limit {
				return table.Flush()
			}
			printed++
			l := &page.DeadLetters[i]
			if f.json {
				if err := out.Encode(l.typed()); err != nil {
					return err
				}
				continue
			}
			event, key := l.change()
			fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\t%s\t%s\n", l.DeadLetterId, l.at().Format(time.RFC3339), l.Condition, l.Attempts, event, key, l.Error)
		}
		if token = page.NextToken; token == "" {
			return table.Flush()
		}
	}
}

func (l *shownLetter) at() time.Time { return time.UnixMilli(int64(l.GivenUpAt * 1000)).UTC() }

// typed returns the letter as --json prints it, on one line.
func (l *shownLetter) typed() any {
	return struct {
		DeadLetterId string
		GivenUpAt    time.Time
		Condition    string
		Attempts     int
		Error        string `json:",omitempty"`
		Record       json.RawMessage
	}{l.DeadLetterId, l.at(), l.Condition, l.Attempts, l.Error, json.RawMessage(l.Record)}
}

// change returns the kind of the change and the key of the item, as JSON.
func (l *shownLetter) change() (event, key string) {
	var r struct {
		EventName string `json:"eventName"`
		Dynamodb  struct{ Keys json.RawMessage }
	}
	if json.Unmarshal([]byte(l.Record), &r) != nil {
		return "", ""
	}
	return r.EventName, string(r.Dynamodb.Keys)
}

func triggerReplayCommand() *cobra.Command {
	var f triggerFlags
	var all bool
	cmd := &cobra.Command{
		Use:   "replay NAME [ID...]",
		Short: "Post dead letters of a trigger again",
		Long: `Post records that a trigger has given up to its endpoint again, each by itself: those with
some ids, or with --all all of them, the oldest first. Those that the endpoint accepts are
removed from the dead-letter file. A record arrives after later changes of its item.

  stator trigger replay confirmations --all --endpoint http://127.0.0.1:8000`,
		Args: minArguments(1, "the name of a trigger"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if all == (len(args) > 1) {
				return usageError{errors.New("name the dead letters to replay by their ids, or replay all of them with --all")}
			}
			return f.replay(cmd.Context(), args[0], args[1:], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f.add(cmd)
	cmd.Flags().BoolVar(&all, "all", false, "replay all dead letters of the trigger")
	return cmd
}

// replayed is the sum of the replies to ReplayDeadLetters.
type replayed struct {
	Replayed, Rejected int
	Failed             []struct{ DeadLetterId, Error string }
	NotFound           []string `json:",omitempty"`
}

// idsAtOnce is how many ids a request has at most.
const idsAtOnce = 100

func (f *triggerFlags) replay(ctx context.Context, trigger string, ids []string, stdout, stderr io.Writer) error {
	var sum replayed
	sum.Failed = []struct{ DeadLetterId, Error string }{}
	progress := newProgressLine(stderr)
	remain := false // because the endpoint rejects everything
	for token, left := "", ids; ; {
		in := withToken(map[string]any{"TriggerName": trigger}, token)
		if len(ids) == 0 {
			in["All"] = true
		} else {
			n := min(len(left), idsAtOnce)
			in["DeadLetterIds"], left = left[:n], left[n:]
		}
		var reply struct {
			replayed
			NotTried  []string
			NextToken string
		}
		if err := sendOwn(ctx, &f.endpointFlags, "ReplayDeadLetters", in, &reply); err != nil {
			progress.end()
			return fmt.Errorf("cannot replay dead letters of trigger %s on %s: %w; %d were replayed before", trigger, f.endpoint, err, sum.Replayed)
		}
		sum.Replayed, sum.Rejected = sum.Replayed+reply.Replayed, sum.Rejected+reply.Rejected
		sum.Failed, sum.NotFound = append(sum.Failed, reply.Failed...), append(sum.NotFound, reply.NotFound...)
		progress.update("replayed %d dead letters, %d were rejected", sum.Replayed, sum.Rejected)
		token, left = reply.NextToken, append(reply.NotTried, left...)
		remain = (token != "" || len(left) > 0) && reply.Replayed == 0
		if len(left) == 0 && token == "" || remain {
			break
		}
	}
	progress.end()
	if f.json {
		if err := json.NewEncoder(stdout).Encode(sum); err != nil {
			return err
		}
	} else {
		fmt.Fprintf(stdout, "replayed %d dead letters of trigger %s\n", sum.Replayed, trigger)
		for _, failed := range sum.Failed {
			fmt.Fprintf(stdout, "rejected  %s  %s\n", failed.DeadLetterId, failed.Error)
		}
		for _, id := range sum.NotFound {
			fmt.Fprintf(stdout, "unknown   %s\n", id)
		}
	}
	switch {
	case remain:
		return fmt.Errorf("the endpoint of trigger %s rejects one record after the other; the others were not tried", trigger)
	case sum.Rejected > 0:
		return fmt.Errorf("the endpoint of trigger %s rejected %d of %d dead letters; they remain", trigger, sum.Rejected, sum.Rejected+sum.Replayed)
	case len(sum.NotFound) > 0:
		return fmt.Errorf("trigger %s does not have %d of the dead letters", trigger, len(sum.NotFound))
	}
	return nil
}
