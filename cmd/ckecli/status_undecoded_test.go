package main

import (
	"context"
	"testing"

	"cke"
)

// undecoded is a store in which the cluster file or the identity cannot be decoded.
type undecoded struct {
	store
	file bool
}

func (u undecoded) Spec(ctx context.Context, cluster string) (cke.Spec, error) {
	if u.file {
		return cke.Spec{}, errUndecoded
	}
	return u.store.Spec(ctx, cluster)
}

func (u undecoded) Identity(ctx context.Context, cluster string) (cke.Identity, error) {
	if !u.file {
		return cke.Identity{}, errUndecoded
	}
	return u.store.Identity(ctx, cluster)
}

var errUndecoded = &cke.Error{Code: cke.CodeStored, What: "KEY cannot be decoded", Try: "bring it back", Err: cke.ErrMalformed}

// What cannot be decoded is a problem of the cluster, whether a daemon leads it and has noticed or not.
func TestStatus_ShowsThatTheClusterCannotBeDecoded(t *testing.T) {
	for _, file := range []bool{true, false} {
		h := declared(t)
		l := h.lead("prod")
		l.status(ready(1))
		h.run(exitDone, "status", "--check")
		h.opened = func(s store) store { return undecoded{s, file} }
		stdout, _ := h.run(exitNoStatus, "status", "--check")
		contains(t, stdout, "UNKNOWN", "KEY cannot be decoded", "CKE118", "bring it back")
	}
}
