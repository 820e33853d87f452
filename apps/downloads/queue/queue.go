// Package queue carries the ids of files from the poller to the downloaders: in
// memory, or through a broker that is named by a URL.
//
// A message is only a hint. The job's status is authoritative; a lost message is sent
// again, and a duplicate finds the job claimed.
package queue

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"gocloud.dev/pubsub"
	_ "gocloud.dev/pubsub/awssnssqs" // awssqs://
	"gocloud.dev/pubsub/mempubsub"
	_ "gocloud.dev/pubsub/natspubsub"   // nats://
	_ "gocloud.dev/pubsub/rabbitpubsub" // rabbit://
)

// Queue is a topic, a subscription, or both.
type Queue struct {
	// Volatile reports whether the messages are lost when this process ends.
	Volatile bool

	topicURL, subURL string

	mutex sync.Mutex
	topic *pubsub.Topic
	sub   *pubsub.Subscription
}

// Open opens a queue by the URLs for sending and receiving; an empty URL is not
// opened. A queue in memory, mem://, has both ends in this process, and is private to
// it.
func Open(ctx context.Context, topic, subscription string) (*Queue, error) {
	q := new(Queue)
	if strings.HasPrefix(topic, mempubsub.Scheme+"://") || strings.HasPrefix(subscription, mempubsub.Scheme+"://") {
		if topic != subscription {
			return nil, errors.New("a queue in memory is private to its process: --topic and --subscription must have the same mem:// URL, or name a broker")
		}
		q.Volatile = true
		q.topic = mempubsub.NewTopic()
		q.sub = mempubsub.NewSubscription(q.topic, time.Minute)
		return q, nil
	}
	q.topicURL, q.subURL = topic, subscription
	if _, err := q.sender(ctx); topic != "" && err != nil {
		return nil, err
	}
	if _, err := q.receiver(ctx); subscription != "" && err != nil {
		return nil, errors.Join(err, q.Close(ctx))
	}
	return q, nil
}

// sender returns the open topic, and opens it again after it was closed.
func (q *Queue) sender(ctx context.Context) (*pubsub.Topic, error) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	if q.topic != nil {
		return q.topic, nil
	}
	if q.topicURL == "" {
		return nil, errors.New("--topic is missing")
	}
	topic, err := pubsub.OpenTopic(ctx, q.topicURL)
	if err != nil {
		return nil, fmt.Errorf("open the topic %s: %w", scheme(q.topicURL), err)
	}
	q.topic = topic
	return topic, nil
}

func (q *Queue) receiver(ctx context.Context) (*pubsub.Subscription, error) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	if q.sub != nil {
		return q.sub, nil
	}
	if q.subURL == "" {
		return nil, errors.New("--subscription is missing")
	}
	sub, err := pubsub.OpenSubscription(ctx, q.subURL)
	if err != nil {
		return nil, fmt.Errorf("open the subscription %s: %w", scheme(q.subURL), err)
	}
	q.sub = sub
	return sub, nil
}

// giveUp closes broken connections, so that they are opened again. A connection to a
// broker that was stopped does not recover by itself.
func (q *Queue) giveUp(topic *pubsub.Topic, sub *pubsub.Subscription) {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	if q.Volatile {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	if topic != nil && q.topic == topic {
		_ = topic.Shutdown(ctx) // it is broken
		q.topic = nil
	}
	if sub != nil && q.sub == sub {
		_ = sub.Shutdown(ctx)
		q.sub = nil
	}
}

// scheme returns the part of a URL that can be logged: the rest may have a password.
func scheme(url string) string {
	before, _, _ := strings.Cut(url, "://")
	return before + "://…"
}

type body struct{ FileID string }

// Send sends a file's id.
func (q *Queue) Send(ctx context.Context, id string) error {
	topic, err := q.sender(ctx)
	if err != nil {
		return fmt.Errorf("send the message of %s: %w", id, err)
	}
	text, err := json.Marshal(body{id})
	if err != nil {
		return fmt.Errorf("send the message of %s: %w", id, err)
	}
	if err := topic.Send(ctx, &pubsub.Message{Body: text}); err != nil {
		if ctx.Err() == nil {
			q.giveUp(topic, nil)
		}
		return fmt.Errorf("send the message of %s: %w", id, err)
	}
	return nil
}

// Message is a received message.
type Message struct{ m *pubsub.Message }

// Receive waits for a message.
func (q *Queue) Receive(ctx context.Context) (*Message, error) {
	sub, err := q.receiver(ctx)
	if err != nil {
		return nil, fmt.Errorf("receive a message: %w", err)
	}
	m, err := sub.Receive(ctx)
	if err != nil {
		if ctx.Err() == nil {
			q.giveUp(nil, sub)
		}
		return nil, fmt.Errorf("receive a message: %w", err)
	}
	return &Message{m}, nil
}

const (
	maxBody = 4 << 10
	maxID   = 200
)

// FileID returns the id in the message. An error means that the message is invalid; a
// later delivery does not fix it.
func (m *Message) FileID() (string, error) {
	if len(m.m.Body) > maxBody {
		return "", fmt.Errorf("the message has %d bytes, more than the limit of %d", len(m.m.Body), maxBody)
	}
	var b body
	if err := json.Unmarshal(m.m.Body, &b); err != nil {
		return "", fmt.Errorf(`the message %.200q is not JSON such as {"FileID": "accounts-2026-02-28"}: %w`, m.m.Body, err)
	}
	if b.FileID == "" || len(b.FileID) > maxID {
		return "", fmt.Errorf("the message %.200q has no FileID of 1 to %d bytes", m.m.Body, maxID)
	}
	return b.FileID, nil
}

// Ack acknowledges the message.
func (m *Message) Ack() { m.m.Ack() }

// Again asks for another delivery, if the broker supports it. Otherwise the sweep
// sends the message again.
func (m *Message) Again() {
	if m.m.Nackable() {
		m.m.Nack()
		return
	}
	m.m.Ack()
}

// Close closes both ends.
func (q *Queue) Close(ctx context.Context) error {
	q.mutex.Lock()
	defer q.mutex.Unlock()
	var errs []error
	if q.sub != nil {
		errs = append(errs, q.sub.Shutdown(ctx))
	}
	if q.topic != nil {
		errs = append(errs, q.topic.Shutdown(ctx))
	}
	return errors.Join(errs...)
}
