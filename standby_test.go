package stator

import (
	"context"
	"errors"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb"
	"github.com/aws/aws-sdk-go-v2/service/dynamodb/types"

	"github.com/stator-db/stator/internal/clock"
	"github.com/stator-db/stator/internal/db/history"
	"github.com/stator-db/stator/internal/logtest"
	"github.com/stator-db/stator/internal/standby"
	"github.com/stator-db/stator/internal/store"
	"github.com/stator-db/stator/internal/virtualtime"
)

// A standby that is interrupted anywhere has everything that its server has, under the
// same keys, and continues as the server would once it is promoted.
func TestStandby(t *testing.T) {
	const seed = 18
	t.Logf("seed %d", seed)
	p := startPrimary(t)
	w := &workload{t: t, r: rand.New(rand.NewPCG(seed, 1)), Client: sdkClient(p.web.URL, nil)}
	w.createTable("Orders")
	for i := range 50 {
		w.step(i)
	}
	var log logtest.Log
	dir := filepath.Join(t.TempDir(), "standby")
	p.cut.Store(5000) // within the copy
	s := openTestStandby(t, dir, p.web.URL, &log)
	defer func() { s.Close() }()
	for !strings.Contains(s.Status().Error, "EOF") {
		time.Sleep(time.Millisecond)
	}
	if _, err := s.Promote(t.Context()); !errors.Is(err, ErrNoCopy) {
		t.Errorf("a part of a copy is promoted: %v", err)
	}
	p.cut.Store(0)
	for i := range 240 {
		w.step(100 + i)
		switch {
		case i%40 == 10:
			if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			s = openTestStandby(t, dir, p.web.URL, &log)
		case i%40 == 20:
			p.restart()
		case i%40 == 30:
			p.cut.Store(1 + w.r.Int64N(3000))
		case i%40 == 35:
			p.cut.Store(0)
		}
	}
	waitEqual(t, p, s)
	d, err := s.Promote(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	checkSame(t, d.engine, p.db.Load().engine)
	w.must(w.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("Orders"), Item: w.item()})) // to the old server
	if differing(t, d.engine, p.db.Load().engine) == nil {
		t.Error("the comparison does not find a write that only one of the two has")
	}
	checkPromoted(t, s, w, dir, p)
}

// checkSame checks that two engines have the same keys. Both databases may still be
// removing deleted tables, so it waits for that.
func checkSame(t *testing.T, a, b store.Engine) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		keys := differing(t, a, b)
		if keys == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Errorf("the standby and the server differ in %d keys: %q", len(keys), keys)
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// differing returns the keys in which a standby and its server differ.
func differing(t *testing.T, standby, server store.Engine) (all []string) {
	t.Helper()
	got, want := keys(t, standby), keys(t, server)
	if runs := string(history.RunsKey()); sameRuns(got[runs], want[runs]) {
		delete(got, runs)
		delete(want, runs)
	}
	for k := range union(got, want) {
		if k[0] != 'n' && got[k] != want[k] { // counts are saved now and then
			all = append(all, k)
		}
	}
	return all
}

// sameRuns reports whether a promoted standby has the runs of the clock that its server has. It may
// have added its own. The end of the server's last run is not compared: each of the two stores its own,
// the server every few seconds while its stamps are ahead of the clock.
func sameRuns(standby, server string) bool {
	const endBytes = 8
	return strings.HasPrefix(standby, server[:max(0, len(server)-endBytes)]) && len(standby) >= len(server)
}

// The comparison of runs finds a run that only the server has, and one that differs.
func TestSameRuns(t *testing.T) {
	at := func(seconds int64) time.Time { return time.Unix(seconds, 0) }
	shared := history.Runs(nil).Begin(1, at(10), at(5))
	server := shared.End(at(6))
	for _, c := range []struct {
		name    string
		standby history.Runs
		want    bool
	}{
		{"the same", server, true},
		{"a later end", shared.End(at(7)), true},
		{"no end", shared, true},
		{"another end and a run of its own", shared.End(at(7)).Begin(2, at(7), at(8)), true},
		{"none", nil, false},
		{"another end of the first run", history.Runs(nil).Begin(1, at(11), at(5)), false},
		{"another start of the last run", history.Runs(nil).Begin(1, at(10), at(4)), false},
	} {
		if got := sameRuns(string(c.standby.Encode()), string(server.Encode())); got != c.want {
			t.Errorf("%s: sameRuns returns %v", c.name, got)
		}
	}
	if !sameRuns("", "") || sameRuns("", string(server.Encode())) {
		t.Error("runs that are not stored are compared wrongly")
	}
}

func union(a, b map[string]string) map[string]string {
	all := maps.Clone(a)
	maps.Copy(all, b)
	return all
}

