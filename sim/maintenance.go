package sim

import (
	"context"
	"fmt"
	"hash/crc32"

	"cke"
)

// UpdateMember implements cke.Etcd.
func (e etcdPort) UpdateMember(ctx context.Context, url, id, peerURL string) error {
	return e.reconfigure(ctx, url, "UpdateMember", func(p proposal) error {
		l, err := p.find(id)
		if err != nil {
			return err
		}
		for _, other := range p.leader.present() {
			if other.id != l.id && other.peer == peerURL {
				return fmt.Errorf("etcdserver: Peer URLs already exists: %w", cke.ErrConflict)
			}
		}
		return p.commit(entry{kind: entryUpdate, id: l.id, peer: peerURL})
	})
}

// HashKV implements cke.Etcd: a digest of what clients wrote up to a revision, as this member has it.
func (e etcdPort) HashKV(ctx context.Context, url string, revision int64) (h cke.HashKV, err error) {
	err = e.call(ctx, url, "HashKV", false, func() error {
		c, err := e.d.world.voting(url)
		if err == nil {
			err = e.d.world.denied()
		}
		if err != nil {
			return err
		}
		m := c.member()
		h.Revision = m.apply().revision()
		if revision == 0 {
			revision = h.Revision
		}
		h.Compacted = m.apply().compacted
		if revision < h.Compacted {
			return fmt.Errorf("etcdserver: mvcc: required revision has been compacted: %w", cke.ErrCompacted)
		}
		if revision > h.Revision {
			return fmt.Errorf("etcdserver: mvcc: required revision is a future revision: %w", cke.ErrNotReady)
		}
		sum := crc32.NewIEEE()
		at := int64(1)
		for _, x := range m.log[:m.commit] {
			if at == revision {
				break
			}
			if x.kind == entryPut || x.kind == entryFill {
				at++
			}
			if x.kind == entryPut {
				fmt.Fprintln(sum, x.value)
			}
		}
		if m.corrupt {
			fmt.Fprintln(sum, "what no client wrote")
		}
		h.Hash = sum.Sum32()
		return nil
	})
	return h, err
}
