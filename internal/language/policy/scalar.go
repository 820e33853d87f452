package policy

import (
	"cmp"
	"strconv"
	"strings"
	"time"
)

// decimal is a number as text, so that any number of digits is compared exactly.
type decimal struct {
	negative    bool
	whole, frac string // without zeros at the start and at the end
}

// parseDecimal reads a number such as -12 or 0.50. There are no exponents.
func parseDecimal(s string) (d decimal, ok bool) {
	d.negative = strings.HasPrefix(s, "-")
	s = strings.TrimPrefix(s, "-")
	whole, frac, point := strings.Cut(s, ".")
	if whole == "" || point && frac == "" || !isDigits(whole) || !isDigits(frac) {
		return decimal{}, false
	}
	d.whole, d.frac = strings.TrimLeft(whole, "0"), strings.TrimRight(frac, "0")
	if d.whole == "" && d.frac == "" {
		d.negative = false
	}
	return d, true
}

func isDigits(s string) bool {
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

func (d decimal) compare(e decimal) int {
	if d.negative != e.negative {
		if d.negative {
			return -1
		}
		return 1
	}
	c := cmp.Or(cmp.Compare(len(d.whole), len(e.whole)), strings.Compare(d.whole, e.whole), strings.Compare(d.frac, e.frac))
	if d.negative {
		return -c
	}
	return c
}

// The forms of dates by their length without a zone: those of W3C's profile of ISO
// 8601.
var dateForms = []string{"2006", "2006-01", "2006-01-02", "2006-01-02T15:04Z07:00", time.RFC3339}

// parseDate reads a date, or seconds since 1970.
func parseDate(s string) (time.Time, bool) {
	if digits := strings.TrimPrefix(s, "-"); digits != "" && len(s) != len("2006") && isDigits(digits) {
		seconds, err := strconv.ParseInt(s, 10, 64)
		return time.Unix(seconds, 0), err == nil
	}
	form := time.RFC3339
	switch zone := strings.LastIndexAny(s, "Z+-"); {
	case len(s) == 4, len(s) == 7, len(s) == 10:
		form = dateForms[(len(s)-4)/3]
	case zone == len("2006-01-02T15:04"):
		form = dateForms[3]
	}
	t, err := time.Parse(form, s)
	return t, err == nil
}

// parseBool reads true or false, whatever the case.
func parseBool(s string) (value, ok bool) {
	return equalFold(s, "true"), equalFold(s, "true") || equalFold(s, "false")
}

// address is an IP address. The four bytes of IPv4 are the first ones.
type address struct {
	bytes [16]byte
	bits  int // 32 or 128
}

// network is a range of addresses with the same first bits.
type network struct {
	address
	prefix int
}

func (n *network) contains(a *address) bool {
	if n.bits != a.bits {
		return false
	}
	whole := n.prefix / 8
	if string(n.bytes[:whole]) != string(a.bytes[:whole]) {
		return false
	}
	rest := n.prefix % 8
	return rest == 0 || (n.bytes[whole]^a.bytes[whole])>>(8-rest) == 0
}

// parseNetwork reads an address or a range of them in the form of CIDR.
func parseNetwork(s string) (n network, ok bool) {
	addr, prefix, ranged := strings.Cut(s, "/")
	n.address, ok = parseAddress(addr)
	if !ok {
		return n, false
	}
	n.prefix = n.bits
	if ranged {
		if n.prefix, ok = parseSmall(prefix, n.bits); !ok {
			return n, false
		}
	}
	return n, true
}

// parseSmall reads a number up to a limit of at most three digits, without zeros
// at its start.
func parseSmall(s string, limit int) (n int, ok bool) {
	if s == "" || len(s) > 3 || !isDigits(s) || len(s) > 1 && s[0] == '0' {
		return 0, false
	}
	for i := range len(s) {
		n = 10*n + int(s[i]-'0')
	}
	return n, n <= limit
}

// parseAddress reads an address of IPv4 or IPv6. Package net is not for the pure
// packages.
func parseAddress(s string) (a address, ok bool) {
	if !strings.Contains(s, ":") {
		a.bits = 32
		return a, parseIPv4(s, a.bytes[:4])
	}
	a.bits = 128
	before, after, short := strings.Cut(s, "::")
	if !short {
		n, ok := parseGroups(s, &a.bytes, true)
		return a, ok && n == 16
	}
	if strings.Contains(after, "::") {
		return a, false
	}
	var tail [16]byte
	n, ok := parseGroups(before, &a.bytes, false)
	m, ok2 := parseGroups(after, &tail, true)
	if !ok || !ok2 || n+m > 14 {
		return a, false
	}
	copy(a.bytes[16-m:], tail[:m])
	return a, true
}

// parseGroups reads groups of IPv6 into the first bytes of a, and returns how many. The
// last groups of an address may have the form of IPv4.
func parseGroups(s string, a *[16]byte, last bool) (n int, ok bool) {
	for more := s != ""; more; {
		var group string
		group, s, more = strings.Cut(s, ":")
		if last && !more && strings.Contains(group, ".") && n <= 12 {
			return n + 4, parseIPv4(group, a[n:n+4])
		}
		if group == "" || len(group) > 4 || n == 16 {
			return n, false
		}
		v := 0
		for i := range len(group) {
			c := lower(group[i])
			switch {
			case '0' <= c && c <= '9':
				v = 16*v + int(c-'0')
			case 'a' <= c && c <= 'f':
				v = 16*v + int(c-'a') + 10
			default:
				return n, false
			}
		}
		a[n], a[n+1] = byte(v>>8), byte(v)
		n += 2
	}
	return n, true
}

func parseIPv4(s string, to []byte) bool {
	for i := range 4 {
		part, rest, more := strings.Cut(s, ".")
		n, ok := parseSmall(part, 255)
		if !ok || more != (i < 3) {
			return false
		}
		to[i], s = byte(n), rest
	}
	return true
}

// arnFields is the number of fields of an ARN. The last one may contain colons.
const arnFields = 6

// splitARN splits an ARN into its fields.
func splitARN(s string) (fields [arnFields]string, ok bool) {
	for i := range arnFields - 1 {
		fields[i], s, ok = strings.Cut(s, ":")
		if !ok {
			return fields, false
		}
	}
	fields[arnFields-1] = s
	return fields, fields[0] == "arn"
}
