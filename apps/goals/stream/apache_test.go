package stream

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kversion"
)

// apache is Apache Kafka with its ZooKeeper, as processes of their own.
type apache struct {
	t      *testing.T
	home   string // of the distribution
	folder string
	port   int
	kafka  *process
}

// process is a running program.
type process struct {
	*exec.Cmd
	ended chan struct{}
}

// kill is kill -9.
func (p *process) kill() {
	_ = p.Process.Kill() // it may have ended
	<-p.ended
}

// startApache starts Apache Kafka, of which `make kafka` installs a version from npm. That is
// 0.9.0.1, the only one which a registry has that the tests can use.
func startApache(t *testing.T) *apache {
	t.Helper()
	home := os.Getenv("KAFKA_HOME")
	if home == "" {
		home, _ = filepath.Abs("../../../bin/kafka/package/kafka")
	}
	jars, _ := filepath.Glob(filepath.Join(home, "libs", "kafka_2.11-0.9.*.jar"))
	if len(jars) == 0 {
		t.Skip("there is no Apache Kafka 0.9: `make kafka` installs it")
	}
	if _, err := exec.LookPath("java"); err != nil {
		t.Skip("there is no Java for Apache Kafka")
	}
	a := &apache{t: t, home: home, folder: t.TempDir(), port: freePort(t)}
	keeper := freePort(t)
	a.write("zookeeper.properties", "dataDir=%s/zookeeper\nclientPort=%d\nclientPortAddress=127.0.0.1\ntickTime=500\n", a.folder, keeper)
	a.write("kafka.properties", `broker.id=0
listeners=PLAINTEXT://127.0.0.1:%d
log.dirs=%s/log
zookeeper.connect=127.0.0.1:%d
zookeeper.connection.timeout.ms=60000
zookeeper.session.timeout.ms=3000
num.partitions=%d
offsets.topic.num.partitions=1
log.cleaner.enable=false
group.min.session.timeout.ms=1000
`, a.port, a.folder, keeper, Partitions)
	a.java("org.apache.zookeeper.server.quorum.QuorumPeerMain", "zookeeper.properties")
	a.start()
	return a
}

// start starts the broker and waits until it has the topics, which it creates when a client
// asks for them. A broker ends while ZooKeeper has the session of one that was killed; then
// it is started again.
func (a *apache) start() {
	a.t.Helper()
	k := a.at()
	client, err := k.open()
	if err != nil {
		a.t.Fatal(err)
	}
	defer client.Close()
	a.kafka = a.java("kafka.Kafka", "kafka.properties")
	for {
		trying, cancel := context.WithTimeout(a.t.Context(), reachTimeout)
		err := EnsureTopics(trying, client, DefaultTopics)
		cancel()
		if err == nil {
			return
		}
		select {
		case <-a.t.Context().Done():
			a.t.Fatalf("Apache Kafka does not respond: %v", err)
		case <-a.kafka.ended:
			a.kafka = a.java("kafka.Kafka", "kafka.properties")
		case <-time.After(100 * time.Millisecond):
		}
	}
}

func (a *apache) write(name, format string, args ...any) {
	a.t.Helper()
	if err := os.WriteFile(filepath.Join(a.folder, name), fmt.Appendf(nil, format, args...), 0o600); err != nil {
		a.t.Fatal(err)
	}
}

// java starts a class with a file of settings, until the test ends.
func (a *apache) java(class, settings string) *process {
	a.t.Helper()
	p := &process{exec.Command("java", "-Xmx192m", "-cp", filepath.Join(a.home, "libs", "*"), class, filepath.Join(a.folder, settings)), make(chan struct{})}
	if err := p.Start(); err != nil {
		a.t.Fatal(err)
	}
	go func() {
		defer close(p.ended)
		_ = p.Wait() // most are killed
	}()
	a.t.Cleanup(p.kill)
	return p
}

// at returns how the broker is reached. It knows neither the request by which clients ask
// for versions nor producers with an id.
func (a *apache) at() Kafka {
	k := At(fmt.Sprintf("127.0.0.1:%d", a.port))
	k.more = []kgo.Opt{kgo.MaxVersions(kversion.V0_9_0()), kgo.DisableIdempotentWrite()}
	return k
}

func freePort(t *testing.T) int {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// Against Apache Kafka each event is written once: by a consumer that begins later, by two that share
// the partitions, by one that continues where the last one has ended, and after a kill -9 of
// the broker.
func TestApacheKafka(t *testing.T) {
	a := startApache(t)
	s := settingAt(t, nil, a.at())
	sent := 0
	send := func(n int) {
		t.Helper()
		for range n {
			if err := s.producer.Send(t.Context(), event(100, time.Now().UTC())); err != nil {
				t.Fatal(err)
			}
		}
		sent += n
	}
	all := func(what string) {
		t.Helper()
		s.until(what, func() bool { return s.table.count() == sent })
	}
	send(100)
	stop := s.start()
	all("a consumer has written what was sent before it")
	second := s.start()
	send(100)
	all("two consumers have written the events")
	second()
	stop()
	if n := s.outcomes("older"); n > 0 {
		t.Logf("%d events were delivered again when the second consumer joined", n)
	}

	again := s.outcomes("older")
	send(50)
	stop = s.start()
	all("another consumer has continued")
	if n := s.outcomes("older") - again; n != 0 {
		t.Errorf("%d events were delivered again, although their offsets were committed", n)
	}
	a.kafka.kill()
	a.start()
	send(50)
	all("events after a kill of the broker are written")
	stop()
	if n := s.outcomes("written"); n != sent {
		t.Errorf("%d events were written of %d", n, sent)
	}
}
