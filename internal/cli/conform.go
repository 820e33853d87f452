package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/conformance"
)

type conformFlags struct {
	endpoint string
	region   string
	run      string
	patience time.Duration
	json     bool
}

func conformCommand() *cobra.Command {
	var f conformFlags
	cmd := &cobra.Command{
		Use:   "conform",
		Short: "Run the transcripts against any DynamoDB-compatible server",
		Long: `Run the transcripts against any DynamoDB-compatible server.

A transcript is a list of requests with DynamoDB's replies. Each transcript
creates its own tables, under names that no other transcript uses, and deletes
them at the end. Without --endpoint they run against a private server in memory.

Requests are signed with AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY and
AWS_SESSION_TOKEN, or with credentials that any local server accepts. A run
against AWS costs a few cents.

  stator conform --endpoint http://127.0.0.1:8000
  stator conform --endpoint https://dynamodb.eu-west-1.amazonaws.com --region eu-west-1`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return conform(cmd.Context(), &f, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.endpoint, "endpoint", "", "URL of the server; defaults to a private server in memory")
	flags.StringVar(&f.region, "region", "us-east-1", "region to sign requests for")
	flags.StringVar(&f.run, "run", "", "run only the transcripts whose names match this regular expression")
	durationVar(cmd, &f.patience, "patience", 5*time.Second, "how long a server may take to show a write, or to answer while it is busy")
	flags.BoolVar(&f.json, "json", false, "print as JSON")
	return cmd
}

func conform(ctx context.Context, f *conformFlags, stdout, stderr io.Writer) (err error) {
	transcripts, err := f.transcripts()
	if err != nil {
		return err
	}
	server, stop, err := f.server(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	results := runAll(ctx, server, transcripts, stderr)
	if f.json {
		err = json.NewEncoder(stdout).Encode(results)
	} else {
		err = printResults(stdout, results)
	}
	if err != nil {
		return err
	}
	failed := 0
	for _, r := range results {
		if r.Failed > 0 || r.Error != "" {
			failed++
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d transcripts differ", failed, len(results))
	}
	return nil
}

// transcripts are the transcripts to run.
func (f *conformFlags) transcripts() ([]*conformance.Transcript, error) {
	want, err := regexp.Compile(f.run)
	if err != nil {
		return nil, usageError{fmt.Errorf("--run is not a regular expression: %w", err)}
	}
	all, err := conformance.All()
	if err != nil {
		return nil, err
	}
	var selected []*conformance.Transcript
	for _, t := range all {
		if want.MatchString(t.Topic()) {
			selected = append(selected, t)
		}
	}
	if len(selected) == 0 {
		return nil, usageError{fmt.Errorf("--run %q does not match any of the %d transcripts", f.run, len(all))}
	}
	return selected, nil
}

// server is the server to run transcripts against. stop closes it if it is private.
func (f *conformFlags) server(ctx context.Context) (s *conformance.Server, stop func() error, err error) {
	s = &conformance.Server{Endpoint: f.endpoint, Sign: signFor(f.region)}
	if f.endpoint != "" {
		u, err := url.Parse(f.endpoint)
		if err != nil || u.Host == "" {
			return nil, nil, usageError{fmt.Errorf("--endpoint is %q, but must be a URL such as http://127.0.0.1:8000", f.endpoint)}
		}
		s.Client = serverClient(time.Minute)
		s.Patience = f.patience
		return s, func() error { return nil }, nil
	}
	s.Client = http.DefaultClient
	s.Endpoint, stop, err = servePrivately(ctx)
	return s, stop, err
}

// servePrivately serves a database in memory on a loopback port until stop is
// called.
func servePrivately(ctx context.Context) (endpoint string, stop func() error, err error) {
	db, err := stator.Open(ctx, stator.Options{})
	if err != nil {
		return "", nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, errors.Join(err, db.Close())
	}
	web := &http.Server{Handler: db.Handler(), ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- web.Serve(listener) }()
	return "http://" + listener.Addr().String(), func() error {
		err := web.Close()
		<-served
		return errors.Join(err, db.Close())
	}, nil
}

// conformResult is the result of one transcript.
type conformResult struct {
	Transcript string           `json:"transcript"`
	Passed     int              `json:"passed"`
	Failed     int              `json:"failed"`
	Error      string           `json:"error,omitempty"`
	Failures   []conformFailure `json:"failures,omitempty"`

	text string
}

type conformFailure struct {
	Line    int    `json:"line"`
	Why     string `json:"why"`
	Request string `json:"request"`
	Want    string `json:"want"`
	Got     string `json:"got"`
}

// conformWorkers is how many transcripts run at once.
const conformWorkers = 8

// runAll runs transcripts in parallel and prints its progress to stderr.
func runAll(ctx context.Context, server *conformance.Server, transcripts []*conformance.Transcript, stderr io.Writer) []conformResult {
	results := make([]conformResult, len(transcripts))
	var next atomic.Int64
	var wg sync.WaitGroup
	var progress sync.Mutex // of done and stderr
	done := 0
	for range conformWorkers {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(transcripts) {
					return
				}
				results[i] = runOne(ctx, server, transcripts[i])
				progress.Lock()
				done++
				fmt.Fprintf(stderr, "\r%d of %d", done, len(transcripts))
				progress.Unlock()
			}
		})
	}
	wg.Wait()
	fmt.Fprintln(stderr)
	return results
}

func runOne(ctx context.Context, server *conformance.Server, t *conformance.Transcript) conformResult {
	failures, err := server.Run(ctx, t)
	r := conformResult{Transcript: t.Topic(), Failed: len(failures), Passed: len(t.Steps) - len(failures)}
	if err != nil {
		r.Error, r.Passed = err.Error(), 0
	}
	var text strings.Builder
	for _, f := range failures {
		r.Failures = append(r.Failures, conformFailure{
			Line: f.Step.Line, Why: f.Why,
			Request: f.Step.Operation + " " + f.Step.Body,
			Want:    f.Step.Want.String(), Got: conformance.ReplyOf(f.Got).String(),
		})
		fmt.Fprintf(&text, "%s:%s\n\n", t.Name, f)
	}
	if err != nil {
		fmt.Fprintf(&text, "%s: %v\n\n", t.Name, err)
	}
	r.text = text.String()
	return r
}

// printResults prints the replies that differ, and then a table.
func printResults(w io.Writer, results []conformResult) error {
	for _, r := range results {
		if _, err := io.WriteString(w, r.text); err != nil {
			return err
		}
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table, "PASSED\tFAILED\t  TRANSCRIPT")
	passed, failed := 0, 0
	for _, r := range results {
		note := ""
		if r.Error != "" {
			note = " (not finished)"
		}
		fmt.Fprintf(table, "%d\t%d\t  %s%s\n", r.Passed, r.Failed, r.Transcript, note)
		passed, failed = passed+r.Passed, failed+r.Failed
	}
	fmt.Fprintf(table, "%d\t%d\t  all %d\n", passed, failed, len(results))
	return table.Flush()
}
