package target

import (
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"gocloud.dev/blob/s3blob"

	"cke"
	"cke/backup"
)

// openS3 opens a bucket of S3 or of a server that speaks its language.
func openS3(ctx context.Context, t cke.TargetURL, c Credentials) (*Target, error) {
	client, err := newS3(ctx, t, c)
	if err != nil {
		return nil, err
	}
	o := &s3blob.Options{RequestChecksumCalculation: client.Options().RequestChecksumCalculation}
	b, err := s3blob.OpenBucket(ctx, client, t.Bucket, o)
	if err != nil {
		return nil, fmt.Errorf("backup target %s: %w", t.URL, err)
	}
	return &Target{Bucket: backup.Within(&bucket{b: b, s3: &s3Objects{client, t.Bucket}}, t.Path), close: b.Close}, nil
}

// newS3 makes the client of a target, as the options in its URL and the credentials say.
func newS3(ctx context.Context, t cke.TargetURL, c Credentials) (*s3.Client, error) {
	var opts []func(*config.LoadOptions) error
	if r := t.S3.Region; r != "" {
		opts = append(opts, config.WithRegion(r))
	}
	switch {
	case c.AccessKey != "":
		opts = append(opts, config.WithCredentialsProvider(credentials.NewStaticCredentialsProvider(c.AccessKey, c.SecretKey, c.SessionToken)))
	case c.File != "":
		opts = append(opts, config.WithSharedCredentialsFiles([]string{c.File}))
	}
	if c.Profile != "" {
		opts = append(opts, config.WithSharedConfigProfile(c.Profile))
	}
	cfg, err := config.LoadDefaultConfig(ctx, opts...)
	if err != nil {
		return nil, fmt.Errorf("backup target %s: %w", t.URL, err)
	}
	if cfg.Region == "" {
		if t.S3.Endpoint == "" {
			return nil, errors.New("backup target " + t.URL + ": the region is missing, add ?region=")
		}
		cfg.Region = "us-east-1" // what servers that know no regions expect
	}
	return s3.NewFromConfig(cfg, func(o *s3.Options) {
		readAnswers(o)
		o.UsePathStyle = t.S3.PathStyle
		if e := t.S3.Endpoint; e != "" {
			o.BaseEndpoint = &e
			// Not every server knows the checksums that AWS' own client adds of itself. All is read back anyway.
			o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		}
	}), nil
}
