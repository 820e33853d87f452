package stator

import (
	"context"
	"fmt"
	"net"
	"regexp"

	"github.com/stator-db/stator/internal/metrics"
	"github.com/stator-db/stator/internal/ops"
	"github.com/stator-db/stator/internal/server"
	"github.com/stator-db/stator/internal/server/dax"
)

// DefaultCluster is the name of the DAX cluster of a server that does not have another.
const DefaultCluster = "stator"

// DAXOptions configure a server for clients of DynamoDB Accelerator; see docs/dax.md.
type DAXOptions struct {
	// Cluster is the name of the cluster in the ARN that policies name; it defaults to
	// DefaultCluster.
	Cluster string

	// Advertise is the address by which clients reach the server: host:port, or a host alone
	// for the port that a client has used. It defaults to the address that a client has used.
	Advertise string

	// Nodes are the addresses (host:port) of other servers of the same data, which clients use
	// for reads too, and for writes when this one does not answer.
	Nodes []string

	// Address and TLSAddress are host:port of the listeners without and with TLS, which the
	// control plane shows as the endpoints of clusters, with Advertise in place of the host if it is
	// set; see docs/dax-control-plane.md.
	Address, TLSAddress string

	// MaxConnections is how many connections are open at once; it defaults to 4,096.
	MaxConnections int
}

// DAX is a server for clients of DynamoDB Accelerator.
type DAX struct{ node *dax.Node }

// ErrDAXClosed is returned by DAX.Serve after Shutdown or Close.
var ErrDAXClosed = dax.ErrClosed

// clusterName matches the names that a DAX cluster may have.
var clusterName = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9-]{0,254}$`)

// DAX returns a server for clients of DynamoDB Accelerator, with the keys and policies of the
// database. The caller shuts it down before it closes the database.
func (s *DB) DAX(o DAXOptions) (*DAX, error) {
	if o.Cluster == "" {
		o.Cluster = DefaultCluster
	}
	if !clusterName.MatchString(o.Cluster) {
		return nil, fmt.Errorf("%q cannot be the name of a DAX cluster: it must have letters, digits and hyphens, and begin with a letter", o.Cluster)
	}
	for _, address := range o.Nodes {
		if err := dax.CheckAddress(address, false); err != nil {
			return nil, err
		}
	}
	if o.Advertise != "" {
		if err := dax.CheckAddress(o.Advertise, true); err != nil {
			return nil, err
		}
	}
	node := dax.NewNode(dax.NodeOptions{
		Handler: s.handler.(*server.Handler), Cluster: "arn:aws:dax:" + s.region + ":" + ops.DefaultAccount + ":cache/" + o.Cluster,
		Advertise: o.Advertise, Others: o.Nodes, MaxConns: o.MaxConnections, Log: s.log,
	})
	s.dax.Store(node)
	s.daxPort.Store(&ops.DAXPort{Address: advertised(o.Address, o.Advertise), TLSAddress: advertised(o.TLSAddress, o.Advertise)})
	if err := s.handler.(*server.Handler).Service().ApplyDAXParameters(context.Background()); err != nil {
		return nil, fmt.Errorf("read the parameters of the DAX cluster: %w", err)
	}
	return &DAX{node}, nil
}

// advertised returns the address of a listener as clients reach it.
func advertised(address, as string) string {
	if _, _, err := net.SplitHostPort(as); err == nil && address != "" {
		return as
	}
	if _, port, err := net.SplitHostPort(address); err == nil && as != "" {
		return net.JoinHostPort(as, port)
	}
	return address
}

// shownDAXPort returns the port that the control plane of DAX shows.
func (s *DB) shownDAXPort() (port ops.DAXPort) {
	if known := s.daxPort.Load(); known != nil {
		port = *known
		if c := s.daxCache; c != nil && c.DAX {
			port.Cached, port.ItemTTL, port.QueryTTL = true, c.ItemTTL, c.QueryTTL
		}
	}
	return port
}

// Serve accepts connections, until Shutdown or Close; it then returns ErrDAXClosed. It may be
// called for several listeners.
func (d *DAX) Serve(l net.Listener) error { return d.node.Serve(l) }

// Shutdown closes idle connections, and waits until requests in flight are answered.
func (d *DAX) Shutdown(ctx context.Context) error { return d.node.Shutdown(ctx) }

// Close closes all connections.
func (d *DAX) Close() error { return d.node.Close() }

// daxMetrics returns the metrics of the server for clients of DynamoDB Accelerator, if there is
// one.
func (s *DB) daxMetrics() []metrics.Metric {
	if node := s.dax.Load(); node != nil {
		return node.Metrics()
	}
	return nil
}
