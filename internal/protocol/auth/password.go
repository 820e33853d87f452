package auth

import (
	"bytes"
	"encoding/base64"
)

// VerifyPassword reports whether an Authorization header has an access key and its secret as the
// user and the password of HTTP basic authentication, which programs that collect metrics can send.
// Temporary keys are not accepted.
func (v *Verifier) VerifyPassword(authorization []byte) (Signer, bool) {
	encoded, ok := bytes.CutPrefix(authorization, []byte("Basic "))
	if !ok {
		return Signer{}, false
	}
	text, err := base64.StdEncoding.AppendDecode(nil, encoded)
	if err != nil {
		return Signer{}, false
	}
	accessKey, password, _ := bytes.Cut(text, []byte(":"))
	current := v.current.Load()
	key := current.set.Find(accessKey)
	if key == nil || key.Temporary() {
		_ = equal(password, current.nobody.Secret.Reveal())
		return Signer{}, false
	}
	return current.signer(accessKey, key, ""), equal(password, key.Secret.Reveal())
}
