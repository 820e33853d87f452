// Command canned answers every request with the same bytes through package door.
// It is the upper bound of any server that uses the door; bench/ measures against
// it.
package main

import (
	"context"
	"fmt"
	"hash/crc32"
	"log/slog"
	"net"
	"net/http"
	"os"

	"github.com/stator-db/stator/internal/server/door"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "canned:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	if len(args) != 2 {
		return fmt.Errorf("usage: canned ADDRESS FILE, with the reply in the file")
	}
	reply, err := os.ReadFile(args[1])
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", args[0])
	if err != nil {
		return err
	}
	fmt.Fprintln(os.Stderr, "canned listens on http://"+listener.Addr().String())
	return door.New(cannedReply(reply), &http.Server{}, slog.New(slog.DiscardHandler)).Serve(listener)
}

type cannedReply []byte

// Accepts accepts all requests.
func (cannedReply) Accepts(*door.Request) bool { return true }

// maxBodyBytes is the limit of the API.
const maxBodyBytes = 16 << 20

// Answer reads the body and sends the reply.
func (c cannedReply) Answer(_ context.Context, r *door.Request, a *door.Reply) {
	if _, err := r.Read(maxBodyBytes, nil); err != nil {
		return
	}
	copy(a.ID[:], "CANNEDCANNEDCANNEDCANNEDCANNEDCANNEDCANNEDCANNEDCANN")
	a.Status, a.ContentType = http.StatusOK, "application/x-amz-json-1.0"
	a.Write(append(a.Memory.Empty(), c...))
	a.Checksum, a.HasChecksum = crc32.ChecksumIEEE(a.Body), true
}
