package batch

import (
	"net/http"
	"sync"

	"github.com/aws/aws-sdk-go-v2/aws"
)

// counting is a client that stops a run after some batches.
type counting struct {
	next aws.HTTPClient
	stop func()

	mutex sync.Mutex
	left  int64
}

func (c *counting) Do(r *http.Request) (*http.Response, error) {
	if r.Header.Get("X-Amz-Target") == "DynamoDB_20120810.BatchWriteItem" {
		c.mutex.Lock()
		c.left--
		if c.left < 0 {
			c.stop()
		}
		c.mutex.Unlock()
	}
	return c.next.Do(r)
}
