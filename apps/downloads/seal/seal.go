// Package seal decrypts the upstream's files: a file is encrypted with AES-256-CTR,
// its AES key is wrapped with RSA-OAEP and SHA-256.
//
// CTR allows an interrupted download to resume at any byte. It does not
// authenticate: the caller compares length and SHA-256 of the plain text with the
// upstream's list before the file becomes visible.
package seal

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
)

const keyBytes = 32 // AES-256

// Wrap wraps an AES key for the owner of an RSA key.
func Wrap(to *rsa.PublicKey, key []byte) (string, error) {
	sealed, err := rsa.EncryptOAEP(sha256.New(), rand.Reader, to, key, nil)
	if err != nil {
		return "", fmt.Errorf("wrap a key: %w", err)
	}
	return base64.StdEncoding.EncodeToString(sealed), nil
}

// Unwrap unwraps an AES key. Its errors disclose nothing of the key.
func Unwrap(own *rsa.PrivateKey, wrapped string) ([]byte, error) {
	sealed, err := base64.StdEncoding.DecodeString(wrapped)
	if err != nil {
		return nil, errors.New("the wrapped AES key is not base64")
	}
	key, err := rsa.DecryptOAEP(sha256.New(), nil, own, sealed, nil)
	if err != nil {
		return nil, fmt.Errorf("the AES key is not wrapped for our RSA key %s: give our public key to the upstream, or use the right --key", Fingerprint(&own.PublicKey))
	}
	if len(key) != keyBytes {
		return nil, fmt.Errorf("the AES key has %d bytes, not %d", len(key), keyBytes)
	}
	return key, nil
}

// Stream returns the key stream of a file: it encrypts and decrypts, from the first
// byte.
func Stream(key []byte, iv string) (cipher.Stream, error) {
	start, err := base64.StdEncoding.DecodeString(iv)
	if err != nil || len(start) != aes.BlockSize {
		return nil, fmt.Errorf("the AES IV is not %d bytes in base64", aes.BlockSize)
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("use the AES key: %w", err)
	}
	return cipher.NewCTR(block, start), nil
}

// Fingerprint returns the fingerprint of a public key.
func Fingerprint(key *rsa.PublicKey) string {
	sum := sha256.Sum256(x509.MarshalPKCS1PublicKey(key))
	return "SHA256:" + hex.EncodeToString(sum[:8])
}

// ReadKey reads a private RSA key of at least 2,048 bits from a PEM file.
func ReadKey(file string) (*rsa.PrivateKey, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the RSA key: %w", err)
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("read the RSA key: %s is not a PEM file", file)
	}
	key, err := x509.ParsePKCS1PrivateKey(block.Bytes)
	if err != nil {
		any, other := x509.ParsePKCS8PrivateKey(block.Bytes)
		own, ok := any.(*rsa.PrivateKey)
		if other != nil || !ok {
			return nil, fmt.Errorf("read the RSA key: %s has no private RSA key (PKCS #1 or #8, not encrypted)", file)
		}
		key = own
	}
	if key.N.BitLen() < 2048 {
		return nil, fmt.Errorf("read the RSA key: %s has a key of %d bits; the minimum is 2,048", file, key.N.BitLen())
	}
	return key, nil
}

// MakeKey creates a private RSA key of 2,048 bits and writes it to a file that only
// its owner can read.
func MakeKey(file string) (*rsa.PrivateKey, error) {
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		return nil, fmt.Errorf("create an RSA key: %w", err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "RSA PRIVATE KEY", Bytes: x509.MarshalPKCS1PrivateKey(key)})
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return nil, fmt.Errorf("write the RSA key: %w", err)
	}
	return key, nil
}
