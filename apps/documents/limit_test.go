package documents

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/stator-db/stator/apps/documents/extract"
	"github.com/stator-db/stator/apps/documents/table"
)

// Scans that wait for one another are all read at the first attempt, though all of
// them together take longer than the limit for one.
func TestQueueOfScans(t *testing.T) {
	program := filepath.Join(t.TempDir(), "ocr")
	script := "#!/bin/sh\ncat >/dev/null\nsleep 0.7\n" +
		`printf '1\t1\t0\t0\t0\t0\t0\t0\t100\t100\t-1\t\n5\t1\t1\t1\t1\t1\t10\t10\t30\t10\t90\tTotal\n'` + "\n"
	if err := os.WriteFile(program, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	picture, err := os.ReadFile("extract/testdata/scans/plain.png")
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, nil)
	s.Machine.Within, s.Machine.AtOnce, s.Machine.Attempts = 3*time.Second, 6, 1
	s.Machine.Extractors = map[string]extract.Extractor{"builtin": &extract.Builtin{
		PDF: extract.NewPDFReader(1, time.Minute), OCR: extract.NewOCR(program, "eng", 1, time.Minute),
	}}
	c, project, workflow := s.newTenant("acme", "ann@acme.example")
	for i := range 6 {
		s.drop(inbox(c, project, workflow, "scans")+strconv.Itoa(i)+".png", picture)
	}
	s.passes()
	for _, d := range s.documentsOf(s.batchOf(inboxBatch(c, project, workflow, "scans"))) {
		if d.Status == table.Processing || d.Result == "" {
			t.Errorf("%s is %s without a result: %s", d.Name, d.Status, d.Reason)
		}
	}
}

// A document that itself takes longer than the limit is not read.
func TestLimitOfOneDocument(t *testing.T) {
	program := filepath.Join(t.TempDir(), "ocr")
	if err := os.WriteFile(program, []byte("#!/bin/sh\nexec sleep 60\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	picture, err := os.ReadFile("extract/testdata/scans/plain.png")
	if err != nil {
		t.Fatal(err)
	}
	s := start(t, nil)
	s.Machine.Within, s.Machine.Attempts = 300*time.Millisecond, 1
	s.Machine.Extractors = map[string]extract.Extractor{"builtin": &extract.Builtin{OCR: extract.NewOCR(program, "eng", 1, time.Minute)}}
	c, project, workflow := s.newTenant("acme", "ann@acme.example")
	s.drop(inbox(c, project, workflow, "scans")+"a.png", picture)
	s.passes()
	d := s.documentsOf(s.batchOf(inboxBatch(c, project, workflow, "scans")))[0]
	if want := "1 attempts failed, the last with: reading it took longer than 300ms"; d.Status != table.Failed || d.Reason != want {
		t.Errorf("%s: %s", d.Status, d.Reason)
	}
}
