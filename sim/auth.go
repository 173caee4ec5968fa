package sim

import (
	"context"
	"errors"

	"cke"
)

// SetAuth changes etcd's authentication and cke's user, as a user with the role root does.
func (w *World) SetAuth(on, admitted bool) {
	w.change("the operator changes etcd's authentication", func() { w.auth, w.root = cke.AuthState{Enabled: on, Admitted: admitted}, true })
}

// Refuses reports whether etcd's authentication refuses cke.
func (w *World) Refuses() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.denied() != nil
}

// denied is what etcd answers to cke's changes, hashes and snapshots. Source: etcd, authStore.IsAdminPermitted.
func (w *World) denied() error {
	if w.auth.Enabled && !w.auth.Admitted {
		return errors.New("etcdserver: permission denied")
	}
	return nil
}

// Auth implements cke.Etcd.
func (e etcdPort) Auth(ctx context.Context, url string) (s cke.AuthState, err error) {
	err = e.call(ctx, url, "Auth", false, func() error {
		_, err := e.d.world.voting(url)
		s, e.d.authRead = e.d.world.auth, e.d.happened()
		return err
	})
	return s, err
}

// AdmitSelf implements cke.Etcd.
func (e etcdPort) AdmitSelf(ctx context.Context, url string) error {
	return e.maintain(ctx, url, "AdmitSelf", func(*container) error {
		w := e.d.world
		err := w.propose(Management, url, entry{})
		if err == nil {
			w.auth.Admitted, w.root = true, true
		}
		return err
	})
}

// SetAuth implements cke.Etcd. Source of the check: etcd, authStore.AuthEnable.
func (e etcdPort) SetAuth(ctx context.Context, url string, on bool) error {
	return e.maintain(ctx, url, "SetAuth", func(*container) error {
		if on && !e.d.world.root {
			return errors.New("etcdserver: root user does not exist")
		}
		err := e.d.world.propose(Management, url, entry{})
		if err == nil {
			if on && !e.d.world.auth.Admitted && e.d.authRead == e.d.happened() {
				e.d.world.violated("authentication is turned on, and refuses cke")
			}
			e.d.world.auth.Enabled = on
		}
		return err
	})
}
