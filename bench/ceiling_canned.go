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

// responders are servers that send the same constant reply to every request. A
// new one needs an entry here and a kind.
var responders = map[string]func(l net.Listener, reply []byte) error{
	cannedKind.name: serveHTTP,
}

// cannedKind answers through net/http.
var cannedKind = canned("canned", "a constant reply through net/http")

// cannedDoorKind answers through stator's HTTP reader, package door.
var cannedDoorKind = kind{
	name: "canned-door", about: "a constant reply through stator's HTTP reader",
	only: cannedWorkloads,
	command: func(ctx context.Context, w *launcher, _, folder string, port int) (*exec.Cmd, error) {
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

// cannedWorkloads are the workloads whose replies have about the size of one item.
var cannedWorkloads = []string{"put", "get", "get-zipf", "update", "mix"}

// canned returns a kind that answers all requests with one item.
func canned(name, about string) kind {
	return kind{
		name: name, about: about,
		only: cannedWorkloads,
		command: func(_ context.Context, _ *launcher, _, _ string, port int) (*exec.Cmd, error) {
			return ceilingCommand(name, fmt.Sprintf("127.0.0.1:%d", port))
		},
	}
}

func serveCanned(addr string, serve func(net.Listener, []byte) error) error {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	return serve(l, cannedReply())
}

// cannedReply returns the reply of a GetItem.
func cannedReply() []byte {
	reply := newDataset(perPartition, 1).appendItem([]byte(`{"Item":`), 0, 0)
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
