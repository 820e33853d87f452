package drift

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/workload"
)

// Traffic reads the counts of a server, by its function that reads a path. Errors name the
// server.
func Traffic(ctx context.Context, server string, read func(ctx context.Context, path string) ([]byte, error)) (traffic workload.Report, err error) {
	text, err := read(ctx, "/shapes")
	if err != nil {
		hint := "only a stator counts requests by shape"
		if fault, ok := errors.AsType[*apierror.Error](err); ok && fault.Code == "AccessDeniedException" {
			hint = "the policies of the key must allow that"
		}
		return traffic, fmt.Errorf("cannot read the request counts of %s: %w\n        %s", server, err, hint)
	}
	if err := json.Unmarshal(text, &traffic); err != nil || traffic.Shapes == nil {
		return traffic, fmt.Errorf("%s/shapes returns no shapes\n        only a stator counts requests by shape", strings.TrimSuffix(server, "/"))
	}
	return traffic, nil
}
