package etcdnode

import (
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
