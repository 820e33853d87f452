package dax

import (
	"context"
	"fmt"
	"hash/fnv"
	"net"
	"net/netip"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"

	protocol "github.com/stator-db/stator/internal/protocol/dax"
)

// endpoints returns the nodes of the cluster, as a client sees them that has connected to an
// address. This node is the leader: all nodes use the same storage, so that each can write. A
// client whose leader does not answer finds another one at any other node.
func (n *Node) endpoints(ctx context.Context, local net.Addr) (*protocol.EndpointsReply, error) {
	self, err := advertised(n.options.Advertise, local)
	if err != nil {
		return nil, err
	}
	reply := new(protocol.EndpointsReply)
	for i, address := range append([]string{self}, n.options.Others...) {
		if i > 0 && address == self {
			continue
		}
		node, err := n.endpoint(ctx, address)
		if err != nil {
			if i == 0 {
				return nil, err
			}
			n.options.Log.Warn("a DAX node is left out: its address cannot be looked up", "node", address, "error", err)
			continue
		}
		node.Leader = i == 0
		reply.Nodes = append(reply.Nodes, node)
	}
	return reply, nil
}

// hostName matches the names of hosts: parts of letters, digits, hyphens and underscores.
var hostName = regexp.MustCompile(`^([A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.)*[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?\.?$`)

// CheckAddress returns an error if clients cannot connect to the address of a node, which is
// host:port, or only a host if that is allowed. It looks nothing up.
func CheckAddress(address string, hostAllowed bool) error {
	forms := "HOST:PORT"
	if hostAllowed {
		forms = "HOST:PORT or HOST"
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil && hostAllowed && (!strings.Contains(address, ":") || net.ParseIP(address) != nil) {
		host, port, err = address, "1", nil
	}
	if err != nil {
		return fmt.Errorf("%q is not the address of a DAX node: it must be %s", address, forms)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("%q is not the address of a DAX node: its port %q is not a number from 1 to 65535", address, port)
	}
	ip, err := netip.ParseAddr(host)
	switch {
	case err == nil && ip.IsUnspecified():
		return fmt.Errorf("%q is not the address of a DAX node: clients cannot connect to %s", address, host)
	case err == nil && ip.Zone() != "":
		return fmt.Errorf("%q is not the address of a DAX node: clients get no zone of an address", address)
	case err != nil && (len(host) > 253 || !hostName.MatchString(host) || isNumeric(host)):
		return fmt.Errorf("%q is not the address of a DAX node: %q is neither the name of a host nor an IP address; it must be %s", address, host, forms)
	}
	return nil
}

// isNumeric reports whether a host that is not an IP address looks like one, such as 10.0.0.256.
func isNumeric(host string) bool { return strings.Trim(host, "0123456789.") == "" }

// advertised returns the address of this node for a client.
func advertised(configured string, local net.Addr) (string, error) {
	host, port, err := net.SplitHostPort(local.String())
	if err != nil {
		return "", fmt.Errorf("the address %s of a connection has no port: %w", local, err)
	}
	if configured == "" {
		return net.JoinHostPort(host, port), nil
	}
	if _, _, err := net.SplitHostPort(configured); err == nil {
		return configured, nil
	}
	return net.JoinHostPort(configured, port), nil
}

// endpoint returns a node by its address.
func (n *Node) endpoint(ctx context.Context, address string) (protocol.Endpoint, error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return protocol.Endpoint{}, err
	}
	port, err := strconv.ParseUint(text, 10, 16)
	if err != nil {
		return protocol.Endpoint{}, err
	}
	ip, err := n.names.find(ctx, host)
	if err != nil {
		return protocol.Endpoint{}, err
	}
	id := fnv.New32a()
	_, _ = id.Write([]byte(address))
	return protocol.Endpoint{
		ID: int64(id.Sum32() >> 1), Hostname: host, Address: ip, Port: int(port), Zone: zone, LeaderSession: n.session,
	}, nil
}

// zone is the availability zone of all nodes.
const zone = "stator"

// hostNames are the addresses of hosts, which are looked up at most once in a while.
type hostNames struct {
	lookup func(ctx context.Context, host string) ([]net.IP, error)
	now    func() time.Time

	mu    sync.Mutex
	found map[string]foundHost // those of the options, and those that clients have connected to
}

type foundHost struct {
	ip net.IP
	at time.Time
}

const (
	lookupTime  = 2 * time.Second  // for one lookup
	lookupEvery = 10 * time.Second // for one host; clients ask every four seconds
)

// find returns the address of a host in 4 or 16 bytes. While a name cannot be looked up, its
// last address is used.
func (h *hostNames) find(ctx context.Context, host string) (net.IP, error) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return net.IP(addr.Unmap().AsSlice()), nil
	}
	h.mu.Lock()
	last, ok := h.found[host]
	h.mu.Unlock()
	if ok && h.now().Sub(last.at) < lookupEvery {
		return last.ip, nil
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	ips, err := h.lookup(ctx, host)
	if err != nil || len(ips) == 0 {
		if ok {
			return last.ip, nil
		}
		return nil, fmt.Errorf("no address of %s was found: %w", host, err)
	}
	ip := ips[0]
	for _, candidate := range ips { // IPv4 first: clients prefer it
		if v4 := candidate.To4(); v4 != nil {
			ip = v4
			break
		}
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.found == nil {
		h.found = make(map[string]foundHost)
	}
	h.found[host] = foundHost{ip, h.now()}
	return ip, nil
}
