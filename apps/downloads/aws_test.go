package downloads_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"

	"github.com/stator-db/stator/apps/downloads"
	"github.com/stator-db/stator/apps/downloads/ledger"
	"github.com/stator-db/stator/apps/downloads/upstream/stand"
	"github.com/stator-db/stator/apps/internal/mototest"
)

// A pipeline with SQS and S3 is stopped while a large file has sent some of its parts. They
// are removed, the file is not visible, and the next start completes it.
func TestStoppedAmidPartsOfS3(t *testing.T) {
	server := mototest.Start(t)
	files := server.Queue(t, "files", "30")
	r := open(t, func(o *downloads.Options, u *stand.Options) {
		o.Topic, o.Sub, o.Bucket = files.URL, files.URL, server.Bucket(t, "files")
		o.Stall, o.Resend = time.Hour, time.Second
		u.Files, u.Size = 1, 70<<20 // half of a file is more than the 16 MB from which on there are parts
	})
	if err := r.up.Fault(stand.Entity(0), "stalled", 1); err != nil {
		t.Fatal(err)
	}
	parts := func() int {
		t.Helper()
		out, err := server.S3.ListMultipartUploads(t.Context(), &s3.ListMultipartUploadsInput{Bucket: aws.String("files"), Prefix: aws.String(r.date + "/" + stand.Entity(0))})
		if err != nil {
			t.Fatal(err)
		}
		return len(out.Uploads)
	}
	r.start()
	id, err := r.Keeper.Trigger(t.Context(), r.date)
	if err != nil {
		t.Fatal(err)
	}
	for parts() == 0 {
		time.Sleep(50 * time.Millisecond)
	}
	r.stop()
	if n := parts(); n != 0 {
		t.Errorf("parts of %d uploads are left", n)
	}
	r.holds()
	if j := r.job(stand.Entity(0)); j.Status != ledger.Available {
		t.Errorf("the file that was interrupted is %s", j.Status)
	}

	r.start()
	if b := r.end(id); b.Status != ledger.Completed || len(b.CompletedFiles) != 1 {
		t.Errorf("the batch is %+v", b)
	}
	r.holds(all(1)...)
	if a, err := r.Bucket.Attributes(t.Context(), r.date+"/"+stand.Entity(0)); err != nil || !strings.Contains(a.ETag, "-") {
		t.Errorf("the file was not sent in parts: %+v, %v", a, err)
	}
	files.Empty()
}
