package blob_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/stator-db/stator/internal/blob"
)

// fakeS3 implements as much of S3 as is used, for all buckets.
type fakeS3 struct {
	web     *httptest.Server
	perPage int // objects

	mu      sync.Mutex
	objects map[string][]byte           // by bucket and key
	uploads map[string]map[int][]byte   // parts, by bucket and key
	fail    func(r *http.Request) error // if not nil
}

func newFakeS3(t *testing.T) *fakeS3 {
	t.Setenv("AWS_ACCESS_KEY_ID", "any")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "any")
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
	f := &fakeS3{perPage: 1000, objects: make(map[string][]byte), uploads: make(map[string]map[int][]byte)}
	f.web = httptest.NewServer(f)
	t.Cleanup(f.web.Close)
	return f
}

// setFail sets which requests are rejected.
func (f *fakeS3) setFail(fail func(*http.Request) error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.fail = fail
}

func (f *fakeS3) url(bucket string) string {
	return "s3://" + bucket + "?region=us-east-1&use_path_style=true&endpoint=" + f.web.URL
}

func (f *fakeS3) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return // truncated
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fail != nil {
		if err := f.fail(r); err != nil {
			w.WriteHeader(http.StatusForbidden)
			fmt.Fprintf(w, "<Error><Code>AccessDenied</Code><Message>%s</Message></Error>", err)
			return
		}
	}
	name, query := strings.TrimPrefix(r.URL.Path, "/"), r.URL.Query()
	bucket, key, _ := strings.Cut(name, "/")
	object, ok := f.objects[name]
	switch {
	case query.Has("uploads"):
		f.uploads[name] = make(map[int][]byte)
		fmt.Fprintf(w, "<InitiateMultipartUploadResult><Bucket>%s</Bucket><Key>%s</Key><UploadId>1</UploadId></InitiateMultipartUploadResult>", bucket, key)
	case query.Has("partNumber"):
		n, _ := strconv.Atoi(query.Get("partNumber"))
		if parts, ok := f.uploads[name]; ok { // a part may arrive after its upload was aborted
			parts[n] = unchunk(r, body)
		}
		w.Header().Set("ETag", query.Get("partNumber"))
	case query.Has("uploadId") && r.Method == http.MethodPost:
		parts := f.uploads[name]
		for _, n := range slices.Sorted(maps.Keys(parts)) {
			object = append(object, parts[n]...)
		}
		f.objects[name] = object
		delete(f.uploads, name)
		fmt.Fprintf(w, "<CompleteMultipartUploadResult><Bucket>%s</Bucket><Key>%s</Key><ETag>x</ETag></CompleteMultipartUploadResult>", bucket, key)
	case query.Has("uploadId") && r.Method == http.MethodDelete:
		delete(f.uploads, name)
		w.WriteHeader(http.StatusNoContent)
	case r.Method == http.MethodPut:
		f.objects[name] = unchunk(r, body)
	case r.Method == http.MethodDelete:
		delete(f.objects, name)
		w.WriteHeader(http.StatusNoContent)
	case key == "":
		f.list(w, bucket, query.Get("prefix"), query.Get("delimiter"), query.Get("continuation-token"))
	case !ok:
		w.WriteHeader(http.StatusNotFound)
		fmt.Fprint(w, "<Error><Code>NoSuchKey</Code></Error>")
	default:
		w.Header().Set("Last-Modified", "Sun, 15 Nov 2026 12:00:00 GMT")
		w.Write(object)
	}
}

// list writes a page of the objects after a token.
func (f *fakeS3) list(w io.Writer, bucket, prefix, delimiter, after string) {
	fmt.Fprintf(w, "<ListBucketResult><Name>%s</Name>", bucket)
	n, last := 0, ""
	for _, name := range slices.Sorted(maps.Keys(f.objects)) {
		key, inBucket := strings.CutPrefix(name, bucket+"/")
		rest, hasPrefix := strings.CutPrefix(key, prefix)
		if !inBucket || !hasPrefix || key <= after || delimiter != "" && strings.Contains(rest, delimiter) {
			continue
		}
		if n++; n > f.perPage {
			fmt.Fprintf(w, "<IsTruncated>true</IsTruncated><NextContinuationToken>%s</NextContinuationToken>", last)
			break
		}
		fmt.Fprintf(w, "<Contents><Key>%s</Key><Size>%d</Size><LastModified>2026-11-15T12:00:00.000Z</LastModified><ETag>x</ETag></Contents>", key, len(f.objects[name]))
		last = key
	}
	fmt.Fprint(w, "</ListBucketResult>")
}

