package encryption

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
)

// SealRecord returns a record, a line of text, as it is stored: followed by its SHA-256, by which
// anybody can detect damage, and by its authentication code.
func (k *MasterKey) SealRecord(record []byte) []byte {
	return fmt.Appendf(nil, "%s\n%x\n%x\n", record, sha256.Sum256(record), k.MAC(record))
}

// SealedRecord is what SealRecord has written.
type SealedRecord struct {
	Content []byte
	mac     []byte
}

// ReadSealed reads a record of SealRecord; not ok if it is damaged.
func ReadSealed(b []byte) (r SealedRecord, ok bool) {
	lines := bytes.Split(b, []byte("\n"))
	if len(lines) != 4 || len(lines[3]) > 0 {
		return r, false
	}
	sum := sha256.Sum256(lines[0])
	mac, err := hex.DecodeString(string(lines[2]))
	if err != nil || hex.EncodeToString(sum[:]) != string(lines[1]) {
		return r, false
	}
	return SealedRecord{lines[0], mac}, true
}

// IsOf reports whether a master key has sealed the record.
func (r SealedRecord) IsOf(k *MasterKey) bool { return hmac.Equal(r.mac, k.MAC(r.Content)) }
