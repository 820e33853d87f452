package cli

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stator-db/stator/internal/model"
	"github.com/stator-db/stator/internal/protocol/wire"
)

// infer returns the right exit codes, and reads each form of files.
func TestModelInferFiles(t *testing.T) {
	folder := t.TempDir()
	put := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	var lines strings.Builder
	for i := range 10 {
		fmt.Fprintf(&lines, `{"Item":{"PK":{"S":"CUSTOMER#c%d"},"SK":{"S":"META"},"customerId":{"S":"c%d"}}}`+"\n", i, i)
	}
	var compressed bytes.Buffer
	zip := gzip.NewWriter(&compressed)
	_, _ = zip.Write([]byte(lines.String()))
	_ = zip.Close()
	put("export/data/a.json.gz", compressed.String())
	put("export/manifest-files.json", "{}")
	put("export/manifest-summary.json", `{"tableArn": "arn:aws:dynamodb:us-east-1:1:table/shop"}`)
	export := filepath.Join(folder, "export")
	plain := put("plain.json", lines.String())
	table := put("orders.csv", "orderId,total\no1,1\no2,2\n")
	visits := put("visits.csv", "id,email\n"+visitLines())
	other := put("other.json", `{"a": 1}`)
	empty := filepath.Dir(put("empty/readme.txt", ""))
	there := put("there.model.yaml", "model: 1")
	for _, c := range []struct {
		name string
		args []string
		code int
		want string
	}{
		{"a folder of an export", []string{export}, 0, "  shop:\n    # guess: the key is PK and SK"},
		{"a folder with a key", []string{export, "--key", "PK,SK"}, 0, `PK: "CUSTOMER#{customerId}"  # guess: 10 of 10 items have this form`},
		{"a file", []string{plain}, 0, "  plain:\n"},
		{"a table of text", []string{table}, 0, "key: {partition: orderId}"},
		{"two tables", []string{table, plain}, 0, "table: orders\n"},
		{"the evidence", []string{plain, "--json"}, 0, `"template": "CUSTOMER#{customerId}"`},
		{"personal values", []string{visits}, 0, "email: {size: 11}"},
		{"all values", []string{visits, "--all-values"}, 0, "ann@home.at"},
		{"a name", []string{plain, "--name", "shop"}, 0, "name: shop"},
		{"a file of another form", []string{other}, 1, "other.json: document 1 has no Item, NewImage or Items"},
		{"a file that does not exist", []string{filepath.Join(folder, "none.json")}, 1, "cannot read the items"},
		{"a folder without items", []string{empty}, 2, "there are no files *.json"},
		{"a key that no item has", []string{plain, "--key", "id"}, 1, "id cannot be in the key of plain"},
		{"an invalid key", []string{plain, "--key", "a,b,c"}, 2, "must be PARTITION or PARTITION,SORT"},
		{"no source", nil, 2, "needs files or folders, or --endpoint"},
		{"two sources", []string{plain, "--endpoint", "http://127.0.0.1:1"}, 2, "needs no file with --endpoint"},
		{"no units", []string{"--endpoint", "http://127.0.0.1:1", "--units", "0"}, 2, "must be more than 0"},
		{"an invalid endpoint", []string{"--endpoint", "local"}, 2, "must be a URL"},
		{"a table of a file", []string{plain, "--table", "a"}, 2, "--table is for servers"},
		{"a file that exists", []string{plain, "-o", there}, 2, "already exists and would be overwritten"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, errs := runStator(t, append([]string{"model", "infer"}, c.args...)...)
			if code != c.code || !strings.Contains(out+errs, c.want) {
				t.Errorf("exit code %d, want %d; the output is\n%s%s\nwithout %q", code, c.code, out, errs, c.want)
			}
		})
	}
}

// visitLines returns lines of a table with few addresses.
func visitLines() (text string) {
	for i := range 12 {
		text += fmt.Sprintf("v%d,%s@home.at\n", i, []string{"ann", "bob"}[i%2])
	}
	return text
}

