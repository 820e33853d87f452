// Package s3 stores files in S3, or in an object store that has its API. A program that
// imports it can open places by s3:// URLs.
package s3

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/feature/s3/transfermanager"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/stator-db/stator/internal/blob"
)

func init() { blob.Register("s3", open) }

const (
	// partBytes is the size of the parts of an upload. S3 takes up to 10,000 of them.
	partBytes = 16 << 20
	// parallelParts bounds the memory of an upload.
	parallelParts = 2
	// abortTimeout bounds the removal of the parts of an upload that has failed, also after
	// its context has ended.
	abortTimeout = 30 * time.Second
)

// bucket is a place in a bucket: the objects whose names begin with a prefix.
type bucket struct {
	client  *s3.Client
	uploads *transfermanager.Client
	name    string
	prefix  string // "" or one that ends in a slash
}

// open opens s3://bucket/folder with these parameters: region, profile (of the AWS
// configuration files), endpoint (of another service) and use_path_style. The rest is
// configured as for the AWS CLI.
func open(ctx context.Context, u *url.URL) (blob.Place, error) {
	b := &bucket{name: u.Host, prefix: strings.Trim(u.Path, "/")}
	switch {
	case b.name == "":
		return nil, errors.New("the URL has no bucket: s3://bucket/folder?region=eu-west-1")
	case b.prefix != "" && !blob.IsName(b.prefix):
		return nil, fmt.Errorf("%q cannot be a folder of a bucket", b.prefix)
	case b.prefix != "":
		b.prefix += "/"
	}
	var load []func(*config.LoadOptions) error
	configure := []func(*s3.Options){
		func(o *s3.Options) { o.DisableLogOutputChecksumValidationSkipped = true }, // backups have checksums
	}
	for name, values := range u.Query() {
		value := values[len(values)-1]
		switch name {
		case "region":
			load = append(load, config.WithRegion(value))
		case "profile":
			load = append(load, config.WithSharedConfigProfile(value))
		case "endpoint":
			if e, err := url.Parse(value); err != nil || e.Host == "" {
				return nil, fmt.Errorf("the endpoint %q is not a URL", value)
			}
			configure = append(configure, func(o *s3.Options) { o.BaseEndpoint = &value })
		case "use_path_style":
			on, err := strconv.ParseBool(value)
			if err != nil {
				return nil, fmt.Errorf("use_path_style is true or false, not %q", value)
			}
			configure = append(configure, func(o *s3.Options) { o.UsePathStyle = on })
		default:
			return nil, fmt.Errorf("the parameter %q is not known: only region, profile, endpoint and use_path_style are", name)
		}
	}
	c, err := config.LoadDefaultConfig(ctx, load...)
	if err != nil {
		return nil, err
	}
	b.client = s3.NewFromConfig(c, configure...)
	b.uploads = transfermanager.New(b.client, func(o *transfermanager.Options) {
		o.PartSizeBytes, o.MultipartUploadThreshold, o.Concurrency = partBytes, partBytes, parallelParts
		o.FailTimeout = abortTimeout
		o.RequestChecksumCalculation = c.RequestChecksumCalculation
	})
	return b, nil
}

func (b *bucket) String() string { return strings.TrimSuffix("s3://"+b.name+"/"+b.prefix, "/") }

func (b *bucket) Close() error { return nil }

// key returns the key of the object with a file.
func (b *bucket) key(name string) *string {
	blob.CheckName(name)
	return aws.String(b.prefix + name)
}

func (b *bucket) Open(ctx context.Context, name string) (io.ReadCloser, error) {
	object, err := b.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.name, Key: b.key(name)})
	if absent := (*types.NoSuchKey)(nil); errors.As(err, &absent) {
		return nil, fmt.Errorf("%s: %w", name, blob.ErrNotFound)
	}
	if err != nil {
		return nil, err
	}
	return object.Body, nil
}

func (b *bucket) Names(ctx context.Context) (names []string, err error) {
	for object, err := range b.list(ctx, "", "/") {
		if err != nil {
			return nil, err
		}
		names = append(names, object.Name)
	}
	slices.Sort(names)
	return names, nil
}

func (b *bucket) Find(ctx context.Context, prefix string) (found []blob.File, err error) {
	for object, err := range b.list(ctx, prefix, "") {
		if err != nil {
			return nil, err
		}
		found = append(found, object)
	}
	slices.SortFunc(found, func(a, b blob.File) int { return strings.Compare(a.Name, b.Name) })
	return found, nil
}

// list yields the files whose names begin with a prefix, and have no delimiter after it if
// there is one. Other objects are left out.
func (b *bucket) list(ctx context.Context, prefix, delimiter string) func(yield func(blob.File, error) bool) {
	input := &s3.ListObjectsV2Input{Bucket: &b.name, Prefix: aws.String(b.prefix + prefix)}
	if delimiter != "" {
		input.Delimiter = &delimiter
	}
	return func(yield func(blob.File, error) bool) {
		for pages := s3.NewListObjectsV2Paginator(b.client, input); pages.HasMorePages(); {
			page, err := pages.NextPage(ctx)
			if err != nil {
				yield(blob.File{}, err)
				return
			}
			for _, object := range page.Contents {
				name := strings.TrimPrefix(aws.ToString(object.Key), b.prefix)
				if blob.IsName(name) && !yield(blob.File{Name: name, Bytes: aws.ToInt64(object.Size)}, nil) {
					return
				}
			}
		}
	}
}

// Remove deletes an object. S3 reports no error if it is absent.
func (b *bucket) Remove(ctx context.Context, name string) error {
	_, err := b.client.DeleteObject(ctx, &s3.DeleteObjectInput{Bucket: &b.name, Key: b.key(name)})
	return err
}

// Create begins an upload. The object appears when the upload has ended without an error.
func (b *bucket) Create(ctx context.Context, name string) (blob.Writer, error) {
	r, w := io.Pipe()
	upload := &upload{PipeWriter: w, ended: make(chan struct{})}
	input := &transfermanager.UploadObjectInput{Bucket: &b.name, Key: b.key(name), Body: r, ContentType: aws.String("application/octet-stream")}
	go func() {
		defer close(upload.ended)
		_, upload.err = b.uploads.UploadObject(ctx, input)
		_ = r.CloseWithError(upload.err) // a Write that waits fails
	}()
	return upload, nil
}

// upload is the writer of an object.
type upload struct {
	*io.PipeWriter
	ended chan struct{}
	err   error // once it has ended
}

func (u *upload) Commit() error {
	_ = u.Close() // it never fails
	<-u.ended
	return u.err
}

func (u *upload) Cancel() {
	_ = u.CloseWithError(errors.New("the upload was cancelled")) // it never fails
	<-u.ended
}
