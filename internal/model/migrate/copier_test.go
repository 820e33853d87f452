package migrate

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/apierror"
	"github.com/stator-db/stator/internal/data/item"
	"github.com/stator-db/stator/internal/model"
)

func parseModel(t *testing.T, text string) *model.Model {
	t.Helper()
	m, err := model.Parse("test.model.yaml", []byte("model: 1\n"+text))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// A put whose condition fails each time is not counted as done.
func TestPutThatFailsIsReported(t *testing.T) {
	old := parseModel(t, "tables: {users: {key: {partition: id}}}\nentities:\n  user: {attributes: {id: S, email: S}}\npatterns: [{name: get, get: user, given: [id], rate: 1/s}]\n")
	new := parseModel(t, "tables: {accounts: {key: {partition: email}}}\nentities:\n  user: {attributes: {id: S, email: S}}\npatterns: [{name: get, get: user, given: [email], rate: 1/s}]\n")
	send := func(_ context.Context, operation string, _ any) ([]byte, error) {
		if operation == "PutItem" {
			return nil, &apierror.Error{Code: "ConditionalCheckFailedException", Status: 400}
		}
		return []byte("{}"), nil // the item that was in the way is gone again
	}
	r := New(send, send, old, new, Options{ID: "x", Owner: "o", Retry: time.Nanosecond}).newRun(&State{})
	user := item.Make(map[string]item.Value{"id": item.String("1"), "email": item.String("e")})
	err := r.forward.copyScanned(t.Context(), "users", user, 0)
	if err == nil || !strings.Contains(err.Error(), "condition") || r.counts.copied.Load() != 0 {
		t.Errorf("%d items count as copied, %v", r.counts.copied.Load(), err)
	}
}
