package cli

import (
	"runtime"
	"testing"

	"github.com/stator-db/stator/internal/process"
)

// The program runs on after its pages were released, however it was linked.
func TestProgramRunsOnAfterRelease(t *testing.T) {
	for range 3 {
		process.ReleaseProgram()
		runtime.GC()
		if code, out := run("version"); code != 0 || out == "" {
			t.Errorf("version exits with %d and prints %q", code, out)
		}
	}
}
