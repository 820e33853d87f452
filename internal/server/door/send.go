package door

import (
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// maxCopied is the largest body that is copied after the head, so that one plain
// write sends both.
const maxCopied = 16 << 10

// send writes a reply, with the headers that net/http would write.
func (c *conn) send(a *Reply, last bool) bool {
	if c.writeDeadline.Sub(c.last) < c.s.times.write {
		c.writeDeadline = c.last.Add(2 * c.s.times.write)
		c.nc.SetWriteDeadline(c.writeDeadline) //nolint:errcheck // the write reports it
	}
	a.out = a.appendHead(a.out[:0], c.s.dateOf(c.last), last)
	if len(a.Body) <= maxCopied {
		a.out = append(a.out, a.Body...)
		_, err := c.nc.Write(a.out)
		return err == nil
	}
	pending := a.Pending.Add(cap(a.Body), func() { _ = c.nc.SetWriteDeadline(past) })
	parts := net.Buffers{a.out, a.Body}
	_, err := parts.WriteTo(c.nc)
	return !pending.Done() && err == nil
}

func (a *Reply) appendHead(b []byte, date string, last bool) []byte {
	b = append(b, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(a.Status), 10)
	b = append(b, ' ')
	b = append(b, http.StatusText(a.Status)...)
	b = append(b, "\r\nContent-Length: "...)
	b = strconv.AppendInt(b, int64(len(a.Body)), 10)
	b = append(b, "\r\nContent-Type: "...)
	b = append(b, a.ContentType...)
	if a.HasChecksum {
		b = append(b, "\r\nX-Amz-Crc32: "...)
		b = strconv.AppendUint(b, uint64(a.Checksum), 10)
	}
	if a.ID[0] != 0 {
		b = append(b, "\r\nX-Amzn-Requestid: "...)
		b = append(b, a.ID[:]...)
	}
	for _, h := range a.More {
		b = append(b, "\r\n"...)
		b = append(b, h[0]...)
		b = append(b, ": "...)
		b = append(b, h[1]...)
	}
	b = append(b, "\r\nDate: "...)
	b = append(b, date...)
	if last {
		b = append(b, "\r\nConnection: close"...)
	}
	return append(b, "\r\n\r\n"...)
}

// Send sends the reply through net/http.
func (a *Reply) Send(w http.ResponseWriter) error {
	if a.Status == 0 {
		// The client has probably disconnected. If not, it must not see the 200
		// that net/http would send.
		w.Header().Set("Connection", "close")
		w.WriteHeader(http.StatusServiceUnavailable)
		return nil
	}
	header := w.Header()
	if a.Last {
		header.Set("Connection", "close")
	}
	header.Set("Content-Type", a.ContentType)
	if a.HasChecksum {
		header.Set("X-Amz-Crc32", strconv.FormatUint(uint64(a.Checksum), 10))
	}
	if a.ID[0] != 0 {
		header.Set("X-Amzn-Requestid", string(a.ID[:]))
	}
	for _, h := range a.More {
		header.Set(h[0], h[1])
	}
	timed := deadlineWriter{w, http.NewResponseController(w)}
	if a.Stream != nil {
		w.WriteHeader(a.Status)
		return a.Stream(timed)
	}
	header.Set("Content-Length", strconv.Itoa(len(a.Body)))
	w.WriteHeader(a.Status)
	pending := a.Pending.Add(cap(a.Body), func() { _ = timed.control.SetWriteDeadline(past) })
	_, _ = timed.Write(a.Body) // it fails if the client has disconnected
	pending.Done()
	return nil
}

// deadlineWriter sets the door's write timeout for each part of a reply.
type deadlineWriter struct {
	io.Writer
	control *http.ResponseController
}

func (t deadlineWriter) Write(b []byte) (int, error) {
	_ = t.control.SetWriteDeadline(time.Now().Add(defaultWriteTime)) // net/http resets it; some writers have no deadlines
	return t.Writer.Write(b)
}

// Flush sends what is buffered, for a stream that reports its progress.
func (t deadlineWriter) Flush() {
	_ = t.control.Flush() // some writers do not buffer
}

// date is the Date header of one second.
type date struct {
	second int64
	text   string
}

func (s *Server) dateOf(now time.Time) string {
	d := s.date.Load()
	if second := now.Unix(); d == nil || d.second != second {
		d = &date{second, now.UTC().Format(http.TimeFormat)}
		s.date.Store(d)
	}
	return d.text
}
