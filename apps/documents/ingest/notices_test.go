package ingest

import (
	"slices"
	"testing"
)

// A notice has S3's format or is just a name; it must name a file of the inbox.
func TestNotices(t *testing.T) {
	for _, c := range []struct {
		name, body string
		want       []string
	}{
		{"a name", `{"key":"inbox/a"}`, []string{"inbox/a"}},
		{"S3's", `{"Records":[{"s3":{"object":{"key":"inbox/a%2Fb+c"}}},{"s3":{"object":{"key":"inbox/d"}}}]}`, []string{"inbox/a/b c", "inbox/d"}},
		{"S3's of a creation", `{"Records":[{"eventName":"ObjectCreated:Put","s3":{"object":{"key":"inbox/a"}}}]}`, []string{"inbox/a"}},
		{"S3's of a deletion", `{"Records":[{"eventName":"ObjectRemoved:Delete","s3":{"object":{"key":"inbox/a"}}}]}`, nil},
		{"S3's test", `{"Service":"Amazon S3","Event":"s3:TestEvent","Time":"2026-11-15T09:00:00.000Z","Bucket":"b"}`, nil},
		{"of EventBridge", `{"version":"0","detail-type":"Object Created","source":"aws.s3","detail":{"bucket":{"name":"b"},"object":{"key":"inbox/a%2Fb+c","size":1},"reason":"PutObject"}}`, []string{"inbox/a%2Fb+c"}},
		{"of EventBridge, of a deletion", `{"detail-type":"Object Deleted","detail":{"object":{"key":"inbox/a"}}}`, nil},
		{"S3's by SNS", `{"Type":"Notification","Message":"{\"Records\":[{\"s3\":{\"object\":{\"key\":\"inbox/a\"}}}]}"}`, []string{"inbox/a"}},
		{"of nothing", `{}`, nil},
	} {
		if got, err := names([]byte(c.body)); err != nil || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q, %v", c.name, got, err)
		}
	}
	for _, body := range []string{``, `[]`, `no`, `{"key":"tenants/x"}`, `{"Records":[{"s3":{"object":{"key":"%zz"}}}]}`, `{"key":"../inbox/a"}`} {
		if got, err := names([]byte(body)); err == nil {
			t.Errorf("%q is accepted as %q", body, got)
		}
	}
}
