package policy

import (
	"math/big"
	"net/netip"
	"testing"
	"time"
)

// Addresses and networks are read as package netip reads them.
func TestAddresses(t *testing.T) {
	eachSeed(t, 5000, func(t *testing.T, g policyGenerator) {
		var s string
		for range 1 + g.IntN(9) {
			s += pick(g, "0", "1", "10", "255", "256", "01", "ffff", "1F", ":", ":", "::", ".", ".", "g", "")
			s += pick(g, "", ":", ".")
		}
		if g.IntN(20) == 0 {
			s = pick(g, "1.2.3.4::", "1.2.3.4::1", "::1.2.3.4", "1::1.2.3.4", "1:2:3:4:5:6:1.2.3.4", "1:2:3:4:5:6:7:1.2.3.4", "1:2:3:4:5:6:7::", "1:2:3:4::5:6:7:8", "::1.2.3.4:5", ":1", "1:")
		}
		if g.IntN(3) == 0 {
			var b [16]byte
			for i := range b {
				b[i] = byte(g.IntN(2) * g.IntN(256))
			}
			s = pick(g, netip.AddrFrom16(b).String(), netip.AddrFrom4([4]byte(b[:4])).String(), netip.AddrFrom16(b).StringExpanded())
		}
		want, err := netip.ParseAddr(s)
		got, ok := parseAddress(s)
		if ok != (err == nil) {
			t.Fatalf("parseAddress(%q) is valid: %v, want %v", s, ok, err)
		}
		if !ok {
			return
		}
		if got.bits != want.BitLen() || string(got.bytes[:got.bits/8]) != string(want.AsSlice()) {
			t.Fatalf("parseAddress(%q) = %v, want %v", s, got, want)
		}
		bits := g.IntN(want.BitLen() + 1)
		network := netip.PrefixFrom(want, bits)
		n, ok := parseNetwork(network.String())
		other := want.AsSlice()
		other[g.IntN(len(other))] ^= 1 << g.IntN(8)
		addr, _ := netip.AddrFromSlice(other)
		a, ok2 := parseAddress(addr.String())
		if !ok || !ok2 || n.contains(&a) != network.Masked().Contains(addr) && !addr.Is4In6() && !want.Is4In6() {
			t.Fatalf("%v contains %v: %v", network, addr, n.contains(&a))
		}
	})
}

// Numbers are compared exactly.
func TestDecimals(t *testing.T) {
	eachSeed(t, 2000, func(t *testing.T, g policyGenerator) {
		number := func() string {
			s := pick(g, "", "-") + pick(g, "0", "00", "1", "10", "12345678901234567890123", "9")
			return s + pick(g, "", ".0", ".5", ".50", ".05", ".12345678901234567890123")
		}
		a, b := number(), number()
		x, ok := parseDecimal(a)
		y, ok2 := parseDecimal(b)
		p, _ := new(big.Rat).SetString(a)
		q, _ := new(big.Rat).SetString(b)
		if !ok || !ok2 || x.compare(y) != p.Cmp(q) {
			t.Fatalf("%s and %s compare as %d, want %d", a, b, x.compare(y), p.Cmp(q))
		}
	})
	for _, s := range []string{"", "-", ".5", "5.", "1e3", "+1", "1,5", "0x10", " 1", "NaN", "--1", "1.2.3"} {
		if d, ok := parseDecimal(s); ok {
			t.Errorf("parseDecimal(%q) = %v", s, d)
		}
	}
}

// The forms of dates.
func TestDates(t *testing.T) {
	for s, want := range map[string]string{
		"2026":                          "2026-01-01T00:00:00Z",
		"2026-11":                       "2026-11-01T00:00:00Z",
		"2026-11-18":                    "2026-11-18T00:00:00Z",
		"2026-11-18T10:20Z":             "2026-11-18T10:20:00Z",
		"2026-11-18T10:20+02:00":        "2026-11-18T08:20:00Z",
		"2026-11-18T10:20:30Z":          "2026-11-18T10:20:30Z",
		"2026-11-18T10:20:30.5-01:30":   "2026-11-18T11:50:30.5Z",
		"1794998400":                    "2026-11-18T10:40:00Z",
		"0":                             "1970-01-01T00:00:00Z",
		"-86400":                        "1969-12-31T00:00:00Z",
		"":                              "",
		"-":                             "",
		"now":                           "",
		"2026-13":                       "",
		"20-11-18":                      "",
		"2026-11-18T10Z":                "",
		"2026-11-18T10:20:30":           "",
		"99999999999999999999999999999": "",
	} {
		got, ok := parseDate(s)
		if ok != (want != "") || ok && got.UTC().Format(time.RFC3339Nano) != want {
			t.Errorf("parseDate(%q) = %v, %v, want %s", s, got.UTC(), ok, want)
		}
	}
}
