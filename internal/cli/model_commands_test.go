package cli

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/model/drift"
)

// serving starts a server that stops when the test ends.
func serving(t *testing.T) string {
	t.Helper()
	endpoint, stop, err := servePrivately(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stop() })
	return endpoint
}

// The models of all applications can be proved.
func TestModelProve(t *testing.T) {
	files, err := filepath.Glob("../../apps/*/*.model.yaml")
	if err != nil || len(files) < 4 {
		t.Fatalf("found the models %v, %v", files, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			code, out, errs := runStator(t, "model", "prove", file)
			if code != 0 || !strings.Contains(out, " access patterns behaved as predicted") {
				t.Errorf("exit code %d\n%s%s", code, out, errs)
			}
		})
	}
}

// On another server the tables have names of their own and are deleted at the end.
// A server that charges differently is reported, by the table names of the model.
func TestModelProveEndpoint(t *testing.T) {
	endpoint := serving(t)
	proxy := overcharging(t, endpoint)
	for _, c := range []struct {
		name, endpoint string
		ok             bool
		want           string
	}{
		{"the same", endpoint, true, "30 of 30 access patterns behaved as predicted"},
		{"another", proxy, false, `"get batch", request 1 of run 1: units of data-download-batches predicted 1, actual 7`},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := proveFlags{endpointFlags: endpointFlags{endpoint: c.endpoint, region: "us-east-1"}, consistencyTimeout: time.Millisecond}
			var stdout strings.Builder
			err := f.prove(t.Context(), goodModel, &stdout, io.Discard)
			out := stdout.String()
			if (err == nil) != c.ok || !strings.Contains(out, c.want) {
				t.Errorf("prove returned %v\n%s", err, out)
			}
			if strings.Contains(out, "prove-") {
				t.Errorf("the report shows table names with their prefix:\n%s", out)
			}
			if left := tablesOf(t, endpoint); left != "" {
				t.Errorf("the tables %s were not deleted", left)
			}
		})
	}
}

// overcharging starts a proxy that reports 7 units for GetItem.
func overcharging(t *testing.T, endpoint string) string {
	t.Helper()
	target, err := url.Parse(endpoint)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httputil.NewSingleHostReverseProxy(target)
	proxy.ModifyResponse = func(r *http.Response) error {
		if !strings.HasSuffix(r.Request.Header.Get("X-Amz-Target"), ".GetItem") {
			return nil
		}
		text, err := io.ReadAll(r.Body)
		text = bytes.ReplaceAll(text, []byte(`"CapacityUnits":1`), []byte(`"CapacityUnits":7`))
		r.Body = io.NopCloser(bytes.NewReader(text))
		r.Header.Del("Content-Length")
		r.ContentLength = int64(len(text))
		return err
	}
	s := httptest.NewServer(proxy)
	t.Cleanup(s.Close)
	return s.URL
}

func tablesOf(t *testing.T, endpoint string) string {
	t.Helper()
	text, err := clientOf(endpoint, "us-east-1").Send(t.Context(), "ListTables", map[string]any{})
	if err != nil {
		t.Fatal(err)
	}
	var reply struct{ TableNames []string }
	if err := json.Unmarshal(text, &reply); err != nil {
		t.Fatal(err)
	}
	return strings.Join(reply.TableNames, " ")
}

