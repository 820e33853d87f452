package server

import (
	"context"
	"hash/crc32"
	"runtime"

	"github.com/stator-db/stator/internal/buffer"
	"github.com/stator-db/stator/internal/server/admission"
	"github.com/stator-db/stator/internal/server/coding"
	"github.com/stator-db/stator/internal/server/door"
)

// compressedReplyBytes is the size from which DynamoDB compresses a reply.
const compressedReplyBytes = 4096

// compression bounds the replies that are compressed at once, and so the memory of encoders. It
// is apart from the bodies that are decoded, so that replies do not wait for these.
type compression struct {
	small chan struct{}
	large *admission.LargeBodies
}

func newCompression() compression {
	return compression{small: make(chan struct{}, runtime.GOMAXPROCS(0)), large: admission.NewLargeBodies(admission.LargeSlots())}
}

// codingHeaders are the headers of compressed replies.
var codingHeaders = map[coding.Coding][][2]string{
	coding.Gzip:    {{"Content-Encoding", "gzip"}},
	coding.Deflate: {{"Content-Encoding", "deflate"}},
}

// compress compresses a reply of the API if the client accepts that and it makes the reply
// smaller. The checksum is of the bytes that are sent. DynamoDB uses the first of several
// Accept-Encoding only.
func (h *Handler) compress(ctx context.Context, r *door.Request, a *door.Reply) {
	if len(a.Body) < compressedReplyBytes || !a.HasChecksum || a.Stream != nil {
		return
	}
	c := coding.Negotiate(r.Header("Accept-Encoding"))
	if c == coding.Identity {
		return
	}
	if len(a.Body) >= admission.LargeBytes {
		_ = h.compression.large.Run(ctx, len(a.Body), func() { encodeReply(a, c) }) // if it cannot, the reply is sent as it is
		return
	}
	select {
	case h.compression.small <- struct{}{}:
		defer func() { <-h.compression.small }()
		encodeReply(a, c)
	case <-ctx.Done():
	}
}

// encodeReply replaces a reply by its compressed form. The memory of a large reply is given back.
func encodeReply(a *door.Reply, c coding.Coding) {
	e := coding.NewEncoder()
	defer e.Close()
	encoded, ok := e.Encode(c, a.Body)
	if !ok {
		return
	}
	if cap(a.Body) > buffer.Small {
		a.Memory.End()
	}
	a.Write(append(a.Memory.Exactly(len(encoded)), encoded...))
	a.Room.Leave(cap(a.Body))
	a.Checksum, a.More = crc32.ChecksumIEEE(a.Body), append(a.More, codingHeaders[c]...)
}
