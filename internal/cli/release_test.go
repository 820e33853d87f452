package cli

import (
	"runtime"
	"testing"
)

// The program goes on after its pages were given back, however it was linked.
func TestProgramGoesOnAfterRelease(t *testing.T) {
	for range 3 {
		releaseProgram()
		runtime.GC()
		if code, said := run("version"); code != 0 || said == "" {
			t.Errorf("it ends with %d and says %q", code, said)
		}
	}
}
