package auth

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stator-db/stator/internal/protocol/keys"
	"github.com/stator-db/stator/internal/protocol/principals"
)

const (
	algorithm  = "AWS4-HMAC-SHA256"
	terminator = "aws4_request"
	dateFormat = "20060102T150405Z"

	// skew is by how much the clocks of a client and of the server may differ.
	skew = 15 * time.Minute
	// maxExpires is how long a presigned request may be valid, in seconds.
	maxExpires = 604_800
	// maxSignedHeaders is more than any client signs.
	maxSignedHeaders = 128
)

// Verifier verifies the signatures of requests.
type Verifier struct {
	now     func() time.Time // by which requests are dated
	expiry  func() time.Time // by which keys expire
	log     *slog.Logger
	current atomic.Pointer[verifierKeys]
}

// verifierKeys are the keys of a verifier with the policies of their owners, and what was derived from
// them. A request uses one of them, so that it never has the key of one and the policies of another.
type verifierKeys struct {
	set    *keys.Set
	cache  *signingKeys
	nobody *keys.Key       // stands for a key that is unknown, so that its requests take as long
	who    *principals.Set // nil without policies
	known  sync.Map        // *principals.Identity by ARN; as many as there are keys
}

// signer returns the owner of a key as a signer.
func (k *verifierKeys) signer(accessKey []byte, key *keys.Key, region string) Signer {
	return Signer{AccessKey: accessKey, Region: region, Principal: key.Principal, Identity: k.identify(key.Principal)}
}

// identify returns the identity of a principal; nil without policies.
func (k *verifierKeys) identify(arn string) *principals.Identity {
	if k.who == nil {
		return nil
	}
	if found, ok := k.known.Load(arn); ok {
		return found.(*principals.Identity)
	}
	found, err := k.who.Identity(arn)
	if err != nil { // it has no policies, so that it may do nothing
		found = principals.Nobody(arn)
	}
	k.known.Store(arn, found)
	return found
}

// NewVerifier returns a verifier with a set of keys, without policies. At the level debug it logs the canonical form
// of requests whose signature is wrong.
func NewVerifier(set *keys.Set, now func() time.Time, log *slog.Logger) *Verifier {
	v := &Verifier{now: now, expiry: now, log: log}
	v.Replace(set, nil)
	return v
}

// Follow makes keys expire by another clock; requests are dated by it too if dates is set. It is called
// before the verifier is used.
func (v *Verifier) Follow(now func() time.Time, dates bool) {
	v.expiry = now
	if dates {
		v.now = now
	}
}

// Expired reports whether a key may not be used any more.
func (v *Verifier) Expired(key *keys.Key) bool {
	return !key.Expires.IsZero() && !v.expiry().Before(key.Expires)
}

// WrongRegion is the error of a request that is signed for another region than the server's.
func WrongRegion(region string) error {
	return fault(invalidSignature, fmt.Sprintf("Credential should be scoped to a valid region, not '%s'. ", region))
}

// Replace replaces the keys, and the principals with their policies; nil is none. Requests that are being
// verified are not disturbed.
func (v *Verifier) Replace(set *keys.Set, who *principals.Set) {
	set = keys.NewSet(set.All()...) // another one, as Keys says
	v.current.Store(&verifierKeys{set: set, who: who, cache: newSigningKeys(), nobody: &keys.Key{Secret: keys.NewSecret(rand.Text())}})
}

// Keys returns the keys. It is another set after Replace.
func (v *Verifier) Keys() *keys.Set { return v.current.Load().set }

// Find returns a key and its owner as a signer, with the policies of the same time; nil if there is
// no such key.
func (v *Verifier) Find(accessKey []byte, region string) (*keys.Key, Signer) {
	current := v.current.Load()
	key := current.set.Find(accessKey)
	if key == nil {
		return nil, Signer{}
	}
	return key, current.signer(accessKey, key, region)
}

// workspace is the memory for one verification.
type workspace struct {
	hash     hasher
	text     []byte
	start    []byte // of the text that is signed
	names    []byte // signed headers
	bodyHash [2 * sha256.Size]byte
	sum      [sha256.Size]byte
	hex      [2 * sha256.Size]byte
}

