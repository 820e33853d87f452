package main

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/apps/downloads"
	"github.com/stator-db/stator/apps/downloads/seal"
	upstreamstand "github.com/stator-db/stator/apps/downloads/upstream/stand"
	"github.com/stator-db/stator/apps/internal/command"
	"github.com/stator-db/stator/apps/internal/web"
)

// serve, poll and download run all parts in one process, or one of them.
func serve() *cobra.Command {
	o := downloads.Defaults()
	return process(&o, "serve", "Run everything: schedule, poller, downloader and page")
}

func poll() *cobra.Command {
	o := downloads.Defaults()
	o.Download, o.Topic = false, ""
	return process(&o, "poll", "Run the poller and the page; downloaders are other processes")
}

func download() *cobra.Command {
	o := downloads.Defaults()
	o.Poll, o.Topic, o.Sub = false, "", ""
	return process(&o, "download", "Run a downloader; the poller is another process")
}

func process(o *downloads.Options, name, short string) *cobra.Command {
	var address web.Address
	cmd := &cobra.Command{
		Use: name, Short: short, Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.Log = command.Logger(cmd)
			switch {
			case !o.Download && o.Topic == "":
				return command.Usagef("poll needs --topic with the URL of a broker, through which downloaders receive files")
			case !o.Poll && o.Sub == "":
				return command.Usagef("download needs --subscription with the URL of a broker, to which the poller sends files")
			}
			return run(cmd.Context(), *o, address)
		},
	}
	o.Flags(cmd.Flags())
	address.Flags(cmd.Flags(), "127.0.0.1:8090")
	return cmd
}

func run(ctx context.Context, o downloads.Options, address web.Address) error {
	listener, err := address.Open()
	if err != nil {
		return err
	}
	defer listener.Close()
	s, err := downloads.Open(ctx, o)
	if err != nil {
		return err
	}
	o.Log.Info("ready", "page", "http://"+listener.Addr().String(), "dynamodb", s.Home.Address)
	return errors.Join(s.Run(ctx, listener), s.Close())
}

