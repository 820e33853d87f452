package home

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"time"
)

// listen serves the embedded stator to other processes of this machine.
func (h *Home) listen(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("--dynamodb is %q, but must be host:port", address)
	}
	if ip, err := netip.ParseAddr(host); host != "localhost" && (err != nil || !ip.IsLoopback()) {
		return fmt.Errorf("will not listen on %s: every client that reaches the embedded stator can read and change all data; choose a loopback address, such as 127.0.0.1:8000", address)
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listen for the embedded stator: %w", err)
	}
	h.Address = listener.Addr().String()
	h.server = &http.Server{Handler: h.Stator.Handler(), ReadHeaderTimeout: 10 * time.Second, ReadTimeout: time.Minute, IdleTimeout: 3 * time.Minute}
	go func() { _ = h.server.Serve(listener) }() // ends with Shutdown
	return nil
}
