package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A kind is a server that we can start.
type kind struct {
	name  string
	about string
	disk  bool     // it stores data in its folder
	only  []string // the workloads it supports; all if empty
	needs []string // commands that must be installed
	asked bool     // it runs only if --target names it
	keys  bool     // it verifies signatures, so that each request is signed
	tls   bool

	dax       bool // requests are sent over the protocol of DAX
	throttled bool // its tables have provisioned units, which limit the requests

	// command starts it on a port of this machine.
	command func(ctx context.Context, w *launcher, binary, folder string, port int) (*exec.Cmd, error)
}

// kinds are the targets that can be chosen by name, in the order of the report.
var kinds = []kind{
	statorKind, statorMemoryKind, statorKeysKind, statorTLSKind, statorSecureKind, statorThrottleKind, statorDAXKind,
	localMemoryKind, localDiskKind, dynaliteKind, dynoxideKind, dynoxideDiskKind,
	cannedKind, cannedDoorKind, pebbleKind,
}

func kindNamed(name string) (*kind, bool) {
	i := slices.IndexFunc(kinds, func(k kind) bool { return k.name == name })
	if i < 0 {
		return nil, false
	}
	return &kinds[i], true
}

// A spec describes a target: a kind, or the address of a server that runs
// already.
type spec struct {
	name   string
	kind   *kind
	binary string // replaces the kind's default
	addr   string // host:port if there is no kind
	pid    int    // of the server at the address; 0 if unknown
}

// parseSpec reads KIND, NAME=URL, NAME=KIND or NAME=KIND:BINARY.
func parseSpec(text string) (spec, error) {
	name, what, named := strings.Cut(text, "=")
	if !named {
		what = text
	}
	if u, err := url.Parse(what); err == nil && u.Scheme == "http" && u.Host != "" && named {
		addr := u.Host
		if u.Port() == "" {
			addr = net.JoinHostPort(u.Hostname(), "80")
		}
		return spec{name: name, addr: addr}, nil
	}
	kindName, binary, _ := strings.Cut(what, ":")
	k, ok := kindNamed(kindName)
	if !ok || name == "" {
		var names []string
		for _, k := range kinds {
			names = append(names, k.name)
		}
		return spec{}, fmt.Errorf("--target is %q, but must be NAME=http://HOST:PORT, NAME=KIND:BINARY, or one of %s", text, strings.Join(names, ", "))
	}
	if binary != "" && !strings.HasPrefix(k.name, "stator") {
		return spec{}, fmt.Errorf("--target is %q, but only kinds of stator take a binary", text)
	}
	return spec{name: name, kind: k, binary: binary}, nil
}

// can reports whether the target supports a workload.
func (s *spec) can(workload string) bool {
	return s.kind == nil || len(s.kind.only) == 0 || slices.Contains(s.kind.only, workload)
}

// loads reports whether the target has tables to load.
func (s *spec) loads() bool { return s.can("batch") || s.kind.throttled || s.kind.dax }

// missing returns a command that the target needs and that is not installed.
func (s *spec) missing() string {
	if s.kind != nil {
		for _, command := range s.kind.needs {
			if _, err := exec.LookPath(command); err != nil {
				return command
			}
		}
	}
	return ""
}

// A driver puts load on a server.
type driver interface {
	// prepare creates the tables and loads them.
	prepare(ctx context.Context, indexed bool) error
	// load adds items to the table without an index.
	load(ctx context.Context, table string, from, to int) error
	run(ctx context.Context, j job) (sample, error)
}

// A target is a running server.
type target struct {
	spec
	name    string
	driver  driver
	api     *api          // nil if it is not driven over HTTP
	process *process      // nil if we did not start it
	folder  string        // of its data
	took    time.Duration // from its start to its first answer
}

// pid returns the server's process id; 0 if unknown.
func (t *target) pid() int {
	if t.process != nil {
		return t.process.pid()
	}
	return t.spec.pid
}

