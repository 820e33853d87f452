package server

import (
	"context"
	"encoding/json"
	"net/http"

	"github.com/stator-db/stator/internal/protocol/auth"
	"github.com/stator-db/stator/internal/server/door"
)

// shapes answers with the counts of requests since the start, by shape. It
// requires a signature like any request of the API.
func (h *Handler) shapes(ctx context.Context, r *door.Request, a *door.Reply) {
	if _, err := auth.Read(r.Header, r.Query); err != nil {
		h.fail(ctx, a, typePlain, "shapes", err)
		return
	}
	text, err := json.Marshal(h.service.Shapes())
	if err != nil {
		h.fail(ctx, a, typePlain, "shapes", err)
		return
	}
	a.Status, a.ContentType = http.StatusOK, typePlain
	a.Write(append(a.Memory.Empty(), text...))
}
