package planted

import "testing"

// FuzzPlanted fails for a text that a fuzzer finds soon.
func FuzzPlanted(f *testing.F) {
	f.Add("a")
	f.Fuzz(func(t *testing.T, s string) {
		if len(s) > 3 && s[0] == 'b' {
			t.Error("found")
		}
	})
}
