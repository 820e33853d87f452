package auth

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
)

// Connection is what a client of DAX sends to authenticate a connection: a signature, and the
// string that it has signed, which is that of a fixed request but for the date.
type Connection struct {
	AccessKey    string
	Signature    string
	StringToSign string
	Token        string // of temporary credentials; empty if there is none
}

// serviceDAX is the service in the scope of the string.
const serviceDAX = "dax"

// connectionHosts are the hosts of the fixed request: clients differ in the form.
var connectionHosts = [...]string{"dax.amazonaws.com", "https://dax.amazonaws.com"}

// ReadConnection returns the signer that a connection names. It does not verify the signature.
func ReadConnection(c *Connection) Signer {
	_, credential, _, _ := c.parts()
	return signer(append([]byte(c.AccessKey+"/"), credential...))
}

// parts returns the lines of the string to sign.
func (c *Connection) parts() (date, scope, hash []byte, ok bool) {
	lines := bytes.SplitN([]byte(c.StringToSign), []byte("\n"), 5)
	if len(lines) != 4 || string(lines[0]) != algorithm {
		return nil, nil, nil, false
	}
	return lines[1], lines[2], lines[3], true
}

// VerifyConnection verifies the signature of a connection.
func (v *Verifier) VerifyConnection(c *Connection) (Signer, error) {
	date, scope, hash, ok := c.parts()
	if !ok {
		return Signer{}, fault(incompleteSignature, fmt.Sprintf("The string to sign must have four lines, of which the first is %s.", algorithm))
	}
	a := authorization{date: date, credential: append([]byte(c.AccessKey+"/"), scope...)}
	at, err := a.checkDate(v.now())
	if err != nil {
		return Signer{}, err
	}
	parts, err := a.checkCredential(serviceDAX, at)
	if err != nil {
		return Signer{}, err
	}
	current := v.current.Load()
	key, name := current.set.Find(parts[0]), a.credential
	known := key != nil
	if !known {
		key, name = current.nobody, scope
	}
	signing := current.cache.find(name, key, parts[1], parts[2], serviceDAX)
	var sum [sha256.Size]byte
	want := make([]byte, 0, 2*sha256.Size)
	want = hex.AppendEncode(want, signing.appendSum(sum[:0], []byte(c.StringToSign)))
	valid := len(c.Signature) == len(want) && subtle.ConstantTimeCompare([]byte(c.Signature), want) == 1 && isConnection(date, hash)
	r := &Request{Headers: tokenHeader(c.Token)}
	if err := v.verdict(r, &a, key, known, valid); err != nil {
		return Signer{}, err
	}
	return current.signer(parts[0], key, signing.region), nil
}

// isConnection reports whether a hash is that of the fixed request.
func isConnection(date, hash []byte) bool {
	empty := sha256.Sum256(nil)
	for _, host := range connectionHosts {
		canonical := fmt.Appendf(nil, "POST\n/\n\nhost:%s\nx-amz-date:%s\n\nhost;x-amz-date\n%x", host, date, empty)
		if sum := sha256.Sum256(canonical); string(hash) == hex.EncodeToString(sum[:]) {
			return true
		}
	}
	return false
}

// tokenHeader is a session token in the form of a header.
type tokenHeader string

// Header returns the token.
func (t tokenHeader) Header(name string) []byte {
	if name == "X-Amz-Security-Token" && t != "" {
		return []byte(t)
	}
	return nil
}

// HeaderAt returns nothing: the headers are not signed.
func (t tokenHeader) HeaderAt([]byte, int) ([]byte, int, bool) { return nil, 0, false }
