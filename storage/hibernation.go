package storage

import (
	"context"
	"fmt"

	clientv3 "go.etcd.io/etcd/client/v3"

	"cke"
)

// SetHibernation requests that no member of the cluster runs. ErrNotFound: there is no such cluster.
func (s *Store) SetHibernation(ctx context.Context, cluster, by string) error {
	return s.PutRequest(ctx, cluster, requestHibernate, by, struct{}{})
}

// EndHibernation withdraws the request. ErrNotFound: there is none, or no such cluster.
func (s *Store) EndHibernation(ctx context.Context, cluster string) error {
	return s.endRequest(ctx, cluster, requestHibernate, "end the hibernation of "+cluster,
		&cke.Error{Code: cke.CodeCannot, What: fmt.Sprintf("cluster %s is not hibernated", cluster), Unchanged: true, Err: cke.ErrNotFound})
}

// endRequest removes a request; none is what the caller says when it is not there.
func (s *Store) endRequest(ctx context.Context, cluster, kind, tried string, none error) error {
	if err := checkName(cluster); err != nil {
		return err
	}
	spec, key := s.keys.spec(cluster), s.keys.request(cluster, kind)
	resp, err := s.txn(ctx, []clientv3.Cmp{present(key)}, []clientv3.Op{clientv3.OpDelete(key)}, clientv3.OpGet(spec, clientv3.WithKeysOnly()))
	switch {
	case err != nil:
		return s.fail(tried, err)
	case resp.Succeeded:
		return nil
	case len(resp.Responses[0].GetResponseRange().Kvs) == 0:
		return noCluster(cluster)
	}
	return none
}
