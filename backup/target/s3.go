package target

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"gocloud.dev/blob/s3blob"

	"cke/backup"
)

// openS3 opens a bucket of S3 or of a server that speaks its language.
func openS3(ctx context.Context, u *url.URL, c Credentials) (*Target, error) {
	q := u.Query()
	for k := range q {
		if !slices.Contains([]string{"region", "endpoint", "path_style"}, k) {
			return nil, fmt.Errorf("backup target %s: unknown option %q; known are region, endpoint and path_style", u.Redacted(), k)
		}
	}
	pathStyle := false
	if v := q.Get("path_style"); v != "" {
		var err error
		if pathStyle, err = strconv.ParseBool(v); err != nil {
			return nil, fmt.Errorf("backup target %s: path_style is true or false", u.Redacted())
		}
	}
	var opts []func(*config.LoadOptions) error
	if r := q.Get("region"); r != "" {
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
		return nil, fmt.Errorf("backup target %s: %w", u.Redacted(), err)
	}
	if cfg.Region == "" {
		if q.Get("endpoint") == "" {
			return nil, errors.New("backup target " + u.Redacted() + ": the region is missing, add ?region=")
		}
		cfg.Region = "us-east-1" // what servers that know no regions expect
	}
	client := s3.NewFromConfig(cfg, func(o *s3.Options) {
		o.UsePathStyle = pathStyle
		if e := q.Get("endpoint"); e != "" {
			o.BaseEndpoint = &e
			// Not every server knows the checksums that AWS' own client adds of itself. All is read back anyway.
			o.RequestChecksumCalculation = aws.RequestChecksumCalculationWhenRequired
		}
	})
	o := &s3blob.Options{RequestChecksumCalculation: client.Options().RequestChecksumCalculation}
	b, err := s3blob.OpenBucket(ctx, client, u.Host, o)
	if err != nil {
		return nil, fmt.Errorf("backup target %s: %w", u.Redacted(), err)
	}
	return &Target{Bucket: backup.Within(&bucket{b: b, s3: &s3Objects{client, u.Host}}, strings.Trim(u.Path, "/")), close: b.Close}, nil
}
