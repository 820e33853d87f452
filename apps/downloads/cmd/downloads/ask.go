package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/apps/downloads"
	"github.com/stator-db/stator/apps/downloads/ledger"
	"github.com/stator-db/stator/apps/internal/command"
)

// service is the running poller that a command sends a request to.
type service struct {
	server string
	json   bool
}

func (p *service) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&p.server, "server", "http://127.0.0.1:8090", "URL of the running poller")
	cmd.Flags().BoolVar(&p.json, "json", false, "print JSON")
}

// ask sends a request to the poller and decodes its reply.
func (p *service) ask(ctx context.Context, path string, in, out any) error {
	text, err := json.Marshal(in)
	if err != nil {
		return err
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimRight(p.server, "/")+path, bytes.NewReader(text))
	if err != nil {
		return command.Usage(err)
	}
	r.Header.Set("Content-Type", "application/json")
	answer, err := (&http.Client{Timeout: 2 * time.Minute}).Do(r)
	if err != nil {
		return fmt.Errorf("call the poller: %w; is it running at --server?", err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 16<<20))
	if err != nil {
		return fmt.Errorf("call the poller: %w", err)
	}
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the poller rejects the request: %s", reply(body))
	}
	if err := json.Unmarshal(body, out); err != nil {
		return fmt.Errorf("read the poller's reply: %w", err)
	}
	return nil
}

// reply returns the message of an error that the poller replied.
func reply(body []byte) string {
	var known struct {
		Error struct{ Message string }
	}
	if json.Unmarshal(body, &known) == nil && known.Error.Message != "" {
		return known.Error.Message
	}
	return strings.TrimSpace(string(body))
}

// trigger sends a request to a running poller.
func trigger() *cobra.Command {
	var p service
	cmd := &cobra.Command{
		Use: "trigger DATE", Short: "Start another batch for a day", Args: command.Args(1, "a date"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := ledger.CheckDate(args[0]); err != nil {
				return command.Usage(err)
			}
			var started downloads.Started
			if err := p.ask(cmd.Context(), "/api/days/"+args[0]+"/batches", nil, &started); err != nil {
				return err
			}
			if p.json {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(started)
			}
			fmt.Fprintln(cmd.OutOrStdout(), started.BatchID)
			return nil
		},
	}
	p.flags(cmd)
	return cmd
}

// requeue asks a running poller to queue files again: named ones, those of a batch with
// a status (one query of BatchIndex), or old ones (one query of StatusIndex).
func requeue() *cobra.Command {
	var p service
	var r downloads.Requeue
	var of string
	cmd := &cobra.Command{
		Use: "requeue [FILE...]", Short: "Queue failed or stuck files again",
		Long: "Queue files again: named files, with --batch the files of a batch with a --status,\nor with --older the files that have had the --status for that long. The running poller sends their\nmessages at once, and continues their batches if they have ended. Completed files are never queued again.",
		RunE: func(cmd *cobra.Command, args []string) error {
			s, err := jobStatus(of)
			if err != nil {
				return err
			}
			ways := 0
			for _, given := range []bool{len(args) > 0, r.Batch != "", r.Older > 0} {
				if given {
					ways++
				}
			}
			switch {
			case ways != 1:
				return command.Usagef("files are missing: name them, or set --batch ID or --older 30m")
			case s == ledger.Completed:
				return command.Usagef("completed files are not queued again")
			}
			if r.Files = args; len(args) == 0 {
				r.Status = s
			}
			var out downloads.Requeued
			if err := p.ask(cmd.Context(), "/api/requeue", r, &out); err != nil {
				return err
			}
			if err := (&tables{json: p.json}).print(cmd.OutOrStdout(), out, fileRows(out.Files)); err != nil {
				return err
			}
			for _, id := range out.Batches {
				fmt.Fprintf(cmd.ErrOrStderr(), "%s continues\n", id)
			}
			if n := len(out.Refused); n > 0 {
				return fmt.Errorf("%d files were not queued again: %s", n, strings.Join(out.Refused[:min(3, n)], "; "))
			}
			return nil
		},
	}
	p.flags(cmd)
	cmd.Flags().StringVar(&r.Batch, "batch", "", "files of this batch")
	cmd.Flags().StringVar(&of, "status", "failed", "files with this status: failed, error, downloading or available")
	cmd.Flags().DurationVar(&r.Older, "older", 0, "files that have had the status for this long")
	cmd.Flags().BoolVar(&r.Live, "live", false, "also files whose downloader is alive")
	return cmd
}
