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
