package ingest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"gocloud.dev/pubsub"
)

// notice is an object store's notice of new files: in S3's own format, as an event of
// EventBridge, one of these in a message of SNS, or just a name.
type notice struct {
	Key     string
	Records []struct {
		EventName string `json:"eventName"`
		S3        struct {
			Object struct{ Key string }
		} `json:"s3"`
	}

	// EventBridge. Its keys are not encoded.
	DetailType string `json:"detail-type"`
	Detail     struct {
		Object struct{ Key string }
	}

	// SNS.
	Type    string
	Message string
}

// names returns the files of a notice. A notice of another event, such as S3's test
// or a deletion, has none.
func names(body []byte) ([]string, error) {
	var n notice
	if err := json.Unmarshal(body, &n); err != nil {
		return nil, fmt.Errorf("the notice is not JSON: %w", err)
	}
	if n.Type == "Notification" {
		inner := []byte(n.Message)
		n = notice{}
		if err := json.Unmarshal(inner, &n); err != nil {
			return nil, fmt.Errorf("the message of the notice is not JSON: %w", err)
		}
	}
	var all []string
	if n.Key != "" {
		all = append(all, n.Key)
	}
	if n.DetailType == "Object Created" && n.Detail.Object.Key != "" {
		all = append(all, n.Detail.Object.Key)
	}
	for _, r := range n.Records {
		if event := strings.TrimPrefix(r.EventName, "s3:"); event != "" && !strings.HasPrefix(event, "ObjectCreated:") && !strings.HasPrefix(event, "ObjectRestore:") {
			continue
		}
		name, err := url.QueryUnescape(r.S3.Object.Key)
		if err != nil {
			return nil, fmt.Errorf("the notice names no file: %w", err)
		}
		all = append(all, name)
	}
	for _, name := range all {
		if !strings.HasPrefix(name, Inbox) {
			return nil, fmt.Errorf("the notice names %.200q, which is not in the inbox", name)
		}
	}
	return all, nil
}

// Follow listens to a subscription until the context ends. If it fails, it is opened
// again after a time: files are ingested without notices too, only later.
func (i *Ingest) Follow(ctx context.Context, first *pubsub.Subscription, open func(context.Context) (*pubsub.Subscription, error)) {
	notices := first // the caller shuts it down
	for wait := time.Second; ; wait = min(2*wait, time.Minute) {
		began := time.Now()
		var err error
		if notices == nil {
			notices, err = open(ctx)
		}
		if err == nil {
			err = i.Listen(ctx, notices)
			if notices != first {
				err = errors.Join(err, shutDown(notices))
			}
			notices = nil
		}
		if ctx.Err() != nil {
			return
		}
		if time.Since(began) > time.Minute {
			wait = time.Second
		}
		i.Log.Error("notices of new files cannot be received; the inbox is still listed", "error", err, "again in", wait)
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

func shutDown(notices *pubsub.Subscription) error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	return notices.Shutdown(ctx)
}

// Listen ingests the files of notices, until the context ends or the subscription
// fails. A notice is acknowledged in every case: if it is invalid, or its files cannot
// be ingested now, the next pass through the inbox finds the files.
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
			i.Log.Error("ingesting the files of a notice failed; they stay in the inbox", "error", err)
		}
		message.Ack()
	}
}
