package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/internal/process"
	"github.com/stator-db/stator/internal/server"
	"github.com/stator-db/stator/internal/server/door"
	"github.com/stator-db/stator/internal/store/pebble"
)

func standbyCommand() *cobra.Command {
	var f serveFlags
	var of, region string
	cmd := &cobra.Command{
		Use:   "standby",
		Short: "Follow a server, to take its place",
		Long: `Copy the data of a running server and follow its changes, to take its place.

The standby answers GET /healthz (503), GET /metrics and GET /standby, which show
how far it is behind, and rejects all requests of the DynamoDB API until it is
promoted:

  stator standby --of http://primary:8000 --data standby-data --addr 127.0.0.1:8001
  stator promote --endpoint http://127.0.0.1:8001

Writes are acknowledged by the server before the standby has them. What the
standby has not received when it is promoted is not in its data.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if u, err := url.Parse(of); err != nil || u.Host == "" {
				return usageError{fmt.Errorf("--of is %q, but must be the URL of a server, such as http://127.0.0.1:8000", of)}
			}
			if err := checkAllowPlain(f.allowPlain, f.key); err != nil {
				return err
			}
			if f.access.keys.database && f.access.keys.file == "" {
				return usageError{errors.New("--keys database requires --keys FILE, too: a standby does not use the keys of the database before it is promoted")}
			}
			if err := f.checkOperation(cmd); err != nil {
				return err
			}
			return followServer(cmd.Context(), &f, of, region, cmd.ErrOrStderr())
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&of, "of", "", "URL of the server to follow")
	flags.StringVar(&region, "region", "us-east-1", "region to sign the requests to it for")
	flags.StringVar(&f.addr, "addr", "127.0.0.1:8001", "address to listen on; port 0 chooses a free port")
	flags.StringVar(&f.data, "data", "stator-standby", "data folder of the standby; created if it does not exist")
	flags.StringVar(&f.backups, "backups", "", "folder or URL (file://, s3://) for backups once it is promoted; defaults to the name of the data folder followed by -backups")
	encryptionKeyVar(cmd, &f.key, "encrypt the data folder of the standby, and backups once it is promoted, with a key")
	allowPlainVar(cmd, &f.allowPlain)
	flags.Int64Var(&f.cacheMB, "cache", defaultCacheMB(process.AvailableMemory()), "size of the cache in MB; defaults to a sixteenth of the machine's memory, from 64 to 1024")
	flags.StringVar(&f.log, "log", "info", "log level: debug, info, warn or error")
	f.addOperation(cmd)
	f.access.add(cmd)
	flags.StringArrayVar(&f.allowHosts, "allow-host", nil, "public host name by which clients reach the standby, *.name for all names below one, or * for all; can be repeated")
	return cmd
}

// followServer runs a standby until the context ends.
func followServer(ctx context.Context, f *serveFlags, of, region string, stderr io.Writer) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(f.log)); err != nil {
		return usageError{fmt.Errorf("--log is %q, but must be debug, info, warn or error", f.log)}
	}
	memory := process.AvailableMemory()
	if most := maxCacheBytes(memory) >> 20; f.cacheMB < 1 || f.cacheMB > most {
		return usageError{fmt.Errorf("--cache is %d MB, but must be from 1 to %d: three quarters of the machine's memory", f.cacheMB, most)}
	}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	listener, access, err := listen(f, log)
	if err != nil {
		return err
	}
	defer access.close()
	defer listener.Close()
	stopProfiles, err := serveProfiles(f.pprof, stderr, log)
	if err != nil {
		return err
	}
	defer stopProfiles()
	process.SpareThreads()
	process.LimitHeap(memoryLimit(f.cacheMB<<20, memory) - pebble.OutsideHeap(f.cacheMB<<20))
	s, err := stator.OpenStandby(ctx, stator.StandbyOptions{
		Options: stator.Options{Dir: f.data, Backups: f.backups, EncryptionKey: f.key, AllowPlainBackups: f.allowPlain, CacheBytes: f.cacheMB << 20, Log: log, AllowedHosts: allowedHosts(f), Access: access.access, Region: f.access.region, TraceEndpoint: f.otlpEndpoint, TraceSample: f.traceSample, Audit: f.audit, AuditBytes: f.auditMB << 20, AuditKeep: f.auditKeep},
		Of:      of, Sign: signFor(region), Client: serverClient(0),
	})
	if err != nil {
		return cannotOpen(f.data, err)
	}
	starting := s.Handler().(*server.Starting)
	web := &http.Server{
		Handler:           starting,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       60 * time.Second,
		IdleTimeout:       3 * time.Minute,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	front := door.New(starting, web, log)
	served := make(chan error, 1)
	go func() { served <- front.Serve(listener) }()
	fmt.Fprintf(stderr, "standby of %s listens on %s://%s\n", of, access.scheme(), listener.Addr())
	select {
	case err = <-served:
	case <-ctx.Done():
		err = shutDown(starting.Drain, f.shutdownDelay, log, front)
	}
	if closeErr := s.Close(); closeErr != nil {
		err = errors.Join(err, fmt.Errorf("close the data: %w", closeErr))
	}
	return err
}

func promoteCommand() *cobra.Command {
	var endpoint, region string
	cmd := &cobra.Command{
		Use:   "promote",
		Short: "Make a standby take the place of its server",
		Long: `Make a standby take the place of its server.

It stops following, for ever, and serves the DynamoDB API with the data that it
has. Stop the old server first if it still runs: nothing else keeps clients from
writing to it. The old server's folder is not used any more; a new standby of the
promoted one copies everything.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if u, err := url.Parse(endpoint); err != nil || u.Host == "" {
				return usageError{fmt.Errorf("--endpoint is %q, but must be the URL of a standby, such as http://127.0.0.1:8001", endpoint)}
			}
			s, err := promote(cmd.Context(), endpoint, region)
			if errors.Is(err, errNotStandby) {
				fmt.Fprintf(cmd.OutOrStdout(), "nothing to promote: %s is not a standby (any more), and serves requests\n", endpoint)
				return nil
			}
			if err != nil {
				return fmt.Errorf("cannot promote %s: %w", endpoint, err)
			}
			fmt.Fprint(cmd.OutOrStdout(), promotionReport(s))
			return nil
		},
	}
	cmd.Flags().StringVar(&endpoint, "endpoint", "http://127.0.0.1:8001", "URL of the standby")
	cmd.Flags().StringVar(&region, "region", "us-east-1", "region to sign the request for")
	return cmd
}