// checkPromoted checks that a promoted standby serves, that it does not apply a
// transaction again, and that it follows no more.
func checkPromoted(t *testing.T, s *Standby, w *workload, dir string, p *primaryServer) {
	t.Helper()
	web := httptest.NewServer(s.Handler())
	defer web.Close()
	client := sdkClient(web.URL, nil)
	reports, err := s.db.Verify(t.Context(), func(string, int64) {})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range reports {
		if r.Faults > 0 {
			t.Errorf("table %s: %v", r.Table, r.First)
		}
	}
	if _, err := client.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("Orders"), Item: w.item()}); err != nil {
		t.Errorf("a write after the promotion: %v", err)
	}
	before := len(keys(t, s.db.engine))
	w.createTable("Later") // by the old server
	if after := len(keys(t, s.db.engine)); after > before+1 {
		t.Errorf("the promoted standby still follows: %d keys after %d", after, before)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := OpenStandby(t.Context(), StandbyOptions{Options: Options{Dir: dir}, Of: p.web.URL, Sign: signTest}); err == nil || !strings.Contains(err.Error(), "a promoted standby cannot follow a server again") {
		t.Errorf("a promoted standby is attached again: %v", err)
	}
	d, err := Open(t.Context(), Options{Dir: dir})
	if err != nil {
		t.Fatalf("the promoted data cannot be served: %v", err)
	}
	s.db = d
}

// A transaction that was applied before the failover is not applied again when its
// client repeats it.
func TestTokenSurvivesFailover(t *testing.T) {
	p := startPrimary(t)
	client := sdkClient(p.web.URL, nil)
	w := &workload{t: t, r: rand.New(rand.NewPCG(1, 1)), Client: client}
	w.createTable("Orders")
	in := &dynamodb.TransactWriteItemsInput{ClientRequestToken: aws.String("once"), TransactItems: []types.TransactWriteItem{{Update: &types.Update{
		TableName: aws.String("Orders"), Key: map[string]types.AttributeValue{"id": &types.AttributeValueMemberS{Value: "x"}}, UpdateExpression: aws.String("ADD c :one"),
		ExpressionAttributeValues: map[string]types.AttributeValue{":one": &types.AttributeValueMemberN{Value: "1"}}}}}}
	var log logtest.Log
	s := openTestStandby(t, filepath.Join(t.TempDir(), "standby"), p.web.URL, &log)
	defer s.Close()
	w.must(client.TransactWriteItems(t.Context(), in))
	waitEqual(t, p, s)
	web := httptest.NewServer(s.Handler())
	defer web.Close()
	if _, err := s.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	other := sdkClient(web.URL, nil)
	if _, err := other.TransactWriteItems(t.Context(), in); err != nil {
		t.Fatal(err)
	}
	got, err := other.GetItem(t.Context(), &dynamodb.GetItemInput{TableName: aws.String("Orders"), Key: in.TransactItems[0].Update.Key})
	if err != nil || got.Item["c"].(*types.AttributeValueMemberN).Value != "1" {
		t.Errorf("the item is %v, %v", got.Item, err)
	}
}

