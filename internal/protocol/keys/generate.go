package keys

import (
	"crypto/rand"
	"encoding/base64"
)

// Generate returns a new access key and its secret, in the form of AWS: AKIA and 16 letters and
// digits, and 40 characters.
func Generate() (accessKey string, secret Secret) {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
	var random [16 + 30]byte
	rand.Read(random[:]) // it never fails
	id := []byte("AKIA")
	for _, b := range random[:16] {
		id = append(id, letters[b%32])
	}
	return string(id), NewSecret(base64.StdEncoding.EncodeToString(random[16:]))
}
