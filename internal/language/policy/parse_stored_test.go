package policy

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// manyAccounts is a resource policy whose canonical form is twice as long.
func manyAccounts(n int) []byte {
	ids := make([]string, n)
	for i := range ids {
		ids[i] = fmt.Sprintf(`"%012d"`, 100_000_000_000+i)
	}
	return []byte(`{"Statement":{"Effect":"Allow","Principal":{"AWS":[` + strings.Join(ids, ",") + `]},"Action":"*","Resource":"*"}}`)
}

// The size limit is of what is sent: its canonical form may be longer, and is read whatever its size.
func TestParseStored(t *testing.T) {
	sent := manyAccounts(700)
	d, err := Parse(Resource, sent)
	if err != nil {
		t.Fatal(err)
	}
	stored := d.Canonical()
	if len(sent) > MaxResourceBytes || len(stored) <= MaxResourceBytes {
		t.Fatalf("%d bytes become %d", len(sent), len(stored))
	}
	again, err := ParseStored(Resource, stored)
	if err != nil || !again.Equal(d) {
		t.Errorf("the canonical form is read as another document: %v", err)
	}
	for kind, limit := range map[Kind]int{Resource: MaxResourceBytes, Identity: MaxBytes} {
		if _, err := Parse(kind, slices.Concat(sent, []byte(strings.Repeat(" ", limit)))); err == nil || ServiceText(err) == "" || !strings.Contains(err.Error(), "bytes") {
			t.Errorf("a document of more than %d bytes is read: %v", limit, err)
		}
	}
}