// unchunk decodes the chunked encoding of the SDK, if the request has it.
func unchunk(r *http.Request, body []byte) (object []byte) {
	if !strings.Contains(r.Header.Get("Content-Encoding"), "aws-chunked") {
		return body
	}
	for {
		head, rest, _ := bytes.Cut(body, []byte("\r\n"))
		size, _, _ := strings.Cut(string(head), ";")
		n, err := strconv.ParseInt(size, 16, 64)
		if err != nil || n == 0 {
			return object
		}
		object = append(object, rest[:n]...)
		body = rest[n+2:]
	}
}

func openS3(t *testing.T, f *fakeS3, bucket string) blob.Place {
	t.Helper()
	p, err := blob.Open(t.Context(), f.url(bucket))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func writeFile(ctx context.Context, p blob.Place, name string, content []byte) error {
	w, err := p.Create(ctx, name)
	if err != nil {
		return err
	}
	if _, err := w.Write(content); err != nil {
		w.Cancel()
		return err
	}
	return w.Commit()
}

// A large file is uploaded in parts, and none of them remains when that fails.
func TestS3LargeFile(t *testing.T) {
	f := newFakeS3(t)
	p := openS3(t, f, "b")
	content := bytes.Repeat([]byte("0123456789abcdef"), 40<<20/16)
	if err := writeFile(t.Context(), p, "large", content); err != nil {
		t.Fatal(err)
	}
	r, err := p.Open(t.Context(), "large")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, content) {
		t.Errorf("%d bytes are read, %v", len(got), err)
	}
	w, err := p.Create(t.Context(), "cancelled")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(content); err != nil {
		t.Error(err)
	}
	w.Cancel()
	ctx, cancel := context.WithCancel(t.Context())
	if w, err = p.Create(ctx, "ended"); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(content); err != nil {
		t.Error(err)
	}
	cancel()
	if err := w.Commit(); err == nil {
		t.Error("a file is complete although its context has ended")
	}
	f.setFail(func(r *http.Request) error {
		if r.URL.Query().Get("partNumber") == "2" {
			return errors.New("no space for part 2")
		}
		return nil
	})
	if err := writeFile(t.Context(), p, "failed", content); err == nil || !strings.Contains(err.Error(), "no space for part 2") {
		t.Errorf("an upload that fails: %v", err)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if names := slices.Sorted(maps.Keys(f.objects)); !slices.Equal(names, []string{"b/large"}) || len(f.uploads) > 0 {
		t.Errorf("there are %v and %d unfinished uploads", names, len(f.uploads))
	}
}

// An upload that ends early, or whose context ends, leaves no file.
func TestS3FailedUpload(t *testing.T) {
	f := newFakeS3(t)
	p := openS3(t, f, "b")
	f.setFail(func(*http.Request) error { return errors.New("not today") })
	if err := writeFile(t.Context(), p, "a", []byte("x")); err == nil || !strings.Contains(err.Error(), "not today") {
		t.Errorf("a server that rejects the file: %v", err)
	}
	f.setFail(nil)
	ctx, cancel := context.WithCancel(t.Context())
	w, err := p.Create(ctx, "a")
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := w.Commit(); err == nil {
		t.Error("a file is complete although its context has ended")
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.objects) > 0 {
		t.Errorf("there are files: %v", f.objects)
	}
}

// A place is a folder of a bucket, and lists more files than are in one reply.
func TestS3Folder(t *testing.T) {
	f := newFakeS3(t)
	f.perPage = 2
	p, other := openS3(t, f, "b/backups/daily"), openS3(t, f, "b")
	for _, name := range []string{"c", "a", "e/f", "b", "d"} {
		if err := writeFile(t.Context(), p, name, []byte(name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := writeFile(t.Context(), other, "z", nil); err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	f.objects["b/backups/daily/"] = nil // as consoles create folders
	f.mu.Unlock()
	if names, err := p.Names(t.Context()); err != nil || !slices.Equal(names, []string{"a", "b", "c", "d"}) {
		t.Errorf("the files are %v, %v", names, err)
	}
	found, err := p.Find(t.Context(), "e/")
	if want := []blob.File{{Name: "e/f", Bytes: 3}}; err != nil || !slices.Equal(found, want) {
		t.Errorf("found %v, %v", found, err)
	}
	if found, err := other.Find(t.Context(), ""); err != nil || len(found) != 6 || found[5].Name != "z" {
		t.Errorf("in the bucket are %v, %v", found, err)
	}
	if p.String() != "s3://b/backups/daily" || other.String() != "s3://b" {
		t.Errorf("they are named %s and %s", p, other)
	}
}

func TestS3URLs(t *testing.T) {
	for _, where := range []string{"s3://", "s3:///a", "s3://b/../c", "s3://b?regoin=x", "s3://b?endpoint=host", "s3://b?use_path_style=maybe", "s3://b?profile=of+nobody"} {
		if p, err := blob.Open(t.Context(), where); err == nil {
			t.Errorf("%s is opened as %s", where, p)
		}
	}
}