var workspaces = sync.Pool{New: func() any { return &workspace{hash: newHasher()} }}

// maxKept is how much memory of a workspace is kept.
const maxKept = 32 << 10

// release ends the use of a workspace.
func (w *workspace) release() {
	if cap(w.text) <= maxKept {
		workspaces.Put(w)
	}
}

// Verify finds the signer of a request and verifies the signature. The checks, and their order, are
// those of the service.
func (v *Verifier) Verify(r Request) (Signer, error) { return v.VerifyNext(r, nil) }

// VerifyNext is Verify for a request of a connection, whose last signer is remembered; nil is none.
func (v *Verifier) VerifyNext(r Request, last *Reader) (Signer, error) {
	if last != nil {
		if s, decided, err := last.verified.verify(v, &r); decided {
			return s, err
		}
	}
	var a authorization
	if err := a.find(r.Headers.Header, r.Query); err != nil {
		return Signer{}, err
	}
	if a.malformed != nil {
		return Signer{}, a.notAPair()
	}
	if err := a.incomplete(); err != nil {
		return Signer{}, err
	}
	date, err := a.checkDate(v.now())
	if err != nil {
		return Signer{}, err
	}
	if err := a.checkSignedHeaders(&r); err != nil {
		return Signer{}, err
	}
	if string(a.algorithm) != algorithm {
		return Signer{}, fault(incompleteSignature, fmt.Sprintf("Unsupported AWS 'algorithm': '%s' (only %s for now). ", a.algorithm, algorithm))
	}
	parts, err := a.checkCredential(r.Service, date)
	if err != nil {
		return Signer{}, err
	}
	accessKey, day, region := parts[0], parts[1], parts[2]

	current := v.current.Load()
	key, name := current.set.Find(accessKey), a.credential
	known := key != nil
	if !known {
		key, name = current.nobody, a.credential[len(accessKey):]
	}
	signing := current.cache.find(name, key, day, region, r.Service)
	valid := v.matches(&r, &a, date, signing)
	if err := v.verdict(&r, &a, key, known, valid); err != nil {
		return Signer{}, err
	}
	s := current.signer(accessKey, key, signing.region)
	last.rememberVerified(current, &r, &a, date, signing, s)
	return s, nil
}

// verdict returns the error of a request whose signature was compared.
func (v *Verifier) verdict(r *Request, a *authorization, key *keys.Key, known, valid bool) error {
	switch {
	case !known:
		return fault(unrecognizedClient, "The security token included in the request is invalid.")
	case !valid:
		return mismatch()
	case !key.Temporary():
		return nil
	case !equal(a.token(r), key.Token.Reveal()):
		return fault(unrecognizedClient, "The security token included in the request is invalid")
	case v.Expired(key):
		return fault("ExpiredTokenException", "The security token included in the request is expired")
	}
	return nil
}

// equal compares secrets in constant time, whatever their lengths.
func equal(got []byte, want string) bool {
	a, b := sha256.Sum256(got), sha256.Sum256([]byte(want))
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1
}

func mismatch() error {
	return fault(invalidSignature, "The request signature we calculated does not match the signature you provided. "+
		"Check your AWS Secret Access Key and signing method. Consult the service documentation for details.")
}

// matches computes the signature of a request and compares it with the one that was sent.
func (v *Verifier) matches(r *Request, a *authorization, date time.Time, key *signingKey) bool {
	w := workspaces.Get().(*workspace)
	defer w.release()
	names, ok := w.sortedNames(a.signedHeaders)
	w.start = appendStart(w.start[:0], date, key)
	valid := w.signs(r, names, &knownPrefix{key: key, inner: key.mac.inner, toSign: w.start}, a.signature) && ok
	if !valid {
		w.logWrong(v.log, r, names, key)
	}
	return valid
}

