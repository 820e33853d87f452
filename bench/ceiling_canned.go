package main

import (
	"context"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
)

// doors are the ways to answer over HTTP. Each has the same reply ready and
// gives it to whoever sends a request; another door is another line here and
// another kind.
var doors = map[string]func(l net.Listener, reply []byte) error{
	cannedKind.name: serveHTTP,
}

// cannedKind answers through net/http.
var cannedKind = canned("canned", "net/http that reads the body and returns a reply it has ready")

// cannedDoorKind answers through stator's own reader of HTTP.
var cannedDoorKind = kind{
	name: "canned-door", about: "stator's own door with a reply it has ready",
	only: cannedWorkloads,
	command: func(ctx context.Context, w *workshop, _, folder string, port int) (*exec.Cmd, error) {
		reply := filepath.Join(folder, "reply")
		if err := os.WriteFile(reply, cannedReply(), 0o600); err != nil {
			return nil, err
		}
		binary, err := w.build(ctx, "canned", "./internal/server/door/canned")
		if err != nil {
			return nil, err
		}
		return exec.Command(binary, fmt.Sprintf("127.0.0.1:%d", port), reply), nil
	},
}

// cannedWorkloads are those whose replies are about one item.
var cannedWorkloads = []string{"put", "get", "get-zipf", "update", "mix"}

// canned is a kind that answers all requests with one item.
func canned(name, about string) kind {
	return kind{
		name: name, about: about,
		only: cannedWorkloads,
		command: func(_ context.Context, _ *workshop, _, _ string, port int) (*exec.Cmd, error) {
			return ceilingCommand(name, fmt.Sprintf("127.0.0.1:%d", port))
		},
	}
}

func serveCanned(addr string, door func(net.Listener, []byte) error) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	return door(l, cannedReply())
}

// cannedReply is what GetItem would answer.
func cannedReply() []byte {
	reply := newCatalogue(perPartition, 1).appendItem([]byte(`{"Item":`), 0, 0)
	return append(reply, '}')
}

func serveHTTP(l net.Listener, reply []byte) error {
	checksum := strconv.FormatUint(uint64(crc32.ChecksumIEEE(reply)), 10)
	length := strconv.Itoa(len(reply))
	buffers := sync.Pool{New: func() any { return new([bufferBytes]byte) }}
	return http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		buf := buffers.Get().(*[bufferBytes]byte)
		defer buffers.Put(buf)
		for {
			if _, err := r.Body.Read(buf[:]); err == io.EOF {
				break
			} else if err != nil {
				return
			}
		}
		h := w.Header()
		h.Set("Content-Type", mediaType)
		h.Set("Content-Length", length)
		h.Set("X-Amz-Crc32", checksum)
		h.Set("X-Amzn-Requestid", "CANNEDCANNEDCANNEDCANNEDCANNEDCANNEDCANNEDCANNEDCANN")
		w.Write(reply)
	}))
}
