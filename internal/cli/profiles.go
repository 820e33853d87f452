package cli

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"time"

	"github.com/stator-db/stator/internal/server"
)

// serveProfiles serves profiles of the process on an address of their own, until stop is
// called; an empty address serves none. They contain parts of the data, so the address must
// be a loopback one.
func serveProfiles(addr string, stderr io.Writer, log *slog.Logger) (stop func(), err error) {
	if addr == "" {
		return func() {}, nil
	}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, usageError{fmt.Errorf("--pprof is %q, but must be host:port", addr)}
	}
	if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
		return nil, usageError{fmt.Errorf("--pprof is %s, but must be a loopback address, such as 127.0.0.1:6060: anyone who can reach it could\n"+
			"        read parts of the data from memory and slow the server down; to reach it from elsewhere, use a tunnel\n"+
			"        such as ssh -L or kubectl port-forward", addr)}
	}
	listener, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("cannot listen on %s: %w\n        stop the program that uses it, or choose another address with --pprof", addr, err)
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	web := &http.Server{Handler: server.OnlyPrivate(mux), ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug)}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = web.Serve(listener) // it ends with stop
	}()
	fmt.Fprintf(stderr, "profiles are on http://%s/debug/pprof/\n", listener.Addr())
	return func() {
		_ = web.Close()
		<-ended
	}, nil
}
