package dax

import "testing"

func TestCheckAddress(t *testing.T) {
	for _, c := range []struct {
		address     string
		hostAllowed bool
		want        bool
	}{
		{"node2:8111", false, true},
		{"10.0.0.2:8111", false, true},
		{"[::1]:8111", false, true},
		{"cache-1.example_zone.com.:1", false, true},
		{"node2", true, true},
		{"10.0.0.2", true, true},
		{"::1", true, true},
		{"node2", false, false},
		{"", true, false},
		{":8111", false, false},
		{"node2:", false, false},
		{"node2:0", false, false},
		{"node2:65536", false, false},
		{"node2:dax", true, false},
		{"0.0.0.0:8111", false, false},
		{"[::]:8111", true, false},
		{"[fe80::1%eth0]:8111", false, false},
		{"10.0.0.256:8111", false, false},
		{"dax://node2:8111", true, false},
		{"node 2:8111", false, false},
		{"-node:8111", false, false},
		{"a..b:8111", false, false},
		{"node2:8111:8112", true, false},
	} {
		if err := CheckAddress(c.address, c.hostAllowed); (err == nil) != c.want {
			t.Errorf("CheckAddress(%q, %v) = %v", c.address, c.hostAllowed, err)
		}
	}
}
