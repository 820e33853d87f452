package backup

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/blob"
)

// faultsOf verifies all backups at a place, and returns how many there are and
// how many have faults.
func faultsOf(t *testing.T, place blob.Place) (all, faults int) {
	t.Helper()
	if err := VerifyAll(t.Context(), place, func(v Verified) {
		if all++; v.Fault != "" {
			faults++
		}
	}); err != nil {
		t.Fatal(err)
	}
	return all, faults
}

// Each damage to a file of a backup is found, and none in undamaged ones.
func TestVerifyAllFindsDamage(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	dir := t.TempDir()
	place := openFolder(t, dir)
	h := open(t, t.TempDir(), openFolder(t, t.TempDir()))
	h.fill(t, "Orders", 50, 200)
	h.fill(t, "Carts", 5, 10)
	var stream bytes.Buffer
	if err := h.WriteAll(t.Context(), &stream); err != nil {
		t.Fatal(err)
	}
	if err := ReadAll(t.Context(), &stream, place, time.Now(), func(Manifest) {}); err != nil {
		t.Fatal(err)
	}
	if all, faults := faultsOf(t, place); all != 3 || faults != 0 {
		t.Fatalf("%d of %d undamaged backups and sets have faults, want 0 of 3", faults, all)
	}
	names, err := place.Names(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	planted, found := 0, 0
	for _, name := range names {
		file := filepath.Join(dir, name)
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		damaged := [][]byte{content[:r.IntN(len(content))], append(bytes.Clone(content), 'x')}
		for range 5 {
			flipped := bytes.Clone(content)
			flipped[r.IntN(len(flipped))] ^= 1 << r.IntN(8)
			damaged = append(damaged, flipped)
		}
		for _, content := range damaged {
			planted++
			found += findsDamage(t, place, file, content)
		}
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range names { // a file is missing, except a set, which names the others
		if filepath.Ext(name) != suffixSet {
			planted++
			found += findsMissing(t, place, filepath.Join(dir, name))
		}
	}
	if found != planted || planted < 30 {
		t.Errorf("%d of %d damages are found", found, planted)
	}
	if _, faults := faultsOf(t, place); faults != 0 {
		t.Errorf("%d backups have faults after all damage was taken back", faults)
	}
}

// findsDamage returns 1 if VerifyAll finds that a file has another content.
func findsDamage(t *testing.T, place blob.Place, file string, content []byte) int {
	t.Helper()
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, faults := faultsOf(t, place); faults == 0 {
		t.Errorf("damage of %s is not found", filepath.Base(file))
		return 0
	}
	return 1
}

// findsMissing returns 1 if VerifyAll finds that a file is missing.
func findsMissing(t *testing.T, place blob.Place, file string) int {
	t.Helper()
	away := file + "-away"
	if err := os.Rename(file, away); err != nil {
		t.Fatal(err)
	}
	_, faults := faultsOf(t, place)
	if err := os.Rename(away, file); err != nil {
		t.Fatal(err)
	}
	if faults == 0 {
		t.Errorf("it is not found that %s is missing", filepath.Base(file))
		return 0
	}
	return 1
}
