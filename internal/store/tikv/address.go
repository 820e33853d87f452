package tikv

import (
	"fmt"
	"net/url"
	"strings"
	"time"
)

// Address names a cluster, and the part of it that the engine uses.
type Address struct {
	PD     []string // host:port of each placement driver
	Prefix string   // of all keys, so that other programs can use the cluster too

	CA, Cert, Key string // PEM files, for TLS

	// Unistore works around bugs of the store that the cluster tests run on: one-phase
	// and asynchronous commits lose updates there, and reverse scans ignore the timestamp.
	Unistore bool

	// Followers sends reads that may be slightly old to any replica.
	Followers bool

	// Lease is how long a process that sends no heartbeats counts as alive, and Beat the
	// interval between heartbeats.
	Lease, Beat time.Duration
}

// ParseAddress parses
//
//	tikv://pd1:2379,pd2:2379?prefix=prod&ca=ca.pem&cert=c.pem&key=k.pem&followers=true&lease=5s&beat=100ms
func ParseAddress(text string) (Address, error) {
	a := Address{Prefix: "stator", Lease: defaultLease, Beat: defaultBeat}
	rest, ok := strings.CutPrefix(text, "tikv://")
	if !ok {
		return a, fmt.Errorf("%q does not begin with tikv://", text)
	}
	hosts, query, _ := strings.Cut(rest, "?")
	for host := range strings.SplitSeq(strings.TrimSuffix(hosts, "/"), ",") {
		if host == "" || strings.ContainsAny(host, "/@ ") {
			return a, fmt.Errorf("%q has no list of placement drivers, as in tikv://pd1:2379,pd2:2379", text)
		}
		if !strings.Contains(host, ":") {
			host += ":2379"
		}
		a.PD = append(a.PD, host)
	}
	values, err := url.ParseQuery(query)
	if err != nil {
		return a, fmt.Errorf("%q: %w", text, err)
	}
	for name, all := range values {
		if err := a.set(name, all[len(all)-1]); err != nil {
			return a, fmt.Errorf("%q: %w", text, err)
		}
	}
	if (a.Cert == "") != (a.Key == "") || a.Cert != "" && a.CA == "" {
		return a, fmt.Errorf("%q: TLS needs ca, and cert and key together", text)
	}
	if a.Lease < 10*a.Beat {
		return a, fmt.Errorf("%q: a lease of %v is too short for a beat of %v: make it ten times as long", text, a.Lease, a.Beat)
	}
	return a, nil
}

func (a *Address) set(name, value string) (err error) {
	switch name {
	case "prefix":
		if value == "" || strings.ContainsRune(value, 0) || len(value) > 64 {
			return fmt.Errorf("prefix %q is not of 1 to 64 bytes", value)
		}
		a.Prefix = value
	case "ca":
		a.CA = value
	case "cert":
		a.Cert = value
	case "key":
		a.Key = value
	case "followers":
		a.Followers, err = parseBool(name, value)
	case "quirks":
		if value != "unistore" {
			return fmt.Errorf("quirks is %q, but only unistore is known", value)
		}
		a.Unistore = true
	case "lease":
		a.Lease, err = parseDuration(name, value)
	case "beat":
		a.Beat, err = parseDuration(name, value)
	default:
		return fmt.Errorf("unknown parameter %s: the parameters are prefix, ca, cert, key, followers, quirks, lease and beat", name)
	}
	return err
}

func parseBool(name, value string) (bool, error) {
	if value != "true" && value != "false" {
		return false, fmt.Errorf("%s is %q, not true or false", name, value)
	}
	return value == "true", nil
}

func parseDuration(name, value string) (time.Duration, error) {
	d, err := time.ParseDuration(value)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("%s is %q, not a duration such as 5s", name, value)
	}
	return d, nil
}