// stop stops the server if we started it, and removes its data or our tables.
func (t *target) stop() error {
	if t.process == nil {
		return t.api.dropTables(context.Background())
	}
	t.process.stop()
	return os.RemoveAll(t.folder)
}

// A launcher starts targets.
type launcher struct {
	scratch  string // a folder for this run
	root     string // of stator's source
	peers    string // where other servers are installed
	sign     bool
	loaders  int
	cache    int // MB; 0 is the server's default
	progress func(format string, args ...any)
	built    map[string]string // binaries of our own programs, by name
}

// open starts a target, or connects to it, and waits until it answers.
func (w *launcher) open(ctx context.Context, s spec, c *dataset) (*target, error) {
	if s.kind == nil {
		t := &target{spec: s, name: s.name, api: w.api(s.addr, c)}
		t.driver = t.api
		_, err := t.api.ask(ctx, "ListTables", "{}")
		return t, err
	}
	folder, err := w.folder(s.name)
	if err != nil {
		return nil, err
	}
	return w.start(ctx, s, c, folder)
}

// start starts a target on a folder, which may contain data already.
func (w *launcher) start(ctx context.Context, s spec, c *dataset, folder string) (*target, error) {
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	cmd, err := s.kind.command(ctx, w, s.binary, folder, port)
	if err != nil {
		return nil, err
	}
	accelerated := ""
	if s.kind.dax {
		second, err := freePort()
		if err != nil {
			return nil, err
		}
		accelerated = net.JoinHostPort("127.0.0.1", strconv.Itoa(second))
		cmd.Args = append(cmd.Args, "--dax", accelerated)
	}
	t := &target{spec: s, name: s.name, folder: folder}
	began := time.Now()
	defer func() { t.took = time.Since(began) }()
	if s.kind.name == pebbleKind.name {
		return t, t.startPebble(ctx, c.items, cmd)
	}
	if t.process, err = startProcess(cmd); err != nil {
		return nil, err
	}
	t.api = w.api(net.JoinHostPort("127.0.0.1", strconv.Itoa(port)), c)
	t.api.sign, t.api.tls, t.api.throttled = w.sign || s.kind.keys, s.kind.tls, s.kind.throttled
	t.api.dax = accelerated
	t.driver = t.api
	err = t.process.await(ctx, func(ctx context.Context) error {
		_, err := t.api.ask(ctx, "ListTables", "{}")
		return err
	})
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s: %w", s.name, err), t.stop())
	}
	return t, nil
}

func (w *launcher) api(addr string, c *dataset) *api {
	return &api{endpoint: endpoint{addr: addr, sign: w.sign}, dataset: c, loaders: w.loaders}
}

// folder creates a new folder.
func (w *launcher) folder(name string) (string, error) {
	return os.MkdirTemp(w.scratch, name+"-")
}

// freePort returns a free port of this machine.
func freePort() (int, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}

var statorKind = kind{
	name: "stator", about: "writes synced before the answer", disk: true,
	command: func(ctx context.Context, w *launcher, binary, folder string, port int) (*exec.Cmd, error) {
		return w.stator(ctx, binary, port, "--data", filepath.Join(folder, "data"))
	},
}

var statorMemoryKind = kind{
	name: "stator-memory", about: "nothing on disk",
	command: func(ctx context.Context, w *launcher, binary, _ string, port int) (*exec.Cmd, error) {
		return w.stator(ctx, binary, port, "--in-memory")
	},
}

var statorKeysKind = kind{
	name: "stator-keys", about: "nothing on disk, signatures verified", asked: true, keys: true,
	command: func(ctx context.Context, w *launcher, binary, folder string, port int) (*exec.Cmd, error) {
		return w.secured(ctx, binary, folder, port, true, false)
	},
}

