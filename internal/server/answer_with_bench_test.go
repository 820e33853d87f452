//go:build unix

package server_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stator-db/stator"
)

// BenchmarkAnswerWith answers requests like BenchmarkAnswer, with signatures that are
// verified, and with throttling.
func BenchmarkAnswerWith(b *testing.B) {
	b.Run("keys", func(b *testing.B) {
		path := filepath.Join(b.TempDir(), "keys.yaml")
		if err := os.WriteFile(path, []byte("keys:\n  - access_key: AKID\n    secret: the secret\n"), 0o600); err != nil {
			b.Fatal(err)
		}
		access, err := stator.OpenAccess(stator.AccessOptions{Keys: path})
		if err != nil {
			b.Fatal(err)
		}
		answers(b, stator.Options{Access: access}, `"BillingMode": "PAY_PER_REQUEST"`, true, "GetItem")
	})
	b.Run("throttle", func(b *testing.B) { // 8000x are within the units of the first second
		answers(b, stator.Options{Throttle: true}, `"ProvisionedThroughput": {"ReadCapacityUnits": 40000, "WriteCapacityUnits": 40000}`, false, "GetItem", "Query", "PutItem", "UpdateItem")
	})
}
