package storage

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"cke"
)

// checkName keeps names out of the structure of keys.
func checkName(cluster string) error {
	if n := len(cluster); n >= 1 && n <= 40 && strings.Trim(cluster, "abcdefghijklmnopqrstuvwxyz0123456789-") == "" {
		return nil
	}
	return &cke.Error{Code: cke.CodeCluster, What: fmt.Sprintf("%q is not a cluster name", cluster),
		Facts: []string{"a name has 1 to 40 of a-z, 0-9 and -"}, Unchanged: true}
}

// fail says what was tried, and turns the answers of a store that cannot serve into what the operator can act on.
func (s *Store) fail(tried string, err error) error {
	if err == nil {
		return nil
	}
	var coded *cke.Error
	if errors.As(err, &coded) {
		return err
	}
	if errors.Is(err, context.Canceled) {
		return fmt.Errorf("%s: %w", tried, err)
	}
	e := &cke.Error{Code: cke.CodeStore, Err: err}
	switch c := codeOf(err); {
	case errors.Is(err, context.DeadlineExceeded), c == codes.DeadlineExceeded, c == codes.Unavailable:
		e.What = fmt.Sprintf("%s: the store (%s) does not answer", tried, s.where)
		e.Try = s.remedy
	case c == codes.Unauthenticated, c == codes.PermissionDenied, errors.Is(err, rpctypes.ErrAuthFailed),
		errors.Is(err, rpctypes.ErrUserEmpty):
		e.What = fmt.Sprintf("%s: the store (%s) refuses user %q", tried, s.where, s.user)
		e.Facts = []string{"check username and password_file, and that the user's role may read and write below " + s.keys.prefix}
	case errors.Is(err, rpctypes.ErrNoSpace):
		e.What = fmt.Sprintf("%s: the store (%s) is full", tried, s.where)
		e.Facts = []string{"raise the quota of that etcd, or compact and defragment it, then disarm its NOSPACE alarm"}
	case errors.Is(err, rpctypes.ErrRequestTooLarge), c == codes.ResourceExhausted && strings.Contains(err.Error(), "message"):
		e.Code = cke.CodeConfig
		e.What = tried + ": too large for the store"
		e.Facts = []string{"etcd accepts at most 1.5 MiB in a request"}
		e.Unchanged = true
	default:
		return fmt.Errorf("%s: %w", tried, err)
	}
	return e
}

// codeOf finds the gRPC code, which etcd's own error type keeps apart from the usual one.
func codeOf(err error) codes.Code {
	var e rpctypes.EtcdError
	if errors.As(err, &e) {
		return e.Code()
	}
	return status.Code(err)
}

// unknownOutcome reports whether a write that failed with err may have happened all the same.
func unknownOutcome(err error) bool {
	switch codeOf(err) {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Internal, codes.Canceled:
		return true
	}
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
}

// undecoded is the error of a document without which nothing can be decided for a cluster.
func undecoded(key string, err error) error {
	return &cke.Error{Code: cke.CodeStored, What: key + " cannot be decoded in the store, so nothing is decided for its cluster", Unchanged: true,
		Try: "restore a copy of the store, or write the key as it is in one; never remove it", Err: err}
}
