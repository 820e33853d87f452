// Package web has the HTTP parts that the applications share: it serves until it
// is stopped, reads and writes JSON, formats errors, and updates live pages.
package web

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/spf13/pflag"
)

// Address is the address that an application serves on.
type Address struct {
	Listen string
	Anyone bool // whether other machines may reach it
}

// Flags adds the flags --listen, with a default, and --allow-anyone.
func (a *Address) Flags(f *pflag.FlagSet, listen string) {
	f.StringVar(&a.Listen, "listen", listen, "address of the API, the pages and /metrics")
	f.BoolVar(&a.Anyone, "allow-anyone", false, "let --listen be an address that other machines can reach")
}

// Open opens the address for listening.
func (a *Address) Open() (net.Listener, error) { return Listen(a.Listen, a.Anyone) }

// Registry returns a metrics registry with the metrics of the process.
func Registry() *prometheus.Registry {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return r
}

// Listen opens an address for listening. It refuses an address that other
// machines can reach, unless anyone is true.
func Listen(address string, anyone bool) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("the address is %q, but must be host:port", address)
	}
	if ip, err := netip.ParseAddr(host); !anyone && host != "localhost" && (err != nil || !ip.IsLoopback()) {
		return nil, fmt.Errorf("will not listen on %s: other machines could reach it; add --allow-anyone if that is what you want", address)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
	}
	return listener, nil
}

// Serve serves requests until the context ends. It then gives the requests in
// progress some seconds; their contexts end after the first second, so that long
// polls and live pages return. A handler that panics is logged as an error, with its
// stack.
func Serve(ctx context.Context, listener net.Listener, handler http.Handler, log *slog.Logger) error {
	requests, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	server := &http.Server{
		Handler:           recovered(secured(handler), log),
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       2 * time.Minute,
		IdleTimeout:       3 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		BaseContext:       func(net.Listener) context.Context { return requests },
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		return err
	case <-ctx.Done():
	}
	log.Info("stopping: waiting for requests in progress")
	time.AfterFunc(time.Second, stop)
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 8*time.Second)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		log.Warn("some requests took too long and were cancelled")
		return server.Close()
	}
	if err := <-served; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// secured sets headers of all replies: a page loads nothing from other origins and
// cannot be framed, and other origins cannot send requests.
func secured(handler http.Handler) http.Handler {
	handler = http.NewCrossOriginProtection().Handler(handler)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self' data:; connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		handler.ServeHTTP(w, r)
	})
}

// Operate adds /metrics and /healthz.
func Operate(mux *http.ServeMux, metrics prometheus.Gatherer, healthy func(context.Context) error) {
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		if err := healthy(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		w.Write([]byte("ok\n"))
	})
}
