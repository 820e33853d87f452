package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/pflag"
	"gocloud.dev/blob"
	_ "gocloud.dev/blob/fileblob" // file://
	_ "gocloud.dev/blob/memblob"  // mem://
	_ "gocloud.dev/blob/s3blob"   // s3://

	"github.com/stator-db/stator/apps/goals"
	"github.com/stator-db/stator/apps/goals/rules"
	"github.com/stator-db/stator/apps/goals/stream"
	"github.com/stator-db/stator/apps/internal/command"
	"github.com/stator-db/stator/apps/internal/home"
)

// parts holds the locations of everything outside of the application itself. With
// --data all embedded parts are in one folder:
//
//	tables/  broker/  gold/  work/  rules.db
type parts struct {
	home   home.Options
	data   string
	rules  string
	kafka  kafkaFlags
	bucket string
	state  string
	work   string
}

func (p *parts) tableFlags(f *pflag.FlagSet) {
	p.home.Flags(f)
	f.Lookup("data").Usage = "folder for embedded parts; the default is in memory"
}

func (p *parts) rulesFlag(f *pflag.FlagSet) {
	f.StringVar(&p.rules, "rules", "", "rules: a postgres:// URL or a SQLite file; the default is the built-in rules, in --data if it is set")
}

func (p *parts) bucketFlags(f *pflag.FlagSet) {
	f.StringVar(&p.bucket, "bucket", "", "bucket of the gold files, such as s3://gold?region=eu-west-1 or file:///gold; the default is gold/ in --data")
}

func (p *parts) loadFlags(f *pflag.FlagSet) {
	p.bucketFlags(f)
	f.StringVar(&p.state, "state", "", "bucket where runs record the customers in the table; the default is state/ in the bucket of the gold files")
	f.StringVar(&p.work, "work", "", "folder for a run's parts; the default is work/ in --data, or in the system's temporary folder")
}

// openTables opens the tables.
func (p *parts) openTables(ctx context.Context, log *slog.Logger) (*home.Home, error) {
	p.data = p.home.Data
	o := p.home
	o.Model, o.Log = goals.Model, log
	if o.Data != "" {
		if err := os.MkdirAll(o.Data, 0o700); err != nil {
			return nil, fmt.Errorf("make the folder of --data: %w", err)
		}
		o.Data = filepath.Join(o.Data, "tables")
	}
	return home.Open(ctx, o)
}

func (p *parts) openRules(ctx context.Context) (*rules.Source, error) {
	where := p.rules
	if where == "" && p.data != "" {
		where = filepath.Join(p.data, "rules.db")
	}
	return rules.Open(ctx, where)
}

// openKafka returns how Kafka is reached, and a function that stops the embedded
// broker.
func (p *parts) openKafka() (kafka stream.Kafka, stop func(), err error) {
	if p.kafka.addresses != "" {
		kafka, err := p.kafka.settings()
		return kafka, func() {}, err
	}
	folder := ""
	if p.data != "" {
		folder = filepath.Join(p.data, "broker")
	}
	broker, err := stream.StartBroker(folder, "", stream.DefaultTopics)
	if err != nil {
		return kafka, nil, err
	}
	return broker.Kafka(), broker.Close, nil
}

// openGold opens the bucket of the gold files.
func (p *parts) openGold(ctx context.Context) (*blob.Bucket, error) {
	where := p.bucket
	if where == "" {
		if p.data == "" {
			return nil, command.Usagef("the gold files are missing: set --bucket, or --data for gold/ in that folder")
		}
		var err error
		if where, err = folderURL(filepath.Join(p.data, "gold")); err != nil {
			return nil, err
		}
	}
	bucket, err := blob.OpenBucket(ctx, where)
	if err != nil {
		return nil, fmt.Errorf("open the bucket %s: %w", where, err)
	}
	return bucket, nil
}

// openState opens the bucket where runs record the customers in the table.
func (p *parts) openState(ctx context.Context) (*blob.Bucket, error) {
	if p.state == "" {
		// Opened again, since a prefixed bucket takes ownership of its bucket.
		gold, err := p.openGold(ctx)
		if err != nil {
			return nil, err
		}
		return blob.PrefixedBucket(gold, "state/"), nil
	}
	bucket, err := blob.OpenBucket(ctx, p.state)
	if err != nil {
		return nil, fmt.Errorf("open the bucket %s: %w", p.state, err)
	}
	return bucket, nil
}

func (p *parts) workFolder() string {
	switch {
	case p.work != "":
		return p.work
	case p.data != "":
		return filepath.Join(p.data, "work")
	}
	return filepath.Join(os.TempDir(), "goals-work")
}

// folderURL returns the URL of a folder as a bucket. Files are written to a temporary
// name first, so that no partial file is visible.
func folderURL(name string) (string, error) {
	whole, err := filepath.Abs(name)
	if err != nil {
		return "", fmt.Errorf("find %s: %w", name, err)
	}
	return "file://" + (&url.URL{Path: filepath.ToSlash(whole)}).EscapedPath() + "?create_dir=true&metadata=skip&no_tmp_dir=true", nil
}

func now() time.Time { return time.Now() }
