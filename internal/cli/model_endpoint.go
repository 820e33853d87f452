package cli

import (
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/stator-db/stator/internal/model/apply"
)

// endpointFlags name the server that a model is compared with.
type endpointFlags struct{ endpoint, region, scaling string }

func (f *endpointFlags) add(cmd *cobra.Command, usage string) {
	cmd.Flags().StringVar(&f.endpoint, "endpoint", "", usage)
	cmd.Flags().StringVar(&f.region, "region", "us-east-1", "region to sign requests for")
}

// addScaling adds a flag for the endpoint of Application Auto Scaling.
func (f *endpointFlags) addScaling(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.scaling, "scaling-endpoint", "", "URL of Application Auto Scaling; defaults to that of AWS for --endpoint, or to --endpoint")
}

// open returns a client of the endpoint.
func (f *endpointFlags) open() (*apply.Endpoint, error) {
	if f.endpoint == "" {
		return nil, usageError{fmt.Errorf("--endpoint must name the server, such as http://127.0.0.1:8000")}
	}
	for _, given := range []struct{ flag, url string }{{"--endpoint", f.endpoint}, {"--scaling-endpoint", f.scaling}} {
		if u, err := url.Parse(given.url); given.url != "" && (err != nil || u.Host == "") {
			return nil, usageError{fmt.Errorf("%s is %q, but must be a URL such as http://127.0.0.1:8000", given.flag, given.url)}
		}
	}
	e := clientOf(f.endpoint, f.region)
	e.ScalingURL = f.scaling
	return e, nil
}

// maxConnections is the most requests that a client has in flight.
const maxConnections = 64

func clientOf(endpoint, region string) *apply.Endpoint {
	transport := serverTransport(func(t *http.Transport) {
		t.MaxIdleConns, t.MaxIdleConnsPerHost, t.MaxConnsPerHost = 0, maxConnections, maxConnections
	})
	return &apply.Endpoint{URL: endpoint, Client: &http.Client{Timeout: time.Minute, Transport: transport}, Sign: signFor(region)}
}

// progressLine shows progress on one line that it overwrites. It shows nothing
// for the first second.
type progressLine struct {
	w       io.Writer
	started time.Time

	mutex sync.Mutex
	last  time.Time
	width int
}

func newProgressLine(w io.Writer) *progressLine { return &progressLine{w: w, started: time.Now()} }

// update replaces the line, a few times per second.
func (p *progressLine) update(format string, args ...any) {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	now := time.Now()
	if now.Sub(p.started) < time.Second || now.Sub(p.last) < 200*time.Millisecond {
		return
	}
	p.last = now
	p.write(fmt.Sprintf(format, args...))
}

func (p *progressLine) write(text string) {
	pad := max(0, p.width-len(text))
	fmt.Fprintf(p.w, "\r%s%s", text, strings.Repeat(" ", pad))
	p.width = len(text)
}

// end clears the line.
func (p *progressLine) end() {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	if p.width > 0 {
		p.write("")
		fmt.Fprint(p.w, "\r")
		p.width = 0
	}
}
