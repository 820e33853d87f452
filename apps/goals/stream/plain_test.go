package stream

import (
	"context"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// connects reports the errors of connections to a host.
type connects struct {
	host string
	errs chan error
}

func (c *connects) OnBrokerConnect(m kgo.BrokerMetadata, _ time.Duration, _ net.Conn, err error) {
	if m.Host == c.host {
		select {
		case c.errs <- err:
		default:
		}
	}
}

// A broker on this machine, such as a tunnel, names brokers on other machines. No
// password is sent to them without TLS: the client does not connect.
func TestNoPasswordToAnAdvertisedBroker(t *testing.T) {
	const elsewhere = "192.0.2.1" // reserved for documentation
	b, err := startBroker("", "", DefaultTopics, kfake.EnableSASL(), kfake.Superuser("PLAIN", "goals", "secret"))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	b.cluster.ControlKey(int16(kmsg.Metadata), func(r kmsg.Request) (kmsg.Response, error, bool) {
		b.cluster.KeepControl()
		reply := r.ResponseKind().(*kmsg.MetadataResponse)
		one := kmsg.NewMetadataResponseBroker()
		one.NodeID, one.Host, one.Port = 0, elsewhere, 9092
		reply.Brokers, reply.ControllerID = append(reply.Brokers, one), 0
		return reply, nil, true
	})
	kafka := b.Kafka()
	kafka.SASL, kafka.User, kafka.Password = "plain", "goals", "secret"
	seen := &connects{elsewhere, make(chan error, 1)}
	client, err := kafka.open(kgo.WithHooks(seen))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	go func() {
		request := kmsg.NewPtrCreateTopicsRequest() // goes to the controller
		_, _ = client.Request(ctx, request)
	}()
	select {
	case err := <-seen.errs:
		if err == nil || !strings.Contains(err.Error(), "plain text") {
			t.Errorf("connecting to another machine: %v", err)
		}
	case <-ctx.Done():
		t.Error("the client did not look for the controller")
	}
}
