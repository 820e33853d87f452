package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/internal/db/cache"
)

// cacheFlags are the flags of the cache with the rules of DAX. --cache is that of the
// storage engine.
type cacheFlags struct {
	http, dax         string // modes
	itemTTL, queryTTL time.Duration
	sizeMB            int64
}

func (f *cacheFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.dax, "dax-mode", "", "cache of requests of DAX clients: dax (stale as DAX is), coherent (never stale) or off; defaults to --http-cache if that is not off, and to dax; see docs/cache.md")
	flags.StringVar(&f.http, "http-cache", string(cache.Off), "cache of requests over HTTP, with the same rules: dax, coherent or off")
	durationVar(cmd, &f.itemTTL, "dax-item-ttl", cache.DefaultTTL, "how long items are cached; with 0 until they are written through the cache or evicted")
	durationVar(cmd, &f.queryTTL, "dax-query-ttl", cache.DefaultTTL, "how long the results of queries and scans are cached; 0 does not cache them")
	flags.Int64Var(&f.sizeMB, "dax-cache-size", cache.DefaultBytes>>20, "size of that cache in MB")
}

// options returns the cache that the flags ask for; nil if they ask for none.
func (f *cacheFlags) options(cmd *cobra.Command, ports *daxFlags) (*stator.Cache, error) {
	http, err := cache.ParseMode(f.http)
	if err != nil {
		return nil, usageError{fmt.Errorf("--http-cache: %w", err)}
	}
	dax := cache.Off
	switch hasPort := ports.addr != "" || ports.tlsAddr != ""; {
	case f.dax != "" && !hasPort:
		return nil, usageError{fmt.Errorf("--dax-mode requires --dax or --dax-tls, the address for clients of DAX; --http-cache %s is for requests over HTTP", f.dax)}
	case f.dax != "":
		if dax, err = cache.ParseMode(f.dax); err != nil {
			return nil, usageError{fmt.Errorf("--dax-mode: %w", err)}
		}
	case hasPort && http != cache.Off:
		dax = http
	case hasPort:
		dax = cache.DAX
	}
	switch {
	case f.sizeMB < 1:
		return nil, usageError{fmt.Errorf("--dax-cache-size is %d, but must be at least 1 MB", f.sizeMB)}
	case http != cache.Off && dax != cache.Off && http != dax:
		return nil, usageError{fmt.Errorf("--http-cache %s and --dax-mode %s cannot be combined: there is one cache; make them the same, or one of them off", http, dax)}
	case http == cache.Off && dax == cache.Off:
		for _, name := range []string{"dax-item-ttl", "dax-query-ttl", "dax-cache-size"} {
			if cmd.Flags().Changed(name) {
				return nil, usageError{fmt.Errorf("--%s requires a cache: --http-cache dax or coherent, or --dax", name)}
			}
		}
		return nil, nil
	}
	mode := dax
	if mode == cache.Off {
		mode = http
	}
	return &stator.Cache{Mode: mode, ItemTTL: f.itemTTL, QueryTTL: f.queryTTL, Bytes: f.sizeMB << 20, HTTP: http != cache.Off, DAX: dax != cache.Off, Cluster: ports.cluster}, nil
}
