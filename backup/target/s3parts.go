package target

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"

	"cke/backup"
)

// onePut is how much S3 takes in one request.
const onePut = 5 << 30

// abortLimit bounds the removal of parts that make no object; the rules of the store remove what stays.
const abortLimit = 10 * time.Second

// s3Objects writes to S3 where it matters in how many requests. The library sends what has 16 MiB or more in parts.
type s3Objects struct {
	client *s3.Client
	bucket string
}

// takes reports whether an object has to go from here. The library writes some names in another way.
func (s *s3Objects) takes(name string, c backup.Content) bool {
	strange := strings.Contains(name, "../") || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' })
	return (c.Whole && c.Size() <= onePut || c.InParts) && !strange
}

func (s *s3Objects) upload(ctx context.Context, name string, c backup.Content) error {
	src, err := c.Open(ctx)
	if err != nil {
		return err
	}
	defer src.Close()
	data := bytes.NewBuffer(make([]byte, 0, c.Size()+bytes.MinRead))
	if err := c.Check(io.TeeReader(src, data)); err != nil {
		return err
	}
	if c.InParts {
		err = s.inParts(ctx, name, data.Bytes())
	} else {
		err = s.whole(ctx, name, data.Bytes())
	}
	var coded interface{ ErrorCode() string }
	switch {
	case err == nil:
		return nil
	case errors.As(err, &coded) && coded.ErrorCode() == "PreconditionFailed":
		return fmt.Errorf("%s: %w", name, backup.ErrExists)
	}
	return fmt.Errorf("upload %s: %w", name, err)
}

func (s *s3Objects) whole(ctx context.Context, name string, data []byte) error {
	_, err := s.client.PutObject(ctx, &s3.PutObjectInput{
		Bucket: &s.bucket, Key: &name, Body: bytes.NewReader(data), IfNoneMatch: aws.String("*"), ContentType: aws.String(contentType),
	})
	return err
}

// inParts sends one part, which may have any size since it is the last.
func (s *s3Objects) inParts(ctx context.Context, name string, data []byte) error {
	begun, err := s.client.CreateMultipartUpload(ctx, &s3.CreateMultipartUploadInput{Bucket: &s.bucket, Key: &name, ContentType: aws.String(contentType)})
	if err != nil {
		return err
	}
	first := aws.Int32(1)
	part, err := s.client.UploadPart(ctx, &s3.UploadPartInput{Bucket: &s.bucket, Key: &name, UploadId: begun.UploadId, PartNumber: first, Body: bytes.NewReader(data)})
	if err == nil {
		_, err = s.client.CompleteMultipartUpload(ctx, &s3.CompleteMultipartUploadInput{
			Bucket: &s.bucket, Key: &name, UploadId: begun.UploadId, IfNoneMatch: aws.String("*"),
			MultipartUpload: &types.CompletedMultipartUpload{Parts: []types.CompletedPart{{ETag: part.ETag, PartNumber: first,
				ChecksumCRC32: part.ChecksumCRC32, ChecksumCRC32C: part.ChecksumCRC32C, ChecksumCRC64NVME: part.ChecksumCRC64NVME,
				ChecksumSHA1: part.ChecksumSHA1, ChecksumSHA256: part.ChecksumSHA256}}},
		})
	}
	if err != nil {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), abortLimit)
		defer cancel()
		s.client.AbortMultipartUpload(ctx, &s3.AbortMultipartUploadInput{Bucket: &s.bucket, Key: &name, UploadId: begun.UploadId})
	}
	return err
}
