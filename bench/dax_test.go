package main

import (
	"bytes"
	"encoding/hex"
	"testing"
)

func TestDAXGet(t *testing.T) {
	g := newGenerator(newDataset(100, 0), job{Connections: 1}, 0)
	g.get(42)
	got := appendDAXGet(nil, g.body)
	// 1, 263244906, the table, the key and null are five values.
	at := 0
	var err error
	for i := range 5 {
		if at, err = skipCBOR(got, at, 0); err != nil {
			t.Fatalf("value %d of %x: %v", i, got, err)
		}
	}
	if at != len(got) || !bytes.Contains(got, []byte(tableItems)) {
		t.Errorf("%x", got)
	}
}

func TestDAXReply(t *testing.T) {
	x := exchange{dax: true}
	for _, c := range []struct {
		reply  string
		status int
		body   string
	}{
		{"80f6", 200, "f6"},
		{"80a1004401020304", 200, "a1004401020304"},
		{"80bf004401020304ff", 200, "bf004401020304ff"},
		{"85041825182618271829" + "6161" + "8361616162190190", 400, "61618361616162190190"},
	} {
		whole, err := hex.DecodeString(c.reply)
		if err != nil {
			t.Fatal(err)
		}
		r, used, err := x.parse(append(whole, 0x80))
		if err != nil || used != len(whole) || r.status != c.status || hex.EncodeToString(r.body) != c.body {
			t.Errorf("%s is read as %d %x, %d bytes, %v", c.reply, r.status, r.body, used, err)
		}
		for n := range whole {
			if _, _, err := x.parse(whole[:n]); err != errMore {
				t.Errorf("%d bytes of %s: %v", n, c.reply, err)
			}
		}
	}
}
