package cli

import (
	"maps"
	"testing"
)

func TestBuckets(t *testing.T) {
	got, err := buckets([]string{"a-bucket=some/folder", "other=s3://x?region=y"})
	if want := map[string]string{"a-bucket": "some/folder", "other": "s3://x?region=y"}; err != nil || !maps.Equal(got, want) {
		t.Errorf("the buckets are %v, %v", got, err)
	}
	for _, flags := range [][]string{{"folder"}, {"=folder"}, {"name="}, {"../x=folder"}, {"aa=x", "aa=y"}} {
		if got, err := buckets(flags); err == nil {
			t.Errorf("%v is accepted as %v", flags, got)
		}
	}
}
