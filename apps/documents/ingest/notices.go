package ingest

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"

	"gocloud.dev/pubsub"
)

// notice is what an object store says of new files: S3's form, or just a name.
type notice struct {
	Key     string
	Records []struct {
		S3 struct {
			Object struct{ Key string }
		} `json:"s3"`
	}
}

// names are the files of a notice.
func names(body []byte) ([]string, error) {
	var n notice
	if err := json.Unmarshal(body, &n); err != nil {
		return nil, fmt.Errorf("the notice is not JSON: %w", err)
	}
	var all []string
	if n.Key != "" {
		all = append(all, n.Key)
	}
	for _, r := range n.Records {
		name, err := url.QueryUnescape(r.S3.Object.Key)
		if err != nil {
			return nil, fmt.Errorf("the notice names no file: %w", err)
		}
		all = append(all, name)
	}
	for _, name := range all {
		if !strings.HasPrefix(name, Inbox) {
			return nil, fmt.Errorf("the notice is of %.200q, which is not in the inbox", name)
		}
	}
	return all, nil
}

// Listen takes the files that notices tell of, until the context ends. A notice
// is acknowledged when its files are written down. One that makes no sense is
// logged and dropped: the next pass through the inbox finds whatever it meant.
func (i *Ingest) Listen(ctx context.Context, notices *pubsub.Subscription) error {
	for {
		message, err := notices.Receive(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("receive notices of new files: %w", err)
		}
		files, err := names(message.Body)
		if err != nil {
			i.Log.Warn("a notice is dropped", "error", err)
			message.Ack()
			continue
		}
		if err := i.Take(ctx, files); err != nil {
			i.Log.Error("files of a notice could not be taken; they are met again", "error", err)
			if message.Nackable() {
				message.Nack()
				continue
			}
		}
		message.Ack()
	}
}
