package deploytest

import (
	"debug/elf"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// Each image has the program, certificates and a folder of its user, and nothing else. The
// program serves from it with data in that folder.
func TestImages(t *testing.T) {
	for program, serve := range map[string]struct {
		args  string
		after string // text before the URL in what it prints
	}{
		"taskqueue": {"serve --listen 127.0.0.1:0 --data /data/tables", "task queue on "},
		"downloads": {"demo --listen 127.0.0.1:0 --dynamodb 127.0.0.1:0 --data /data/tables", "page="},
		"goals":     {"serve --listen 127.0.0.1:0 --data /data/tables", "url="},
		"documents": {"serve --listen 127.0.0.1:0 --data /data/tables", "url="},
	} {
		t.Run(program, func(t *testing.T) {
			i := NewImage(t, program)
			checkConfig(t, i, ImageConfig{Entrypoint: []string{"/program"}})
			checkFiles(t, i, "program")
			url := i.Start(strings.Fields(serve.args)...).URL(serve.after)
			got, err := http.Get(url + "/healthz")
			if err != nil {
				t.Fatal(err)
			}
			got.Body.Close()
			if got.StatusCode != http.StatusOK {
				t.Errorf("%s/healthz: %s", url, got.Status)
			}
		})
	}
}

// checkConfig compares the configuration of an image with one that has no more than what differs.
func checkConfig(t *testing.T, i *Image, want ImageConfig) {
	t.Helper()
	want.User, want.WorkingDir, want.Volumes = "65532:65532", "/data", map[string]struct{}{"/data": {}}
	if !reflect.DeepEqual(i.Config, want) {
		t.Errorf("the configuration of the image is %+v, want %+v", i.Config, want)
	}
}

// checkFiles checks that an image has a program, certificates and an empty folder for data of its user.
func checkFiles(t *testing.T, i *Image, program string) {
	t.Helper()
	var files []string
	err := fs.WalkDir(os.DirFS(i.Root()), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if want := []string{"etc/ssl/certs/ca-certificates.crt", program}; err != nil || !slices.Equal(files, want) {
		t.Errorf("files of the image: %q, %v", files, err)
	}
	info, err := os.Stat(filepath.Join(i.Root(), "data"))
	if err != nil {
		t.Fatal(err)
	}
	if s, ok := info.Sys().(*syscall.Stat_t); !ok || s.Uid != 65532 || s.Gid != 65532 {
		t.Errorf("/data does not belong to the user of the image: %+v", info.Sys())
	}
}

// The images of stator serve with the arguments that they have without others, pass their own
// health check, do not run as root, and end when they are stopped.
func TestStatorImages(t *testing.T) {
	const binary = "/usr/local/bin/stator"
	for _, c := range []struct {
		image           string
		entrypoint, cmd []string
		ready           string // what it prints once it listens
		answers         string // transcripts that it answers as DynamoDB does
	}{
		{"stator", []string{binary}, []string{"serve"}, "listens on ", "."},
		{"local", []string{binary, "local", "-bind", "0.0.0.0", "-allowAnyone"}, []string{"-sharedDb", "-inMemory"}, "CorsParams:\t", "put_item|query"},
	} {
		t.Run(c.image, func(t *testing.T) {
			i := NewImage(t, c.image)
			checkConfig(t, i, ImageConfig{
				Entrypoint: c.entrypoint, Cmd: c.cmd, ExposedPorts: map[string]struct{}{"8000/tcp": {}},
				Healthcheck: struct{ Test []string }{[]string{"CMD", binary, "health"}},
			})
			checkFiles(t, i, "usr/local/bin/stator")
			i.OwnNetwork()
			o := i.Start()
			o.URL(c.ready)
			i.Healthcheck()
			status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", o.Process()))
			if err != nil || !strings.Contains(string(status), "Uid:\t65532\t65532\t65532\t65532\nGid:\t65532\t65532\t65532\t65532\n") {
				t.Errorf("the process is not that of the user 65532: %v\n%s", err, status)
			}
			// Another port than that of the defaults is not open.
			i.output(i.exec(binary, "conform", "--endpoint", "http://127.0.0.1:8000", "--run", c.answers))
			o.Stop()
		})
	}
}

// The image of each platform has the binary for its processor.
func TestStatorImagePlatforms(t *testing.T) {
	for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
		i := NewImage(t, "stator-"+arch)
		f, err := elf.Open(filepath.Join(i.Root(), "usr/local/bin/stator"))
		if err != nil {
			t.Fatal(err)
		}
		if f.Machine != machine || i.Architecture != arch {
			t.Errorf("the image for %s is for %s, and its binary for %v", arch, i.Architecture, f.Machine)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// The image serves with each command line of the files by which stator is deployed, and passes
// its health check. stator is in the image where the unit for systemd has it.
func TestStatorImageCommands(t *testing.T) {
	for _, c := range statorCommands(t) {
		t.Run(c.where, func(t *testing.T) {
			i := NewImage(t, "stator")
			i.OwnNetwork()
			for _, at := range c.folders {
				folder := t.TempDir()
				serverKeys(t, folder)
				i.Mount(folder, at, c.group)
			}
			url := i.Start(c.args...).URL("listens on ")
			if strings.HasPrefix(url, "https:") {
				i.options = append(i.options, "--env", "AWS_CA_BUNDLE=/etc/stator/tls/tls.crt")
				i.output(i.exec("/usr/local/bin/stator", "health", "--endpoint", "https://127.0.0.1:8000"))
			} else {
				i.Healthcheck()
			}
		})
	}
}