// The load report is available as text and as JSON.
func TestModelProveLoad(t *testing.T) {
	code, out, errs := runStator(t, "model", "prove", otherModel, "--load", "100", "--for", "200ms", "--json")
	var got struct {
		OK       bool
		Patterns []struct {
			Name, Operation, By string
			Runs, Requests      int
			Units               []struct{ Table string }
		}
		Load struct {
			Seconds  float64
			Patterns []struct {
				Name                                 string
				Rate, PerSecond, P50, P99            float64
				Done, Throttled, Refused, Errors, Un int
			}
			Hottest []struct {
				Key      string
				Requests int
			}
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v\n%s%s", code, err, out, errs)
	}
	done := 0
	for _, p := range got.Load.Patterns {
		done += p.Done
	}
	if !got.OK || len(got.Patterns) == 0 || len(got.Patterns[0].Units) == 0 || done == 0 || len(got.Load.Hottest) == 0 {
		t.Errorf("the report is %+v", got)
	}
	_, out, _ = runStator(t, "model", "prove", otherModel, "--load", "100/s", "--for", "100ms")
	if !strings.Contains(out, "HOTTEST KEYS") {
		t.Errorf("the output is %s", out)
	}
}

func TestModelCommandsUsage(t *testing.T) {
	for _, c := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"no file", []string{"prove"}, 2, "needs one file"},
		{"no rate", []string{"prove", goodModel, "--load", "much"}, 2, `--load: "much" is not a rate`},
		{"no time", []string{"prove", goodModel, "--load", "1x", "--for", "0s"}, 2, "--for is 0s"},
		{"too much", []string{"prove", goodModel, "--load", "1000000", "--for", "1h"}, 1, "use a lower rate"},
		{"no model", []string{"prove", invalid}, 2, "did you mean partition?"},
		{"a pattern that nothing serves", []string{"prove", faulty}, 1, "no request serves it"},
		{"no endpoint", []string{"apply", goodModel}, 2, "--endpoint must name the server"},
		{"no URL", []string{"apply", goodModel, "--endpoint", "here"}, 2, "must be a URL"},
		{"no server", []string{"apply", goodModel, "--endpoint", "http://127.0.0.1:1"}, 1, "cannot compare"},
		{"no endpoint for drift", []string{"drift", goodModel}, 2, "--endpoint must name the server"},
		{"saved traffic and that of a server", []string{"drift", goodModel, "--traffic", "t", "--reset"}, 2, "--traffic cannot be combined"},
		{"no server to compare the traffic of", []string{"drift", goodModel, "--endpoint", "http://127.0.0.1:1"}, 1, "cannot read the request counts"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, errs := runStator(t, append([]string{"model"}, c.args...)...)
			if code != c.code || !strings.Contains(out+errs, c.want) {
				t.Errorf("exit code %d, want %d; the output is\n%s%s\nwithout %q", code, c.code, out, errs, c.want)
			}
		})
	}
}

// Apply shows the plan first, makes the changes when confirmed, and then has
// nothing left to do.
func TestModelApply(t *testing.T) {
	endpoint := serving(t)
	apply := func(args ...string) (int, string) {
		code, out, errs := runStator(t, append([]string{"model", "apply", goodModel, "--endpoint", endpoint}, args...)...)
		return code, out + errs
	}
	code, out := apply()
	if code != 1 || !strings.Contains(out, "change   data-download-jobs: create the table with the key FileID S HASH") || !strings.Contains(out, "add --yes") || tablesOf(t, endpoint) != "" {
		t.Errorf("without --yes: exit code %d, %s", code, out)
	}
	if code, out = apply("--yes"); code != 0 || tablesOf(t, endpoint) == "" {
		t.Errorf("with --yes: exit code %d, %s", code, out)
	}
	if code, out = apply(); code != 0 || !strings.Contains(out, "has the tables of the model") {
		t.Errorf("again: exit code %d, %s", code, out)
	}
	code, out = apply("--json")
	var got struct {
		Applied bool
		Changes []struct{ Table, Kind, Text string }
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 || !got.Applied || len(got.Changes) != 0 || got.Changes == nil {
		t.Errorf("as JSON: exit code %d, %v, %s", code, err, out)
	}
	for _, c := range []struct{ answer, want string }{{"n\n", "nothing was changed"}, {"", "nothing was changed"}, {"y\n", ""}} {
		f := applyFlags{endpointFlags: endpointFlags{endpoint: endpoint, region: "us-east-1"}}
		err := f.apply(t.Context(), otherModel, strings.NewReader(c.answer), io.Discard, io.Discard)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("the answer %q returns %v", c.answer, err)
		}
	}
}

