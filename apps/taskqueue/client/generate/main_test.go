package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// The generated clients are up to date.
func TestClientsAreUpToDate(t *testing.T) {
	for name, target := range targets {
		want, err := generate(name)
		if err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join("..", filepath.FromSlash(target)))
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s is not what its template gives, %v: run 'go generate ./taskqueue/client' in apps", target, err)
		}
	}
}
