package storage

import (
	"context"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
)

// renewals is the stream that a session renews its lease on. clientv3's own ways do not tell when a renewal that was
// confirmed had been sent, or ask a store that is not there without a pause.
type renewals struct {
	stream etcdserverpb.Lease_LeaseKeepAliveClient
	hang   context.CancelFunc
}

// renew asks once, within limit. After a failure the next one asks on a new stream, perhaps of another endpoint.
func (r *renewals) renew(ses *session, limit time.Duration) (err error) {
	var ctx context.Context
	if r.hang == nil {
		ctx, r.hang = context.WithCancel(clientv3.WithRequireLeader(ses.ctx))
	}
	late := time.AfterFunc(limit, r.hang)
	defer func() {
		if late.Stop(); err != nil {
			r.hangUp()
		}
	}()
	if r.stream == nil {
		if r.stream, err = etcdserverpb.NewLeaseClient(ses.s.client.ActiveConnection()).LeaseKeepAlive(ctx); err != nil {
			return err
		}
	}
	if err := r.stream.Send(&etcdserverpb.LeaseKeepAliveRequest{ID: int64(ses.lease)}); err != nil {
		return err
	}
	resp, err := r.stream.Recv()
	if err != nil {
		return err
	}
	if resp.TTL <= 0 {
		return rpctypes.ErrLeaseNotFound
	}
	return nil
}

func (r *renewals) hangUp() {
	if r.hang != nil {
		r.hang()
	}
	*r = renewals{}
}
