package keep_test

import (
	"context"
	"crypto/tls"
	"strings"
	"sync/atomic"
	"testing"

	"cke"
	"cke/backup/backuptest"
	"cke/backup/keep"
)

// A panic in any goroutine is a problem of this cluster's backups, and passes with its cause.
func TestKeeper_APanicIsAProblemOfItsOwnCluster(t *testing.T) {
	troubled := func(s *cke.BackupStatus) bool {
		all := s.Troubles
		if s.Problem != nil {
			all = append(all, *s.Problem)
		}
		for _, x := range all {
			if x.Code == cke.CodeBackupFault && strings.Contains(x.Message, "no such thing") {
				return true
			}
		}
		return false
	}
	for _, at := range []string{"list prod", "list .target", "create /full/", "create /delta/", "create /spec", "create .locks", "open .target"} {
		t.Run(at, func(t *testing.T) {
			h := newHouse(t)
			h.wanted.Spec.Cluster.Backup.Retention.Last = 1
			var fault atomic.Bool
			fault.Store(true)
			call, part, _ := strings.Cut(at, " ")
			h.target = &backuptest.Faulty{Bucket: h.memory, Before: func(_ context.Context, op, name string) error {
				if fault.Load() && op == call && strings.Contains(name, part) {
					panic("no such thing: " + at)
				}
				return nil
			}}
			h.run()
			h.await("the fault", func(s *cke.BackupStatus) bool { h.put("a"); return troubled(s) })
			fault.Store(false)
			h.await("a full", hasFull)
			last := h.put("b")
			h.await("the last change", func(s *cke.BackupStatus) bool { return s.Problem == nil && s.Revision >= last })
		})
	}
	for _, at := range []string{"target", "credentials", "escrow", "certificate"} {
		t.Run(at, func(t *testing.T) {
			h := newHouse(t)
			var fault atomic.Bool
			fault.Store(true)
			check := func(call string) {
				if call == at && fault.Load() {
					panic("no such thing: " + call)
				}
			}
			c := h.config
			h.config.Open = func(ctx context.Context, url string) (keep.Target, error) { check("target"); return c.Open(ctx, url) }
			h.config.Escrow = func(ctx context.Context) (cke.Escrow, error) { check("escrow"); return c.Escrow(ctx) }
			h.config.TLS = func(ctx context.Context) (*tls.Config, error) { check("certificate"); return c.TLS(ctx) }
			h.config.Credentials = func() int64 { check("credentials"); return c.Credentials() }
			h.run()
			h.await("the fault", troubled)
			fault.Store(false)
			h.await("a full", hasFull)
		})
	}
}
