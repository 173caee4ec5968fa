package main

import (
	"testing"

	"cke"
	"cke/storage"
)

// two makes the observed cluster one of three declared members of which two are left: cp3's machine is gone.
func (o *observed) two() {
	o.unreachable("cp3")
	id := o.in.Identity
	j := id.Joins[2]
	j.EndedAt = noon
	read, err := o.term.Identity(o.ctx())
	if err == nil {
		err = o.term.PutJoins(o.ctx(), read, j)
	}
	if err != nil {
		o.house.t.Fatal(err)
	}
	if o.in.Identity, err = o.term.Identity(o.ctx()); err != nil {
		o.house.t.Fatal(err)
	}
	o.in.Seen.Etcd.Members, o.in.Seen.Etcd.Endpoints = o.in.Seen.Etcd.Members[:2], o.in.Seen.Etcd.Endpoints[:2]
	o.tell()
}

// What interrupts service is asked about by every way into the store, and said by the plan.
func TestSet_AsksBeforeServiceIsInterrupted(t *testing.T) {
	o := serving(t)
	o.two()
	next := o.write("args.yml", clusterFile+"options: {etcd: {extra_args: [--auto-compaction-retention=1h]}}\n")
	stdout, _ := o.run(exitDone, "plan", next)
	contains(t, stdout, "Held        from #1 on: waits for another voter, or `ckecli cluster apply`", "Interrupts  service, while cp2, then cp1 restarts; confirm that (--yes)\n")
	_, stderr := o.run(exitRefused, "cluster", "set", "--no-wait", next)
	contains(t, stderr, "error[CKE107]: interrupting the service of prod was not confirmed\n", " --yes\n")
	if spec, err := o.store.Spec(o.ctx(), "prod"); err != nil || spec.Generation != 1 {
		t.Fatalf("stored as revision %d, %v", spec.Generation, err)
	}
	o.run(exitDone, "cluster", "set", "--no-wait", "--yes", next)
	if asked, err := o.store.RequestsOf(o.ctx(), "prod"); err != nil || asked.Interrupt != 2 || asked.Applied != 0 {
		t.Errorf("%+v, %v", asked, err)
	}
	// One that was stored before the third member was lost is asked about when it is released.
	if _, err := o.store.SetSpec(o.ctx(), "prod", cke.Cluster{Name: "prod", Nodes: o.in.Spec.Nodes}, []byte("x"), "me", storage.SetOptions{}); err != nil {
		t.Fatal(err)
	}
	o.in.Generation, o.in.Spec.Options.Etcd.ExtraArgs = 3, []string{"--max-txn-ops=256"}
	spec := o.in.Spec
	if _, err := o.store.SetSpec(o.ctx(), "prod", spec, []byte("y"), "me", storage.SetOptions{}); err != nil {
		t.Fatal(err)
	}
	_, stderr = o.run(exitRefused, "cluster", "apply", "--no-wait")
	contains(t, stderr, "error[CKE107]: interrupting the service of prod was not confirmed\n", "Try: ckecli cluster apply --yes\n")
	o.run(exitDone, "cluster", "apply", "--no-wait", "--yes")
	if asked, err := o.store.RequestsOf(o.ctx(), "prod"); err != nil || asked.Interrupt != 4 || asked.Applied != 4 {
		t.Errorf("%+v, %v", asked, err)
	}
}
