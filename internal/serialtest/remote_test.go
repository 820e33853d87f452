package serialtest

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator"
)

var endpoints = flag.String("serial.endpoints", "", "URLs of servers that share their data, separated by commas, to check instead of one in this process")

// slower is the factor by which timeouts are longer for a remote server than
// for one in this process.
func slower() time.Duration {
	if *endpoints == "" {
		return 1
	}
	return 30
}

// subject opens the database under test: one in this process, or the servers
// that -serial.endpoints names. sound fails unless items and indexes agree;
// remote servers are not checked.
func subject(t testing.TB, o stator.Options) (d door, sound func()) {
	t.Helper()
	if *endpoints == "" {
		s, d := open(t, o)
		return d, func() {
			t.Helper()
			expectSound(t, s)
		}
	}
	r := &remote{
		endpoints: strings.Split(*endpoints, ","),
		transport: &http.Transport{MaxIdleConnsPerHost: 128},
		prefix:    fmt.Sprintf("s%08x-", rand.Uint32()),
	}
	t.Cleanup(r.transport.CloseIdleConnections)
	t.Cleanup(func() { r.drop(t) })
	return door{r}, func() {}
}

// remote forwards requests to any of several servers. It adds a prefix to the
// names of its tables.
type remote struct {
	endpoints []string
	transport *http.Transport
	prefix    string
}

// tables are the names of the tables of these tests.
var tables = []string{"Accounts", "Lists", "Items"}

func (r *remote) ServeHTTP(w http.ResponseWriter, in *http.Request) {
	status, body, err := r.forward(in)
	if err != nil {
		status, body = http.StatusBadGateway, fmt.Appendf(nil, `{"__type": "Unreachable", "message": %q}`, err)
	}
	w.WriteHeader(status)
	_, _ = w.Write(body)
}

func (r *remote) forward(in *http.Request) (status int, body []byte, err error) {
	body, err = io.ReadAll(in.Body)
	if err != nil {
		return 0, nil, err
	}
	for _, name := range tables {
		body = bytes.ReplaceAll(body, quoted(name), quoted(r.prefix+name))
	}
	out, err := http.NewRequestWithContext(in.Context(), in.Method, r.endpoints[rand.N(len(r.endpoints))], bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	out.Header = in.Header.Clone()
	res, err := r.transport.RoundTrip(out)
	if err != nil {
		return 0, nil, err
	}
	defer res.Body.Close()
	body, err = io.ReadAll(res.Body)
	for _, name := range tables {
		body = bytes.ReplaceAll(body, quoted(r.prefix+name), quoted(name))
	}
	return res.StatusCode, body, err
}

func quoted(name string) []byte { return []byte(`"` + name + `"`) }

// drop deletes the tables that were created.
func (r *remote) drop(t testing.TB) {
	for _, name := range tables {
		err := door{r}.call(context.Background(), "DeleteTable", jsonObject{"TableName": name}, nil)
		if err != nil && codeOf(err) != "ResourceNotFoundException" {
			t.Errorf("DeleteTable: %v", err)
		}
	}
}
