package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"
	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"gocloud.dev/blob"

	"github.com/stator-db/stator/apps/goals"
	"github.com/stator-db/stator/apps/goals/batch"
	"github.com/stator-db/stator/apps/goals/gold"
	"github.com/stator-db/stator/apps/goals/rules"
	"github.com/stator-db/stator/apps/goals/stream"
	"github.com/stator-db/stator/apps/internal/home"
	"github.com/stator-db/stator/apps/internal/hometest"
)

// TestMain lets the test binary act as the program, in a process that can be killed.
func TestMain(m *testing.M) {
	if os.Getenv("GOALS_CHILD") != "" {
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		code := run(ctx, os.Args[1:])
		stop()
		os.Exit(code)
	}
	os.Exit(m.Run())
}

// child is the program in a child process.
type child struct {
	*testing.T
	command *exec.Cmd
	lines   chan string // of its log
	ended   bool
}

func start(t *testing.T, args ...string) *child {
	t.Helper()
	c := &child{T: t, command: exec.Command(os.Args[0], args...), lines: make(chan string, 10_000)}
	c.command.Env = append(os.Environ(), "GOALS_CHILD=1", "AWS_EC2_METADATA_DISABLED=true")
	out, err := c.command.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.command.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(c.lines)
		for log := bufio.NewScanner(out); log.Scan(); {
			select {
			case c.lines <- log.Text():
			default:
			}
		}
	}()
	t.Cleanup(c.kill)
	return c
}

// kill is kill -9.
func (c *child) kill() {
	if !c.ended {
		c.ended = true
		c.command.Process.Kill()
		c.command.Wait()
	}
}

// says waits for a line of the log and returns what the pattern matches.
func (c *child) says(pattern string) string {
	c.Helper()
	look := regexp.MustCompile(pattern)
	var all []string
	for line := range c.lines {
		all = append(all, line)
		if found := look.FindStringSubmatch(line); found != nil {
			return found[1]
		}
	}
	c.Fatalf("the process ended without logging %s:\n%s", pattern, strings.Join(all, "\n"))
	return ""
}

func (c *child) succeeds() {
	c.Helper()
	var all []string
	for line := range c.lines {
		all = append(all, line)
	}
	c.ended = true
	if err := c.command.Wait(); err != nil {
		c.Fatalf("%v: %v\n%s", c.command.Args[1:], err, strings.Join(all, "\n"))
	}
}

// bucketOf opens a folder of gold files, and the prefix with the state of runs.
func bucketOf(t *testing.T, folder string) (goldBucket, state *blob.Bucket, where string) {
	t.Helper()
	where, err := folderURL(folder)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range []**blob.Bucket{&goldBucket, &state} {
		if *b, err = blob.OpenBucket(t.Context(), where); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { (*b).Close() })
	}
	state = blob.PrefixedBucket(state, "state/")
	return goldBucket, state, where
}

const people = 900

// loading is a table on another server with a day in it, the files of the next day,
// and the expected table.
type loading struct {
	*testing.T
	home  *home.Home
	want  map[string]map[string]types.AttributeValue
	work  string
	flags []string
}

