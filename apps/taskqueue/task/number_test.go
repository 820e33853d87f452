package task

import "testing"

// The numbers of events have four digits in keys, as the design says, so they sort
// up to the last event of a task.
func TestNumber(t *testing.T) {
	for n, want := range map[int]string{1: "0001", 42: "0042", MaxSeq: "9999"} {
		if got := Number(n); got != want {
			t.Errorf("number %d is %q, want %q", n, got, want)
		}
	}
}
