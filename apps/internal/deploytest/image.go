package deploytest

import (
	"bytes"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Image is a container of an image that `make images` has built. Its files are its own; its
// network is that of the test.
type Image struct {
	t    *testing.T
	name string // of the container
}

// NewImage returns a container of the image of a program. It skips the test where there is
// no buildah, and without IMAGES=1, which `make images` sets after it has built them.
func NewImage(t *testing.T, program string) *Image {
	t.Helper()
	if _, err := exec.LookPath("buildah"); err != nil {
		t.Skip("there is no buildah")
	}
	if os.Getenv("IMAGES") == "" {
		t.Skip("`make images` builds the images and runs this test")
	}
	i := &Image{t: t}
	i.name = i.buildah("from", "--pull-never", "localhost/stator/"+program)
	t.Cleanup(func() { i.buildah("rm", i.name) })
	return i
}

// buildah runs buildah and returns what it prints.
func (i *Image) buildah(args ...string) string {
	i.t.Helper()
	var out, faults bytes.Buffer
	c := exec.Command("buildah", args...)
	c.Stdout, c.Stderr = &out, &faults
	if err := c.Run(); err != nil {
		i.t.Fatalf("buildah %s: %v: %s", strings.Join(args, " "), err, &faults)
	}
	return strings.TrimSpace(out.String())
}

// Inspect returns a part of the image's configuration, by a Go template.
func (i *Image) Inspect(template string) string {
	i.t.Helper()
	return i.buildah("inspect", "--format", template, i.name)
}

// Root mounts the files of the container and returns the folder.
func (i *Image) Root() string {
	i.t.Helper()
	return i.buildah("mount", i.name)
}

func (i *Image) command(args []string) *exec.Cmd {
	return exec.Command("buildah", append([]string{"run", "--isolation", "chroot", i.name, "--", "/program"}, args...)...)
}

// Run runs the program to its end and returns what it prints.
func (i *Image) Run(args ...string) string {
	i.t.Helper()
	out, err := i.command(args).CombinedOutput()
	if err != nil {
		i.t.Fatalf("%v in the image: %v: %s", args, err, out)
	}
	return string(out)
}

// Start starts the program until the test ends, and returns what it prints.
func (i *Image) Start(args ...string) *Output {
	i.t.Helper()
	c := i.command(args)
	o := &Output{t: i.t}
	c.Stdout, c.Stderr = o, o
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		i.t.Fatal(err)
	}
	i.t.Cleanup(func() {
		if err := syscall.Kill(-c.Process.Pid, syscall.SIGTERM); err != nil {
			i.t.Errorf("stop %v: %v", args, err)
		}
		_ = c.Wait() // it reports the signal
		if i.t.Failed() {
			i.t.Logf("%v printed: %s", args, o.text.String())
		}
	})
	return o
}

// Output is what a program prints.
type Output struct {
	t     *testing.T
	mutex sync.Mutex
	text  bytes.Buffer
}

func (o *Output) Write(b []byte) (int, error) {
	o.mutex.Lock()
	defer o.mutex.Unlock()
	return o.text.Write(b)
}

// URL waits until the program prints the URL that it serves, after a text.
func (o *Output) URL(after string) string {
	o.t.Helper()
	for {
		o.mutex.Lock()
		_, rest, ok := strings.Cut(o.text.String(), after)
		o.mutex.Unlock()
		if url, _, whole := strings.Cut(rest, "\n"); ok && whole {
			url, _, _ = strings.Cut(url, " ")
			return url
		}
		select {
		case <-o.t.Context().Done():
			o.t.Fatalf("it printed no %q", after)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
