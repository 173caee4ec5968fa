package etcdnode

import (
	"fmt"
	"testing"
	"time"

	"cke"
)

// A look at a node does not wait for long for files that its engine is slow to read; they are known to a later one.
func TestObserve_CertificatesThatAreReadSlowlyAreKnownLater(t *testing.T) {
	t.Parallel()
	f, n, _, _ := twoMembers(t)
	archive, err := archiveOf(NewTestCA(t).MemberFiles("127.0.0.1", time.Now().Add(time.Hour)))
	if err != nil {
		t.Fatal(err)
	}
	known := func(o cke.Observation) (n int) {
		for _, c := range o.Nodes[0].Containers {
			if c.Certificates != nil && c.Certificates.Hold(time.Now()) {
				n++
			}
		}
		return n
	}
	slow := "GET /containers/" + string(n.joins[0].ID) + "/archive"
	n.engine.pauseOn(slow)
	for _, j := range n.joins {
		n.engine.answer("GET /containers/"+string(j.ID)+"/archive", string(archive))
		n.engine.answer("HEAD /containers/"+string(j.ID)+"/archive", "") // its log
		f.looks.forget("etcd-cke." + string(j.ID))
	}
	for range 3 {
		o := f.Observe(t.Context())
		if p := o.Nodes[0].Problem; p != nil || known(o) > 1 {
			t.Fatalf("%v, %d known", p, known(o))
		}
	}
	if asked := n.engine.asked(slow); asked > 2+3 { // once by twoMembers, and thrice for its log
		t.Errorf("asked for %d times", asked)
	}
	n.engine.resume()
	for deadline := time.Now().Add(patience); known(f.Observe(t.Context())) < 2; {
		if time.Now().After(deadline) {
			t.Fatal("never known")
		}
	}
}

// A look that comes while the first files of a member are written finds only some of them. Once they are written, the next look
// reads them again, or cke would renew certificates that it has just made.
func TestObserve_CertificatesOfAFounderThatAreReadTooEarlyAreReadAgain(t *testing.T) {
	t.Parallel()
	f, n, _, _ := twoMembers(t)
	j := n.joins[0]
	files := NewTestCA(t).MemberFiles("127.0.0.1", time.Now().Add(time.Hour))
	holds := func(files []cke.File) bool {
		archive, err := archiveOf(files)
		if err != nil {
			t.Fatal(err)
		}
		n.engine.answer("GET /containers/"+string(j.ID)+"/archive", string(archive))
		n.engine.answer("HEAD /containers/"+string(j.ID)+"/archive", "")
		c, _ := f.Observe(t.Context()).Nodes[0].Of(j.ID)
		for deadline := time.Now().Add(patience); c.Certificates == nil && time.Now().Before(deadline); {
			c, _ = f.Observe(t.Context()).Nodes[0].Of(j.ID)
		}
		return c.Certificates != nil && c.Certificates.Hold(time.Now())
	}
	f.looks.forget("etcd-cke." + string(j.ID))
	if holds(files[:1]) {
		t.Fatal("one file is enough")
	}
	n.engine.answer("GET /containers/etcd-cke."+string(j.ID)+"/json", fmt.Sprintf(`{"Id":"%[1]s","Name":"/etcd-cke.%[1]s","State":{"Status":"created","StartedAt":"0001-01-01T00:00:00Z"},
		"HostConfig":{},"Config":{"Image":"e:1","Labels":{"cke.cluster":"demo","cke.join":"%[1]s"}}}`, j.ID))
	n.engine.answer("PUT /containers/"+string(j.ID)+"/archive", "")
	j.Volume = "etcd-cke." + string(j.ID)
	founder := cke.MemberSpec{Cluster: "demo", Join: j, Mode: cke.StartPrepared, Token: "token", Peers: []cke.Peer{{Name: j.Member, URL: j.PeerURL()}}}
	if err := f.Machine(n.node).PutFounder(t.Context(), founder, files); err != nil {
		t.Fatal(err)
	}
	if !holds(files) {
		t.Error("what was found too early is still believed")
	}
}