// logWrong logs what should have been signed, after signs.
func (w *workspace) logWrong(log *slog.Logger, r *Request, names []byte, key *signingKey) {
	if log.Enabled(context.Background(), slog.LevelDebug) {
		w.text = appendCanonical(w.text[:0], r, names, &w.bodyHash)
		log.Debug("a signature is wrong; the canonical request should have been", "accessKey", key.key.AccessKey, "canonical", withoutToken(string(w.text)))
	}
}

// appendStart appends the first lines of the text that is signed, to which only a hash is added.
func appendStart(b []byte, date time.Time, key *signingKey) []byte {
	b = append(append(b, algorithm...), '\n')
	b = append(appendDate(b, date), '\n')
	b = append(append(append(b, key.day[:]...), '/'), key.region...)
	return append(append(append(b, '/'), key.service...), "/"+terminator+"\n"...)
}

// A knownPrefix has how the two texts of a signature begin, with the states of SHA-256 after that: the text to sign,
// which is that of a key and a date, and the canonical form, which a request may have or not.
type knownPrefix struct {
	key    *signingKey
	inner  midstate // of the MAC, after the whole blocks that toSign lacks
	toSign []byte   // the text to sign, up to the hash of the canonical form

	canonical []byte   // whole blocks; empty if none are known
	hashed    midstate // after canonical
}

// newKnownPrefix returns the prefix of the texts of a request, whose names of headers are sorted.
func newKnownPrefix(r *Request, names []byte, date time.Time, key *signingKey) *knownPrefix {
	w := workspaces.Get().(*workspace)
	defer w.release()
	w.text = appendCanonical(w.text[:0], r, names, &w.bodyHash)
	toSign, canonical := appendStart(nil, date, key), bytes.Clone(wholeBlocks(w.text[:min(len(w.text)-len(w.bodyHash), maxRemembered)]))
	blocks := wholeBlocks(toSign)
	return &knownPrefix{key: key, inner: key.mac.inner.after(blocks), toSign: toSign[len(blocks):], canonical: canonical, hashed: midstate(nil).after(canonical)}
}

// signs reports whether a signature is that of a request with sorted names of signed headers.
func (w *workspace) signs(r *Request, names []byte, known *knownPrefix, signature []byte) bool {
	w.sum = sha256.Sum256(r.Body)
	hex.Encode(w.bodyHash[:], w.sum[:])
	// A hash that the client declares is not used, but must be right.
	declared := r.Headers.Header("X-Amz-Content-Sha256")
	declaredRight := len(declared) == 0 || string(declared) == string(w.bodyHash[:])

	w.text = appendCanonical(w.text[:0], r, names, &w.bodyHash)
	if rest, ok := bytes.CutPrefix(w.text, known.canonical); ok {
		w.hash.appendSum(w.sum[:0], known.hashed, rest)
	} else {
		w.sum = sha256.Sum256(w.text)
	}
	w.text = hex.AppendEncode(append(w.text[:0], known.toSign...), w.sum[:])
	w.hash.appendMAC(w.sum[:0], &known.key.mac, known.inner, w.text)
	hex.Encode(w.hex[:], w.sum[:])
	return len(signature) == len(w.hex) && subtle.ConstantTimeCompare(signature, w.hex[:]) == 1 && declaredRight
}

// sortedNames returns the names of signed headers in lower case and sorted. It is not ok if one
// occurs twice or there are too many, which would make the canonical form large.
func (w *workspace) sortedNames(names []byte) ([]byte, bool) {
	if isSorted(names) {
		return names, true
	}
	if bytes.Count(names, []byte(";")) >= maxSignedHeaders { // before they are copied
		return nil, false
	}
	list := strings.Split(strings.ToLower(string(names)), ";")
	slices.Sort(list)
	if len(slices.Compact(slices.Clone(list))) < len(list) {
		return nil, false
	}
	w.names = append(w.names[:0], strings.Join(list, ";")...)
	return w.names, true
}

// isSorted reports whether names are in lower case, in ascending order, and not too many.
func isSorted(names []byte) bool {
	var before []byte
	count := 0
	for rest, more := names, true; more; count++ {
		var name []byte
		name, rest, more = nextName(rest)
		if count > 0 && bytes.Compare(before, name) >= 0 {
			return false
		}
		for _, c := range name {
			if 'A' <= c && c <= 'Z' {
				return false
			}
		}
		before = name
	}
	return count <= maxSignedHeaders
}