// Auto scaling is shown, registered, and compared by drift; nothing is done when it matches.
func TestModelApplyScaling(t *testing.T) {
	endpoint := serving(t)
	file := filepath.Join(t.TempDir(), "shop.model.yaml")
	write := func(table string) {
		t.Helper()
		text := "model: 1\ntables:\n  shop: {key: {partition: id}, " + table + "}\nentities:\n  order: {attributes: {id: S}}\npatterns: []\n"
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	run := func(command string, args ...string) (int, string) {
		code, out, errs := runStator(t, append([]string{"model", command, file, "--endpoint", endpoint}, args...)...)
		return code, out + errs
	}
	expect := func(what string, code int, out string, wantCode int, want ...string) {
		t.Helper()
		for _, text := range want {
			if code != wantCode || !strings.Contains(out, text) {
				t.Errorf("%s: exit code %d, want %d with %q:\n%s", what, code, wantCode, text, out)
			}
		}
	}
	write("billing: provisioned, read: {min: 5, max: 50}, write: {units: 2}")
	code, out := run("apply")
	expect("the plan", code, out, 1, "change   shop: scale the reads between 5 and 50 units", "change   shop: keep the reads at 70 % of the units", "add --yes")
	code, out = run("apply", "--yes")
	expect("apply", code, out, 0, "scale the reads")
	code, out = run("apply")
	expect("again", code, out, 0, "has the tables of the model")
	code, out = run("drift")
	expect("drift of what matches", code, out, 0, "0 of 0 access patterns")

	write("billing: provisioned, read: {min: 5, max: 90}, write: {units: 2}")
	code, out = run("drift")
	expect("drift", code, out, 1, "table shop scales differently than the model declares; stator model apply would: scale the reads between 5 and 90 units", "auto scaling differs from the model")
	code, out = run("drift", "--json")
	expect("drift as JSON", code, out, 1, `"ok": false`, `"scaling": [`, `"operation": "RegisterScalableTarget"`)

	write("billing: provisioned, read: {units: 5}, write: {units: 2}")
	code, out = run("apply", "--yes")
	expect("a model without it", code, out, 0, "change   shop: no longer scale the reads between 5 and 50 units", "lost: the units no longer follow the load")
	code, out = run("apply", "--scaling-endpoint", "nowhere")
	expect("no URL", code, out, 2, "--scaling-endpoint is")
	write("billing: provisioned, read: {min: 5, max: 90}, write: {units: 2}")
	code, out = run("apply", "--scaling-endpoint", "http://127.0.0.1:1")
	expect("no service", code, out, 1, "cannot compare", "read the auto scaling of table shop")
}

// A key cannot be changed, and then nothing else is changed.
func TestModelApplyCannot(t *testing.T) {
	endpoint := serving(t)
	if code, out, errs := runStator(t, "model", "apply", goodModel, "--endpoint", endpoint, "--yes"); code != 0 {
		t.Fatal(out, errs)
	}
	text, err := os.ReadFile(goodModel)
	if err != nil {
		t.Fatal(err)
	}
	other := filepath.Join(t.TempDir(), "other.model.yaml")
	changed := strings.ReplaceAll(string(text), "FileID", "FileNumber")
	if changed == string(text) {
		t.Fatal("the model no longer has FileID")
	}
	if err := os.WriteFile(other, []byte(changed), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := runStator(t, "model", "apply", other, "--endpoint", endpoint, "--yes")
	if code != 1 || !strings.Contains(out, "a table's key cannot be changed") || !strings.Contains(errs, "nothing was changed") {
		t.Errorf("exit code %d, %s%s", code, out, errs)
	}
}

// The traffic of a server is compared with the model.
func TestModelDrift(t *testing.T) {
	endpoint := serving(t)
	drift := func(args ...string) (int, string, string) {
		return runStator(t, append([]string{"model", "drift", otherModel, "--endpoint", endpoint}, args...)...)
	}
	if code, out, errs := runStator(t, "model", "apply", otherModel, "--endpoint", endpoint, "--yes"); code != 0 {
		t.Fatal(out, errs)
	}
	code, out, _ := drift()
	if code != 1 || !strings.Contains(out, `missing  "choose a goal" was never requested`) {
		t.Errorf("at first: exit code %d, %s", code, out)
	}
	const secret = "s3cr3t"
	client := clientOf(endpoint, "us-east-1")
	for _, r := range []struct {
		operation string
		body      map[string]any
	}{
		{"GetItem", map[string]any{"TableName": "CustomerBatch", "Key": map[string]any{"personId": map[string]any{"S": secret}}}},
		{"Scan", map[string]any{"TableName": "CustomerBatch", "FilterExpression": "a = :v", "ExpressionAttributeValues": map[string]any{":v": map[string]any{"S": secret}}}},
	} {
		if _, err := client.Send(t.Context(), r.operation, r.body); err != nil {
			t.Fatal(err)
		}
	}
	code, out, errs := drift()
	if code != 1 || strings.Contains(out, `"customer's batch view" was never`) || !strings.Contains(out, "no pattern matches Scan of CustomerBatch, with a filter a = ?: 1 request") {
		t.Errorf("then: exit code %d, %s%s", code, out, errs)
	}
	_, asJSON, _ := drift("--json")
	var got struct {
		OK       bool
		Since    time.Time
		Patterns []struct {
			Name, Status string
			Requests     int
		}
		Strays []struct{ Operation, Table string }
	}
	if err := json.Unmarshal([]byte(asJSON), &got); err != nil || got.OK || got.Since.IsZero() || len(got.Strays) != 1 || got.Patterns[0].Requests != 1 {
		t.Errorf("as JSON: %v, %+v", err, got)
	}
	if strings.Contains(out+asJSON, secret) {
		t.Errorf("the report contains a value:\n%s%s", out, asJSON)
	}
}

// --allow-unused accepts patterns that were never requested, and --reset starts the
// counts of the server again.
func TestModelDriftUnusedAndReset(t *testing.T) {
	endpoint := serving(t)
	drift := func(args ...string) (int, string) {
		code, out, _ := runStator(t, append([]string{"model", "drift", otherModel, "--endpoint", endpoint}, args...)...)
		return code, out
	}
	if code, out, errs := runStator(t, "model", "apply", otherModel, "--endpoint", endpoint, "--yes"); code != 0 {
		t.Fatal(out, errs)
	}
	client := clientOf(endpoint, "us-east-1")
	send := func(operation string, body map[string]any) {
		t.Helper()
		if _, err := client.Send(t.Context(), operation, body); err != nil {
			t.Fatal(err)
		}
	}
	send("GetItem", map[string]any{"TableName": "CustomerBatch", "Key": map[string]any{"personId": map[string]any{"S": "p"}}})
	if code, out := drift(); code != 1 || !strings.Contains(out, `missing  "choose a goal" was never requested`) {
		t.Errorf("exit code %d, %s", code, out)
	}
	if code, out := drift("--allow-unused"); code != 0 || !strings.Contains(out, `note     "choose a goal" was never requested`) {
		t.Errorf("with --allow-unused: exit code %d, %s", code, out)
	}
	send("Scan", map[string]any{"TableName": "CustomerBatch"})
	send("ExecuteStatement", map[string]any{"Statement": "SELECT * FROM CustomerBatch WHERE personId = 'p'"})
	code, out := drift("--allow-unused", "--reset")
	if code != 1 || !strings.Contains(out, "no pattern matches Scan of CustomerBatch: 1 request") || !strings.Contains(out, "customer's batch view        2 ") {
		t.Errorf("with a scan and a statement: exit code %d, %s", code, out)
	}
	if code, out := drift("--allow-unused"); code != 0 || !strings.Contains(out, "ok       0 of ") {
		t.Errorf("after the reset: exit code %d, %s", code, out)
	}
	send("ExecuteStatement", map[string]any{"Statement": "SELECT * FROM CustomerBatch"})
	if code, out := drift("--allow-unused"); code != 1 || !strings.Contains(out, "no pattern matches a statement like Scan of CustomerBatch: 1 request") {
		t.Errorf("with a statement that scans: exit code %d, %s", code, out)
	}
}

// The saved counts of several servers are added, and requests that ask for it are in none.
func TestModelDriftOfSavedTraffic(t *testing.T) {
	folder := t.TempDir()
	drift := func(paths ...string) (int, string, string) {
		args := []string{"model", "drift", otherModel, "--allow-unused"}
		for _, p := range paths {
			args = append(args, "--traffic", p)
		}
		return runStator(t, args...)
	}
	if code, _, errs := drift(folder); code != 1 || !strings.Contains(errs, "has no *.json") {
		t.Errorf("an empty folder: exit code %d, %s", code, errs)
	}
	get := map[string]any{"TableName": "CustomerBatch", "Key": map[string]any{"personId": map[string]any{"S": "p"}}}
	for i := range 2 {
		endpoint := serving(t)
		if code, out, errs := runStator(t, "model", "apply", otherModel, "--endpoint", endpoint, "--yes"); code != 0 {
			t.Fatal(out, errs)
		}
		client := clientOf(endpoint, "us-east-1")
		for range i + 2 {
			if _, err := client.Send(t.Context(), "GetItem", get); err != nil {
				t.Fatal(err)
			}
		}
		client.Uncounted = true
		for operation, body := range map[string]any{
			"Scan":    map[string]any{"TableName": "CustomerBatch"},
			"GetItem": map[string]any{"TableName": "CustomerBatch", "Key": get["Key"], "ConsistentRead": true},
			"PutItem": map[string]any{"TableName": "CustomerBatch", "Item": get["Key"]},
			"BatchWriteItem": map[string]any{"RequestItems": map[string]any{"CustomerBatch": []any{
				map[string]any{"DeleteRequest": map[string]any{"Key": get["Key"]}}}}},
		} {
			if _, err := client.Send(t.Context(), operation, body); err != nil {
				t.Fatal(err)
			}
		}
		text, err := client.Get(t.Context(), "/shapes")
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, strconv.Itoa(i)+".json"), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if code, out, errs := drift(folder); code != 0 || !strings.Contains(out, "customer's batch view        5 ") {
		t.Errorf("two servers: exit code %d, %s%s", code, out, errs)
	}
	one := filepath.Join(folder, "0.json")
	if code, out, _ := drift(one, one); code != 0 || !strings.Contains(out, "customer's batch view        4 ") {
		t.Errorf("one server twice: exit code %d, %s", code, out)
	}
	for name, want := range map[string]string{otherModel: "has no counts", filepath.Join(folder, "none"): "read saved counts"} {
		if code, _, errs := drift(name); code != 1 || !strings.Contains(errs, want) {
			t.Errorf("traffic of %s: exit code %d, %s", name, code, errs)
		}
	}
}

// An unknown cost is shown as unknown, and traffic that several patterns share names
// them.
func TestDriftShowsWhatIsUnknown(t *testing.T) {
	units := 2.0
	var out strings.Builder
	err := new(driftFlags).print(&out, &drift.Report{Patterns: []*drift.Pattern{
		{Name: "a", Status: drift.Unmeasured, Requests: 3, Predicted: 2},
		{Name: "b", Status: drift.Shared, Shared: []string{"c"}, Requests: 3, Units: &units, Predicted: 2},
		{Name: "c", Status: drift.Never, Predicted: 2},
	}})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"a        3         0         0        unknown      2          unmeasured\n",
		"b        3         0         0        2            2          shared: one of b, c\n",
		"c        0         0         0        -            2          never\n",
		"ok       0 of 3 access patterns are requested as the model says\n",
		"note     the cost of \"a\" is unknown: no request was measured\n",
		"note     \"b\" or a pattern with the same requests was requested: c\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, out.String())
		}
	}
}
