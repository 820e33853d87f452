package wire

import "testing"

// clean agrees with a loop over single bytes.
func FuzzClean(f *testing.F) {
	for _, s := range []string{"", "abc", `abc"def`, "0123456789\\", "1234567\n", "é", "0123456é89abcdef\"", "\x7f\x80\x1f\x20", "\x00\x01\"\\"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		want, ascii := 0, true
		for want < len(b) && b[want] >= ' ' && b[want] != '"' && b[want] != '\\' {
			ascii = ascii && b[want] < 0x80
			want++
		}
		if got, gotASCII := clean(b); got != want || gotASCII != ascii {
			t.Errorf("clean of %q is %d, %v, want %d, %v", b, got, gotASCII, want, ascii)
		}
	})
}

// Every byte is classified at every position of a word.
func TestCleanBytes(t *testing.T) {
	for at := range 20 {
		for c := range 256 {
			b := []byte("abcdefghijklmnopqrstuvwxyz")
			b[at] = byte(c)
			want := len(b)
			if c < ' ' || c == '"' || c == '\\' {
				want = at
			}
			if got, ascii := clean(b); got != want || ascii != (c < 0x80) {
				t.Errorf("byte %x at %d: clean is %d, %v, want %d", c, at, got, ascii, want)
			}
		}
	}
}
