package etcdnode_test
import ("testing";"time";"context";"cke";"cke/etcdnode";"os")
func TestAdhoc(t *testing.T){
	r := newRig(t, 1, nil)
	r.bootstrap(t)
	for range 8 {
		f := etcdnode.New(etcdnode.Config{HostKeys: r.keys, Keys: func(context.Context, cke.Node) ([]byte, error) { return os.ReadFile(r.lab.Nodes()[0].KeyFile) }})
		etcdnode.Trace(t, f, r.cluster.Nodes[0])
		b:=time.Now()
		f2 := etcdnode.New(etcdnode.Config{HostKeys: r.keys, Keys: func(context.Context, cke.Node) ([]byte, error) { return os.ReadFile(r.lab.Nodes()[0].KeyFile) }})
		f2.Update(r.cluster, cke.Identity{})
		f2.Observe(t.Context())
		t.Logf("cold observe %s", time.Since(b)); b=time.Now()
		f2.Observe(t.Context())
		t.Logf("warm observe %s", time.Since(b))
		f.Close(); f2.Close()
	}
}