// A standby that was away for longer than the changes are kept copies everything again,
// and one of another database does not.
func TestStandbyCopiesAgain(t *testing.T) {
	p := startPrimary(t)
	w := &workload{t: t, r: rand.New(rand.NewPCG(2, 1)), Client: sdkClient(p.web.URL, nil)}
	w.createTable("Orders")
	var log logtest.Log
	dir := filepath.Join(t.TempDir(), "standby")
	s := openTestStandby(t, dir, p.web.URL, &log)
	defer func() { s.Close() }()
	waitEqual(t, p, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for i := range 30 {
		w.step(i)
	}
	// Another slot replaces the standby's, as when it is dropped.
	snap, _, _, err := p.engine().Attach(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	snap.Close()
	s = openTestStandby(t, dir, p.web.URL, &log)
	for !strings.Contains(log.String(), "copying everything again") {
		time.Sleep(time.Millisecond)
	}
	waitEqual(t, p, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(t.Context(), Options{Dir: dir}); !errors.Is(err, standby.ErrStandby) {
		t.Errorf("the data of a standby is served: %v", err)
	}

	other := startPrimary(t)
	(&workload{t: t, Client: sdkClient(other.web.URL, nil)}).createTable("Empty")
	s = openTestStandby(t, dir, other.web.URL, &log)
	for !strings.Contains(s.Status().Error, "another database") {
		time.Sleep(time.Millisecond)
	}
	if st := s.Status(); st.State != standby.Disconnected {
		t.Errorf("the state is %+v", st)
	}
	d, err := s.Promote(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.db.Describe("Orders"); err != nil {
		t.Errorf("the copy was replaced by another database: %v", err)
	}
}

// Until it is promoted a standby reports its lag, and rejects requests.
func TestStandbyRejectsRequests(t *testing.T) {
	p := startPrimary(t)
	var log logtest.Log
	s := openTestStandby(t, filepath.Join(t.TempDir(), "standby"), p.web.URL, &log)
	defer s.Close()
	waitEqual(t, p, s)
	web := httptest.NewServer(s.Handler())
	defer web.Close()
	_, err := sdkClient(web.URL, nil).ListTables(t.Context(), &dynamodb.ListTablesInput{})
	if err == nil || !strings.Contains(err.Error(), "This server is a standby of "+p.web.URL) {
		t.Errorf("ListTables: %v", err)
	}
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "http://evil.example/healthz", nil))
	if w.Code != http.StatusForbidden {
		t.Errorf("a request for another host: %d %s", w.Code, w.Body)
	}
	for _, c := range []struct {
		path   string
		signed bool
		want   string
	}{
		{"/healthz", false, "standby of " + p.web.URL + ": FOLLOWING, "},
		{"/standby", false, "MissingAuthenticationTokenException"},
		{"/standby", true, `"state":"FOLLOWING"`},
		{"/metrics", false, "\nstator_standby_following 1\n"},
		{"/metrics", false, "\nstator_standby_lag_bytes 0\n"},
	} {
		r, err := http.NewRequestWithContext(context.Background(), http.MethodGet, web.URL+c.path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.signed {
			_ = signTest(r, nil)
		}
		reply, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(reply.Body)
		reply.Body.Close()
		if !strings.Contains(string(text), c.want) {
			t.Errorf("GET %s: %s, want %s", c.path, text, c.want)
		}
		if c.path == "/healthz" && reply.StatusCode != http.StatusServiceUnavailable {
			t.Errorf("GET %s: %s, but load balancers must not send it requests", c.path, reply.Status)
		}
	}
	text := get(t, p.web.URL+"/metrics")
	for _, want := range []string{"\nstator_standby_attached 1\n", "\nstator_standby_lag_bytes 0\n", "\nstator_standby_lag_seconds 0."} {
		if !strings.Contains(text, want) {
			t.Errorf("the metrics of the server are %s, want %s", text, want)
		}
	}
}

// A second standby is refused while the first follows.
func TestOneStandby(t *testing.T) {
	p := startPrimary(t)
	var log logtest.Log
	first := openTestStandby(t, filepath.Join(t.TempDir(), "first"), p.web.URL, &log)
	defer first.Close()
	waitEqual(t, p, first)
	second := openTestStandby(t, filepath.Join(t.TempDir(), "second"), p.web.URL, &log)
	defer second.Close()
	for !strings.Contains(second.Status().Error, "another standby follows this server") {
		time.Sleep(time.Millisecond)
	}
	if _, err := second.Promote(t.Context()); !errors.Is(err, ErrNoCopy) {
		t.Errorf("a standby without a copy is promoted: %v", err)
	}
}

// A standby whose first copy was interrupted leaves nothing behind at the server, and one
// that is started again is not taken for another one.
func TestInterruptedFirstCopy(t *testing.T) {
	p := startPrimary(t)
	w := &workload{t: t, r: rand.New(rand.NewPCG(3, 1)), Client: sdkClient(p.web.URL, nil)}
	w.createTable("Orders")
	for i := range 20 {
		w.step(i)
	}
	var log logtest.Log
	dir := filepath.Join(t.TempDir(), "standby")
	p.cut.Store(2000)
	s := openTestStandby(t, dir, p.web.URL, &log)
	for !strings.Contains(s.Status().Error, "EOF") {
		time.Sleep(time.Millisecond)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for p.engine().Attached().Slot != "" {
		time.Sleep(time.Millisecond)
	}
	p.cut.Store(0)
	s = openTestStandby(t, dir+"/", p.web.URL, &log)
	defer s.Close()
	waitEqual(t, p, s)
	if strings.Contains(log.String(), "another standby") {
		t.Errorf("the log is %s", &log)
	}
}

// Requests of a standby use one connection.
func TestStandbyKeepsItsConnection(t *testing.T) {
	p := startPrimary(t)
	w := &workload{t: t, r: rand.New(rand.NewPCG(4, 1)), Client: sdkClient(p.web.URL, &http.Client{Transport: new(http.Transport)})}
	w.createTable("Orders")
	var log logtest.Log
	var dialled atomic.Int64
	web := httptest.NewUnstartedServer(p)
	web.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			dialled.Add(1)
		}
	}
	web.Start()
	defer web.Close()
	s := openTestStandby(t, filepath.Join(t.TempDir(), "standby"), web.URL, &log)
	defer s.Close()
	for range 4 {
		w.must(w.PutItem(t.Context(), &dynamodb.PutItemInput{TableName: aws.String("Orders"), Item: w.item()}))
		waitEqual(t, p, s)
	}
	if n := dialled.Load(); n > 2 {
		t.Errorf("it has made %d connections", n)
	}
}

// A promoted standby has another database than its server: neither a standby of the server
// follows the promoted one, nor the other way round, without an explicit new copy.
func TestPromotedServerIsAnotherDatabase(t *testing.T) {
	p := startPrimary(t)
	w := &workload{t: t, r: rand.New(rand.NewPCG(6, 1)), Client: sdkClient(p.web.URL, nil)}
	w.createTable("Orders")
	var log logtest.Log
	base := t.TempDir()
	dir, twin := filepath.Join(base, "standby"), filepath.Join(base, "twin")
	s := openTestStandby(t, dir, p.web.URL, &log)
	waitEqual(t, p, s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	copyDir(t, dir, twin)
	promoted := openTestStandby(t, twin, p.web.URL, &log)
	defer promoted.Close()
	if _, err := promoted.Promote(t.Context()); err != nil {
		t.Fatal(err)
	}
	web := httptest.NewServer(promoted.Handler())
	defer web.Close()
	s = openTestStandby(t, dir, web.URL, &log)
	for !strings.Contains(s.Status().Error, "another database") {
		time.Sleep(time.Millisecond)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	fresh := openTestStandby(t, filepath.Join(base, "fresh"), web.URL, &log)
	defer fresh.Close()
	for fresh.Status().State != standby.Following {
		time.Sleep(time.Millisecond)
	}
}

// A promotion whose database cannot be opened can be repeated.
func TestPromotionIsRepeated(t *testing.T) {
	p := startPrimary(t)
	w := &workload{t: t, r: rand.New(rand.NewPCG(7, 1)), Client: sdkClient(p.web.URL, nil)}
	w.createTable("Orders")
	var log logtest.Log
	s := openTestStandby(t, filepath.Join(t.TempDir(), "standby"), p.web.URL, &log)
	defer s.Close()
	waitEqual(t, p, s)
	s.o.Backups = "nowhere://backups"
	if _, err := s.Promote(t.Context()); err == nil || !strings.Contains(err.Error(), "promote it again") {
		t.Fatalf("Promote: %v", err)
	}
	s.o.Backups = ""
	d, err := s.Promote(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := d.db.Describe("Orders"); err != nil {
		t.Error(err)
	}
}

// A standby does not claim to have a write that was acknowledged while an older one was in
// flight, and that it therefore has not received.
func TestStandbyLacksWhatIsInFlight(t *testing.T) {
	p := startPrimary(t)
	var log logtest.Log
	s := openTestStandby(t, filepath.Join(t.TempDir(), "standby"), p.web.URL, &log)
	defer s.Close()
	waitEqual(t, p, s)
	begun, end := make(chan struct{}), make(chan struct{})
	var running sync.WaitGroup
	running.Go(func() {
		_ = p.engine().Update(context.Background(), nil, func(store.Tx) error {
			close(begun)
			<-end
			return nil
		})
	})
	<-begun
	if err := p.engine().Update(t.Context(), nil, func(tx store.Tx) error {
		tx.Set([]byte("zz written"), []byte("v"))
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	acknowledged := time.Now()
	for before := p.replies.Load(); p.replies.Load() < before+3; { // the last of them answers a request that was sent later
		time.Sleep(time.Millisecond)
	}
	time.Sleep(10 * time.Millisecond) // it may be applying the last of them
	if fresh := time.Now().Add(-time.Duration(s.Status().LagSeconds * float64(time.Second))); fresh.After(acknowledged) {
		t.Errorf("it is said to have everything %s after a write that it lacks", fresh.Sub(acknowledged))
	}
	close(end)
	running.Wait()
	waitEqual(t, p, s)
	d, err := s.Promote(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if keys(t, d.engine)["zz written"] != "v" {
		t.Error("a standby that has everything lacks the write")
	}
}

// A step of the wall clock that is long ago when the standby is promoted has been accepted by
// then.
func TestStandbyFollowsTheClock(t *testing.T) {
	virtualtime.Test(t, func(t *testing.T) {
		var step atomic.Int64
		start := time.Now()
		s := &Standby{clock: clock.New(clock.Options{
			Now:     func() time.Time { return time.Now().Add(time.Duration(step.Load())) },
			Elapsed: func() time.Duration { return time.Since(start) },
		})}
		s.followClock()
		time.Sleep(time.Minute)
		step.Store(int64(time.Hour))
		time.Sleep(time.Hour)
		if ahead := time.Until(s.clock.Now()); ahead < 59*time.Minute || s.clock.Ahead() != 0 {
			t.Errorf("after a step of an hour the time is %s ahead, and the wall clock %s ahead of it", ahead, s.clock.Ahead())
		}
		s.stopClock()
	})
}
