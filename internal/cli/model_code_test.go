package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The commands write the generated code to standard output or to a file, and
// nothing for a model with faults.
func TestModelCode(t *testing.T) {
	const dir = "../model/code/testdata/"
	for _, language := range modelLanguages {
		t.Run(language.name, func(t *testing.T) {
			want, err := os.ReadFile(dir + "library" + filepath.Ext(language.file) + ".golden")
			if err != nil {
				t.Fatal(err)
			}
			code, out, errs := runStator(t, "model", language.name, dir+"library.model.yaml")
			if code != 0 || out != string(want) {
				t.Errorf("exit code %d, %d bytes, want %d\n%s", code, len(out), len(want), errs)
			}
			file := filepath.Join(t.TempDir(), language.file)
			code, out, errs = runStator(t, "model", language.name, dir+"library.model.yaml", "-o", file)
			if got, _ := os.ReadFile(file); code != 0 || out != "" || string(got) != string(want) {
				t.Errorf("exit code %d, %d bytes in the file\n%s%s", code, len(got), out, errs)
			}
			code, out, errs = runStator(t, "model", language.name, "../model/testdata/faults/scan.model.yaml")
			if code != 1 || out != "" || !strings.Contains(errs, "it scans all of") {
				t.Errorf("exit code %d\n%s%s", code, out, errs)
			}
		})
	}
	if code, out, errs := runStator(t, "model", "go", dir+"library.model.yaml", "--package", "a-b"); code != 2 || out != "" {
		t.Errorf("exit code %d\n%s", code, errs)
	}
}
