package deploytest

import (
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
)

// Each image has the program, certificates and a folder of its user, and nothing else. The
// program serves from it with data in that folder.
func TestImages(t *testing.T) {
	for program, serve := range map[string]struct {
		args  string
		after string // text before the URL in what it prints
	}{
		"stator":    {"serve --addr 127.0.0.1:0 --data /data/stator", "listens on "},
		"taskqueue": {"serve --listen 127.0.0.1:0 --data /data/tables", "task queue on "},
		"downloads": {"demo --listen 127.0.0.1:0 --dynamodb 127.0.0.1:0 --data /data/tables", "page="},
		"goals":     {"serve --listen 127.0.0.1:0 --data /data/tables", "url="},
		"documents": {"serve --listen 127.0.0.1:0 --data /data/tables", "url="},
	} {
		t.Run(program, func(t *testing.T) {
			i := NewImage(t, program)
			if got := i.Inspect("{{.OCIv1.Config.User}} {{.OCIv1.Config.Entrypoint}} {{.OCIv1.Config.WorkingDir}}"); got != "65532:65532 [/program] /data" {
				t.Errorf("user, program and folder of the image: %s", got)
			}
			var files []string
			err := fs.WalkDir(os.DirFS(i.Root()), ".", func(path string, d fs.DirEntry, err error) error {
				if err == nil && !d.IsDir() {
					files = append(files, path)
				}
				return err
			})
			if want := []string{"etc/ssl/certs/ca-certificates.crt", "program"}; err != nil || !slices.Equal(files, want) {
				t.Errorf("files of the image: %q, %v", files, err)
			}
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
