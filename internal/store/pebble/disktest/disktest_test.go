package disktest

import (
	"fmt"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Files can be reused while the disk is cloned, without a deadlock.
func TestReuseWhileCloned(t *testing.T) {
	disk := NewCrashable()
	f, err := disk.Create("0", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	var all sync.WaitGroup
	done := make(chan struct{})
	all.Go(func() {
		defer close(done)
		for i := range 20_000 {
			f, err := disk.ReuseForWrite(fmt.Sprint(i), fmt.Sprint(i+1), vfs.WriteCategoryUnspecified)
			if err != nil {
				t.Error(err)
				return
			}
			f.Close()
		}
	})
	all.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				disk.CrashClone(vfs.CrashCloneCfg{})
			}
		}
	})
	all.Wait()
}

// Writes to a reused file start at its beginning, and the rest of it stays.
func TestReusedFileIsOverwritten(t *testing.T) {
	disk := NewCrashable()
	for i, text := range []string{"abcdef", "xyz"} {
		var f vfs.File
		var err error
		if i == 0 {
			f, err = disk.Create("a", vfs.WriteCategoryUnspecified)
		} else {
			f, err = disk.ReuseForWrite("a", "b", vfs.WriteCategoryUnspecified)
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		f.Close()
	}
	f, err := disk.Open("b")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	b := make([]byte, 10)
	if n, _ := f.Read(b); string(b[:n]) != "xyzdef" {
		t.Errorf("the file is %q", b[:n])
	}
}
