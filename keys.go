package stator

import (
	"log/slog"
	"time"

	"github.com/stator-db/stator/internal/protocol/auth"
	accesskeys "github.com/stator-db/stator/internal/protocol/keys"
)

// Keys are access keys whose signatures are verified.
type Keys struct {
	path     string
	verifier *auth.Verifier
}

// OpenKeys reads a file of access keys, which stator key new writes; see docs/access.md. At the
// level debug the log shows what the client of a wrong signature should have signed.
func OpenKeys(path string, log *slog.Logger) (*Keys, error) {
	set, err := accesskeys.Read(path)
	if err != nil {
		return nil, err
	}
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &Keys{path: path, verifier: auth.NewVerifier(set, time.Now, log)}, nil
}
