package take

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// While a watch is interrupted, the cluster may lose its newest changes and make others in their place: the numbers of what comes
// then show nothing. So what was known before is compared with the cluster after the next watch was taken, and before that is read.

// compareRetry is the longest pause between attempts to compare.
const compareRetry = time.Second

// doubt counts how often there was a reason to compare the histories, and up to which of these they were compared.
type doubt struct{ raised, settled int }

// doubted reports whether the history has still to be compared. As long as it has, nothing is read.
func (s *session) doubted() bool { return s.doubt.raised > s.doubt.settled }

// suspect has the histories compared before anything more is read.
func (s *session) suspect() {
	s.doubt.raised++
	s.authTry.Reset(0)
}

// settled takes in that the histories were compared as far as they were doubted.
func (s *session) settled(compared int) {
	if compared <= s.doubt.settled {
		return
	}
	s.doubt.settled = compared
	if s.unproved() {
		s.prime()
	}
}

// watchAgain watches after an interruption. One that was short leaves no doubt about when changes were made.
func (s *session) watchAgain(cut bool) {
	if !cut {
		s.prime()
	}
	s.watch()
	s.suspect()
}

// readable gives events unless the history is in doubt.
func (s *session) readable() clientv3.WatchChan {
	if s.doubted() {
		return nil
	}
	return s.events
}

// asDoubted is what the cluster has to have now; nil: there is no doubt.
func (s *session) asDoubted() *point {
	if !s.doubted() {
		return nil
	}
	p := s.known()
	return &p
}

// compare returns an error if the cluster does not have what is known of its history, or cannot be asked.
func (s *session) compare(known *point) error {
	if known == nil {
		return nil
	}
	now, err := s.k.revision(s.ctx)
	if err != nil {
		return err
	}
	return s.t.refuseHistory(s.ctx, s.k, *known, now)
}

var (
	// errCut: the connection of the watch was lost.
	errCut = fmt.Errorf("%w: its connection was lost", errWatchAgain)
	// errResumed ends a watch that etcd's client would start again without a word. It does so after no other code than Unavailable
	// and Internal.
	errResumed = status.Error(codes.Aborted, "the connection of the watch was lost")
)

// oneStream is the key of whether the stream of a watch was opened.
type oneStream struct{}

// withOneStream has a watch end with its connection, instead of being resumed.
func withOneStream(ctx context.Context) context.Context {
	return context.WithValue(ctx, oneStream{}, new(atomic.Bool))
}

// refuseResumed refuses to open the stream of a watch again.
func refuseResumed(ctx context.Context, desc *grpc.StreamDesc, conn *grpc.ClientConn, method string, streamer grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	opened, _ := ctx.Value(oneStream{}).(*atomic.Bool)
	if opened != nil && opened.Load() {
		return nil, errResumed
	}
	s, err := streamer(ctx, desc, conn, method, opts...)
	if err == nil && opened != nil {
		opened.Store(true)
	}
	return s, err
}