// demo runs everything, with an upstream that misbehaves.
func demo() *cobra.Command {
	var listen, data, dynamodb string
	var files, size int
	var pace time.Duration
	cmd := &cobra.Command{
		Use: "demo", Short: "Run everything with a built-in upstream, and start today's batch", Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			log := command.Logger(cmd)
			o := downloads.Defaults()
			o.Log = log
			o.Home.DynamoDB = dynamodb
			// Few at a time, so that some wait, and heartbeats that show progress.
			o.Parallel, o.Lease = 4, 9*time.Second
			if pace == 0 {
				o.Parallel = downloads.Defaults().Parallel
			}
			return runDemo(cmd.Context(), log, o, listen, data, upstreamstand.Options{Seed: "demo", Files: files, Size: size, Pace: pace, Pause: 20 * time.Millisecond})
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:8090", "address of the page")
	cmd.Flags().StringVar(&data, "data", "", "folder of tables, files and key (default a temporary folder, which is removed)")
	cmd.Flags().StringVar(&dynamodb, "dynamodb", "127.0.0.1:8000", "address on which the embedded stator listens")
	cmd.Flags().IntVar(&files, "files", 10, "files per day")
	cmd.Flags().IntVar(&size, "size", 300_000, "approximate size of a file in bytes")
	cmd.Flags().DurationVar(&pace, "pace", 8*time.Second, "how long a file takes; 0 is as fast as possible")
	return cmd
}

func runDemo(ctx context.Context, log *slog.Logger, o downloads.Options, listen, data string, up upstreamstand.Options) error {
	if data == "" {
		folder, err := os.MkdirTemp("", "downloads")
		if err != nil {
			return err
		}
		defer func() { _ = os.RemoveAll(folder) }() // the system cleans its temporary folder as well
		data = folder
	}
	data, err := filepath.Abs(data)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(data, 0o700); err != nil {
		return err
	}
	o.KeyFile = filepath.Join(data, "key.pem")
	key, err := seal.ReadKey(o.KeyFile)
	if errors.Is(err, os.ErrNotExist) {
		key, err = seal.MakeKey(o.KeyFile)
	}
	if err != nil {
		return err
	}
	up.Key = &key.PublicKey
	u := upstreamstand.New(up)
	for entity, f := range map[string]string{"accounts": "slow", "balances": "broken", "cards": "expired", "customers": "truncated", "payments": "unavailable", "holdings": "forgedkey"} {
		if err := u.Fault(entity, f, 1); err != nil {
			return err
		}
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	running, stop := context.WithCancel(ctx)
	served := make(chan error, 1)
	go func() { served <- web.Serve(running, listener, u, slog.New(slog.DiscardHandler)) }()
	defer func() { stop(); <-served }()
	log.Info("the built-in upstream is ready", "url", "http://"+listener.Addr().String())
	o.Upstream = "http://" + listener.Addr().String()
	o.Home.Data = filepath.Join(data, "tables")
	o.Bucket = "file://" + filepath.Join(data, "files")
	o.Every, o.Schedule = time.Second, "00:00"
	return run(ctx, o, web.Address{Listen: listen})
}

// stand runs the upstream alone.
func stand() *cobra.Command {
	var listen, key string
	var o upstreamstand.Options
	var faults []string
	cmd := &cobra.Command{
		Use: "upstream", Short: "Run an upstream for tests, which misbehaves on request", Args: command.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			public, err := readPublic(key)
			if err != nil {
				return err
			}
			o.Key = public
			u := upstreamstand.New(o)
			for _, f := range faults {
				if err := plant(u, f); err != nil {
					return command.Usage(err)
				}
			}
			listener, err := web.Listen(listen, false)
			if err != nil {
				return err
			}
			log := command.Logger(cmd)
			log.Info("ready", "url", "http://"+listener.Addr().String())
			return web.Serve(cmd.Context(), listener, u, log)
		},
	}
	cmd.Flags().StringVar(&listen, "listen", "127.0.0.1:8091", "address")
	cmd.Flags().StringVar(&key, "key", "key.pem", "PEM file of the RSA key, private or public, for which files are encrypted")
	cmd.Flags().StringVar(&o.Seed, "seed", "demo", "seed of the files' contents")
	cmd.Flags().IntVar(&o.Files, "files", 10, "files per day")
	cmd.Flags().IntVar(&o.Size, "size", 300_000, "approximate size of a file in bytes")
	cmd.Flags().DurationVar(&o.Expiry, "expiry", 30*time.Minute, "lifetime of pre-signed URLs")
	cmd.Flags().DurationVar(&o.Pause, "pause", 20*time.Millisecond, "pause between the pieces of a slow file")
	cmd.Flags().StringArrayVar(&faults, "fault", nil, "misbehave: ENTITY=FAULT or ENTITY=FAULT:TIMES, such as accounts=slow:3")
	return cmd
}

func plant(u *upstreamstand.Stand, text string) error {
	of, what, ok := strings.Cut(text, "=")
	name, number, counted := strings.Cut(what, ":")
	times := 1
	if counted {
		n, err := strconv.Atoi(number)
		if err != nil {
			return fmt.Errorf("--fault %q: %q is not a number of times", text, number)
		}
		times = n
	}
	if !ok {
		return fmt.Errorf("--fault %q: write it as accounts=slow or accounts=slow:3", text)
	}
	return u.Fault(of, name, times)
}

func readPublic(file string) (*rsa.PublicKey, error) {
	if text, err := os.ReadFile(file); err == nil {
		if block, _ := pem.Decode(text); block != nil && block.Type == "PUBLIC KEY" {
			any, err := x509.ParsePKIXPublicKey(block.Bytes)
			if public, ok := any.(*rsa.PublicKey); err == nil && ok {
				return public, nil
			}
		}
	}
	key, err := seal.ReadKey(file)
	if err != nil {
		return nil, err
	}
	return &key.PublicKey, nil
}

// makeKey creates an RSA key and prints its public half, for the upstream.
func makeKey() *cobra.Command {
	return &cobra.Command{
		Use: "key FILE", Short: "Create a private RSA key, and print the public one for the upstream", Args: command.Args(1, "a file"),
		RunE: func(cmd *cobra.Command, args []string) error {
			if _, err := os.Stat(args[0]); err == nil {
				return fmt.Errorf("%s exists, and a key is not overwritten", args[0])
			}
			key, err := seal.MakeKey(args[0])
			if err != nil {
				return err
			}
			der, err := x509.MarshalPKIXPublicKey(&key.PublicKey)
			if err != nil {
				return err
			}
			return pem.Encode(cmd.OutOrStdout(), &pem.Block{Type: "PUBLIC KEY", Bytes: der})
		},
	}
}
