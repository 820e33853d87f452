package stream

import (
	"context"
	"errors"
	"fmt"
	"net"
	"path/filepath"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
)

// Partitions is the number of partitions of the events topic, if we create it.
const Partitions = 6

// Broker is the embedded broker.
type Broker struct{ cluster *kfake.Cluster }

// StartBroker starts a broker on this machine. With a folder it stores its data there,
// synced before it replies; without one it is in memory. address is a loopback
// host:port, or empty for a free port.
func StartBroker(folder, address string, topics Topics) (*Broker, error) {
	return startBroker(folder, address, topics)
}

func startBroker(folder, address string, topics Topics, more ...kfake.Opt) (*Broker, error) {
	options := []kfake.Opt{
		kfake.NumBrokers(1),
		kfake.SeedTopics(Partitions, topics.Events, topics.Rewards),
		kfake.SeedTopics(1, topics.Dead),
		// A member that crashes must be noticed soon, since it may be the only one.
		kfake.GroupMinSessionTimeout(time.Second),
	}
	if folder != "" {
		options = append(options, kfake.DataDir(filepath.Clean(folder)), kfake.SyncWrites())
	}
	if address != "" {
		host, port, err := net.SplitHostPort(address)
		n, bad := strconv.Atoi(port)
		if err != nil || bad != nil || host != "127.0.0.1" {
			return nil, fmt.Errorf("the broker's address is %q, but must be 127.0.0.1 and a port", address)
		}
		options = append(options, kfake.Ports(n))
	}
	cluster, err := kfake.NewCluster(append(options, more...)...)
	if err != nil {
		return nil, fmt.Errorf("start the embedded broker: %w", err)
	}
	return &Broker{cluster}, nil
}

// Addresses returns the addresses of the broker.
func (b *Broker) Addresses() []string { return b.cluster.ListenAddrs() }

// Kafka returns how the broker is reached.
func (b *Broker) Kafka() Kafka { return At(b.Addresses()...) }

// Close stops the broker.
func (b *Broker) Close() { b.cluster.Close() }

// EnsureTopics creates missing topics.
func EnsureTopics(ctx context.Context, client *kgo.Client, topics Topics) error {
	admin := kadm.NewClient(client)
	have, err := admin.ListTopics(ctx, topics.Events, topics.Dead, topics.Rewards)
	if err != nil {
		return fmt.Errorf("list Kafka's topics: %w; is Kafka running?", err)
	}
	for topic, partitions := range map[string]int32{topics.Events: Partitions, topics.Dead: 1, topics.Rewards: Partitions} {
		if have[topic].Err == nil {
			continue
		}
		_, err := admin.CreateTopic(ctx, partitions, -1, nil, topic)
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) {
			return fmt.Errorf("create topic %s: %w; is the client allowed to create topics?", topic, err)
		}
	}
	return nil
}