// promotionReport says what a standby with this status has, and what it lacks.
func promotionReport(s stator.StandbyStatus) string {
	text := fmt.Sprintf("promoted: it was %s, and has all that %s had acknowledged %.1f seconds before; later writes may be missing\n", s.State, s.Of, s.LagSeconds)
	if !s.HasLag() {
		text = fmt.Sprintf("promoted: it was %s; which of the last writes of %s are missing is unknown", s.State, s.Of)
		if s.LagUnknown {
			text += ", as the clock was set back"
		}
		text += "\n"
	}
	if s.LagBytes > 0 {
		text += fmt.Sprintf("of these it knew about %d bytes that it had not received\n", s.LagBytes)
	}
	if s.Error != "" {
		text += fmt.Sprintf("it could not follow: %s\n", s.Error)
	}
	return text
}

// errNotStandby is returned for a server that serves already.
var errNotStandby = errors.New("the server is not a standby")

// promote sends the request to promote a standby.
func promote(ctx context.Context, endpoint, region string) (s stator.StandbyStatus, err error) {
	body := []byte("{}")
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, endpoint, bytes.NewReader(body))
	if err != nil {
		return s, err
	}
	req.Header.Set("X-Amz-Target", server.TargetPromote)
	req.Header.Set("Content-Type", "application/x-amz-json-1.0")
	if err := signFor(region)(req, body); err != nil {
		return s, err
	}
	resp, err := serverClient(0).Do(req)
	if err != nil {
		return s, err
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	if err != nil {
		return s, err
	}
	if resp.StatusCode == http.StatusConflict && bytes.Contains(text, []byte(server.CodeNotStandby)) {
		return s, errNotStandby
	}
	if resp.StatusCode != http.StatusOK {
		return s, fmt.Errorf("the server answers %s: %s", resp.Status, bytes.TrimSpace(text))
	}
	return s, json.Unmarshal(text, &s)
}
