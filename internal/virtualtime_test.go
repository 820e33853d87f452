package internal

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// All tests in virtual time use virtualtime.Test.
func TestNoTestUsesSynctestDirectly(t *testing.T) {
	files := 0
	err := filepath.WalkDir("..", func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, "_test.go") || strings.HasSuffix(path, "virtualtime_test.go") {
			return err
		}
		files++
		if parsed, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly); err != nil {
			return err
		} else if !importsSynctest(parsed.Imports) {
			return nil
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), "synctest.Test"+"(") {
			t.Errorf("%s calls synctest.Test, which fails under the race detector: call virtualtime.Test", path)
		}
		return err
	})
	if err != nil || files < 100 {
		t.Errorf("%d test files were read, %v", files, err)
	}
}

func importsSynctest(imports []*ast.ImportSpec) bool {
	return slices.ContainsFunc(imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"testing/synctest"` })
}