// sessionToken matches a session token in the canonical form of a request.
var sessionToken = regexp.MustCompile(`(?m)(^x-amz-security-token:|X-Amz-Security-Token=)[^&\n]*`)

// withoutToken returns the canonical form of a request without its session token.
func withoutToken(canonical string) string {
	return sessionToken.ReplaceAllString(canonical, "$1[secret]")
}

// notAPair is the fault of a part without an equal sign. The header is not echoed.
func (a *authorization) notAPair() error {
	sum := sha256.Sum256(a.header)
	return fault(incompleteSignature, fmt.Sprintf("'%s' not a valid key=value pair (missing equal-sign) in Authorization header (hashed with SHA-256 and encoded with Base64): '%s'.",
		a.malformed, base64.StdEncoding.EncodeToString(sum[:])))
}

// token returns the session token of a request.
func (a *authorization) token(r *Request) []byte {
	if a.query != nil {
		if token := a.query.Get("X-Amz-Security-Token"); token != "" {
			return []byte(token)
		}
	}
	return r.Headers.Header("X-Amz-Security-Token")
}

// checkDate returns the date of a signature, if it is current.
func (a *authorization) checkDate(now time.Time) (time.Time, error) {
	date, ok := parseDate(a.date)
	if !ok && a.query == nil {
		var err error
		date, err = http.ParseTime(string(a.date)) // of a Date header
		ok = err == nil
	}
	if !ok {
		return date, fault(incompleteSignature, fmt.Sprintf("Date must be in ISO-8601 'basic format'. Got '%s'. See http://en.wikipedia.org/wiki/ISO_8601", a.date))
	}
	date, now = date.UTC(), now.UTC()
	valid, err := a.validFor()
	switch {
	case err != nil:
		return date, err
	case date.Before(now.Add(-valid).Truncate(time.Second)):
		return date, fault(invalidSignature, fmt.Sprintf("Signature expired: %s is now earlier than %s (%s - %s)",
			date.Format(dateFormat), now.Add(-valid).Format(dateFormat), now.Format(dateFormat), minutes(valid)))
	case date.After(now.Add(skew)):
		return date, fault(invalidSignature, fmt.Sprintf("Signature not yet current: %s is still later than %s (%s + %s)",
			date.Format(dateFormat), now.Add(skew).Format(dateFormat), now.Format(dateFormat), minutes(skew)))
	}
	return date, nil
}

// parseDate parses a date of dateFormat; time.Parse takes five times as long.
func parseDate(b []byte) (time.Time, bool) {
	if len(b) != len(dateFormat) || b[8] != 'T' || b[15] != 'Z' {
		return time.Time{}, false
	}
	var n [7]int // year in two parts, month, day, hour, minute, second
	for i := range n {
		at := 2 * i
		if i > 3 {
			at++ // after the T
		}
		tens, ones := b[at]-'0', b[at+1]-'0'
		if tens > 9 || ones > 9 {
			return time.Time{}, false
		}
		n[i] = int(tens)*10 + int(ones)
	}
	t := time.Date(n[0]*100+n[1], time.Month(n[2]), n[3], n[4], n[5], n[6], 0, time.UTC)
	_, month, day := t.Date() // differ for a date that does not exist
	return t, int(month) == n[2] && day == n[3] && n[4] < 24 && n[5] < 60 && n[6] < 60
}

// appendDate appends a date in dateFormat; time.AppendFormat takes several times as long.
func appendDate(b []byte, t time.Time) []byte {
	year, month, day := t.Date()
	hour, minute, second := t.Clock()
	b = appendTwo(appendTwo(appendTwo(appendTwo(b, year/100), year%100), int(month)), day)
	return append(appendTwo(appendTwo(appendTwo(append(b, 'T'), hour), minute), second), 'Z')
}

func appendTwo(b []byte, n int) []byte { return append(b, '0'+byte(n/10%10), '0'+byte(n%10)) }

