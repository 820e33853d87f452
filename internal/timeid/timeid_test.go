package timeid

import (
	"testing"
	"time"
)

func TestIDsSortByTime(t *testing.T) {
	at := time.UnixMilli(1_794_716_084_321)
	earlier, later := New(at), New(at.Add(time.Millisecond))
	if earlier >= later {
		t.Errorf("%s does not sort before %s", earlier, later)
	}
}

func TestValid(t *testing.T) {
	id := New(time.UnixMilli(1_794_716_084_321))
	for text, want := range map[string]bool{
		id: true, New(time.UnixMilli(0)): true,
		"": false, id + "0": false, "0" + id: false, id + "\n": false, id[:22] + "G": false, id[:14] + "_" + id[15:]: false,
	} {
		if got := Valid(text); got != want {
			t.Errorf("Valid(%q) = %v, want %v", text, got, want)
		}
	}
}
