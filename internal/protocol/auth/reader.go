package auth

import (
	"bytes"
	"crypto/sha256"
	"time"
)

// Reader remembers the last signer of a connection, since most requests of a connection differ in
// their signature only. It is not safe for concurrent use.
type Reader struct {
	prefix []byte // the last header, up to its signature
	signer Signer

	verified *verifiedSigner // nil if none was
}

// Read finds the signer of a request. It does not verify the signature.
func (r *Reader) Read(header func(name string) []byte, query string) (Signer, error) {
	text := header("Authorization")
	if r.prefix != nil && query == "" && bytes.HasPrefix(text, r.prefix) && separator(text[len(r.prefix):]) < 0 && len(dateOf(header)) > 0 {
		return r.signer, nil
	}
	s, err := Read(header, query)
	if err == nil && query == "" {
		r.remember(text, s)
	}
	return s, err
}

// remember remembers a signer if the signature is the last part of its header: then the signer
// depends on the other parts only.
func (r *Reader) remember(text []byte, s Signer) {
	if prefix := beforeSignature(text); prefix != nil {
		s.AccessKey = bytes.Clone(s.AccessKey)
		r.prefix, r.signer = bytes.Clone(prefix), s
	}
}

// maxRemembered is how much is remembered of a header, of which SDKs send about 200 bytes, and of the
// canonical form of a request.
const maxRemembered = 1024

// beforeSignature returns a header up to its signature; nil if that is not its last part.
func beforeSignature(text []byte) []byte {
	const last = "Signature="
	i := bytes.LastIndex(text, []byte(last))
	if i <= 0 || separator(text[i-1:i]) < 0 || separator(text[i:]) >= 0 || i > maxRemembered {
		return nil
	}
	return text[:i+len(last)]
}

// verifiedSigner is the signer of a request whose signature was right, with all that was derived
// from its header and from its date.
type verifiedSigner struct {
	keys    *verifierKeys
	service string
	prefix  []byte // of the header, up to the signature
	sent    []byte // X-Amz-Date
	date    time.Time

	names  []byte // of the signed headers, sorted
	fork   bool   // forkHeader is one of them
	key    *signingKey
	known  *knownPrefix // nil until a second request has this date
	signer Signer
}

// rememberVerified remembers a signer. It does not if the signature is in the query, the date in
// another header, or the key temporary, whose checks have more parts.
func (r *Reader) rememberVerified(current *verifierKeys, q *Request, a *authorization, date time.Time, signing *signingKey, s Signer) {
	if r == nil || q.Query != "" || signing.key.Temporary() || !a.signs("x-amz-target") || !isSorted(a.signedHeaders) {
		return
	}
	prefix, sent := beforeSignature(a.header), q.Headers.Header("X-Amz-Date")
	if parsed, ok := parseDate(sent); prefix == nil || !ok || !parsed.Equal(date) {
		return
	}
	s.AccessKey = bytes.Clone(s.AccessKey)
	r.verified = &verifiedSigner{keys: current, service: q.Service, prefix: bytes.Clone(prefix), sent: bytes.Clone(sent), date: date,
		names: bytes.Clone(a.signedHeaders), fork: a.signs("x-stator-fork"), key: signing, signer: s}
}

// verify decides about a request that is like the one that was verified: only its signature can be
// wrong. If it does not decide, the request is verified from the beginning; its body is not hashed yet.
func (p *verifiedSigner) verify(v *Verifier, r *Request) (s Signer, decided bool, err error) {
	if p == nil || p.keys != v.current.Load() || p.service != r.Service || r.Query != "" {
		return Signer{}, false, nil
	}
	text := r.Headers.Header("Authorization")
	if len(text) != len(p.prefix)+2*sha256.Size || !bytes.HasPrefix(text, p.prefix) || separator(text[len(p.prefix):]) >= 0 || !bytes.Equal(r.Headers.Header("X-Amz-Date"), p.sent) {
		return Signer{}, false, nil
	}
	if !p.fork && len(r.Headers.Header(forkHeader)) > 0 {
		return Signer{}, false, nil
	}
	if age := v.now().Sub(p.date); age > skew || age < -skew {
		return Signer{}, false, nil
	}
	if p.known == nil {
		p.known = newKnownPrefix(r, p.names, p.date, p.key)
	}
	w := workspaces.Get().(*workspace)
	defer w.release()
	if !w.signs(r, p.names, p.known, text[len(p.prefix):]) {
		w.logWrong(v.log, r, p.names, p.key)
		return Signer{}, true, mismatch()
	}
	return p.signer, true, nil
}
