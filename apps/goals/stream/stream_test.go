package stream

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/stator-db/stator/apps/goals"
)

// saved is a table of pending balances in memory, which can be made to fail.
type saved struct {
	mutex sync.Mutex
	have  map[string]goals.Pending
	fails int
}

func (s *saved) save(_ context.Context, p goals.Pending) (bool, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if s.fails > 0 {
		s.fails--
		return false, errors.New("the table does not respond")
	}
	key := p.PersonID + p.GoalID
	if old, ok := s.have[key]; ok && old.Version >= p.Version {
		return false, nil
	}
	if s.have == nil {
		s.have = make(map[string]goals.Pending)
	}
	s.have[key] = p
	return true, nil
}

func (s *saved) count() int {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return len(s.have)
}

func (s *saved) balance(key string) goals.Money {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	return s.have[key].CurrentBalance
}

// setting is a broker, and a consumer that the test starts.
type setting struct {
	*testing.T
	broker   *Broker
	producer *Producer
	table    *saved
	metrics  *Metrics
	consumer *Consumer
}

func newSetting(t *testing.T) *setting {
	t.Helper()
	b, err := StartBroker("", "", DefaultTopics)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	return settingAt(t, b, b.Kafka())
}

func settingAt(t *testing.T, b *Broker, kafka Kafka) *setting {
	t.Helper()
	p, err := NewProducer(t.Context(), kafka, DefaultTopics)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	s := &setting{T: t, broker: b, producer: p, table: new(saved), metrics: NewMetrics(prometheus.NewRegistry())}
	s.consumer = &Consumer{
		Kafka: kafka, Group: "test", Topics: DefaultTopics,
		Goal: func(_ context.Context, product string) (string, bool, error) {
			return map[string]string{"SAV": "SAVINGS_ACCOUNT"}[product], product == "SAV", nil
		},
		Save: s.table.save, Metrics: s.metrics, Health: NewHealth(s.metrics, slog.New(slog.DiscardHandler), time.Now), Log: slog.New(slog.DiscardHandler), Now: time.Now,
	}
	return s
}

// start runs the consumer until the returned function is called.
func (s *setting) start() (stop func()) {
	ctx, cancel := context.WithCancel(s.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.consumer.Run(ctx) }()
	return sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			s.Errorf("the consumer ended with %v", err)
		}
	})
}

