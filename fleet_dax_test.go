package stator

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/protocol/cbor"
)

// The ids of methods of the DAX protocol.
const (
	methodEndpoints = 455855874
	methodListID    = -1230579644
	methodGetItem   = 263244906
	methodPutItem   = -2106490455
)

// daxConn is a connection of a client of DAX.
type daxConn struct {
	nc   net.Conn
	in   *bufio.Reader
	list []byte // the id of the list of names that items have
}

func dialDAX(address string) (*daxConn, error) {
	nc, err := net.DialTimeout("tcp", address, 10*time.Second)
	if err != nil {
		return nil, err
	}
	b := cbor.AppendText(nil, "J7yne5G")
	b = cbor.AppendInt(b, 0)
	b = cbor.AppendText(b, "1")
	b = cbor.AppendText(cbor.AppendText(cbor.AppendMap(b, 1), "UserAgent"), "test")
	if _, err := nc.Write(cbor.AppendInt(b, 0)); err != nil {
		return nil, errors.Join(err, nc.Close())
	}
	return &daxConn{nc: nc, in: bufio.NewReader(nc)}, nil
}

// call sends a request and returns the value of its reply.
func (c *daxConn) call(method int64, args ...[]byte) ([]byte, error) {
	if err := c.nc.SetDeadline(time.Now().Add(time.Minute)); err != nil {
		return nil, err
	}
	request := cbor.AppendInt(cbor.AppendInt(nil, 1), method)
	if _, err := c.nc.Write(append(request, slices.Concat(args...)...)); err != nil {
		return nil, err
	}
	s := cbor.Stream{In: c.in, Limit: 1 << 20, ErrLimit: io.ErrShortBuffer}
	if err := s.Read(); err != nil {
		return nil, err
	}
	if codes := string(s.Buffer); codes != "\x80" {
		err := errors.Join(s.Read(), s.Read())
		return nil, errors.Join(fmt.Errorf("error %q", s.Buffer), err)
	}
	s.Buffer = nil
	if err := s.Read(); err != nil {
		return nil, err
	}
	return s.Buffer, nil
}

// get reads an item.
func (c *daxConn) get(pk string) ([]byte, error) {
	return c.call(methodGetItem, cbor.AppendBytes(nil, "Items"), cbor.AppendBytes(nil, pk), cbor.AppendMap(nil, 0))
}

// put writes an item with a number.
func (c *daxConn) put(pk string, v int64) error {
	if c.list == nil {
		list, err := c.call(methodListID, cbor.AppendText(cbor.AppendArray(nil, 1), "v"))
		if err != nil {
			return err
		}
		c.list = list
	}
	attributes := cbor.AppendBytes(nil, cbor.AppendInt(slices.Clone(c.list), v))
	_, err := c.call(methodPutItem, cbor.AppendBytes(nil, "Items"), cbor.AppendBytes(nil, pk), attributes, cbor.AppendMap(nil, 0))
	return err
}

// leader returns the address of the node to which writes go.
func (c *daxConn) leader() (string, error) {
	reply, err := c.call(methodEndpoints)
	if err != nil {
		return "", err
	}
	d := cbor.NewDecoder(reply)
	nodes, err := d.Array()
	for err == nil {
		var more bool
		if more, err = d.Next(&nodes); err != nil || !more {
			break
		}
		var members cbor.Members
		if members, err = d.Map(); err != nil {
			break
		}
		var host string
		var port, role int64
		for err == nil {
			if more, err = d.Next(&members); err != nil || !more {
				break
			}
			var name int64
			if name, err = d.Int(); err != nil {
				break
			}
			switch name {
			case 1:
				var text []byte
				text, err = d.Text()
				host = string(text)
			case 3:
				port, err = d.Int()
			case 4:
				role, err = d.Int()
			default:
				_, err = d.Skip()
			}
		}
		if err == nil && role == 1 {
			return net.JoinHostPort(host, fmt.Sprint(port)), nil
		}
	}
	return "", errors.Join(errors.New("there is no leader"), err)
}

// daxWriter is a client that writes to the leader of a cluster. When that does not answer, it
// asks the other nodes for the leader, as clients of DAX do.
type daxWriter struct {
	seeds []string
	to    *daxConn // nil without a connection
	at    string
}

func (w *daxWriter) put(pk string, v int64) (err error) {
	for range 2 * len(w.seeds) {
		if w.to == nil {
			err = w.connect()
		}
		if w.to != nil {
			if err = w.to.put(pk, v); err == nil {
				return nil
			}
			_ = w.to.nc.Close()
			w.to = nil
		}
	}
	return err
}

