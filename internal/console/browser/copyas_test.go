package browser

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/aws/aws-sdk-go-v2/config" // of the Go code that is run
)

// Each form in which a request is copied is run, and gives the same answer.
func TestCopyAs(t *testing.T) {
	s := serve(t, nil)
	s.create(t, "Every", "id S", "sort B")
	s.put(t, "Every", every())
	s.put(t, "Every", item{"id": text("it's"), "sort": every()["sort"], "n": number("7"), "marker": text("other")})
	b := s.open(t, "#/table/Every/items")
	b.run(`await t.rows(2); await t.click("button", "Add filter"); await t.fill(".filter input", "n38"); await t.fill(".filter select", ">="); await t.fill(".filter select", "N", 1); await t.fill(".filter input", "12345678901234567890123456789012345678", 1);
		await t.click("button", "Add filter"); await t.fill(".filter input", "a\\.b.deep[0]", 2); await t.fill(".filter select", "exists", 4);
		await t.click("button", "Run"); await t.rows(1); await t.click("[data-key=e]");`)
	code := func(form string) string {
		return b.run(`await t.click(".copyas button", $1); return (await t.el("pre.request")).textContent;`, form)
	}
	dir := t.TempDir()
	file := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	modules, err := filepath.Abs("node_modules")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(modules, filepath.Join(dir, "node_modules")); err != nil {
		t.Fatal(err)
	}
	_, noModules := os.Stat(filepath.Join(modules, "@aws-sdk"))
	for _, c := range []struct {
		form    string
		needs   []string
		missing bool
		run     func(code string) *exec.Cmd
	}{
		{"AWS CLI", []string{"aws"}, false, func(code string) *exec.Cmd { return exec.CommandContext(t.Context(), "sh", "-c", code) }},
		{"Python", []string{"python3"}, exec.CommandContext(t.Context(), "python3", "-c", "import boto3").Run() != nil, func(code string) *exec.Cmd { return exec.CommandContext(t.Context(), "python3", file("main.py", code)) }},
		{"JavaScript", []string{"node"}, noModules != nil, func(code string) *exec.Cmd { return exec.CommandContext(t.Context(), "node", file("main.mjs", code)) }},
		{"Go", []string{"go"}, false, func(code string) *exec.Cmd {
			return exec.CommandContext(t.Context(), "go", "run", file("main.go", code))
		}},
	} {
		t.Run(c.form, func(t *testing.T) {
			for _, program := range c.needs {
				if _, err := exec.LookPath(program); err != nil || c.missing {
					t.Skipf("%s or its SDK is not installed", program)
				}
			}
			text := code(c.form)
			cmd := c.run(text)
			cmd.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=b", "AWS_EC2_METADATA_DISABLED=true")
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%s\n%s\n%v", text, out, err)
			}
			got := strings.ReplaceAll(string(out), "ScannedCount:2", `"ScannedCount": 2`)
			for _, want := range []string{"ScannedCount", "2"} {
				if !strings.Contains(got, want) {
					t.Errorf("the answer has no %s: %s", want, got)
				}
			}
			if c.form != "Go" && (!strings.Contains(got, "every-type") || strings.Contains(got, "it's")) {
				t.Errorf("the answer is %s", got)
			}
		})
	}
	t.Run("PartiQL", func(t *testing.T) {
		in, _ := json.Marshal(map[string]string{"Statement": code("PartiQL")})
		if got := s.post(t, "ExecuteStatement", string(in)); !strings.Contains(got, "every-type") || strings.Contains(got, "it's") {
			t.Errorf("%s gives %s", in, got)
		}
	})
	// The request that saves an item is copied with it.
	t.Run("UpdateItem", func(t *testing.T) {
		b := s.open(t, "#/table/Every/items")
		b.run(`await t.rows(2); await t.write(); const i = t.cells().findIndex((c) => c.join().includes("it's")); t.all(".grid button.link")[i].click(); await t.fill('dialog input[aria-label="Value of n"]', "8"); await t.click("dialog button", "Request"); await t.click("dialog .copyas button", "Python");`)
		text := b.run(`return (await t.el("dialog pre.request")).textContent`)
		cmd := exec.CommandContext(t.Context(), "python3", file("update.py", text))
		cmd.Env = append(os.Environ(), "AWS_ACCESS_KEY_ID=a", "AWS_SECRET_ACCESS_KEY=b")
		if out, err := cmd.CombinedOutput(); err != nil {
			if strings.Contains(string(out), "No module named 'boto3'") {
				t.Skip("boto3 is not installed")
			}
			t.Fatalf("%s\n%s", text, out)
		}
		if got := s.get(t, "Every", `{"id":{"S":"it's"},"sort":{"B":"AQD/"}}`); !strings.Contains(got, `"n":{"N":"8"}`) {
			t.Errorf("the item is %s", got)
		}
	})
}
