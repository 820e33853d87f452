package ops

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
)

// A NextToken says where the next page of a statement begins. It holds a digest
// of the statement and its parameters, and is of no use with others.

const (
	tokenVersion = 1
	tokenDigest  = 16
)

// nextToken writes a position as a token. statement is what the token is for.
func nextToken(statement any, p position) string {
	sum := digest(statement)
	b := append([]byte{tokenVersion}, sum[:tokenDigest]...)
	b = binary.AppendUvarint(b, uint64(p.lookup))
	return base64.StdEncoding.EncodeToString(append(b, p.after...))
}

// readToken reads a token that a customer sent, who may send anything.
func (r *selection) readToken(token string, statement any) (position, error) {
	invalid := apierror.Validation("Invalid NextToken")
	b, err := base64.StdEncoding.DecodeString(token)
	if err != nil || len(b) < 1+tokenDigest+1 || b[0] != tokenVersion {
		return position{}, invalid
	}
	if sum := digest(statement); !bytes.Equal(b[1:1+tokenDigest], sum[:tokenDigest]) {
		return position{}, apierror.Validation("NextToken does not match request")
	}
	b = b[1+tokenDigest:]
	at, width := binary.Uvarint(b)
	if width <= 0 || at >= uint64(len(r.lookups)) {
		return position{}, invalid
	}
	p := position{lookup: int(at)}
	if rest := b[width:]; len(rest) > 0 {
		if item.Check(rest) != nil || !r.isPlace(item.Item(rest)) {
			return position{}, invalid
		}
		p.after = item.Item(rest)
	}
	return p, nil
}

// isPlace tells whether a page can begin behind a key.
func (r *selection) isPlace(key item.Item) bool {
	if r.table.CheckKey(r.table.Key.Of(key)) != nil {
		return false
	}
	return r.index == nil || r.index.Key.In(key)
}
