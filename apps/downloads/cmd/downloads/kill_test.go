package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/stator-db/stator/apps/downloads"
	"github.com/stator-db/stator/apps/downloads/downloader"
	"github.com/stator-db/stator/apps/downloads/ledger"
	"github.com/stator-db/stator/apps/downloads/seal"
	upstreamstand "github.com/stator-db/stator/apps/downloads/upstream/stand"
	"github.com/stator-db/stator/apps/internal/home"
	"github.com/stator-db/stator/apps/internal/hometest"
	"github.com/stator-db/stator/apps/internal/mototest"
)

var (
	kills = flag.Int("kills", 6, "processes to kill in each kill test")
	seed  = flag.Uint64("seed", 0, "seed of the random moments; defaults to a new one")
)

// The test binary acts as the program when it is started as a child.
func TestMain(m *testing.M) {
	if os.Getenv("DOWNLOADS_CHILD") != "" {
		main()
		return
	}
	flag.Parse()
	os.Exit(m.Run())
}

// scene is an upstream, a folder and the processes of a pipeline.
type scene struct {
	t      *testing.T
	up     *upstreamstand.Stand
	url    string
	folder string
	random *rand.Rand
	files  int
	bucket string   // URL
	extra  []string // additional environment of the children

	endpoint string   // of the tables that the processes share
	children []*child // all that were started
}

func newScene(t *testing.T) *scene {
	t.Helper()
	s := *seed
	if s == 0 {
		s = rand.Uint64()
	}
	t.Logf("-seed %d", s)
	sc := &scene{t: t, folder: t.TempDir(), random: rand.New(rand.NewPCG(s, s)), files: 12}
	sc.bucket = "file://" + filepath.Join(sc.folder, "files")
	key, err := seal.MakeKey(filepath.Join(sc.folder, "key.pem"))
	if err != nil {
		t.Fatal(err)
	}
	sc.up = upstreamstand.New(upstreamstand.Options{Key: &key.PublicKey, Seed: "kill", Files: sc.files, Size: 100_000, Pause: 4 * time.Millisecond})
	for i := range sc.files {
		if err := sc.up.Fault(upstreamstand.Entity(i), "slow", 1_000_000); err != nil {
			t.Fatal(err)
		}
	}
	server := httptest.NewServer(sc.up)
	t.Cleanup(server.Close)
	sc.url = server.URL
	return sc
}

// child is a process of the pipeline.
type child struct {
	cmd   *exec.Cmd
	mutex sync.Mutex
	log   strings.Builder
	ready chan struct{}
	done  chan struct{}
	page  string
	db    string
}

var ready = regexp.MustCompile(`msg=ready page=(\S+) dynamodb=(\S*)`)

// start starts the program with the arguments, and with those of all children.
func (sc *scene) start(args ...string) *child {
	sc.t.Helper()
	args = append(args, "--upstream", sc.url, "--listen", "127.0.0.1:0", "--lease", "1s")
	if args[0] != "download" {
		args = append(args, "--resend", "1s", "--max-tries", "1000")
	}
	c := &child{cmd: exec.Command(os.Args[0], args...), ready: make(chan struct{}), done: make(chan struct{})}
	c.cmd.Env = append(os.Environ(), append(sc.extra, "DOWNLOADS_CHILD=1", "AWS_EC2_METADATA_DISABLED=true")...)
	out, err := c.cmd.StderrPipe()
	if err != nil {
		sc.t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		sc.t.Fatal(err)
	}
	go func() {
		defer close(c.done)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			c.mutex.Lock()
			c.log.WriteString(lines.Text() + "\n")
			if m := ready.FindStringSubmatch(lines.Text()); m != nil {
				c.page, c.db = m[1], m[2]
				close(c.ready)
			}
			c.mutex.Unlock()
		}
		io.Copy(io.Discard, out)
		c.cmd.Wait()
	}()
	sc.children = append(sc.children, c)
	sc.t.Cleanup(func() {
		c.kill()
		if sc.t.Failed() {
			sc.t.Logf("%v:\n%s", args[0], c.text())
		}
	})
	return c
}

// logs returns the logs of all children.
func (sc *scene) logs() string {
	var all strings.Builder
	for _, c := range sc.children {
		all.WriteString(c.text())
	}
	return all.String()
}

func (c *child) text() string {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	return c.log.String()
}

func (c *child) kill() {
	c.cmd.Process.Signal(syscall.SIGKILL)
	<-c.done
}