func newLoading(t *testing.T) *loading {
	t.Helper()
	h := hometest.StartWith(t, home.Options{Model: goals.Model, DynamoDB: "127.0.0.1:0"})
	bucket, state, where := bucketOf(t, filepath.Join(t.TempDir(), "gold"))
	source, err := rules.Open(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	defer source.Close()
	plan := gold.Plan{Day: "2026-05-15", AsOf: time.Date(2026, 5, 15, 3, 0, 0, 0, time.UTC), Customers: people, Seed: 9, Format: "parquet", PartRows: 400}
	next := plan
	next.Day, next.AsOf, next.First = "2026-05-16", plan.AsOf.AddDate(0, 0, 1), 100
	for _, p := range []gold.Plan{plan, next} {
		if _, err := gold.Generate(t.Context(), bucket, p); err != nil {
			t.Fatal(err)
		}
	}
	o := batch.Options{Bucket: bucket, State: state, Rules: source, DB: h.DB, Work: t.TempDir(), Log: slog.New(slog.DiscardHandler), Now: now, Readers: 2, Writers: 4, VanishPercent: 100}
	o.Day = plan.Day
	if _, err := batch.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	// The result of an undisturbed run of the next day, in another table.
	other := hometest.Start(t, goals.Model)
	o.Day, o.DB, o.Work = next.Day, other.DB, t.TempDir()
	if _, err := batch.Run(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	l := &loading{T: t, home: h, work: t.TempDir()}
	l.want = l.customers(other)
	l.flags = []string{"load", "--day", next.Day, "--endpoint", "http://" + h.Address, "--bucket", where, "--work", l.work, "--vanish-percent", "100", "--items-per-second", "1200"}
	return l
}

func (l *loading) customers(h *home.Home) map[string]map[string]types.AttributeValue {
	l.Helper()
	all := make(map[string]map[string]types.AttributeValue)
	for i := range people + 100 {
		id := gold.Person(9, i).String()
		got, err := hometest.Examine(h.DB).GetItem(l.Context(), &dynamodb.GetItemInput{TableName: aws.String(goals.BatchTable), Key: map[string]types.AttributeValue{"personId": &types.AttributeValueMemberS{Value: id}}})
		if err != nil {
			l.Fatal(err)
		}
		if got.Item != nil {
			all[id] = got.Item
		}
	}
	return all
}

// journal waits until a step was recorded a number of times.
func (l *loading) journal(has string, times int) string {
	l.Helper()
	for {
		found, _ := filepath.Glob(filepath.Join(l.work, "*", "journal*"))
		if len(found) == 1 {
			if b, err := os.ReadFile(found[0]); err == nil && strings.Count(string(b), has) >= times {
				return found[0]
			}
		}
		select {
		case <-l.Context().Done():
			l.Fatalf("timed out waiting for %d of %q", times, has)
		case <-time.After(time.Millisecond):
		}
	}
}

func TestKilledLoad(t *testing.T) {
	l := newLoading(t)
	for _, at := range []struct {
		step  string
		times int
	}{{`"step":"read"`, 1}, {`"step":"load`, 1}, {`"step":"load`, 3}} {
		c := start(t, l.flags...)
		l.journal(at.step, at.times)
		c.kill()
	}
	start(t, l.flags...).succeeds()
	if got := l.customers(l.home); !reflect.DeepEqual(got, l.want) {
		t.Errorf("after three kills the table has %d customers, want %d, or they differ", len(got), len(l.want))
	}
}

// The control: a run that records a part before it has written it loses customers, and
// the test above would find it.
func TestKilledLoadControl(t *testing.T) {
	l := newLoading(t)
	c := start(t, l.flags...)
	name := l.journal(`"step":"load`, 1)
	c.kill()
	file, err := os.OpenFile(name, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 256 {
		fmt.Fprintf(file, `{"step":"load %02x","counts":{}}`+"\n", i)
	}
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	start(t, l.flags...).succeeds()
	if got := l.customers(l.home); reflect.DeepEqual(got, l.want) {
		t.Error("the missing parts are not found")
	}
}

func TestKilledConsumer(t *testing.T) {
	h := hometest.StartWith(t, home.Options{Model: goals.Model, DynamoDB: "127.0.0.1:0"})
	broker, err := stream.StartBroker("", "", stream.DefaultTopics)
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	producer, err := stream.NewProducer(t.Context(), broker.Kafka(), stream.DefaultTopics)
	if err != nil {
		t.Fatal(err)
	}
	defer producer.Close()
	const seed = 42
	r := rand.New(rand.NewPCG(seed, 0))
	newest := make(map[string]goals.Event)
	began := time.Now().UTC().Add(-time.Hour).Truncate(time.Second)
	send := func(n int) {
		events := make([]goals.Event, n)
		for i := range events {
			balance := goals.Money(r.IntN(100_000))
			e := goals.Event{Type: goals.Deposit, EventID: uuid.NewString(), PersonID: gold.Person(9, r.IntN(40)).String(), Product: "SAV", OccurredAt: began.Add(time.Duration(r.IntN(1e6)) * time.Millisecond), Balance: &balance}
			if old, ok := newest[e.PersonID]; !ok || e.OccurredAt.After(old.OccurredAt) || e.OccurredAt.Equal(old.OccurredAt) && e.EventID > old.EventID {
				newest[e.PersonID] = e
			}
			events[i] = e
		}
		if err := producer.Send(t.Context(), events...); err != nil {
			t.Fatal(err)
		}
	}
	flags := []string{"consume", "--endpoint", "http://" + h.Address, "--kafka", strings.Join(broker.Addresses(), ","), "--instance", "one", "--listen", "127.0.0.1:0"}
	client, err := kgo.NewClient(kgo.SeedBrokers(broker.Addresses()...))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	committed := func() (n int64, left int64) {
		lags, err := kadm.NewClient(client).Lag(t.Context(), "goals")
		if err != nil || lags.Error() != nil {
			return 0, -1
		}
		for _, g := range lags {
			for _, p := range g.Lag.Sorted() {
				n, left = n+max(0, p.Commit.At), left+p.Lag
			}
		}
		return n, left
	}
	var before int64
	for range 3 {
		send(700)
		c := start(t, flags...)
		for n, _ := committed(); n <= before; n, _ = committed() { // it has started
			time.Sleep(time.Millisecond)
		}
		c.kill()
		before, _ = committed()
	}
	last := start(t, flags...)
	for n, left := committed(); n < 2100 || left != 0; n, left = committed() {
		time.Sleep(20 * time.Millisecond)
	}
	last.kill()
	for person, e := range newest {
		got, err := hometest.Examine(h.DB).GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String(goals.NRTTable), Key: map[string]types.AttributeValue{
			"personId": &types.AttributeValueMemberS{Value: person}, "goalId": &types.AttributeValueMemberS{Value: "SAVINGS_ACCOUNT"},
		}})
		if err != nil {
			t.Fatal(err)
		}
		if id, ok := got.Item["eventId"].(*types.AttributeValueMemberS); !ok || id.Value != e.EventID {
			t.Errorf("seed %d: person %s has %v, want event %s", seed, person, got.Item, e.EventID)
		}
	}
}

// Everything runs in one process that is killed: acknowledged writes are there after a
// restart. In memory they are not, and the check finds that.
func TestKilledServer(t *testing.T) {
	person := gold.Person(1, 0).String()
	for _, kept := range []bool{true, false} {
		t.Run(fmt.Sprint("on disk ", kept), func(t *testing.T) {
			folder := t.TempDir()
			day := time.Now().UTC().Add(-time.Hour)
			start(t, "generate", "--data", folder, "--customers", "50", "--day", day.Format(time.DateOnly), "--as-of", day.Format(time.RFC3339)).succeeds()
			flags := []string{"serve", "--listen", "127.0.0.1:0", "--instance", "one"}
			if kept {
				start(t, "load", "--data", folder, "--day", day.Format(time.DateOnly)).succeeds()
				flags = append(flags, "--data", folder, "--dynamodb", "127.0.0.1:0")
			}
			c := start(t, flags...)
			if kept {
				c.says(`endpoint=(\S+)`)
			}
			kafka, url := c.says(`kafka=(\S+)`), c.says(`serving url=(\S+)`)
			if kept {
				choose(t, url, person)
			}
			producer, err := stream.NewProducer(t.Context(), stream.At(kafka), stream.DefaultTopics)
			if err != nil {
				t.Fatal(err)
			}
			balance := goals.Money(12345)
			if err := producer.Send(t.Context(), goals.Event{Type: goals.Deposit, EventID: uuid.NewString(), PersonID: person, Product: "SAV", OccurredAt: time.Now(), Balance: &balance}); err != nil {
				t.Fatal(err)
			}
			c.kill()
			producer.Close()

			c = start(t, flags...)
			endpoint := ""
			if kept {
				endpoint = c.says(`endpoint=(\S+)`)
			}
			url = c.says(`serving url=(\S+)`)
			if !kept {
				if status, body := get(t, url, person); status != http.StatusNotFound {
					t.Errorf("in memory, after a kill: %d %s", status, body)
				}
				return
			}
			for {
				status, body := get(t, url, person)
				if status != http.StatusOK || !strings.Contains(body, `"chosen":true`) {
					t.Fatalf("after a kill: %d %s", status, body)
				}
				if strings.Contains(body, `"savedAmount":123.45,"status":"PENDING_CONFIRMATION"`) {
					break
				}
				select {
				case <-t.Context().Done():
					t.Fatalf("the event is lost: %s", body)
				case <-time.After(5 * time.Millisecond):
				}
			}
			hometest.NoScan(t, http.DefaultClient, endpoint)
		})
	}
}

func choose(t *testing.T, url, person string) {
	t.Helper()
	body, err := json.Marshal(map[string]string{"goalId": "GOVERNMENT_BONDS"})
	if err != nil {
		t.Fatal(err)
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url+"/api/people/"+person+"/choice", strings.NewReader(string(body)))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	if answer.StatusCode != http.StatusNoContent {
		t.Fatalf("choosing a goal: status %d", answer.StatusCode)
	}
}

func get(t *testing.T, url, person string) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/api/people/"+person+"/goals", nil)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}
