package cli

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

func TestConformRunsAgainstAPrivateServer(t *testing.T) {
	var stdout, stderr bytes.Buffer
	code := Run([]string{"conform", "--run", "^get_item/capacity$", "--json"}, &stdout, &stderr)
	if code != exitDone {
		t.Fatalf("the exit code is %d: %s%s", code, &stdout, &stderr)
	}
	var results []conformResult
	if err := json.Unmarshal(stdout.Bytes(), &results); err != nil {
		t.Fatal(err)
	}
	if len(results) != 1 || results[0].Passed < 5 || results[0].Failed != 0 {
		t.Errorf("the results are %+v", results)
	}
}

func TestConformPrintsDifferences(t *testing.T) {
	wrong := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasPrefix(r.Header.Get("Authorization"), "AWS4-HMAC-SHA256 Credential=") {
			t.Errorf("the request is not signed: %v", r.Header)
		}
		w.WriteHeader(http.StatusBadRequest)
		w.Write([]byte(`{"__type":"x#Wrong","message":"wrong"}`))
	}))
	defer wrong.Close()
	var stdout, stderr bytes.Buffer
	code := Run([]string{"conform", "--endpoint", wrong.URL, "--run", "^describe_(endpoints|limits)/"}, &stdout, &stderr)
	if code != exitFailed {
		t.Errorf("the exit code is %d, want %d", code, exitFailed)
	}
	for _, want := range []string{"describe_endpoints/results.txt:2: ", "> DescribeEndpoints {}", "got  Wrong: wrong", "1  describe_endpoints/results"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("the output lacks %q:\n%s", want, &stdout)
		}
	}
	if !strings.Contains(stderr.String(), "2 of 2 transcripts differ") {
		t.Errorf("stderr is %s", &stderr)
	}
}

func TestConformUsageErrors(t *testing.T) {
	for _, args := range [][]string{
		{"conform", "--run", "("},
		{"conform", "--run", "no such transcript"},
		{"conform", "--endpoint", "nowhere"},
		{"conform", "more"},
	} {
		var stdout, stderr bytes.Buffer
		if code := Run(args, &stdout, &stderr); code != exitUsage {
			t.Errorf("%v: the exit code is %d, want %d", args, code, exitUsage)
		}
	}
}
