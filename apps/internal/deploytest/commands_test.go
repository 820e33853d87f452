package deploytest

import (
	"bufio"
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

// statorCommand is a command line of stator in a file by which it is deployed.
type statorCommand struct {
	where   string
	args    []string // without the program
	folders []string // that are mounted there, apart from /data
	group   bool     // the files of folders belong to root and to the group of stator
}

// statorCommands returns the command lines of stator in packages/deploy and in the compose files of the
// applications, without the engine of Kubernetes, which needs a cluster.
func statorCommands(t *testing.T) (all []statorCommand) {
	t.Helper()
	files, err := filepath.Glob("../../*/deploy/compose.yaml")
	if err != nil || len(files) != 4 {
		t.Fatalf("the compose files of the applications are %q, %v", files, err)
	}
	for _, file := range append(files, "../../../packages/deploy/compose.yaml") {
		var c compose
		if err := yaml.Unmarshal(read(t, file), &c); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		for _, s := range c.Services {
			if s.Image == "stator/stator" {
				all = append(all, statorCommand{where: file, args: s.Command})
			}
		}
	}
	all = append(all, unitCommand(t, "../../../packages/deploy/stator.service"), kubernetesCommand(t, "../../../packages/deploy/kubernetes.yaml"))
	if len(all) != 7 {
		t.Fatalf("there are %d command lines of stator, want 7: %v", len(all), all)
	}
	for i := range all {
		all[i].where = strings.TrimLeft(all[i].where, "./")
	}
	return all
}

func read(t *testing.T, file string) []byte {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func unitCommand(t *testing.T, file string) statorCommand {
	t.Helper()
	c := statorCommand{where: file}
	lines := bufio.NewScanner(bytes.NewReader(read(t, file)))
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), "=")
		switch name {
		case "ExecStart":
			c.args = strings.Fields(value)[1:]
		case "StateDirectory":
			c.folders = append(c.folders, "/var/lib/"+value)
		}
	}
	return c
}

func kubernetesCommand(t *testing.T, file string) statorCommand {
	t.Helper()
	c := statorCommand{where: file, group: true}
	objects := yaml.NewDecoder(bytes.NewReader(read(t, file)))
	for {
		var o struct {
			Kind string
			Spec struct {
				Template struct {
					Spec struct {
						Containers []struct {
							Args         []string
							VolumeMounts []struct {
								MountPath string `yaml:"mountPath"`
							} `yaml:"volumeMounts"`
						}
					}
				}
			}
		}
		err := objects.Decode(&o)
		if err == io.EOF {
			return c
		}
		if err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if o.Kind != "Deployment" {
			continue
		}
		for _, container := range o.Spec.Template.Spec.Containers {
			c.args = slices.DeleteFunc(container.Args, func(a string) bool { return strings.HasPrefix(a, "--engine=") })
			for _, m := range container.VolumeMounts {
				c.folders = append(c.folders, m.MountPath)
			}
		}
	}
}

// serverKeys writes keys and a certificate to a folder, by the names of the secrets in kubernetes.yaml.
func serverKeys(t *testing.T, folder string) {
	t.Helper()
	server := httptest.NewTLSServer(nil) // has a certificate for 127.0.0.1
	defer server.Close()
	private, err := x509.MarshalPKCS8PrivateKey(server.TLS.Certificates[0].PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"keys.yaml": "keys:\n  - {access_key: EXAMPLE, secret: of-a-test}\n",
		"tls.crt":   string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})),
		"tls.key":   string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})),
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// stator serves with each command line of the files by which it is deployed, with other folders, another
// port, and a folder for the backups of Kubernetes.
func TestStatorCommands(t *testing.T) {
	program := filepath.Join(t.TempDir(), "stator")
	if out, err := exec.Command("go", "build", "-o", program, "github.com/stator-db/stator/cmd/stator").CombinedOutput(); err != nil {
		t.Fatalf("build stator: %v\n%s", err, out)
	}
	for _, c := range statorCommands(t) {
		t.Run(c.where, func(t *testing.T) {
			folder := t.TempDir()
			serverKeys(t, folder)
			replaced := []string{"0.0.0.0:8000", "127.0.0.1:0", "127.0.0.1:8000", "127.0.0.1:0", "/data/", folder + "/", "s3://my-bucket/stator?region=eu-west-1", folder + "/backups"}
			for _, at := range c.folders {
				replaced = append(replaced, at, folder)
			}
			command := exec.Command(program)
			command.Dir = folder
			for _, a := range c.args {
				command.Args = append(command.Args, strings.NewReplacer(replaced...).Replace(a))
			}
			start(t, command).URL("listens on ")
		})
	}
}
