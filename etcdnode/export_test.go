package etcdnode

import (
	"testing"

	"github.com/docker/docker/client"

	"cke"
)

// Replacing is the archive that PutFiles sends.
var Replacing = replacing

// EngineOf is the engine of a node, for what cke never asks it.
func EngineOf(t *testing.T, f *Fleet, n cke.Node) *client.Client {
	t.Helper()
	s, err := f.session(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	return s.engine.api
}
