package cli

import (
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/internal/model/apply"
	"github.com/stator-db/stator/internal/model/cloudtrail"
	"github.com/stator-db/stator/internal/model/infer"
	"github.com/stator-db/stator/internal/workload"
)

type inferFlags struct {
	endpointFlags
	units  float64
	tables []string
	key    string
	name   string
	output string
	trail  []string
	json   bool

	streams         bool
	follow          time.Duration
	streamsEndpoint string

	allValues bool
}

func modelInferCommand() *cobra.Command {
	var f inferFlags
	cmd := &cobra.Command{
		Use:   "infer FILE... | infer --endpoint URL",
		Short: "Derive a model from the items and the traffic of a system that exists",
		Long: `Derive a model from the tables of a server, of which a sample of the items is
read, and from the requests that a stator has counted; or from items in files: an export in DynamoDB JSON (a folder or a file, also
with gzip), the reply of a scan, or CSV with a header. Each file or folder is one
table. The requests may also come from the data events of CloudTrail (--cloudtrail), and the writes
from the streams of the tables (--streams). Everything
that is derived from a sample is marked as a guess, with its evidence. docs/model-infer.md says how it is derived.

  stator model infer --endpoint http://127.0.0.1:8000 --units 500 -o shop.model.yaml
  stator model infer AWSDynamoDB/01693685827463-2d8752fd --key PK,SK
  stator model infer customers.csv orders.csv
  stator model infer --endpoint https://dynamodb.eu-west-1.amazonaws.com --cloudtrail AWSLogs
  stator model infer --endpoint https://dynamodb.eu-west-1.amazonaws.com --units 0 --follow 10m`,
		Args: func(cmd *cobra.Command, args []string) error {
			if f.endpoint == "" && len(args) == 0 {
				return usageError{fmt.Errorf("%s needs files or folders, or --endpoint", cmd.CommandPath())}
			}
			if f.endpoint != "" && len(args) > 0 {
				return usageError{fmt.Errorf("%s needs no file with --endpoint, but got %q", cmd.CommandPath(), args)}
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			return f.run(cmd.Context(), args, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f.add(cmd, "URL of a server whose items to read")
	flags := cmd.Flags()
	flags.Float64Var(&f.units, "units", 1000, "read units that the sample may use, for all tables together")
	flags.StringSliceVar(&f.tables, "table", nil, "tables of the server to read, separated by commas; may be given several times; defaults to all")
	flags.StringVar(&f.key, "key", "", "key of the tables in files, as PARTITION or PARTITION,SORT; defaults to a guess")
	flags.StringArrayVar(&f.trail, "cloudtrail", nil, "log file of CloudTrail, or a folder of them, with the requests; may be given several times")
	flags.BoolVar(&f.streams, "streams", false, "derive writes from the records that the streams of the tables have; with --units 0 also the items")
	durationVar(cmd, &f.follow, "follow", 0, "derive writes from the records that come during this time, instead of those that the streams have")
	flags.StringVar(&f.streamsEndpoint, "streams-endpoint", "", "URL of the streams; defaults to that of AWS for --endpoint, or to --endpoint")
	flags.StringVar(&f.name, "name", "inferred", "name of the model")
	flags.StringVarP(&f.output, "output", "o", "", "file to write the model to; it must not exist")
	flags.BoolVar(&f.allValues, "all-values", false, "write values of items into the model that may be a customer's data")
	flags.BoolVar(&f.json, "json", false, "print the evidence as JSON; the model only with --output")
	return cmd
}

func (f *inferFlags) run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	r, err := f.infer(ctx, args, stderr)
	if err != nil {
		return err
	}
	text, err := r.Model()
	if err != nil {
		return err
	}
	if f.output != "" {
		if err := writeNew(f.output, text); err != nil {
			return err
		}
	}
	switch {
	case f.json:
		return encodeIndented(stdout, r)
	case f.output == "":
		_, err = stdout.Write(text)
	}
	return err
}

// infer reads the sources and derives the model.
func (f *inferFlags) infer(ctx context.Context, args []string, stderr io.Writer) (*infer.Result, error) {
	f.streams = f.streams || f.follow > 0
	if f.endpoint != "" {
		return f.inferServer(ctx, stderr)
	}
	if f.streams {
		return nil, usageError{errors.New("--streams and --follow need --endpoint")}
	}
	samples, err := f.readFiles(args, stderr)
	if err != nil {
		return nil, err
	}
	f.allow(samples)
	r := infer.From(f.name, strings.Join(args, ", "), samples)
	if err := f.addTrail(r, stderr); err != nil {
		return nil, err
	}
	if len(r.Patterns) == 0 {
		r.AssumePatterns()
	}
	return r, nil
}

// allow sets which texts of items the model may contain.
func (f *inferFlags) allow(samples []*infer.TableSample) {
	for _, s := range samples {
		s.AllValues = f.allValues
	}
}

// addTrail derives access patterns from the log files of CloudTrail, if there are any.
func (f *inferFlags) addTrail(r *infer.Result, stderr io.Writer) error {
	if len(f.trail) == 0 {
		return nil
	}
	tables, err := r.Schemas()
	if err != nil {
		return err
	}
	log := cloudtrail.New(tables)
	progress := newProgressLine(stderr)
	defer progress.end()
	for _, path := range f.trail {
		files, err := itemFiles(path)
		if err != nil {
			return err
		}
		for i, file := range files {
			if err := readFile(file, log.Read); err != nil {
				return err
			}
			progress.update("%s: %d of %d files", path, i+1, len(files))
		}
	}
	progress.end()
	for _, line := range log.Left() {
		fmt.Fprintf(stderr, "note: not derived from %s\n", line)
	}
	if log.Events == 0 {
		fmt.Fprintln(stderr, "note: the log has no successful requests for items of these tables; a trail records them only if its data events are enabled")
		return nil
	}
	if !log.To.After(log.From) {
		fmt.Fprintln(stderr, "note: all events have the same time, so the rates are not known; they are given as if in one second")
	}
	r.AddLog(log.Report(), log.To)
	return nil
}

// inferServer derives the model from the items of a server, and from its traffic
// if it counts that.
func (f *inferFlags) inferServer(ctx context.Context, stderr io.Writer) (*infer.Result, error) {
	if f.streams && len(f.trail) > 0 {
		return nil, usageError{errors.New("--streams and --cloudtrail count the same writes; give one of them")}
	}
	if f.units < 0 || f.units == 0 && !f.streams {
		return nil, usageError{fmt.Errorf("--units is %v, but must be more than 0", f.units)}
	}
	if f.key != "" {
		return nil, usageError{errors.New("--key is for files; a server describes its keys")}
	}
	e, err := f.open()
	if err != nil {
		return nil, err
	}
	// An older stator counts the scans of the sample, so the counts are read first.
	e.Uncounted, e.StreamsURL = true, f.streamsEndpoint
	traffic, counted := readTraffic(ctx, e)
	now := time.Now()
	samples, err := f.readServer(ctx, e, stderr)
	if err != nil {
		return nil, err
	}
	f.allow(samples)
	if f.streams {
		return f.inferStreams(ctx, e, samples, stderr)
	}
	r := infer.From(f.name, "the server "+f.endpoint, samples)
	if len(f.trail) > 0 {
		counted = true
		if err := f.addTrail(r, stderr); err != nil {
			return nil, err
		}
	} else {
		r.AddTraffic(traffic, now)
	}
	if len(r.Patterns) == 0 {
		r.AssumePatterns()
	}
	if !counted {
		fmt.Fprintf(stderr, "note: %s does not report its requests, as a stator does; the access patterns are assumed, with a rate of zero\n", f.endpoint)
	}
	return r, nil
}

// readTraffic returns the requests that a server has counted; counted is false if
// it does not count them, or does not permit to read the counts.
func readTraffic(ctx context.Context, e *apply.Endpoint) (traffic workload.Report, counted bool) {
	text, err := e.Get(ctx, "/shapes")
	if err != nil || json.Unmarshal(text, &traffic) != nil || traffic.Shapes == nil {
		return workload.Report{}, false
	}
	return traffic, true
}

func (f *inferFlags) readServer(ctx context.Context, e *apply.Endpoint, stderr io.Writer) ([]*infer.TableSample, error) {
	progress := newProgressLine(stderr)
	defer progress.end()
	return infer.ReadServer(ctx, e.Send, infer.Options{Tables: f.tables, Units: f.units, Endpoint: f.endpoint,
		Progress: func(table string, items int, units float64) {
			progress.update("%s: %d items, %.1f units", table, items, units)
		}})
}

// readFiles reads each file or folder as one table.
func (f *inferFlags) readFiles(paths []string, stderr io.Writer) (samples []*infer.TableSample, err error) {
	if len(f.tables) > 0 {
		return nil, usageError{errors.New("--table is for servers; a file is one table")}
	}
	var key []string
	if f.key != "" {
		key = strings.Split(f.key, ",")
		if len(key) > 2 || slices.Contains(key, "") {
			return nil, usageError{fmt.Errorf("--key is %q, but must be PARTITION or PARTITION,SORT", f.key)}
		}
	}
	progress := newProgressLine(stderr)
	defer progress.end()
	for _, path := range paths {
		files, err := itemFiles(path)
		if err != nil {
			return nil, err
		}
		sample := infer.NewReservoir(0)
		for _, file := range files {
			if err := readItems(sample, file); err != nil {
				return nil, err
			}
			progress.update("%s: %d items", path, sample.Seen)
		}
		s, err := infer.FromItems(tableOfFile(path), sample, key)
		if err != nil {
			return nil, err
		}
		samples = append(samples, s)
	}
	return samples, nil
}

// itemFiles returns a file, or the files of a folder that hold items.
func itemFiles(path string) (files []string, err error) {
	err = filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		name := strings.TrimSuffix(filepath.Base(file), ".gz")
		if file == path || strings.HasSuffix(name, ".json") && !strings.HasPrefix(name, "manifest") || strings.HasSuffix(name, ".csv") {
			files = append(files, file)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("cannot read the items: %w", err)
	}
	if len(files) == 0 {
		return nil, usageError{fmt.Errorf("there are no files *.json, *.json.gz, *.csv or *.csv.gz in %s", path)}
	}
	return files, nil
}

// readItems adds the items of a file to a sample.
func readItems(sample *infer.Reservoir, path string) error {
	if strings.HasSuffix(strings.TrimSuffix(path, ".gz"), ".csv") {
		return readFile(path, sample.ReadCSV)
	}
	return readFile(path, sample.ReadJSON)
}

// readFile reads a file, which may be compressed.
func readFile(path string, read func(name string, r io.Reader) error) (err error) {
	file, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("cannot read the file: %w", err)
	}
	defer func() { _ = file.Close() }()
	var r io.Reader = file
	if strings.HasSuffix(path, ".gz") {
		if r, err = gzip.NewReader(file); err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
	}
	return read(path, r)
}

// tableOfFile is the name of a table that a file or a folder holds: the one in
// the manifest of an export, or that of the file.
func tableOfFile(path string) string {
	var manifest struct{ TableArn string }
	if text, err := os.ReadFile(filepath.Join(path, "manifest-summary.json")); err == nil && json.Unmarshal(text, &manifest) == nil {
		if _, name, ok := strings.Cut(manifest.TableArn, ":table/"); ok {
			return name
		}
	}
	base := filepath.Base(filepath.Clean(path))
	name, _, _ := strings.Cut(base, ".")
	return cmp.Or(name, base)
}