// validFor returns how long a signature is valid.
func (a *authorization) validFor() (time.Duration, error) {
	if a.query == nil || !a.query.Has("X-Amz-Expires") {
		return skew, nil
	}
	seconds, err := strconv.Atoi(a.query.Get("X-Amz-Expires"))
	if err != nil || seconds < 1 || seconds > maxExpires {
		return 0, fault(incompleteSignature, fmt.Sprintf("X-Amz-Expires must be a number of seconds from 1 to %d.", maxExpires))
	}
	return time.Duration(seconds) * time.Second, nil
}

func minutes(d time.Duration) string {
	if d%time.Minute == 0 {
		return fmt.Sprintf("%d min.", d/time.Minute)
	}
	return fmt.Sprintf("%d sec.", d/time.Second)
}

// forkHeader names the fork of a server that a request is for.
const forkHeader = "X-Stator-Fork"

// checkSignedHeaders requires the headers that decide what a request is: its host, its operation and
// its fork, which otherwise could be replaced by others. A presigned request may have the operation in its query.
func (a *authorization) checkSignedHeaders(r *Request) error {
	if !a.signs("host") {
		return fault(invalidSignature, "'Host' must be a 'SignedHeader' in the AWS Authorization.")
	}
	if target := r.Headers.Header("X-Amz-Target"); len(target) > 0 && !a.signs("x-amz-target") && a.query.Get("X-Amz-Target") != string(target) {
		return fault(invalidSignature, "'X-Amz-Target' must be a 'SignedHeader' in the AWS Authorization.")
	}
	if len(r.Headers.Header(forkHeader)) > 0 && !a.signs("x-stator-fork") {
		return fault(invalidSignature, "'X-Stator-Fork' must be a 'SignedHeader' in the AWS Authorization.")
	}
	return nil
}

// signs reports whether a header, in lower case, is signed.
func (a *authorization) signs(header string) bool {
	for rest, more := a.signedHeaders, true; more; {
		var name []byte
		name, rest, more = nextName(rest)
		if len(name) == len(header) && strings.EqualFold(string(name), header) {
			return true
		}
	}
	return false
}

// checkCredential returns the parts of the credential: access key, day, region, service and
// terminator.
func (a *authorization) checkCredential(service string, date time.Time) (parts [5][]byte, err error) {
	rest := bytes.TrimRight(a.credential, "/")
	if bytes.Count(rest, []byte("/")) != len(parts)-1 {
		return parts, fault(incompleteSignature, fmt.Sprintf("Credential must have exactly 5 slash-delimited elements, e.g. keyid/date/region/service/term, got '%s'", a.credential))
	}
	for i := range parts {
		parts[i], rest, _ = bytes.Cut(rest, []byte("/"))
	}
	var scratch [len(dateFormat)]byte
	day := appendDate(scratch[:0], date)[:len("20060102")]
	if validRegion(parts[2]) && string(parts[3]) == service && string(parts[4]) == terminator && bytes.Equal(parts[1], day) {
		return parts, nil
	}
	return parts, wrongScope(parts, service, date)
}

// wrongScope reports each part of a scope that is wrong.
func wrongScope(parts [5][]byte, service string, date time.Time) error {
	var wrong strings.Builder
	if !validRegion(parts[2]) {
		fmt.Fprintf(&wrong, "Credential should be scoped to a valid region, not '%s'. ", parts[2])
	}
	if string(parts[3]) != service {
		fmt.Fprintf(&wrong, "Credential should be scoped to correct service: '%s'. ", service)
	}
	if string(parts[4]) != terminator {
		fmt.Fprintf(&wrong, "Credential should be scoped with a valid terminator: '%s', not '%s'. ", terminator, parts[4])
	}
	if day := date.Format("20060102"); string(parts[1]) != day {
		fmt.Fprintf(&wrong, "Date in Credential scope does not match YYYYMMDD from ISO-8601 version of date from HTTP: '%s' != '%s', from '%s'.", parts[1], day, date.Format(dateFormat))
	}
	return fault(invalidSignature, wrong.String())
}
