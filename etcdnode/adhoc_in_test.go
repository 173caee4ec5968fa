package etcdnode
import ("testing";"time";"cke")
func Trace(t *testing.T, f *Fleet, n cke.Node){
	b:=time.Now(); lap:=func(s string){ t.Logf("%-12s %s", s, time.Since(b)); b=time.Now()}
	s,err:=f.session(t.Context(), n); if err!=nil {t.Fatal(err)}; lap("ssh")
	c,err:=s.dialEngine(t.Context()); lap("channel"); c.Close()
	s.engine.agree(t.Context()); lap("agree")
	cs,err:=s.engine.containers(t.Context()); lap("containers")
	s.engine.container(t.Context(), cs[0].ID); lap("inspect")
	s.engine.volumes(t.Context()); lap("volumes")
	s.engine.containers(t.Context()); lap("containers")
	s.engine.container(t.Context(), cs[0].ID); lap("inspect")
	s.engine.volumes(t.Context()); lap("volumes")
}
