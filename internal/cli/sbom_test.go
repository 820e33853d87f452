package cli

import (
	"encoding/json"
	"runtime/debug"
	"strings"
	"testing"
)

func TestBillOfMaterials(t *testing.T) {
	b := billOf(&debug.BuildInfo{
		GoVersion: "go1.26.1",
		Main:      debug.Module{Path: "example.com/app", Version: "v1.0.0"},
		Deps: []*debug.Module{
			{Path: "example.com/one", Version: "v0.1.0", Sum: "h1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="},
			{Path: "example.com/two", Version: "v0.2.0", Replace: &debug.Module{Path: "example.com/Three", Version: "v3.0.0+incompatible"}},
		},
	})
	var got []string
	for _, c := range append([]component{b.Metadata.Component}, b.Components...) {
		got = append(got, c.PURL)
	}
	want := "pkg:golang/example.com/app@v1.0.0 pkg:golang/std@1.26.1 pkg:golang/example.com/one@v0.1.0 pkg:golang/example.com/three@v3.0.0%2Bincompatible"
	if strings.Join(got, " ") != want {
		t.Errorf("the components are %q, want %q", got, want)
	}
	if h := b.Components[1].Hashes; len(h) != 1 || h[0].Content != "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f" {
		t.Errorf("the hashes are %v", h)
	}
	if d := b.Dependencies; len(d) != 1 || len(d[0].DependsOn) != 3 {
		t.Errorf("the dependencies are %v", d)
	}
}

// The modules of the running program are listed as JSON.
func TestVersionPrintsBillOfMaterials(t *testing.T) {
	code, out := run("version", "--sbom")
	var b bill
	if err := json.Unmarshal([]byte(out), &b); code != 0 || err != nil {
		t.Fatalf("version --sbom exits with %d: %v\n%s", code, err, out)
	}
	if b.Format != "CycloneDX" || len(b.Components) == 0 {
		t.Errorf("the document is %+v", b)
	}
}
