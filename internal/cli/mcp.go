package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/internal/mcp"
	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/model/apply"
	"github.com/stator-db/stator/internal/model/prove"
)

// mcpFlags are the flags of stator mcp.
type mcpFlags struct {
	endpointFlags
	model, http, tokenFile string
	allow                  []string
}

func mcpCommand() *cobra.Command {
	var f mcpFlags
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Serve the Model Context Protocol: tools for coding agents",
		Long: `Serve the Model Context Protocol on stdin and stdout, or with --http on a loopback port: tools
with which a coding agent reads the tables of a running server, and checks a design. With
--allow it may do more: forks lets it make forks and write to these only, write lets it write items,
tables lets it create, change and delete tables. Requests are signed with AWS_ACCESS_KEY_ID and
AWS_SECRET_ACCESS_KEY, so the server's policies for that key hold. docs/mcp.md has the tools.

  stator mcp --endpoint http://127.0.0.1:8000 --model shop.model.yaml
  stator mcp --endpoint http://127.0.0.1:8000 --allow forks --http 127.0.0.1:8003

Over HTTP a client needs the token in --token-file, which is made at the first start.`,
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return f.run(cmd.Context(), cmd.InOrStdin(), cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	f.add(cmd, "URL of the server")
	flags := cmd.Flags()
	flags.StringVar(&f.model, "model", "", "file of an access-pattern model; adds the tools about it")
	flags.StringSliceVar(&f.allow, "allow", nil, "what to allow beyond reading: forks, write, tables; may be repeated")
	flags.StringVar(&f.http, "http", "", "loopback `ADDRESS` to serve HTTP on, such as 127.0.0.1:8003, instead of stdin and stdout; port 0 chooses a free port")
	flags.StringVar(&f.tokenFile, "token-file", "", "file with the token of --http; defaults to stator/mcp.token in your configuration folder")
	return cmd
}

func (f *mcpFlags) run(ctx context.Context, stdin io.Reader, stdout, stderr io.Writer) error {
	o, err := f.options(stderr)
	if err != nil {
		return err
	}
	if f.http == "" && f.tokenFile != "" {
		return usageError{errors.New("--token-file is for --http")}
	}
	if f.http != "" {
		return f.serve(ctx, o, stderr)
	}
	return mcp.New(o).Run(ctx, io.NopCloser(stdin), writeCloser{stdout})
}

// writeCloser is a writer that is not closed.
type writeCloser struct{ io.Writer }

func (writeCloser) Close() error { return nil }

func (f *mcpFlags) options(stderr io.Writer) (o mcp.Options, err error) {
	for _, name := range f.allow {
		g := mcp.Group(strings.TrimSpace(name))
		if !slices.Contains(mcp.Groups, g) {
			return o, usageError{fmt.Errorf("--allow is %q, but must be forks, write or tables", name)}
		}
		o.Allow = append(o.Allow, g)
	}
	if o.Endpoint, err = f.open(); err != nil {
		return o, err
	}
	if f.model != "" {
		o.ReadModel = func() (*model.Model, error) { return readModel(f.model) }
		if _, err := o.ReadModel(); err != nil {
			return o, err
		}
	}
	o.Version, o.Log = version().Version, slog.New(slog.NewTextHandler(stderr, nil))
	o.Private = func(ctx context.Context) (*apply.Endpoint, func() error, error) {
		endpoint, stop, err := servePrivately(ctx)
		if err != nil {
			return nil, nil, err
		}
		return clientOf(endpoint, f.region), stop, nil
	}
	o.Prove = func(ctx context.Context, m *model.Model) (_ *prove.Report, err error) {
		private := proveFlags{endpointFlags: endpointFlags{region: f.region}}
		s, err := private.openSession(ctx, m, io.Discard)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, s.close(ctx)) }()
		return s.run(ctx)
	}
	o.Activity = func(ctx context.Context, e *apply.Endpoint) (any, error) { return activity(ctx, e) }
	return o, nil
}

// serve serves HTTP until the context ends.
func (f *mcpFlags) serve(ctx context.Context, o mcp.Options, stderr io.Writer) error {
	if host, _, err := net.SplitHostPort(f.http); err != nil || !isLoopbackName(host) {
		return usageError{fmt.Errorf("--http is %q, but must be a loopback address such as 127.0.0.1:8003: whoever reaches it and has the token could use your credentials", f.http)}
	}
	path := f.tokenFile
	if path == "" {
		dir, err := os.UserConfigDir()
		if err != nil {
			return usageError{fmt.Errorf("--token-file must name a file: %w", err)}
		}
		path = filepath.Join(dir, "stator", "mcp.token")
	}
	token, err := mcp.Token(path)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", f.http)
	if err != nil {
		return fmt.Errorf("cannot listen on %s: %w\n        stop the program that uses it, or choose another address with --http", f.http, err)
	}
	served := mcp.New(o)
	web := &http.Server{Handler: served.Handler(token), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, WriteTimeout: 2 * time.Minute,
		IdleTimeout: 3 * time.Minute, MaxHeaderBytes: 32 << 10, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)}
	stop := context.AfterFunc(ctx, func() { _ = web.Close() })
	defer stop()
	fmt.Fprintf(stderr, "serving the Model Context Protocol of %s at\n  http://%s%s\nto clients with the token in %s\n", f.endpoint, listener.Addr(), mcp.Path, path)
	err = web.Serve(listener)
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	}
	return errors.Join(err, served.Close())
}
