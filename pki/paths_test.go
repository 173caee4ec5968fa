package pki_test

import (
	"testing"

	"cke/etcdnode"
	"cke/pki"
)

func TestPaths_AreThoseThatMembersAreStartedWith(t *testing.T) {
	for issued, used := range map[string]string{
		pki.PeerCAFile: etcdnode.PeerCAFile, pki.PeerCertFile: etcdnode.PeerCertFile, pki.PeerKeyFile: etcdnode.PeerKeyFile,
		pki.ClientCAFile: etcdnode.ClientCAFile, pki.ServerCAFile: etcdnode.ServerCAFile,
		pki.ServerCertFile: etcdnode.ServerCertFile, pki.ServerKeyFile: etcdnode.ServerKeyFile,
	} {
		if issued != used {
			t.Errorf("issued as %s, used as %s", issued, used)
		}
	}
}
