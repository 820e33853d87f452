// Package stream is the near-real-time pipeline: deposit events and reconciliations of
// a Kafka topic become pending balances.
//
// Each event is delivered at least once: offsets are committed after its write. Writes
// have a condition that makes their order and number irrelevant. Invalid events are
// sent to a dead-letter topic.
package stream

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"golang.org/x/sync/errgroup"

	"github.com/stator-db/stator/apps/goals"
)

// Topics are the names of the topics.
type Topics struct{ Events, Dead, Rewards string }

// DefaultTopics are the default names.
var DefaultTopics = Topics{Events: "goals.events", Dead: "goals.events.dead", Rewards: "goals.rewards"}

// Consumer is a member of the consumer group.
type Consumer struct {
	Kafka  Kafka
	Group  string
	Topics Topics

	// Instance is a permanent name of this member. A restarted member with the same
	// name gets its partitions at once; without a name the group first waits until
	// the old member times out.
	Instance string

	// Goal returns the goal for which a product counts.
	Goal func(ctx context.Context, product string) (goalID string, ok bool, err error)

	// Save writes a pending balance unless the table has a newer one.
	Save func(ctx context.Context, p goals.Pending) (wrote bool, err error)

	// Changed is called with the person whose balance was written; may be nil.
	Changed func(personID string)

	Metrics *Metrics
	Health  *Health
	Log     *slog.Logger
	Now     func() time.Time
}

const (
	atOnce       = 500 // events fetched from the broker together
	savesAtOnce  = 16
	firstWait    = 50 * time.Millisecond
	longestWait  = 5 * time.Second
	sessionLimit = 10 * time.Second
)

// Run consumes until the context ends. While Kafka does not respond it retries, and
// Health says so. Events that are not committed when the context ends are delivered
// again.
func (c *Consumer) Run(ctx context.Context) error {
	options := []kgo.Opt{
		kgo.ConsumerGroup(c.Group),
		kgo.ConsumeTopics(c.Topics.Events),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.DisableAutoCommit(),
		kgo.SessionTimeout(sessionLimit),
		kgo.HeartbeatInterval(time.Second),
		// A batch of events takes less time; a longer timeout for a crashed member
		// would be visible as lag.
		kgo.RebalanceTimeout(sessionLimit),
		kgo.FetchMaxBytes(8 << 20),
		kgo.FetchMaxPartitionBytes(2 << 20),
		kgo.MaxConcurrentFetches(2),
		kgo.RequiredAcks(kgo.AllISRAcks()),
	}
	if c.Instance != "" {
		options = append(options, kgo.InstanceID(c.Instance))
	}
	if err := c.reach(ctx); err != nil {
		return err
	}
	if ctx.Err() != nil {
		return nil
	}
	client, err := c.Kafka.open(options...)
	if err != nil {
		return err
	}
	defer client.Close() // leaves the group
	measuring, stop := context.WithCancel(ctx)
	measured := make(chan struct{})
	go func() {
		defer close(measured)
		c.watch(measuring, client)
	}()
	defer func() { stop(); <-measured }()
	for {
		fetched := client.PollRecords(ctx, atOnce)
		if ctx.Err() != nil {
			return nil
		}
		fetched.EachError(func(topic string, partition int32, err error) {
			c.Log.Warn("fetching from the broker failed; retrying", "topic", topic, "partition", partition, "error", err)
		})
		records := fetched.Records()
		if len(records) == 0 {
			continue
		}
		if err := c.takeAll(ctx, client, records); err != nil {
			if ctx.Err() != nil {
				return nil // not committed, so they are delivered again
			}
			return err
		}
		if err := client.CommitRecords(context.WithoutCancel(ctx), records...); err != nil {
			// Another member has the partition now, and receives them again.
			c.Metrics.commitFaults.Inc()
			c.Log.Warn("committing offsets failed; the events are delivered again", "error", err)
		}
	}
}