// stop stops a child with a signal.
func (c *child) stop(t *testing.T) {
	t.Helper()
	c.cmd.Process.Signal(syscall.SIGTERM)
	<-c.done
	if code := c.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("a process that is stopped ends with %d:\n%s", code, c.text())
	}
}

// check checks that the batches of days are completed and correct, and that the
// bucket has exactly their files, with the right bytes.
func (sc *scene) check(db *home.Home, dates []string) {
	sc.t.Helper()
	batches := &ledger.Batches{DB: db.DB, Now: time.Now}
	jobs := &ledger.Jobs{DB: db.DB, Now: time.Now}
	bucket, err := downloader.OpenBucket(sc.t.Context(), sc.bucket)
	if err != nil {
		sc.t.Fatal(err)
	}
	defer bucket.Close()
	want := make(map[string]bool)
	again := 0 // files that more than one process worked on, one after the other
	for _, date := range dates {
		found, err := batches.OfDay(sc.t.Context(), date, "")
		if err != nil || len(found) != 1 {
			sc.t.Fatalf("%s has %d batches, %v", date, len(found), err)
		}
		var ids []string
		for i := range sc.files {
			entity := upstreamstand.Entity(i)
			ids = append(ids, ledger.FileID(entity, date))
			file := date + "/" + entity
			want[file] = true
			if got, err := bucket.ReadAll(sc.t.Context(), file); err != nil || string(got) != string(sc.up.Plain(date, entity)) {
				sc.t.Errorf("%s is not what the upstream has: %d bytes, %v", file, len(got), err)
			}
			if j, err := jobs.Get(sc.t.Context(), ledger.FileID(entity, date)); err != nil || j.Status != ledger.Completed {
				sc.t.Errorf("the job of %s: %+v, %v", file, j, err)
			} else if j.Tries > 1 {
				again++
			}
		}
		slices.Sort(ids)
		if b := found[0]; b.Status != ledger.Completed || !slices.Equal(b.ExpectedFiles, ids) || !slices.Equal(b.CompletedFiles, ids) || b.FailedFiles != nil {
			sc.t.Errorf("the batch of %s is %+v", date, b)
		}
	}
	sc.t.Logf("%d days, %d files; %d of them were claimed again after a kill", len(dates), len(want), again)
	if *kills >= 50 && again == 0 {
		sc.t.Error("no kill interrupted a file: the test shows nothing")
	}
	list := bucket.List(nil)
	for {
		o, err := list.Next(sc.t.Context())
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			sc.t.Fatal(err)
		}
		if !want[o.Key] {
			sc.t.Errorf("%s is in the bucket", o.Key)
		}
	}
}

// Poller and downloaders are separate processes, with a broker between them that
// loses messages without a receiver. They are killed at random moments.
func TestKilledProcesses(t *testing.T) {
	sc := newScene(t)
	broker, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoLog: true, NoSigs: true})
	if err != nil {
		t.Fatal(err)
	}
	broker.Start()
	t.Cleanup(broker.Shutdown)
	if !broker.ReadyForConnections(10 * time.Second) {
		t.Fatal("the broker does not start")
	}
	sc.extra = []string{"NATS_SERVER_URL=" + broker.ClientURL()}
	conn, err := nats.Connect(broker.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	sc.killProcesses("nats://files?natsv2", "nats://files?queue=d&natsv2", func(body string) {
		conn.Publish("files", []byte(body))
		conn.Flush()
	})
}

// The same with SQS between the processes, which delivers each message at least once, and
// with S3 as the bucket. Parts of files are removed, also those of processes that were killed.
func TestKilledProcessesSQS(t *testing.T) {
	server := mototest.Start(t)
	sc := newScene(t)
	files := server.Queue(t, "files", "1")
	sc.bucket = server.Bucket(t, "files")
	sc.killProcesses(files.URL, files.URL, func(body string) {
		if body != "" { // SQS has no empty messages
			files.Send(body)
		}
	})
	// What is left was sent again by a sweep, or was received by a process that was killed.
	sub := sc.start("download", "--endpoint", sc.endpoint, "--subscription", files.URL, "--key", filepath.Join(sc.folder, "key.pem"), "--bucket", sc.bucket)
	files.Empty()
	<-sub.ready
	sub.stop(t)
	for _, metric := range []string{"an invalid message is dropped", "has no job, and is dropped"} {
		if !strings.Contains(sc.logs(), metric) {
			t.Errorf("no process has logged that %s", metric)
		}
	}
}

