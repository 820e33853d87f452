package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Each kind of expression is changed, and nothing else.
func TestMutants(t *testing.T) {
	const source = `package p

func f(a, b int) bool {
	a += b
	a++
	g()
	if a < b && true {
		return a == b
	}
	return "a < b" == "" // a < b
}
`
	all, err := mutantsIn("f.go", []byte(source))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, m := range all {
		got = append(got, strings.TrimPrefix(m.String(), "f.go:"))
	}
	want := []string{"4: += becomes -=", "5: ++ becomes --", "6: g() becomes {}", "7: && becomes ||", "7: < becomes <=", "7: true becomes false", "8: == becomes !=", "10: == becomes !="}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("the mutants are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if text := string(all[4].apply()); text != strings.Replace(source, "if a < b", "if a <= b", 1) {
		t.Errorf("the mutated file is\n%s", text)
	}
}

// A mutant that a test notices is found, and one that no test notices is printed.
func TestSurvivorsAreReported(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":    "module example\n\ngo 1.26\n",
		"p.go":      "package p\n\nfunc less(a, b int) bool { return a < b }\n\nfunc text(a string) string { return a + \"!\" }\n\nfunc equal(a, b int) bool { return a == b }\n",
		"p_test.go": "package p\n\nimport \"testing\"\n\nfunc TestP(t *testing.T) {\n\tif !less(1, 2) || equal(1, 2) || text(\"a\") != \"a!\" {\n\t\tt.Error()\n\t}\n}\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	counts, err := options{dir: dir, timeout: time.Minute}.mutate(".", &out)
	if err != nil || counts != (tally{found: 1, survived: 1, invalid: 1}) {
		t.Errorf("the mutants are %+v, %v, want one of each kind\n%s", counts, err, out.String())
	}
	if !strings.Contains(out.String(), "p.go:3: < becomes <=") {
		t.Errorf("the survivor is not printed:\n%s", out.String())
	}
}

// A package without tests is refused, because all of its mutants would survive.
func TestPackageWithoutTests(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module example\n\ngo 1.26\n", "p.go": "package p\n\nconst b = 1 < 2\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := (options{dir: dir, timeout: time.Minute}).mutate(".", new(strings.Builder)); err == nil || !strings.Contains(err.Error(), "--tests") {
		t.Errorf("the error is %v", err)
	}
}
