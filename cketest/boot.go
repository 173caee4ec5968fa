package cketest

import (
	"testing"
	"time"

	"cke"
)

func bootIsTold(t *testing.T, n Node) {
	ctx := bounded(t)
	s, _ := n.Member()
	first, err := n.Boot(ctx, s.Join.Etcd.Image)
	must(t, "Boot", err)
	again, err := n.Boot(ctx, s.Join.Etcd.Image)
	if must(t, "Boot again", err); !first.Known() || first != again {
		t.Errorf("Boot: got %+v, then %+v", first, again)
	}
	if _, err := n.Boot(ctx, n.NoImage); cke.CodeOf(err) != cke.CodeImage {
		t.Errorf("Boot by an image that is not there: %v", err)
	}
}

func clockIsTold(t *testing.T, n Node) {
	now, err := n.Clock(bounded(t))
	if err != nil || time.Since(now).Abs() > time.Minute {
		t.Errorf("%v, %v", now, err)
	}
}