// killProcesses runs a poller and two downloaders and kills them at random moments.
func (sc *scene) killProcesses(topic, subscription string, send func(body string)) {
	t := sc.t
	t.Helper()
	tables := hometest.StartWith(t, home.Options{Model: downloads.Model, DynamoDB: "127.0.0.1:0"})
	endpoint := "http://" + tables.Address
	sc.endpoint = endpoint
	starts := []func() *child{
		func() *child {
			return sc.start("poll", "--endpoint", endpoint, "--topic", topic, "--poll-every", "50ms", "--small-batch", "5", "--resume-days", "90")
		},
	}
	for range 2 {
		starts = append(starts, func() *child {
			return sc.start("download", "--endpoint", endpoint, "--subscription", subscription,
				"--key", filepath.Join(sc.folder, "key.pem"), "--bucket", sc.bucket, "--parallel", "4", "--backoff", "20ms")
		})
	}
	batches := &ledger.Batches{DB: tables.DB, Now: time.Now}
	var dates []string
	// another writes the record of one more batch, as a trigger does.
	// The next poller finds it.
	another := func() {
		date := time.Now().UTC().AddDate(0, 0, -len(dates)).Format(time.DateOnly)
		dates = append(dates, date)
		if _, err := batches.Create(t.Context(), ledger.ScheduledID(date), date); err != nil {
			t.Fatal(err)
		}
	}
	another()
	another()
	var children []*child
	for _, s := range starts {
		children = append(children, s())
	}
	// Invalid messages.
	for _, body := range []string{"", "{", `{"FileID": 1}`, `{"FileID": "nobody-2026-02-28"}`, strings.Repeat("x", 100_000)} {
		send(body)
	}
	for range *kills {
		time.Sleep(time.Duration(sc.random.IntN(900)) * time.Millisecond)
		n := sc.random.IntN(len(children))
		if over(t, batches, dates) {
			another()
			n = 0
		}
		children[n].kill()
		children[n] = starts[n]()
	}
	for !over(t, batches, dates) {
		time.Sleep(50 * time.Millisecond)
	}
	// A file whose downloader was killed after it stored the file is downloaded
	// again; wait until none is.
	for _, c := range children {
		<-c.ready
		c.stop(t)
	}
	sc.check(tables, dates)
}

func over(t *testing.T, batches *ledger.Batches, dates []string) bool {
	t.Helper()
	for _, date := range dates {
		b, err := batches.Get(t.Context(), ledger.ScheduledID(date))
		if err != nil {
			t.Fatal(err)
		}
		if !b.Over() {
			return false
		}
	}
	return true
}

// One process with embedded tables and queue is killed at random moments.
func TestKilledWhole(t *testing.T) {
	sc := newScene(t)
	data := filepath.Join(sc.folder, "tables")
	begin := func() *child {
		return sc.start("serve", "--data", data, "--dynamodb", "127.0.0.1:0", "--key", filepath.Join(sc.folder, "key.pem"), "--bucket", sc.bucket,
			"--schedule", "00:00", "--timezone", "UTC", "--poll-every", "50ms", "--parallel", "4", "--backoff", "20ms", "--small-batch", "5")
	}
	for range *kills {
		c := begin()
		time.Sleep(time.Duration(sc.random.IntN(1200)) * time.Millisecond)
		c.kill()
	}
	c := begin()
	<-c.ready
	date := time.Now().UTC().Format(time.DateOnly)
	for {
		var b struct{ Status ledger.Status }
		if err := day(t.Context(), c.page, date, &b.Status); err != nil {
			t.Fatal(err)
		}
		if b.Status == ledger.Completed || b.Status == ledger.Failed || b.Status == ledger.Timeout {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
	hometest.NoScan(t, http.DefaultClient, "http://"+c.db)
	c.stop(t)
	tables := hometest.StartWith(t, home.Options{Model: downloads.Model, Data: data})
	sc.check(tables, []string{date})
}

// day reads the status of a day's first batch from the page's API.
func day(ctx context.Context, page, date string, s *ledger.Status) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, page+"/api/days/"+date, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusOK {
		return fmt.Errorf("status %d: %s, %w", answer.StatusCode, text, err)
	}
	if m := regexp.MustCompile(`"status":"(\w+)"`).FindSubmatch(text); m != nil {
		*s = ledger.Status(m[1])
	}
	return nil
}
