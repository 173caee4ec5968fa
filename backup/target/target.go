// Package target opens the places where backups are kept, by URL. It is the only package of backups that links the object
// stores' client libraries.
package target

import (
	"context"
	"fmt"
	"net/url"
	"time"

	"gocloud.dev/blob"
	_ "gocloud.dev/blob/azureblob" // azblob://
	_ "gocloud.dev/blob/gcsblob"   // gs://

	"cke"
	"cke/backup"
)

// Credentials are for a target; empty fields: from the environment and the usual files of the provider, such as
// AWS_ACCESS_KEY_ID and ~/.aws, GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_ACCOUNT and AZURE_STORAGE_KEY.
type Credentials struct {
	// For s3.
	AccessKey    string
	SecretKey    string
	SessionToken string
	// File is a shared credentials file in the format of AWS; Profile a profile in it.
	File    string
	Profile string
}

// Target is an open bucket.
type Target struct {
	backup.Bucket
	close func() error
}

// Close closes connections.
func (t *Target) Close() error { return t.close() }

// Unwrap returns the bucket itself.
func (t *Target) Unwrap() backup.Bucket { return t.Bucket }

var _ backup.Sweeper = (*Target)(nil)

// Sweep implements backup.Sweeper. Object stores have their own rules for incomplete uploads.
func (t *Target) Sweep(ctx context.Context, age time.Duration) error {
	if s, ok := t.Bucket.(backup.Sweeper); ok {
		return s.Sweep(ctx, age)
	}
	return nil
}

// Open opens a target, see cke.ParseTarget. It sends no request yet.
func Open(ctx context.Context, rawURL string, c Credentials) (*Target, error) {
	t, faults := cke.ParseTarget(rawURL)
	if faults != nil {
		return nil, fmt.Errorf("backup target %s: it %s. %s", t.URL, faults[0].What, faults[0].Remedy)
	}
	switch t.Scheme {
	case "file":
		return &Target{Bucket: backup.Dir(t.Path), close: func() error { return nil }}, nil
	case "s3":
		return openS3(ctx, t, c)
	}
	bare, err := url.Parse(rawURL)
	if err != nil {
		return nil, fmt.Errorf("backup target %s: %w", t.URL, err)
	}
	bare.Path = ""
	b, err := blob.OpenBucket(ctx, bare.String())
	if err != nil {
		return nil, fmt.Errorf("backup target %s: %w", t.URL, err)
	}
	return &Target{Bucket: backup.Within(&bucket{b: b}, t.Path), close: b.Close}, nil
}
