package rules

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"
	"time"
)

// startPostgres starts a PostgreSQL server in a temporary folder and returns the URL of
// an empty database. It skips the test if PostgreSQL is not installed.
func startPostgres(t *testing.T) string {
	t.Helper()
	folders, _ := filepath.Glob("/usr/lib/postgresql/*/bin")
	folders = append(folders, "/usr/local/bin", "/usr/bin")
	at := slices.IndexFunc(folders, func(f string) bool {
		_, server := os.Stat(filepath.Join(f, "postgres"))
		_, make := os.Stat(filepath.Join(f, "initdb"))
		return server == nil && make == nil
	})
	if at < 0 {
		t.Skip("PostgreSQL is not installed (postgres and initdb); set GOALS_POSTGRES to use a server")
	}
	data, err := os.MkdirTemp("", "goals-postgres-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(data) })
	owner := unprivileged(t, data)
	run := func(name string, args ...string) *exec.Cmd {
		c := exec.Command(filepath.Join(folders[at], name), args...)
		c.Dir, c.SysProcAttr = data, owner
		return c
	}
	if out, err := run("initdb", "-D", filepath.Join(data, "db"), "-U", "goals", "-A", "trust", "-N").CombinedOutput(); err != nil {
		t.Fatalf("initdb: %v\n%s", err, out)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := strconv.Itoa(free.Addr().(*net.TCPAddr).Port)
	free.Close()
	server := run("postgres", "-D", filepath.Join(data, "db"), "-h", "127.0.0.1", "-p", port, "-k", data, "-F")
	log, err := os.Create(filepath.Join(data, "log"))
	if err != nil {
		t.Fatal(err)
	}
	server.Stdout, server.Stderr = log, log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		server.Process.Signal(syscall.SIGINT)
		server.Wait()
		log.Close()
	})
	where := fmt.Sprintf("postgres://goals@127.0.0.1:%s/postgres?connect_timeout=2", port)
	for began := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		source, err := Open(t.Context(), where)
		if err != nil {
			t.Fatal(err)
		}
		err = source.db.PingContext(t.Context())
		source.Close()
		if err == nil {
			return where
		}
		if time.Since(began) > time.Minute {
			text, _ := os.ReadFile(log.Name())
			t.Fatalf("PostgreSQL does not respond: %v\n%s", err, text)
		}
	}
}

// unprivileged returns the attributes of a process that owns the folder: PostgreSQL does
// not run as root.
func unprivileged(t *testing.T, folder string) *syscall.SysProcAttr {
	t.Helper()
	if os.Getuid() != 0 {
		return nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		u, err := user.Lookup(name)
		if err != nil {
			continue
		}
		uid, errUser := strconv.Atoi(u.Uid)
		gid, errGroup := strconv.Atoi(u.Gid)
		if errUser != nil || errGroup != nil || os.Chown(folder, uid, gid) != nil {
			continue
		}
		return &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}}
	}
	t.Skip("PostgreSQL does not run as root, and there is no other user")
	return nil
}