// reach waits until Kafka responds and has the topics. Only settings that can never
// work are an error.
func (c *Consumer) reach(ctx context.Context) error {
	client, err := c.Kafka.open()
	if err != nil {
		return err
	}
	defer client.Close()
	for wait := firstWait; ctx.Err() == nil; wait = min(2*wait, longestWait) {
		trying, cancel := context.WithTimeout(ctx, reachTimeout)
		err := EnsureTopics(trying, client, c.Topics)
		cancel()
		if err == nil {
			return nil
		}
		if ctx.Err() == nil {
			c.Health.lost(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(wait/2 + rand.N(wait/2)):
		}
	}
	return nil
}

// reachTimeout bounds one attempt to reach Kafka.
const reachTimeout = 10 * time.Second

// takeAll handles events concurrently: their order does not matter.
func (c *Consumer) takeAll(ctx context.Context, client *kgo.Client, records []*kgo.Record) error {
	all, within := errgroup.WithContext(ctx)
	all.SetLimit(savesAtOnce)
	for _, r := range records {
		all.Go(func() error { return c.take(within, client, r) })
	}
	return all.Wait()
}

// take handles one event until it is written, dead-lettered, or ignored. It retries
// while the table or the database does not respond.
func (c *Consumer) take(ctx context.Context, client *kgo.Client, r *kgo.Record) error {
	for wait := firstWait; ; wait = min(2*wait, longestWait) {
		outcome, err := c.apply(ctx, r)
		var bad *goals.BadEvent
		if errors.As(err, &bad) {
			outcome, err = "dead", c.deadLetter(ctx, client, r, bad.Reason)
		}
		if err == nil {
			c.Metrics.events.WithLabelValues(outcome).Inc()
			return nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		c.Metrics.retries.Inc()
		c.Log.Warn("handling an event failed; retrying", "partition", r.Partition, "offset", r.Offset, "error", err)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait/2 + rand.N(wait/2)):
		}
	}
}

func (c *Consumer) apply(ctx context.Context, r *kgo.Record) (outcome string, err error) {
	e, err := goals.ParseEvent(r.Value, c.Now())
	if err != nil {
		return "", err
	}
	e.Offset = r.Offset
	goalID, ok, err := c.Goal(ctx, e.Product)
	if err != nil {
		return "", err
	}
	if !ok {
		return "", &goals.BadEvent{Reason: fmt.Sprintf("the rules have no product %.60q", e.Product)}
	}
	p, writes := e.Pending(goalID, c.Now())
	switch {
	case e.Type == goals.Reconciliation && e.Outcome == goals.Confirmed:
		return "confirmed", nil
	case !writes:
		return "expired", nil // the batch view includes it
	}
	wrote, err := c.Save(ctx, p)
	if err != nil {
		return "", err
	}
	c.Metrics.delay.Observe(c.Now().Sub(r.Timestamp).Seconds())
	if !wrote {
		return "older", nil
	}
	if c.Changed != nil {
		c.Changed(p.PersonID)
	}
	if e.Type == goals.Reconciliation {
		return "rejected", nil
	}
	return "written", nil
}

// maxDeadLetter is how much of a dead event is kept, in bytes: a broker accepts 1 MiB,
// including the reason.
const maxDeadLetter = 512 << 10

// deadLetter sends an event to the dead-letter topic and waits for the broker.
func (c *Consumer) deadLetter(ctx context.Context, client *kgo.Client, r *kgo.Record, reason string) error {
	dead := &kgo.Record{
		Topic: c.Topics.Dead,
		Key:   cut(r.Key),
		Value: cut(r.Value),
		Headers: []kgo.RecordHeader{
			{Key: "reason", Value: []byte(reason)},
			{Key: "topic", Value: []byte(r.Topic)},
			{Key: "partition", Value: []byte(strconv.Itoa(int(r.Partition)))},
			{Key: "offset", Value: []byte(strconv.FormatInt(r.Offset, 10))},
			{Key: "size", Value: []byte(strconv.Itoa(len(r.Value)))},
		},
	}
	if err := client.ProduceSync(ctx, dead).FirstErr(); err != nil {
		return fmt.Errorf("send an event to topic %s: %w", c.Topics.Dead, err)
	}
	c.Log.Warn("an invalid event was sent to the dead letters", "partition", r.Partition, "offset", r.Offset, "reason", reason)
	return nil
}

func cut(b []byte) []byte { return b[:min(len(b), maxDeadLetter)] }
