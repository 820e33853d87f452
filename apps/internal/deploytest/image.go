package deploytest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// Image is a container of an image that `make images` has built. Its files are its own; its
// network is that of the test.
type Image struct {
	Config       ImageConfig
	Architecture string

	t       *testing.T
	name    string   // of the container
	network []string // command that runs another one in the network of OwnNetwork
	options []string // of buildah run
}

// ImageConfig is what is tested of an image's configuration.
type ImageConfig struct {
	User, WorkingDir      string
	Entrypoint, Cmd       []string
	Volumes, ExposedPorts map[string]struct{}
	Healthcheck           struct{ Test []string }
}

// NewImage returns a container of an image. It skips the test where there is no buildah, and
// without IMAGES=1, which `make images` sets after it has built them.
func NewImage(t *testing.T, image string) *Image {
	t.Helper()
	if _, err := exec.LookPath("buildah"); err != nil {
		t.Skip("there is no buildah")
	}
	if os.Getenv("IMAGES") == "" {
		t.Skip("`make images` builds the images and runs this test")
	}
	i := &Image{t: t}
	i.name = i.buildah("from", "--pull-never", "localhost/stator/"+image)
	t.Cleanup(func() { i.buildah("rm", i.name) })
	var all struct {
		Docker struct {
			Architecture string
			Config       ImageConfig
		}
	}
	if err := json.Unmarshal([]byte(i.buildah("inspect", i.name)), &all); err != nil {
		t.Fatal(err)
	}
	i.Config, i.Architecture = all.Docker.Config, all.Docker.Architecture
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

// Root mounts the files of the container and returns the folder.
func (i *Image) Root() string {
	i.t.Helper()
	return i.buildah("mount", i.name)
}

// OwnNetwork gives the container a network with a loopback interface only, in which all ports
// are free. Without it the container has the network of the test.
func (i *Image) OwnNetwork() {
	i.t.Helper()
	name := "stator-" + i.name
	run(i.t, "ip", "netns", "add", name)
	i.t.Cleanup(func() { run(i.t, "ip", "netns", "del", name) })
	run(i.t, "ip", "-n", name, "link", "set", "lo", "up")
	i.network = []string{"nsenter", "--net=/run/netns/" + name}
}

// Mount makes a folder of this machine a folder of the container. It belongs to the user of the image; or,
// with group, to root, and the group of the user may read its files, as those of a secret in Kubernetes.
func (i *Image) Mount(folder, at string, group bool) {
	i.t.Helper()
	if group {
		_, id, _ := strings.Cut(i.Config.User, ":")
		run(i.t, "chown", "-R", "0:"+id, folder)
		run(i.t, "chmod", "-R", "u=rX,g=rX,o=", folder)
		at += ":ro"
	} else {
		run(i.t, "chown", "-R", i.Config.User, folder)
	}
	i.options = append(i.options, "--volume", folder+":"+at)
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v: %s", name, strings.Join(args, " "), err, out)
	}
}

func (i *Image) exec(args ...string) *exec.Cmd {
	all := append([]string{}, i.network...)
	all = append(all, "buildah", "run", "--isolation", "chroot")
	all = append(all, i.options...)
	all = append(all, i.name, "--")
	all = append(all, args...)
	return exec.Command(all[0], all[1:]...)
}

// command is the entry point with arguments, which default to those of the image.
func (i *Image) command(args []string) *exec.Cmd {
	if len(args) == 0 {
		args = i.Config.Cmd
	}
	return i.exec(append(append([]string{}, i.Config.Entrypoint...), args...)...)
}

// Run runs the program to its end and returns what it prints.
func (i *Image) Run(args ...string) string {
	i.t.Helper()
	return i.output(i.command(args))
}

// Healthcheck runs the health check of the image.
func (i *Image) Healthcheck() {
	i.t.Helper()
	test := i.Config.Healthcheck.Test
	if len(test) < 2 || test[0] != "CMD" {
		i.t.Fatalf("the health check of the image is %q", test)
	}
	i.output(i.exec(test[1:]...))
}

func (i *Image) output(c *exec.Cmd) string {
	i.t.Helper()
	out, err := c.CombinedOutput()
	if err != nil {
		i.t.Fatalf("%v: %v: %s", c.Args, err, out)
	}
	return string(out)
}

// Start starts the program until the test ends, and returns what it prints.
func (i *Image) Start(args ...string) *Output {
	i.t.Helper()
	return start(i.t, i.command(args))
}

// start starts a command until the test ends, and returns what it prints.
func start(t *testing.T, c *exec.Cmd) *Output {
	t.Helper()
	o := &Output{t: t, command: c}
	c.Stdout, c.Stderr = o, o
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	o.ended = make(chan error, 1)
	go func() { o.ended <- c.Wait() }()
	t.Cleanup(func() {
		if !o.stopped {
			if err := syscall.Kill(-c.Process.Pid, syscall.SIGTERM); err != nil {
				t.Errorf("stop %v: %v", c.Args, err)
			}
			<-o.ended // it reports the signal
		}
		if t.Failed() {
			t.Logf("%v printed: %s", c.Args, o.text.String())
		}
	})
	return o
}

// Output is what a program prints.
type Output struct {
	t       *testing.T
	command *exec.Cmd
	ended   chan error // receives the result of the command
	stopped bool       // before the end of the test
	mutex   sync.Mutex
	text    bytes.Buffer
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
		case err := <-o.ended:
			o.stopped = true
			o.t.Fatalf("%v ended before it printed %q: %v", o.command.Args, after, err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// Process is the process of the program, which is the only one without a child of those that
// the command has started.
func (o *Output) Process() int {
	o.t.Helper()
	pid := o.command.Process.Pid
	for {
		lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid)) // of each thread
		if err != nil {
			o.t.Fatal(err)
		}
		var children []string
		for _, list := range lists {
			text, err := os.ReadFile(list)
			if err != nil {
				o.t.Fatal(err)
			}
			children = append(children, strings.Fields(string(text))...)
		}
		if len(children) == 0 {
			return pid
		}
		if pid, err = strconv.Atoi(children[0]); err != nil {
			o.t.Fatal(err)
		}
	}
}

// Stop sends SIGTERM to the program, as an engine that stops its container does, and expects
// the exit code 0.
func (o *Output) Stop() {
	o.t.Helper()
	if err := syscall.Kill(o.Process(), syscall.SIGTERM); err != nil {
		o.t.Fatal(err)
	}
	err := <-o.ended
	o.stopped = true
	if err != nil {
		o.t.Errorf("%v ended with %v after SIGTERM", o.command.Args, err)
	}
}
