package torture

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// newExt4 mounts a file system of a size in a file, or skips the test.
func newExt4(t testing.TB, bytes int64) string {
	t.Helper()
	mkfs, err := exec.LookPath("mkfs.ext4")
	if os.Getuid() != 0 || err != nil {
		t.Skip("a small disk needs root and mkfs.ext4 (package e2fsprogs)")
	}
	dir := t.TempDir()
	image, disk := filepath.Join(dir, "image"), filepath.Join(dir, "disk")
	for _, err := range []error{os.Mkdir(disk, 0o700), os.WriteFile(image, nil, 0o600), os.Truncate(image, bytes)} {
		if err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command(mkfs, "-q", image).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", mkfs, err, out)
	}
	if out, err := exec.Command("mount", "-o", "loop", image, disk).CombinedOutput(); err != nil {
		t.Skipf("a small disk needs loop devices: %v\n%s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("umount", "--lazy", disk).Run() })
	return disk
}

// A small disk can be filled for the most part. When it is full, a server that is killed
// starts again, deletes are accepted, and writes resume without a restart.
func TestSmallDisk(t *testing.T) {
	for _, c := range []struct {
		name  string
		disk  func(t *testing.T) string
		bytes int
	}{
		{"ext4 of 64 MB", func(t *testing.T) string { return newExt4(t, 64<<20) }, 64 << 20},
		{"tmpfs of 24 MB", func(t *testing.T) string { return newTmpfs(t, "24m") }, 24 << 20},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.bytes > 32<<20 && !*long {
				t.Skip("the long form fills larger disks")
			}
			g := newRig(t)
			data, backups := filepath.Join(c.disk(t), "data"), t.TempDir()
			s := start(t, data, "--log=error", "--backups", backups)
			createSmall(t, s.door, "Full")
			createSmall(t, s.door, "Other")
			const itemBytes = 120 << 10
			random := make([]byte, itemBytes)
			put := func(table string, id int) error {
				for i := range random {
					random[i] = byte(g.IntN(256))
				}
				return s.call("PutItem", object{"TableName": table, "Item": object{"p": text(fmt.Sprint(id)), "b": object{"B": base64.StdEncoding.EncodeToString(random)}}}, nil)
			}
			items := 0
			var err error
			for err == nil || rejected(err, "ThrottlingException") {
				if err = put("Full", items); err == nil {
					items++
				}
			}
			if !strings.Contains(err.Error(), "disk is almost full") || items*itemBytes < c.bytes/2 {
				t.Fatalf("after %d items: %v", items, err)
			}
			g.count("items", items)
			s.kill()
			s = start(t, data, "--log=error", "--backups", backups)
			for id := range items {
				var got struct{ Item object }
				s.must(t, "GetItem", object{"TableName": "Full", "Key": object{"p": text(fmt.Sprint(id))}}, &got)
				if got.Item == nil {
					t.Fatalf("item %d is lost", id)
				}
			}
			for id := range items / 2 {
				s.must(t, "DeleteItem", object{"TableName": "Full", "Key": object{"p": text(fmt.Sprint(id))}}, nil)
			}
			resumed := func(table string, want int) {
				t.Helper()
				for end, done := time.Now().Add(time.Minute), 0; done < want; {
					if err = put(table, done); err == nil {
						done++
					} else if time.Now().After(end) {
						t.Fatalf("%d of %d writes after the deletes: %v\n%s", done, want, err, s.log())
					}
				}
			}
			resumed("Full", items/4)
			s.must(t, "DeleteTable", object{"TableName": "Full"}, nil)
			resumed("Other", items*3/4)
			s.kill()
		})
	}
}

func createSmall(t *testing.T, d door, name string) {
	t.Helper()
	d.must(t, "CreateTable", object{
		"TableName": name, "BillingMode": "PAY_PER_REQUEST",
		"AttributeDefinitions": []object{{"AttributeName": "p", "AttributeType": "S"}},
		"KeySchema":            []object{{"AttributeName": "p", "KeyType": "HASH"}},
	}, nil)
}

// Connections that take all file descriptors leave some to the data: writes are flushed, the
// log stays short, and new connections are served.
func TestNoDescriptorsLeft(t *testing.T) {
	const descriptors = 64
	g := newRig(t)
	data := filepath.Join(t.TempDir(), "data")
	stator := command(t, "serve", "--addr", "127.0.0.1:0", "--data", data)
	shell := exec.Command("sh", append([]string{"-c", fmt.Sprintf("ulimit -n %d; exec \"$@\"", descriptors), "sh"}, stator.Args...)...)
	shell.Env = stator.Env
	s, err := run(t, shell)
	if err != nil {
		t.Fatal(err)
	}
	createSmall(t, s.door, "Few")
	var taken []net.Conn
	defer func() {
		for _, c := range taken {
			c.Close()
		}
	}()
	for range 2 * descriptors {
		c, err := net.DialTimeout("tcp", s.addr, time.Second)
		if err != nil {
			break // the queue of the listener is full
		}
		taken = append(taken, c)
	}
	value := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("v"), 100<<10))
	for id := range 500 { // more than a memtable
		if err := s.call("PutItem", object{"TableName": "Few", "Item": object{"p": text(fmt.Sprint(id)), "b": object{"B": value}}}, nil); err != nil {
			t.Fatalf("put %d: %v\n%.2000s", id, err, s.log())
		}
	}
	if n := strings.Count(s.log(), "\n"); n > 100 {
		t.Errorf("%d log lines: %.2000s", n, s.log())
	}
	g.count("connections", len(taken))
	s.kill()
}

// When the data folder is removed, writes are rejected and the health check fails.
func TestRemovedFolderIsNoticed(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	s := start(t, data, "--log=error")
	createSmall(t, s.door, "Gone")
	health := func() int {
		reply, err := http.Get("http://" + s.addr + "/healthz")
		if err != nil {
			t.Fatalf("%v\n%s", err, s.log())
		}
		reply.Body.Close()
		return reply.StatusCode
	}
	put := func() error {
		return s.call("PutItem", object{"TableName": "Gone", "Item": object{"p": text("1")}}, nil)
	}
	if err := put(); err != nil || health() != http.StatusOK {
		t.Fatalf("the control: %v", err)
	}
	if err := os.RemoveAll(data); err != nil {
		t.Fatal(err)
	}
	end := time.Now().Add(30 * time.Second)
	for err := put(); err == nil; err = put() {
		if time.Now().After(end) {
			t.Fatal("writes are accepted")
		}
	}
	if err := put(); err == nil || !strings.Contains(err.Error(), "removed or replaced") || health() != http.StatusServiceUnavailable {
		t.Errorf("a write: %v", err)
	}
	if !strings.Contains(s.log(), "stop the server and restore a backup") {
		t.Errorf("the log is %s", s.log())
	}
	s.kill()
}
