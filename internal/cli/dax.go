package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator"
	"github.com/stator-db/stator/internal/server/dax"
)

// daxFlags configure the ports for clients of DynamoDB Accelerator.
type daxFlags struct {
	addr      string
	tlsAddr   string
	advertise string
	cluster   string
	nodes     []string
}

func (f *daxFlags) add(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.StringVar(&f.addr, "dax", "", "address for clients of DynamoDB Accelerator (dax://), such as 127.0.0.1:8111; see docs/dax.md")
	flags.StringVar(&f.tlsAddr, "dax-tls", "", "address for such clients over TLS (daxs://), such as 127.0.0.1:9111, with the certificate of --tls-cert")
	flags.StringVar(&f.advertise, "dax-advertise", "", "HOST:PORT or HOST by which DAX clients reach this server; defaults to the address that they have used")
	flags.StringVar(&f.cluster, "dax-cluster-name", stator.DefaultCluster, "name of the DAX cluster, which policies name as arn:aws:dax:REGION:ACCOUNT:cache/NAME")
	flags.StringSliceVar(&f.nodes, "dax-nodes", nil, "HOST:PORT of other servers of the same cluster (--engine), which DAX clients use too; separated by commas")
}

// check returns the error of flags that do not fit together.
func (f *daxFlags) check(cmd *cobra.Command, s *serveFlags) error {
	if f.addr == "" && f.tlsAddr == "" {
		for _, name := range []string{"dax-advertise", "dax-cluster-name", "dax-nodes"} {
			if cmd.Flags().Changed(name) {
				return usageError{fmt.Errorf("--%s requires --dax or --dax-tls, the address for clients of DAX", name)}
			}
		}
		return nil
	}
	if f.tlsAddr != "" && s.access.tlsCert == "" {
		return usageError{errors.New("--dax-tls requires --tls-cert and --tls-key")}
	}
	if f.advertise != "" {
		if err := dax.CheckAddress(f.advertise, true); err != nil {
			return usageError{fmt.Errorf("--dax-advertise: %w", err)}
		}
	}
	if _, _, err := net.SplitHostPort(f.advertise); err == nil && f.addr != "" && f.tlsAddr != "" {
		return usageError{errors.New("--dax-advertise must be a host without a port if there are two ports: --dax and --dax-tls")}
	}
	if len(f.nodes) > 0 && s.engine == "" {
		return usageError{errors.New("--dax-nodes requires --engine: other servers have other data")}
	}
	for _, node := range f.nodes {
		if err := dax.CheckAddress(node, false); err != nil {
			return usageError{fmt.Errorf("--dax-nodes: %w", err)}
		}
	}
	return f.checkReachable(s)
}

// checkReachable refuses addresses that other machines can reach without keys or without TLS.
func (f *daxFlags) checkReachable(s *serveFlags) error {
	for _, a := range []struct {
		flag, addr string
		encrypted  bool
	}{{"--dax", f.addr, false}, {"--dax-tls", f.tlsAddr, true}} {
		if a.addr == "" {
			continue
		}
		host, _, err := net.SplitHostPort(a.addr)
		if err != nil {
			return usageError{fmt.Errorf("%s is %q, but must be host:port", a.flag, a.addr)}
		}
		ip, err := netip.ParseAddr(host)
		switch {
		case s.access.allowAnyone || host == "localhost" || err == nil && ip.IsLoopback():
		case !s.access.keys.given():
			return fmt.Errorf("will not listen on %s for DAX: any machine that can reach it could read and change all data, because signatures are not verified\n        add --keys FILE (stator key new makes one), or --allow-anyone to listen without", a.addr)
		case !a.encrypted:
			return fmt.Errorf("will not listen on %s for DAX: any machine between it and its clients could read all data, because connections are not encrypted\n        use --dax-tls instead of --dax, or add --allow-anyone to listen without", a.addr)
		}
	}
	return nil
}

// daxPorts are the ports for clients of DAX. Without any, its methods do nothing.
type daxPorts struct {
	flags     *daxFlags
	listeners []net.Listener
	schemes   []string // of the listeners
	server    *stator.DAX
	served    chan error
}

// listen opens the ports.
func (f *daxFlags) listen(a *accessFiles) (*daxPorts, error) {
	p := &daxPorts{flags: f}
	open := func(flag, scheme, addr string, wrap func(net.Listener) net.Listener) error {
		if addr == "" {
			return nil
		}
		l, err := net.Listen("tcp", addr)
		if err != nil {
			return fmt.Errorf("cannot listen on %s for DAX: %w\n        stop the program that uses it, or choose another address with %s", addr, err, flag)
		}
		p.listeners, p.schemes = append(p.listeners, wrap(l)), append(p.schemes, scheme)
		return nil
	}
	err := open("--dax", "dax", f.addr, func(l net.Listener) net.Listener { return l })
	if err == nil {
		err = open("--dax-tls", "daxs", f.tlsAddr, func(l net.Listener) net.Listener { return tls.NewListener(l, a.tls.config()) })
	}
	if err != nil {
		p.close()
		return nil, err
	}
	return p, nil
}

// serve answers connections from now on.
func (p *daxPorts) serve(db *stator.DB, maxConns int) (err error) {
	if len(p.listeners) == 0 {
		return nil
	}
	o := stator.DAXOptions{Cluster: p.flags.cluster, Advertise: p.flags.advertise, Nodes: p.flags.nodes, MaxConnections: maxConns}
	for i, l := range p.listeners {
		if p.schemes[i] == "dax" {
			o.Address = l.Addr().String()
		} else {
			o.TLSAddress = l.Addr().String()
		}
	}
	p.server, err = db.DAX(o)
	if err != nil {
		return usageError{err}
	}
	p.served = make(chan error, len(p.listeners))
	for _, l := range p.listeners {
		go func() { p.served <- p.server.Serve(l) }()
	}
	return nil
}

// failed returns a channel that receives the error of a port that has failed; nil if there is
// no port.
func (p *daxPorts) failed() <-chan error { return p.served }

// announce prints the addresses.
func (p *daxPorts) announce(w io.Writer) {
	for i, l := range p.listeners {
		text := ""
		if p.flags.advertise != "" {
			text = " (advertised as " + p.flags.advertise + ")"
		}
		fmt.Fprintf(w, "DAX clients connect to %s://%s%s, cluster %s\n", p.schemes[i], l.Addr(), text, p.flags.cluster)
	}
	if len(p.flags.nodes) > 0 && len(p.listeners) > 0 {
		fmt.Fprintf(w, "other DAX nodes: %s\n", strings.Join(p.flags.nodes, ", "))
	}
}

// Shutdown stops accepting connections, and finishes the requests in flight.
func (p *daxPorts) Shutdown(ctx context.Context) error {
	defer p.close()
	if p.server == nil {
		return nil
	}
	return p.server.Shutdown(ctx)
}

// Close closes all connections.
func (p *daxPorts) Close() error {
	defer p.close()
	if p.server == nil {
		return nil
	}
	return p.server.Close()
}

func (p *daxPorts) close() {
	for _, l := range p.listeners {
		_ = l.Close()
	}
}

// daxConns divides the connections of a process: it returns those for DAX, and leaves the
// others. 0 is no limit.
func daxConns(all int, used bool) (http, dax int) {
	if !used || all == 0 {
		return all, 0
	}
	dax = max(1, all/3)
	return max(1, all-dax), dax
}
