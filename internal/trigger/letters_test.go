package trigger

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stator-db/stator/internal/protocol/api"
)

// appendLetter appends a record, and returns how many lines the file at a path has then.
func appendLetter(t *testing.T, f *deadLetterFile, path, record string) (lines int) {
	t.Helper()
	if err := f.append("t", time.Unix(0, 0), exhausted, 1, nil, []*pendingRecord{{text: []byte(record)}}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range text {
		if c == '\n' {
			lines++
		}
	}
	return lines
}

// Records are appended to the file that is at the path, also after it was replaced or moved by something else.
func TestAppendToAReplacedFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "dead.jsonl")
	var files [2]*deadLetterFile
	for i := range files { // as two servers have them
		all := make(deadLetters)
		t.Cleanup(func() {
			if err := all.close(); err != nil {
				t.Error(err)
			}
		})
		var err error
		if files[i], err = all.open(path); err != nil {
			t.Fatal(err)
		}
	}
	if n := appendLetter(t, files[0], path, `{"n":1}`); n != 1 {
		t.Fatalf("the file has %d lines, want 1", n)
	}
	if _, err := files[0].remove(map[string]bool{"none": true}, 0); err != nil {
		t.Fatal(err)
	}
	before := files[1].token(0)
	if n := appendLetter(t, files[1], path, `{"n":2}`); n != 2 {
		t.Errorf("after a replay of the other server, the file has %d lines, want 2", n)
	}
	if _, err := files[1].offset(before); err == nil {
		t.Error("a token from before is valid")
	}
	if err := os.Rename(path, path+".1"); err != nil {
		t.Fatal(err)
	}
	if n := appendLetter(t, files[0], path, `{"n":3}`); n != 1 {
		t.Errorf("after a move, the file has %d lines, want 1", n)
	}
}

// Paths of one file have one deadLetterFile.
func TestLinksToADeadLetterFile(t *testing.T) {
	folder := t.TempDir()
	path, soft, hard := filepath.Join(folder, "dead.jsonl"), filepath.Join(folder, "soft"), filepath.Join(folder, "hard")
	all := make(deadLetters)
	first, err := all.open(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(path, soft); err != nil {
		t.Skip(err)
	}
	if err := os.Link(path, hard); err != nil {
		t.Skip(err)
	}
	for _, link := range []string{soft, hard} {
		if f, err := all.open(link); err != nil || f != first {
			t.Errorf("%s is another file, %v", filepath.Base(link), err)
		}
	}
	if err := all.close(); err != nil {
		t.Error(err)
	}
}

// A trigger that was configured on another table shows, counts and replays the letters of its present table only:
// whoever may read that table may not read the other.
func TestLettersOfAnotherTable(t *testing.T) {
	inVirtualTime(t, func(w *triggerTest) {
		dead := filepath.Join(t.TempDir(), "dead.jsonl")
		w.withLetters(dead)
		if got := w.letters(); len(got) != 5 {
			t.Fatalf("%d letters are in the file, want 5", len(got))
		}
		w.stop()
		w.create("Public")
		w.start(Config{Table: "Public", MaxRetries: new(0), DeadLetter: dead})
		posted := len(w.requests())
		if got := w.letters(); len(got) != 0 {
			t.Errorf("the letters are %+v", got)
		}
		if d, _ := w.describe(); *d.DeadLetters != 0 {
			t.Errorf("%d letters are counted", *d.DeadLetters)
		}
		if got := w.replay(api.ReplayDeadLetters{All: &yes}); got.Replayed != 0 || len(w.requests()) != posted {
			t.Errorf("the reply is %+v", got)
		}
	})
}

func TestOwnerOf(t *testing.T) {
	const arn = `"eventSourceARN":"arn:aws:dynamodb:us-east-1:000000000000:table/Orders/stream/2026"`
	for line, want := range map[string]letterOwner{
		`{"trigger":"t","record":{` + arn + `}}`:                                                                   {"t", "Orders"},
		`{"trigger":"t","error":"\"eventSourceARN\":\"x\"","record":{` + arn + `}}`:                                {"t", "Orders"},
		`{"trigger":"t","record":{"dynamodb":{"Keys":{"eventSourceARN":{"S":"a:table/B/stream/c"}}},` + arn + `}}`: {"t", "Orders"},
		`{"trigger":"t","record":{}}`:                                                                              {},
		`{"trigger":"t","record":{"eventSourceARN":"arn:aws:s3:::bucket"}}`:                                        {},
		`not JSON`: {},
	} {
		if got := ownerOf([]byte(line)); got != want {
			t.Errorf("the owner of %s is %v, want %v", line, got, want)
		}
	}
}