// connect connects to the node that any seed says is the leader.
func (w *daxWriter) connect() error {
	var failed error
	for _, i := range rand.Perm(len(w.seeds)) {
		seed, err := dialDAX(w.seeds[i])
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		w.at, err = seed.leader()
		_ = seed.nc.Close()
		if err == nil {
			w.to, err = dialDAX(w.at)
		}
		if err == nil {
			return nil
		}
		failed = errors.Join(failed, err)
	}
	return failed
}

// lostWrites returns the items whose value is smaller than that of the last write that was
// answered.
func lostWrites(s *fleetServer, acknowledged map[string]int64) (lost []string) {
	for pk, v := range acknowledged {
		reply, _ := s.do("GetItem", fmt.Sprintf(`{"TableName":"Items","Key":{"pk":{"S":%q}},"ConsistentRead":true}`, pk))
		if int64(valueIn(reply)) < v {
			lost = append(lost, fmt.Sprintf("%s is %s, but %d was acknowledged", pk, reply, v))
		}
	}
	return lost
}

// The leader of some clients dies without a word while they write. They go on with another
// node, and nothing that was acknowledged is lost.
func TestDAXFailover(t *testing.T) {
	for _, mode := range []CacheMode{CacheDAX, CacheCoherent} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			f := newFleet(t)
			f.lease = 2 * time.Second
			const nodes, clients = 3, 6
			listeners, seeds := make([]net.Listener, nodes), make([]string, nodes)
			for i := range listeners {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					t.Fatal(err)
				}
				listeners[i], seeds[i] = l, l.Addr().String()
			}
			servers, ports := make([]*fleetServer, nodes), make([]*DAX, nodes)
			for i := range servers {
				servers[i] = f.open(NewCache(mode), nil)
				if i == 0 {
					servers[0].createTable()
				}
				var err error
				if ports[i], err = servers[i].db.DAX(DAXOptions{Nodes: slices.Delete(slices.Clone(seeds), i, i+1)}); err != nil {
					t.Fatal(err)
				}
				go func() { _ = ports[i].Serve(listeners[i]) }()
				t.Cleanup(func() { _ = ports[i].Close() })
			}
			var mu sync.Mutex
			acknowledged, at := make(map[string]int64), make(map[string]int)
			var written, after atomic.Int64
			killed := make(chan struct{})
			var running sync.WaitGroup
			for i := range clients {
				running.Go(func() {
					w := &daxWriter{seeds: seeds}
					pk := fmt.Sprint("client", i)
					for v, more := int64(1), 0; more < 3; v++ {
						isKilled := false
						select {
						case <-killed:
							isKilled = true
						default:
						}
						if err := w.put(pk, v); err != nil {
							t.Errorf("a write of %s: %v", pk, err)
							return
						}
						if isKilled {
							more++
							after.Add(1)
						}
						mu.Lock()
						acknowledged[pk] = v
						at[w.at]++
						mu.Unlock()
						written.Add(1)
					}
				})
			}
			soon(t, "all clients write", func() bool { mu.Lock(); defer mu.Unlock(); return len(acknowledged) == clients && written.Load() > 30 })
			// kill -9: no message, and nothing that it has begun is stored from now on.
			mu.Lock()
			victim := 0
			for i := range seeds {
				if at[seeds[i]] > at[seeds[victim]] {
					victim = i
				}
			}
			mu.Unlock()
			servers[victim].cable.off.Store(true)
			_ = listeners[victim].Close()
			closed := make(chan struct{})
			go func() { _ = ports[victim].Close(); close(closed) }() // returns when its requests have failed
			close(killed)
			running.Wait()
			other := servers[(victim+1)%nodes]
			t.Logf("%d writes acknowledged, %d of them after the death of a node that has answered %d", written.Load(), after.Load(), at[seeds[victim]])
			if lost := lostWrites(other, acknowledged); len(lost) > 0 || after.Load() < clients {
				t.Errorf("lost: %s; %d writes after the death", strings.Join(lost, "; "), after.Load())
			}
			// The control: a write that is lost is noticed.
			other.do("DeleteItem", `{"TableName":"Items","Key":{"pk":{"S":"client0"}}}`)
			other.put("client1", 0)
			if lost := lostWrites(other, acknowledged); len(lost) != 2 {
				t.Errorf("of two lost writes, these are noticed: %q", lost)
			}
			servers[victim].cable.off.Store(false)
			<-closed
		})
	}
}