var statorTLSKind = kind{
	name: "stator-tls", about: "nothing on disk, TLS", asked: true, tls: true,
	command: func(ctx context.Context, w *launcher, binary, folder string, port int) (*exec.Cmd, error) {
		return w.secured(ctx, binary, folder, port, false, true)
	},
}

var statorSecureKind = kind{
	name: "stator-keys-tls", about: "nothing on disk, signatures verified, TLS", asked: true, keys: true, tls: true,
	command: func(ctx context.Context, w *launcher, binary, folder string, port int) (*exec.Cmd, error) {
		return w.secured(ctx, binary, folder, port, true, true)
	},
}

// statorThrottleKind runs the workloads that consume fewer units than a table may have, and spread
// them over its partitions.
var statorThrottleKind = kind{
	name: "stator-throttle", about: "writes synced before the answer, limits of throughput", disk: true, asked: true, throttled: true,
	only: []string{"put", "get", "update", "query", "mix"},
	command: func(ctx context.Context, w *launcher, binary, folder string, port int) (*exec.Cmd, error) {
		return w.stator(ctx, binary, port, "--throttle", "--data", filepath.Join(folder, "data"))
	},
}

// statorDAXKind answers from its cache, which has all items after the table is loaded.
var statorDAXKind = kind{
	name: "stator-dax", about: "nothing on disk, cached items over the protocol of DAX", asked: true, dax: true,
	only: []string{"get", "get-zipf"},
	command: func(ctx context.Context, w *launcher, binary, _ string, port int) (*exec.Cmd, error) {
		return w.stator(ctx, binary, port, "--in-memory", "--dax-cache-size", "1024", "--dax-item-ttl", "24h")
	},
}

// secured returns the command of stator in memory, with keys or TLS.
func (w *launcher) secured(ctx context.Context, binary, folder string, port int, keys, tls bool) (*exec.Cmd, error) {
	args := []string{"--in-memory"}
	if keys {
		file := filepath.Join(folder, "keys.yaml")
		if err := os.WriteFile(file, []byte("keys:\n  - access_key: "+accessKey+"\n    secret: "+secretKey+"\n"), 0o600); err != nil {
			return nil, err
		}
		args = append(args, "--keys", file)
	}
	if tls {
		cert, key := filepath.Join(folder, "cert.pem"), filepath.Join(folder, "key.pem")
		if err := writeCertificate(cert, key); err != nil {
			return nil, err
		}
		args = append(args, "--tls-cert", cert, "--tls-key", key)
	}
	return w.stator(ctx, binary, port, args...)
}

// stator returns the command of stator, which is built when it is first needed.
func (w *launcher) stator(ctx context.Context, binary string, port int, args ...string) (*exec.Cmd, error) {
	if binary == "" {
		var err error
		if binary, err = w.build(ctx, "stator", "./cmd/stator"); err != nil {
			return nil, err
		}
	}
	args = append([]string{"serve", "--log", "warn", "--addr", fmt.Sprintf("127.0.0.1:%d", port)}, args...)
	if w.cache > 0 {
		args = append(args, "--cache", strconv.Itoa(w.cache))
	}
	return exec.Command(binary, args...), nil
}

// build builds one of our own programs, once.
func (w *launcher) build(ctx context.Context, name, from string) (string, error) {
	if binary, ok := w.built[name]; ok {
		return binary, nil
	}
	binary, err := filepath.Abs(filepath.Join(w.scratch, name))
	if err != nil {
		return "", err
	}
	w.progress("building %s", name)
	cmd := exec.CommandContext(ctx, "go", "build", "-trimpath", "-o", binary, from)
	cmd.Dir, cmd.Env = w.root, append(os.Environ(), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s in %s: %w: %s", name, w.root, err, output)
	}
	if w.built == nil {
		w.built = make(map[string]string)
	}
	w.built[name] = binary
	return binary, nil
}

// settleTime is how long a server may finish background work after a slice.
const settleTime = 3 * time.Second
