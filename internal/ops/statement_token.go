package ops

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/protocol/api"
)

// A NextToken says where the next page of a statement begins. It contains a
// digest of the statement and its parameters, and is valid for these only.

const (
	tokenVersion = 1
	tokenDigest  = 16
)

// statementDigest identifies a statement with its parameters.
func statementDigest(in *api.ExecuteStatement) [sha256.Size]byte {
	return jsonDigest([]any{in.Statement, in.Parameters})
}

// jsonDigest is the digest of a part of a request in its JSON form.
func jsonDigest(part any) [sha256.Size]byte {
	b, err := json.Marshal(part)
	if err != nil {
		panic("a request cannot be encoded as JSON: " + err.Error())
	}
	return sha256.Sum256(b)
}

// nextToken encodes where the next page of a statement begins.
func nextToken(digest [sha256.Size]byte, p selectionStart) string {
	b := append([]byte{tokenVersion}, digest[:tokenDigest]...)
	b = binary.AppendUvarint(b, uint64(p.lookup))
	return base64.StdEncoding.EncodeToString(append(b, p.after...))
}

// readToken decodes a token from a request; it may be any text.
func (r *selection) readToken(token string, digest [sha256.Size]byte) (selectionStart, error) {
	invalid := apierror.Validation("Invalid NextToken")
	b, err := base64.StdEncoding.DecodeString(token)
	if err != nil || len(b) < 1+tokenDigest+1 || b[0] != tokenVersion {
		return selectionStart{}, invalid
	}
	if !bytes.Equal(b[1:1+tokenDigest], digest[:tokenDigest]) {
		return selectionStart{}, apierror.Validation("NextToken does not match request")
	}
	b = b[1+tokenDigest:]
	at, width := binary.Uvarint(b)
	if width <= 0 || at >= uint64(len(r.lookups)) {
		return selectionStart{}, invalid
	}
	p := selectionStart{lookup: int(at)}
	if rest := b[width:]; len(rest) > 0 {
		if item.Check(rest) != nil || !r.canStartAfter(item.Item(rest)) {
			return selectionStart{}, invalid
		}
		p.after = item.Item(rest)
	}
	return p, nil
}

// canStartAfter reports whether a page can begin after a key.
func (r *selection) canStartAfter(key item.Item) bool {
	if r.table.CheckKey(r.table.Key.Of(key)) != nil {
		return false
	}
	return r.index == nil || r.index.Key.In(key)
}
