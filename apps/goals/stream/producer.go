package stream

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stator-db/stator/apps/goals"
)

// Producer sends events, as the bank's systems do.
type Producer struct {
	client  *kgo.Client
	topic   string
	rewards string
}

// NewProducer returns a producer, and creates missing topics.
func NewProducer(ctx context.Context, kafka Kafka, topics Topics) (*Producer, error) {
	client, err := kafka.open(kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(0))
	if err != nil {
		return nil, err
	}
	if err := EnsureTopics(ctx, client, topics); err != nil {
		client.Close()
		return nil, err
	}
	return &Producer{client, topics.Events, topics.Rewards}, nil
}

// Send sends events and waits until the broker has stored them. All events of a person
// are in one partition.
func (p *Producer) Send(ctx context.Context, events ...goals.Event) error {
	records := make([]*kgo.Record, len(events))
	for i := range events {
		b, err := json.Marshal(&events[i])
		if err != nil {
			return err
		}
		records[i] = &kgo.Record{Topic: p.topic, Key: []byte(events[i].PersonID), Value: b}
	}
	return p.send(ctx, records)
}

// SendRewards sends rewards to their topic and waits until the broker has stored them.
func (p *Producer) SendRewards(ctx context.Context, rewards []goals.Reward) error {
	records := make([]*kgo.Record, len(rewards))
	for i := range rewards {
		b, err := json.Marshal(&rewards[i])
		if err != nil {
			return err
		}
		records[i] = &kgo.Record{Topic: p.rewards, Key: []byte(rewards[i].PersonID), Value: b}
	}
	return p.send(ctx, records)
}

// SendRaw sends bytes that need not be an event.
func (p *Producer) SendRaw(ctx context.Context, values ...[]byte) error {
	records := make([]*kgo.Record, len(values))
	for i, v := range values {
		records[i] = &kgo.Record{Topic: p.topic, Value: v}
	}
	return p.send(ctx, records)
}

func (p *Producer) send(ctx context.Context, records []*kgo.Record) error {
	if err := p.client.ProduceSync(ctx, records...).FirstErr(); err != nil {
		return fmt.Errorf("send %d records to topic %s: %w", len(records), records[0].Topic, err)
	}
	return nil
}

// Close closes the producer.
func (p *Producer) Close() { p.client.Close() }
