//go:build linux && cluster

package cluster

import (
	"net/http"
	"net/url"
	"sync"
	"testing"

	"github.com/stator-db/stator/conformance"
)

// transcriptsAtOnce bounds how many transcripts run at one time.
const transcriptsAtOnce = 8

// Two servers on one cluster answer like one server on one machine, whichever
// gets the request.
func TestTranscripts(t *testing.T) {
	all, err := conformance.All()
	if err != nil {
		t.Fatal(err)
	}
	servers := serve(t, 2, engineURL(t))
	shared := &conformance.Server{Client: &http.Client{Transport: servers}, Endpoint: "http://stator.invalid/", Sign: sign}
	waiting := make(chan *conformance.Transcript)
	var workers sync.WaitGroup
	for range transcriptsAtOnce {
		workers.Go(func() {
			for transcript := range waiting {
				t.Run(transcript.Topic(), func(t *testing.T) {
					failures, err := shared.Run(t.Context(), transcript)
					if err != nil {
						t.Error(err)
					}
					for _, f := range failures {
						t.Errorf("%s:%s", transcript.Name, f)
					}
				})
			}
		})
	}
	for _, transcript := range all {
		waiting <- transcript
	}
	close(waiting)
	workers.Wait()
}

// RoundTrip sends the request to one of the servers.
func (f fleet) RoundTrip(r *http.Request) (*http.Response, error) {
	to, err := url.Parse(f.any().address())
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host = to.Scheme, to.Host
	return client.Transport.RoundTrip(r)
}