// until waits for a condition, up to the test's time limit.
func (s *setting) until(what string, holds func() bool) {
	s.Helper()
	for !holds() {
		select {
		case <-s.Context().Done():
			s.Fatalf("timed out waiting until %s", what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

func (s *setting) outcomes(name string) int {
	return int(value(s, s.metrics.events.WithLabelValues(name)))
}

func event(balance goals.Money, at time.Time) goals.Event {
	return goals.Event{Type: goals.Deposit, EventID: uuid.NewString(), PersonID: uuid.NewString(), Product: "SAV", OccurredAt: at, Balance: &balance}
}

func TestPoisonedEventsAreDeadLetters(t *testing.T) {
	s := newSetting(t)
	now := time.Now().UTC()
	future, product := event(1, now.AddDate(100, 0, 0)), event(1, now)
	product.Product = "GOLD"
	if err := s.producer.Send(t.Context(), event(100, now), future, product, event(200, now), event(1, now.Add(-6*24*time.Hour))); err != nil {
		t.Fatal(err)
	}
	huge := []byte(`{"type":"` + strings.Repeat("x", 700<<10) + `"}`)
	if err := s.producer.SendRaw(t.Context(), []byte("hello"), nil, []byte{0xff, 0xfe}, huge); err != nil {
		t.Fatal(err)
	}
	defer s.start()()
	s.until("all events are handled", func() bool {
		return s.outcomes("written") == 2 && s.outcomes("dead") == 6 && s.outcomes("expired") == 1
	})
	var reasons []string
	read := func(since time.Time) {
		t.Helper()
		reasons = nil
		if err := DeadLetters(t.Context(), s.broker.Kafka(), DefaultTopics, since, func(l DeadLetter) error {
			if l.Topic != DefaultTopics.Events || l.Size > 600<<10 && len(l.Value) != maxDeadLetter {
				t.Errorf("a dead letter is of topic %s and has %d of %d bytes", l.Topic, len(l.Value), l.Size)
			}
			reasons = append(reasons, l.Reason)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	if read(time.Now().Add(time.Hour)); len(reasons) != 0 {
		t.Errorf("dead letters of the future: %q", reasons)
	}
	if read(time.Unix(0, 0)); len(reasons) != 6 {
		t.Errorf("%d dead letters: %q", len(reasons), reasons)
	}
	for _, want := range []string{"ahead of our clock", `no product "GOLD"`, "not the expected JSON", "the limit is 65536"} {
		if !strings.Contains(strings.Join(reasons, "\n"), want) {
			t.Errorf("no dead letter has %q: %q", want, reasons)
		}
	}
}

// Before a member has joined there is no group, which is no failure of Kafka.
func TestGroupThatIsNotThereYet(t *testing.T) {
	s := newSetting(t)
	kafka := s.broker.Kafka()
	client, err := kafka.open()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	s.consumer.look(t.Context(), kadm.NewClient(client))
	if state := s.consumer.Health.State(); state.Available || state.Reason != "connecting to Kafka" {
		t.Errorf("%+v", state)
	}
}

func TestTableThatDoesNotAnswer(t *testing.T) {
	s := newSetting(t)
	s.table.fails = 5
	if err := s.producer.Send(t.Context(), event(100, time.Now())); err != nil {
		t.Fatal(err)
	}
	defer s.start()()
	s.until("the event is written", func() bool { return s.outcomes("written") == 1 })
	if n := value(t, s.metrics.retries); n != 5 {
		t.Errorf("%v retries", n)
	}
}

// An event whose write did not complete is not committed, and is delivered again. The
// control: an event that is committed before its write is lost.
func TestOffsetsAreCommittedAfterTheWrite(t *testing.T) {
	for _, faulty := range []bool{false, true} {
		t.Run(fmt.Sprint("commits first ", faulty), func(t *testing.T) {
			s := newSetting(t)
			held := make(chan struct{}, 100)
			s.consumer.Save = func(ctx context.Context, p goals.Pending) (bool, error) {
				held <- struct{}{}
				if faulty {
					return true, nil
				}
				<-ctx.Done()
				return false, ctx.Err()
			}
			stop := s.start()
			if err := s.producer.Send(t.Context(), event(100, time.Now())); err != nil {
				t.Fatal(err)
			}
			<-held
			if faulty {
				s.until("it is committed", func() bool {
					for _, c := range s.broker.cluster.GroupInfo("test").Commits {
						for _, o := range c {
							if o.Offset == 1 {
								return true
							}
						}
					}
					return false
				})
			}
			stop()
			s.consumer.Save = s.table.save
			defer s.start()()
			if err := s.producer.Send(t.Context(), event(200, time.Now())); err != nil {
				t.Fatal(err)
			}
			want := 2
			if faulty {
				want = 1
			}
			s.until("events are written", func() bool { return s.table.count() >= want })
			s.until("nothing is left", func() bool { return s.lagKnown() && s.lag() == 0 })
			if n := s.table.count(); n != want {
				t.Errorf("%d events are written, want %d", n, want)
			}
		})
	}
}

// lagKnown reports whether the lag was read since the consumer started.
func (s *setting) lagKnown() bool {
	known := make(chan prometheus.Metric, 2*Partitions)
	s.metrics.lag.Collect(known)
	return len(known) == Partitions
}

func (s *setting) lag() (sum float64) {
	for p := range Partitions {
		sum += value(s, s.metrics.lag.WithLabelValues(fmt.Sprint(p)))
	}
	return sum
}

// value returns the value of a counter or a gauge.
func value(t testing.TB, m prometheus.Metric) float64 {
	t.Helper()
	var now dto.Metric
	if err := m.Write(&now); err != nil {
		t.Fatal(err)
	}
	return now.GetCounter().GetValue() + now.GetGauge().GetValue()
}

// With events in random order and some twice, handled by two concurrent consumers, the
// table has the newest of each.
func TestTwoConsumers(t *testing.T) {
	s := newSetting(t)
	now := time.Now().UTC()
	var events []goals.Event
	for range 50 {
		first := event(100, now)
		second := first
		balance := goals.Money(200)
		second.EventID, second.OccurredAt, second.Balance = uuid.NewString(), now.Add(time.Millisecond), &balance
		events = append(events, second, first, second)
	}
	other := *s.consumer
	other.Metrics = NewMetrics(prometheus.NewRegistry())
	defer s.start()()
	s2 := *s
	s2.consumer = &other
	defer s2.start()()
	if err := s.producer.Send(t.Context(), events...); err != nil {
		t.Fatal(err)
	}
	s.until("all is written", func() bool {
		s.table.mutex.Lock()
		defer s.table.mutex.Unlock()
		for _, p := range s.table.have {
			if p.CurrentBalance != 200 {
				return false
			}
		}
		return len(s.table.have) == 50
	})
}

// The broker's data survives a restart.
func TestBrokerRemembers(t *testing.T) {
	folder := t.TempDir()
	b, err := StartBroker(folder, "", DefaultTopics)
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewProducer(t.Context(), b.Kafka(), DefaultTopics)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Send(t.Context(), event(100, time.Now())); err != nil {
		t.Fatal(err)
	}
	p.Close()
	b.Close()
	if b, err = StartBroker(folder, "", DefaultTopics); err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	reader, err := kgo.NewClient(kgo.SeedBrokers(b.Addresses()...), kgo.ConsumeTopics(DefaultTopics.Events), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	records := reader.PollFetches(t.Context()).Records()
	var e goals.Event
	if len(records) != 1 || json.Unmarshal(records[0].Value, &e) != nil || *e.Balance != 100 {
		t.Errorf("the broker has %v", records)
	}
}

func TestBrokerStaysHome(t *testing.T) {
	if _, err := StartBroker("", "0.0.0.0:9092", DefaultTopics); err == nil || !strings.Contains(err.Error(), "127.0.0.1") {
		t.Errorf("a broker on all addresses: %v", err)
	}
}

// Of events of the same time, which banks stamp with seconds, the last one in the topic
// counts, whatever its kind and id.
func TestEventsOfTheSameTime(t *testing.T) {
	at := time.Now().UTC().Truncate(time.Second)
	money := func(m goals.Money) *goals.Money { return &m }
	first := goals.Event{Type: goals.Deposit, EventID: "f0000000-0000-4000-8000-000000000001", Product: "SAV", OccurredAt: at, Balance: money(37000)}
	second := goals.Event{Type: goals.Deposit, EventID: "00000000-0000-4000-8000-000000000002", Product: "SAV", OccurredAt: at, Balance: money(42000)}
	failed := goals.Event{Type: goals.Reconciliation, Outcome: goals.Failed, EventID: "f0000000-0000-4000-8000-000000000003", Product: "SAV", OccurredAt: at, Balance: money(32000), Deposit: &goals.DepositRef{EventID: first.EventID, OccurredAt: at}}
	s := newSetting(t)
	defer s.start()()
	sent := 0
	for i, c := range []struct {
		events []goals.Event
		want   goals.Money
	}{
		{[]goals.Event{first, second}, 42000},
		{[]goals.Event{second, first}, 37000},
		{[]goals.Event{failed, second}, 42000},
		{[]goals.Event{first, second, failed}, 32000},
	} {
		person := uuid.NewString()
		for j := range c.events {
			c.events[j].PersonID = person
		}
		if err := s.producer.Send(t.Context(), c.events...); err != nil {
			t.Fatal(err)
		}
		sent += len(c.events)
		s.until("all are handled", func() bool { return s.outcomes("written")+s.outcomes("older")+s.outcomes("rejected") == sent })
		if got := s.table.balance(person + "SAVINGS_ACCOUNT"); got != c.want {
			t.Errorf("case %d shows %s, want %s", i, got, c.want)
		}
	}
}
