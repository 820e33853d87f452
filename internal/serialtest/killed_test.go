package serialtest

import (
	"bufio"
	"bytes"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/stator-db/stator/internal/cli"
)

var (
	killedCount = flag.Int("serial.killed", 2000, "operations of each check of a server that is killed meanwhile")
	killedEvery = flag.Int64("serial.kill", 500, "requests that the server is sent before it is killed")
)

// serveEnv is the environment variable that makes this program a stator,
// which can be killed.
const serveEnv = "STATOR_SERIAL_SERVE"

func TestMain(m *testing.M) {
	if os.Getenv(serveEnv) != "" {
		os.Exit(cli.Run(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// Transactions, single writes and reads are strictly serialisable, also when
// the server is killed repeatedly meanwhile.
func TestListAppendWhileKilled(t *testing.T) {
	seed := seedOf(t)
	m := newKillable(t)
	stop := m.killNowAndThen(t)
	history := record(t, door{m}, seed, *appendClients, *killedCount)
	kills := stop()
	count := make(map[txnOutcome]int)
	for _, x := range history {
		count[x.outcome]++
	}
	t.Logf("%d kills, %d transactions (%d committed, %d aborted, %d unknown)", kills, len(history), count[committed], count[aborted], count[unknown])
	for _, a := range check(history) {
		t.Error(a)
	}
	if kills == 0 || count[unknown] == 0 {
		t.Error("no kill met a transaction")
	}
}

// Operations on one item are linearisable, also when the server is killed
// meanwhile.
func TestSingleItemsWhileKilled(t *testing.T) {
	seed := seedOf(t)
	m := newKillable(t)
	stop := m.killNowAndThen(t)
	history := recordItems(t, door{m}, seed, *killedCount)
	kills := stop()
	t.Logf("%d kills, %d operations", kills, len(history))
	if result := porcupine.CheckOperationsTimeout(register, history, registerPatient); result != porcupine.Ok {
		t.Errorf("the history is %s", result)
	}
	if kills == 0 {
		t.Error("it was never killed")
	}
}

// The control: if acknowledgements do not wait for the disk, a kill loses
// acknowledged writes, and that is found.
func TestKillsOfARelaxedServerAreFound(t *testing.T) {
	seed := seedOf(t)
	for try := range uint64(10) {
		m := newKillable(t, "--durability=relaxed")
		stop := m.killNowAndThen(t)
		n := &faultCounter{TB: t}
		history := record(n, door{m}, seed+try, *appendClients, *killedCount)
		if stop(); n.faults.Load() > 0 || len(check(history)) > 0 {
			return
		}
	}
	t.Error("nothing was found although writes did not wait for the disk")
}

// faultCounter counts what would fail a test, such as a lost table.
type faultCounter struct {
	testing.TB
	faults atomic.Int64
}

func (n *faultCounter) Errorf(string, ...any) { n.faults.Add(1) }

// statusLost is the status of a killable server's answer if the server ended
// before it answered.
const statusLost = 599

// killable is a server in another process, which is killed and restarted.
type killable struct {
	flags  []string
	client *http.Client

	asked atomic.Int64  // requests since the tables exist
	due   chan struct{} // receives when the server is to be killed

	mu  sync.RWMutex // held while it is not running
	cmd *exec.Cmd
	url string
}

func newKillable(t testing.TB, flags ...string) *killable {
	t.Helper()
	m := &killable{
		flags:  append([]string{"serve", "--addr", "127.0.0.1:0", "--log=error", "--data", filepath.Join(t.TempDir(), "data")}, flags...),
		client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 128}},
		due:    make(chan struct{}, 1),
	}
	if err := m.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.kill)
	return m
}

func (m *killable) start() error {
	m.cmd = exec.Command(os.Args[0], m.flags...)
	m.cmd.Env = append(os.Environ(), serveEnv+"=1")
	stderr, err := m.cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := m.cmd.Start(); err != nil {
		return err
	}
	var output strings.Builder
	for lines := bufio.NewScanner(stderr); lines.Scan(); {
		fmt.Fprintln(&output, lines.Text())
		if url, ok := strings.CutPrefix(lines.Text(), "stator listens on "); ok {
			m.url = url
			go io.Copy(io.Discard, stderr) //nolint:errcheck // until it ends
			return nil
		}
	}
	return fmt.Errorf("the server does not start: %w\n%s", m.cmd.Wait(), output.String())
}

func (m *killable) kill() {
	m.cmd.Process.Kill()
	m.cmd.Wait()
}

// killNowAndThen kills and restarts the server repeatedly, until stop is
// called.
func (m *killable) killNowAndThen(t testing.TB) (stop func() (kills int)) {
	done, ended := make(chan struct{}), make(chan int)
	go func() {
		for kills := 0; ; kills++ {
			select {
			case <-done:
				ended <- kills
				return
			case <-m.due:
			}
			m.kill()
			m.mu.Lock()
			err := m.start()
			m.mu.Unlock()
			if err != nil {
				t.Error(err)
			}
		}
	}()
	return func() int { close(done); return <-ended }
}

// ServeHTTP forwards the request to the server. A request is sent once, since
// it may have been applied despite an error, except scans: they are the final
// reads and must succeed.
func (m *killable) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(err)
	}
	target := r.Header.Get("X-Amz-Target")
	if !strings.HasSuffix(target, ".CreateTable") && m.asked.Add(1)%*killedEvery == 0 {
		select {
		case m.due <- struct{}{}:
		default: // it is being killed
		}
	}
	status, answer, err := m.forward(r, body)
	for try := 0; err != nil && try < 100 && strings.HasSuffix(target, ".Scan"); try++ {
		status, answer, err = m.forward(r, body)
	}
	if err != nil {
		status = statusLost
	}
	w.WriteHeader(status)
	_, _ = w.Write(answer)
}

func (m *killable) forward(r *http.Request, body []byte) (status int, answer []byte, err error) {
	m.mu.RLock()
	url := m.url
	m.mu.RUnlock()
	out, err := http.NewRequestWithContext(r.Context(), r.Method, url, bytes.NewReader(body))
	if err != nil {
		return 0, nil, err
	}
	out.Header = r.Header.Clone()
	reply, err := m.client.Do(out)
	if err != nil {
		return 0, nil, err
	}
	defer reply.Body.Close()
	answer, err = io.ReadAll(reply.Body)
	return reply.StatusCode, answer, err
}
