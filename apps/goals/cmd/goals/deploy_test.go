package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/stator-db/stator/apps/goals"
	"github.com/stator-db/stator/apps/goals/gold"
	"github.com/stator-db/stator/apps/goals/stream"
	"github.com/stator-db/stator/apps/internal/deploytest"
)

func TestDeploy(t *testing.T) { deploytest.Check(t, "../..", root) }

// The commands of the compose file's trial work, in an image without a folder for
// temporary files; only the addresses differ. The rules are created before they are
// read.
func TestComposeTrial(t *testing.T) {
	text, err := os.ReadFile("../../deploy/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var compose struct {
		Services map[string]struct {
			Command []string
			Depends map[string]struct{ Condition string } `yaml:"depends_on"`
		}
	}
	if err := yaml.Unmarshal(text, &compose); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"goals", "load"} {
		if got := compose.Services[name].Depends["rules"].Condition; got != "service_completed_successfully" {
			t.Errorf("service %s starts without the rules: %q", name, got)
		}
	}
	data, tables := t.TempDir(), t.TempDir()
	broker, err := stream.StartBroker("", "", stream.DefaultTopics)
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	t.Setenv("TMPDIR", filepath.Join(data, "absent"))
	c := start(t, "serve", "--data", tables, "--listen", "127.0.0.1:0", "--log-json", "--dynamodb", "127.0.0.1:0")
	endpoint := c.says(`"endpoint":"([^"]+)"`)
	url := c.says(`"msg":"serving","url":"([^"]+)"`)
	replace := strings.NewReplacer("/data", data, "http://stator:8000", endpoint, "kafka:9092", strings.Join(broker.Addresses(), ","),
		"postgres://goals:goals@postgres/goals?sslmode=disable", filepath.Join(tables, "trial.db"))
	for _, name := range []string{"rules", "generate", "load"} {
		var args []string
		for _, a := range compose.Services[name].Command {
			args = append(args, replace.Replace(a))
		}
		start(t, args...).succeeds()
	}
	if status, body := get(t, url, gold.Person(1, 0).String()); status != 200 {
		t.Errorf("after the trial: %d %s", status, body)
	}
}

// The consumer runs in its image: an event that the image's own command sends is written to
// the tables of the image of stator.
func TestConsumerImage(t *testing.T) {
	tables := deploytest.NewImage(t, "stator").Start("serve", "--addr", "127.0.0.1:0", "--data", "/data/tables").URL("listens on ")
	image := deploytest.NewImage(t, "goals")
	broker, err := stream.StartBroker("", "", stream.DefaultTopics)
	if err != nil {
		t.Fatal(err)
	}
	defer broker.Close()
	kafka := strings.Join(broker.Addresses(), ",")
	metrics := image.Start("consume", "--endpoint", tables, "--kafka", kafka, "--listen", "127.0.0.1:0").URL("metrics=")
	image.Run("deposit", "--kafka", kafka, "--person", gold.Person(1, 0).String(), "--balance", "12.50")
	for written := ""; !strings.Contains(written, `goals_stream_events_total{outcome="written"} 1`); {
		answer, err := http.Get(metrics)
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		written = string(text)
	}
}

// The server leaves tables as an operator has set them, and each line of its log is JSON.
func TestStarts(t *testing.T) {
	deploytest.Starts(t, goals.Model, root, `"msg":"serving"`, "serve", "--listen", "127.0.0.1:0", "--without-stream", "--bucket", "file://"+t.TempDir())
}
