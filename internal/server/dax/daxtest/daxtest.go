// Package daxtest is a client of DAX for tests: it reads and writes items with a number, and
// finds the leader of a cluster.
package daxtest

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"strconv"
	"time"

	"github.com/stator-db/stator/internal/protocol/cbor"
)

// The ids of methods.
const (
	methodEndpoints = 455855874
	methodListID    = -1230579644
	methodGetItem   = 263244906
	methodPutItem   = -2106490455
)

const (
	dialTime  = 10 * time.Second
	replyTime = time.Minute
	maxReply  = 1 << 20
)

// Conn is a connection. It is used by one goroutine.
type Conn struct {
	nc   net.Conn
	in   *bufio.Reader
	list []byte // the id of the list of names that items have
}

// Dial connects to a node.
func Dial(address string) (*Conn, error) {
	nc, err := net.DialTimeout("tcp", address, dialTime)
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
	return &Conn{nc: nc, in: bufio.NewReader(nc)}, nil
}

// Close closes the connection.
func (c *Conn) Close() error { return c.nc.Close() }

// call sends a request and returns the value of its reply.
func (c *Conn) call(method int64, args ...[]byte) ([]byte, error) {
	if err := c.nc.SetDeadline(time.Now().Add(replyTime)); err != nil {
		return nil, err
	}
	request := cbor.AppendInt(cbor.AppendInt(nil, 1), method)
	if _, err := c.nc.Write(append(request, slices.Concat(args...)...)); err != nil {
		return nil, err
	}
	s := cbor.Stream{In: c.in, Limit: maxReply, ErrLimit: io.ErrShortBuffer}
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

// Get returns the number v of an item, eventually consistent, and 0 if there is no item. key is the value of the
// partition key.
func (c *Conn) Get(table, key string) (v int64, err error) {
	reply, err := c.call(methodGetItem, cbor.AppendBytes(nil, []byte(table)), cbor.AppendBytes(nil, []byte(key)), cbor.AppendMap(nil, 0))
	if err != nil {
		return 0, err
	}
	d := cbor.NewDecoder(reply)
	if d.Null() {
		return 0, nil
	}
	_, err = d.Map()
	member, err1 := d.Int()
	item, err2 := d.Bytes()
	d = cbor.NewDecoder(item)
	_, err3 := d.Int() // the list of names
	v, err4 := d.Int()
	if err := errors.Join(err, err1, err2, err3, err4); err != nil || member != 0 {
		return 0, fmt.Errorf("the reply %x is no item with a number: %w", reply, err)
	}
	return v, nil
}

// Put writes an item with a number v.
func (c *Conn) Put(table, key string, v int64) error {
	if c.list == nil {
		list, err := c.call(methodListID, cbor.AppendText(cbor.AppendArray(nil, 1), "v"))
		if err != nil {
			return err
		}
		c.list = list
	}
	attributes := cbor.AppendBytes(nil, cbor.AppendInt(slices.Clone(c.list), v))
	_, err := c.call(methodPutItem, cbor.AppendBytes(nil, []byte(table)), cbor.AppendBytes(nil, []byte(key)), attributes, cbor.AppendMap(nil, 0))
	return err
}

// Leader returns the address of the node to which writes go.
func (c *Conn) Leader() (string, error) {
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
		var address string
		var leads bool
		if address, leads, err = node(&d); err == nil && leads {
			return address, nil
		}
	}
	return "", errors.Join(errors.New("there is no leader"), err)
}

// node reads a node of a list of endpoints.
func node(d *cbor.Decoder) (address string, leads bool, err error) {
	members, err := d.Map()
	if err != nil {
		return "", false, err
	}
	var host []byte
	var port, role int64
	for {
		more, err := d.Next(&members)
		if err != nil {
			return "", false, err
		}
		if !more {
			return net.JoinHostPort(string(host), strconv.FormatInt(port, 10)), role == 1, nil
		}
		name, err := d.Int()
		if err != nil {
			return "", false, err
		}
		switch name {
		case 1:
			host, err = d.Text()
		case 3:
			port, err = d.Int()
		case 4:
			role, err = d.Int()
		default:
			_, err = d.Skip()
		}
		if err != nil {
			return "", false, err
		}
	}
}

// Writer writes to the leader of a cluster. When that does not answer, it asks the other nodes for the
// leader, as clients of DAX do. It is used by one goroutine.
type Writer struct {
	Seeds []string // the addresses of nodes
	At    string   // the address of the leader; empty before the first write

	to *Conn // nil without a connection
}

// Put is Conn.Put at the leader.
func (w *Writer) Put(table, key string, v int64) (err error) {
	for range 2 * len(w.Seeds) {
		if w.to == nil {
			err = w.connect()
		}
		if w.to != nil {
			if err = w.to.Put(table, key, v); err == nil {
				return nil
			}
			_ = w.Close()
		}
	}
	return err
}

// Close closes the connection to the leader.
func (w *Writer) Close() (err error) {
	if w.to != nil {
		err, w.to = w.to.Close(), nil
	}
	return err
}

// connect connects to the node that any seed says is the leader.
func (w *Writer) connect() error {
	var failed error
	for _, i := range rand.Perm(len(w.Seeds)) {
		seed, err := Dial(w.Seeds[i])
		if err != nil {
			failed = errors.Join(failed, err)
			continue
		}
		w.At, err = seed.Leader()
		_ = seed.Close()
		if err == nil {
			w.to, err = Dial(w.At)
		}
		if err == nil {
			return nil
		}
		failed = errors.Join(failed, err)
	}
	return failed
}
