package ops

import (
	"context"
	"io"
)

// CopyForStandby writes a copy of all data for a standby.
func (s *Service) CopyForStandby(ctx context.Context, request []byte, to io.Writer) error {
	return s.source.Copy(ctx, request, to)
}

// ChangesForStandby writes the changes that a standby asks for.
func (s *Service) ChangesForStandby(ctx context.Context, request []byte, to io.Writer) error {
	return s.source.Changes(ctx, request, to)
}