// The model of a server's tables is one that check accepts. Only the named tables are read.
func TestModelInferServer(t *testing.T) {
	m := readTestModel(t, "../../apps/goals/goals.model.yaml")
	s := openServer(t, m)
	server := httptest.NewServer(s.handler)
	defer server.Close()
	for _, e := range m.Entities {
		for i := range 60 {
			it := model.Generator{}.Item(e, i)
			s.send("PutItem", map[string]any{"TableName": e.TableOf().Name, "Item": json.RawMessage(wire.AppendItem(nil, it))})
		}
	}
	file := filepath.Join(t.TempDir(), "new.model.yaml")
	if code, out, errs := runStator(t, "model", "infer", "--endpoint", server.URL, "-o", file); code != 0 || out != "" {
		t.Fatalf("exit code %d, the output is %s%s", code, out, errs)
	}
	if code, out, errs := runStator(t, "model", "check", file); code != 0 {
		text, _ := os.ReadFile(file)
		t.Errorf("check: exit code %d, the output is %s%s\n%s", code, out, errs, text)
	}
	if got := len(readTestModel(t, file).Entities); got != len(m.Entities) {
		t.Errorf("%d entities are found, want %d", got, len(m.Entities))
	}
	if text, _ := os.ReadFile(file); !strings.Contains(string(text), "- name: \"put customer-batch\"  # guess: 60 requests in ") {
		t.Errorf("the model lacks the puts that the server has counted:\n%s", text)
	}
	code, out, _ := runStator(t, "model", "infer", "--endpoint", server.URL, "--table", "CustomerBatch", "--json")
	var r struct{ Tables []struct{ Name string } }
	if err := json.Unmarshal([]byte(out), &r); code != 0 || err != nil || len(r.Tables) != 1 || r.Tables[0].Name != "CustomerBatch" {
		t.Errorf("exit code %d, %v, the tables are %+v", code, err, r.Tables)
	}
	if code, out, _ := runStator(t, "model", "infer", "--endpoint", server.URL, "--table", "CustomerBatch,CustomerNRT"); code != 0 || !strings.Contains(out, "  CustomerNRT:") {
		t.Errorf("two tables: exit code %d, %s", code, out)
	}
	if code, _, errs := runStator(t, "model", "infer", "--endpoint", server.URL, "--table", "none"); code != 1 || !strings.Contains(errs, "has no table none") {
		t.Errorf("a table that does not exist: exit code %d, %s", code, errs)
	}
}

// The scans of infer are not traffic: a second run derives the same patterns, and no scan.
func TestModelInferIsNotCounted(t *testing.T) {
	m := readTestModel(t, "../../apps/goals/goals.model.yaml")
	s := openServer(t, m)
	server := httptest.NewServer(s.handler)
	defer server.Close()
	for i := range 10 {
		it := model.Generator{}.Item(m.Entities[0], i)
		s.send("PutItem", map[string]any{"TableName": "CustomerBatch", "Item": json.RawMessage(wire.AppendItem(nil, it))})
	}
	for range 2 {
		code, out, errs := runStator(t, "model", "infer", "--endpoint", server.URL)
		if code != 0 || strings.Contains(out, "scan:") || !strings.Contains(out, "put: customer-batch") {
			t.Fatalf("exit code %d, the output is %s%s", code, out, errs)
		}
	}
	s.send("Scan", map[string]any{"TableName": "CustomerBatch"})
	if _, out, _ := runStator(t, "model", "infer", "--endpoint", server.URL); !strings.Contains(out, "scan: customer-batch") {
		t.Errorf("the scan of a program is not in the model:\n%s", out)
	}
}

// A server that does not count its requests gets a get for each entity.
func TestModelInferWithoutTraffic(t *testing.T) {
	m := readTestModel(t, "../../apps/goals/goals.model.yaml")
	s := openServer(t, m)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet {
			http.NotFound(w, r)
			return
		}
		s.handler.ServeHTTP(w, r)
	}))
	defer server.Close()
	for i := range 10 {
		it := model.Generator{}.Item(m.Entities[0], i)
		s.send("PutItem", map[string]any{"TableName": "CustomerBatch", "Item": json.RawMessage(wire.AppendItem(nil, it))})
	}
	code, out, errs := runStator(t, "model", "infer", "--endpoint", server.URL)
	if code != 0 || !strings.Contains(errs, "does not report its requests") || !strings.Contains(out, "    get: customer-batch\n    given: [personId]\n    rate: 0/day\n") {
		t.Errorf("exit code %d, the output is %s%s", code, out, errs)
	}
}
