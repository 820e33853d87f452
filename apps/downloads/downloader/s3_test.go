package downloader

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"gocloud.dev/gcerrors"

	"github.com/stator-db/stator/apps/internal/mototest"
)

// In S3 a file is visible when it is complete, also a large one, which is sent in parts.
// Parts of a file that was not completed, by a process that was killed or by one that
// gave up, are removed: S3 charges for them.
func TestS3(t *testing.T) {
	server := mototest.Start(t)
	b, err := OpenBucket(t.Context(), server.Bucket(t, "files"))
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	data := make([]byte, 40<<20)
	rand.NewChaCha8([32]byte{1}).Read(data)
	create := func(name string, data []byte) *Object {
		t.Helper()
		o, err := b.Create(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		for piece := 64 << 10; len(data) > 0; data = data[min(piece, len(data)):] {
			if _, err := o.Write(data[:min(piece, len(data))]); err != nil {
				t.Fatal(err)
			}
		}
		return o
	}
	unfinished := func() (keys []string) {
		t.Helper()
		out, err := server.S3.ListMultipartUploads(t.Context(), &s3.ListMultipartUploadsInput{Bucket: aws.String("files")})
		if err != nil {
			t.Fatal(err)
		}
		for _, u := range out.Uploads {
			keys = append(keys, *u.Key)
		}
		return keys
	}

	small := create("day/small", data[:1000])
	if _, err := b.ReadAll(t.Context(), "day/small"); gcerrors.Code(err) != gcerrors.NotFound {
		t.Errorf("a small file is visible before it is complete: %v", err)
	}
	if err := small.Commit(); err != nil {
		t.Fatal(err)
	}
	small.Abort() // has no effect after Commit
	create("day/small", data[:500]).Abort()
	if got, err := b.ReadAll(t.Context(), "day/small"); err != nil || !bytes.Equal(got, data[:1000]) {
		t.Errorf("the small file has %d bytes, %v", len(got), err)
	}

	large := create("day/large", data)
	if _, err := b.ReadAll(t.Context(), "day/large"); gcerrors.Code(err) != gcerrors.NotFound {
		t.Errorf("a large file is visible before it is complete: %v", err)
	}
	if err := large.Commit(); err != nil {
		t.Fatal(err)
	}
	if got, err := b.ReadAll(t.Context(), "day/large"); err != nil || !bytes.Equal(got, data) {
		t.Errorf("the large file has %d bytes, %v", len(got), err)
	}
	if a, err := b.Attributes(t.Context(), "day/large"); err != nil || !strings.Contains(a.ETag, "-") {
		t.Errorf("the large file was not sent in parts: %+v, %v", a, err)
	}
	create("day/large", data[:30<<20]).Abort()
	if got, err := b.ReadAll(t.Context(), "day/large"); err != nil || len(got) != len(data) {
		t.Errorf("after an abort the large file has %d bytes, %v", len(got), err)
	}
	if keys := unfinished(); len(keys) > 0 {
		t.Errorf("an aborted file leaves parts: %v", keys)
	}

	// A process that is killed leaves its parts.
	for _, key := range []string{"day/large", "day/large", "day/large.b"} {
		if _, err := server.S3.CreateMultipartUpload(t.Context(), &s3.CreateMultipartUploadInput{Bucket: aws.String("files"), Key: &key}); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Tidy(t.Context(), "day/large"); err != nil {
		t.Fatal(err)
	}
	if keys := unfinished(); len(keys) != 1 || keys[0] != "day/large.b" {
		t.Errorf("after the file is claimed again, parts of these are left: %v", keys)
	}
}
