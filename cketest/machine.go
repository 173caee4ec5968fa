package cketest

import (
	"bytes"
	"context"
	"io"
	"slices"
	"testing"
	"time"

	"cke"
)

// Node is one node for one case.
type Node struct {
	cke.Machine
	// Member describes a member of a membership that was never used, alone in its cluster, with the certificates that it is
	// started with. Its image is on the node.
	Member func() (cke.MemberSpec, []cke.File)
	// NoImage is an image that is not on the node and cannot be pulled.
	NoImage string
	// Serves reports whether the member serves clients.
	Serves func(cke.Join) bool
	// Over returns which incarnations of the member's cluster are over, as an observation of the node shows.
	Over func() []string
	// Rename gives a container on the node another name; AddVolume makes a volume without labels.
	Rename    func(from, to string)
	AddVolume func(name string)
	// Snapshot is one of a cluster, as RestoreData takes it; nil: none can be made here.
	Snapshot func() (cke.Snapshot, []byte)
}

// Machine runs every case with a node of its own, or with one that earlier cases have left as they found it.
func Machine(t *testing.T, play func(t *testing.T, scene func(*testing.T, Node))) {
	for _, c := range []struct {
		name string
		run  func(*testing.T, Node)
	}{
		{"an image that is there is no error, and one that does not exist is reported", imageIsThere},
		{"a volume is made once and belongs to one membership", volumeIsOurs},
		{"a container is made, not started, and made again only from another description", containerIsMade},
		{"a container never comes with a volume", containerNeedsVolume},
		{"a container without its image is reported, and the one before is gone", containerNeedsImage},
		{"a container of another membership is left alone", containerIsOurs},
		{"a container that was renamed is found", renamedIsFound},
		{"a volume that lost its labels is the membership's by its name", unlabeledIsOurs},
		{"nothing is found where nothing is", nothingThere},
		{"options are tried without a trace", optionsAreTried},
		{"files are put, read, and put in place of others", filesArePut},
		{"an engine starts nothing by itself that could start empty", emptyIsNotKept},
		{"a member lives: data, start, restarts, stop, removal", memberLives},
		{"a volume in use or of another membership is not removed", volumeIsKept},
		{"a foreign container that is not there is stopped", foreignIsStopped},
		{"incarnations that are over are marked", overIsMarked},
		{"a member whose membership a mark names is not started", markedIsNotStarted},
		{"the boot that runs is reported, and leaves nothing", bootIsTold},
		{"the clock is reported to the second", clockIsTold},
		{"data is restored once, and not under a member that was started", dataIsRestored},
	} {
		t.Run(c.name, func(t *testing.T) { play(t, c.run) })
	}
}

func overIsMarked(t *testing.T, n Node) {
	ctx := bounded(t)
	s, _ := n.Member()
	a, b := s.Join.Incarnation+"a", s.Join.Incarnation+"b"
	told := func(want ...string) {
		t.Helper()
		for !slices.Equal(ofThese(n.Over(), a, b), want) {
			select {
			case <-ctx.Done():
				t.Fatalf("over: got %v, want %v", n.Over(), want)
			case <-time.After(10 * time.Millisecond): // an observation takes its time
			}
		}
	}
	told()
	is(t, "MarkOver", n.MarkOver(ctx, s.Cluster, []string{a}), nil)
	told(a)
	for range 2 {
		is(t, "MarkOver of another one", n.MarkOver(ctx, s.Cluster, []string{b}), nil)
		told(a, b)
	}
	is(t, "MarkOver of both", n.MarkOver(ctx, s.Cluster, []string{b, a}), nil)
	is(t, "MarkOver of another cluster", n.MarkOver(ctx, "another", []string{"x"}), nil)
	told(a, b)
	if slices.Contains(n.Over(), "x") {
		t.Error("shows what is over of another cluster")
	}
}

func markedIsNotStarted(t *testing.T, n Node) {
	ctx, s, files := made(t, n)
	j := s.Join
	is(t, "PutFounder", n.PutFounder(ctx, s, files), nil)
	is(t, "MarkOver of another one", n.MarkOver(ctx, s.Cluster, []string{"another"}), nil)
	is(t, "StartContainer", n.StartContainer(ctx, j), nil)
	is(t, "StopContainer", n.StopContainer(ctx, j, 10*time.Second), nil)
	is(t, "MarkOver", n.MarkOver(ctx, s.Cluster, []string{string(j.ID)}), nil)
	has(t, "StartContainer", n.StartContainer(ctx, j), cke.CodeOlderStore)
	has(t, "KeepRunning", n.KeepRunning(ctx, j), cke.CodeOlderStore)
	s.Mode = cke.StartOwnData
	has(t, "EnsureContainer", n.EnsureContainer(ctx, s), cke.CodeOlderStore)
	if c, err := n.Container(ctx, j); err != nil || c.Running() || !c.KeptDown {
		t.Errorf("%+v, %v", c, err)
	}
}

// ofThese are those of ids that are one of these.
func ofThese(ids []string, these ...string) []string {
	return slices.DeleteFunc(slices.Clone(ids), func(id string) bool { return !slices.Contains(these, id) })
}

func imageIsThere(t *testing.T, n Node) {
	ctx := bounded(t)
	s, _ := n.Member()
	for range 2 {
		is(t, "EnsureImage", n.EnsureImage(ctx, s.Join.Etcd.Image, nil), nil)
	}
}

// other is a membership that claims the same names.
func other(s cke.MemberSpec) cke.MemberSpec {
	s.Join.ID, s.Join.Incarnation = "another0join", "another-life"
	return s
}

func optionsAreTried(t *testing.T, n Node) {
	ctx := bounded(t)
	s, _ := n.Member()
	is(t, "TryOptions", n.TryOptions(ctx, s), nil)
	for what, change := range map[string]func(*cke.EtcdOptions){
		"an argument that etcd does not know": func(e *cke.EtcdOptions) { e.ExtraArgs = []string{"--no-such-flag"} },
		"a mount from a directory that is not": func(e *cke.EtcdOptions) {
			e.ExtraBinds = []cke.Bind{{Source: "/no/such/directory", Destination: "/srv/extra"}}
		},
	} {
		wrong := s
		change(&wrong.Join.Etcd)
		if err := n.TryOptions(ctx, wrong); cke.CodeOf(err) != cke.CodeOptions {
			t.Errorf("TryOptions with %s: %v", what, err)
		}
	}
	wrong := s
	wrong.Join.Etcd.Image = n.NoImage
	if err := n.TryOptions(ctx, wrong); cke.CodeOf(err) != cke.CodeImage {
		t.Errorf("TryOptions with an image that is not there: %v", err)
	}
	_, err := n.Container(ctx, s.Join)
	is(t, "Container after TryOptions", err, cke.ErrNotFound)
	is(t, "EnsureContainer after TryOptions", n.EnsureContainer(ctx, s), cke.ErrDataMissing)
}

func volumeIsOurs(t *testing.T, n Node) {
	ctx := bounded(t)
	s, _ := n.Member()
	for range 2 {
		is(t, "EnsureVolume", n.EnsureVolume(ctx, s), nil)
	}
	is(t, "EnsureVolume with other labels", n.EnsureVolume(ctx, other(s)), cke.ErrConflict)
	foreign := s
	foreign.Cluster = "another-cluster"
	is(t, "EnsureVolume of another cluster", n.EnsureVolume(ctx, foreign), cke.ErrConflict)
	is(t, "RemoveVolume with other labels", n.RemoveVolume(ctx, other(s).Join), cke.ErrConflict)
	for range 2 {
		is(t, "RemoveVolume", n.RemoveVolume(ctx, s.Join), nil)
	}
}

// made is a node with volume and container of a fresh member.
func made(t *testing.T, n Node) (context.Context, cke.MemberSpec, []cke.File) {
	t.Helper()
	ctx := bounded(t)
	s, files := n.Member()
	must(t, "EnsureVolume", n.EnsureVolume(ctx, s))
	must(t, "EnsureContainer", n.EnsureContainer(ctx, s))
	return ctx, s, files
}

// clear leaves nothing of a member.
func clear(t *testing.T, n Node, j cke.Join) {
	t.Helper()
	ctx := bounded(t)
	is(t, "StopContainer", n.StopContainer(ctx, j, 10*time.Second), nil)
	is(t, "RemoveContainer", n.RemoveContainer(ctx, j), nil)
	is(t, "RemoveVolume", n.RemoveVolume(ctx, j), nil)
}

func containerIsMade(t *testing.T, n Node) {
	ctx, s, _ := made(t, n)
	first, err := n.Container(ctx, s.Join)
	if err != nil || first.State != cke.ContainerCreated || !first.StartedAt.IsZero() || first.Join != s.Join.ID {
		t.Errorf("%+v, %v", first, err)
	}
	is(t, "EnsureContainer again", n.EnsureContainer(ctx, s), nil)
	if c, err := n.Container(ctx, s.Join); err != nil || c.ID != first.ID {
		t.Errorf("made again without a reason: %+v, %v", c, err)
	}
	changed := s
	changed.Join.Etcd.ExtraArgs = []string{"--heartbeat-interval=101"}
	is(t, "EnsureContainer from another description", n.EnsureContainer(ctx, changed), nil)
	if c, err := n.Container(ctx, s.Join); err != nil || c.Options != changed.Join.Etcd.Digest() || c.State != cke.ContainerCreated {
		t.Errorf("not made again: %+v, %v", c, err)
	}
	clear(t, n, s.Join)
}

func containerNeedsVolume(t *testing.T, n Node) {
	ctx := bounded(t)
	s, _ := n.Member()
	is(t, "EnsureContainer without a volume", n.EnsureContainer(ctx, s), cke.ErrDataMissing)
	_, err := n.Container(ctx, s.Join)
	is(t, "Container", err, cke.ErrNotFound)
	is(t, "EnsureVolume of another membership", n.EnsureVolume(ctx, other(s)), nil) // there was none
	is(t, "EnsureContainer on the volume of another one", n.EnsureContainer(ctx, s), cke.ErrConflict)
	is(t, "RemoveVolume", n.RemoveVolume(ctx, other(s).Join), nil)
}

func containerNeedsImage(t *testing.T, n Node) {
	ctx, s, _ := made(t, n)
	changed := s
	changed.Join.Etcd.Image = n.NoImage
	has(t, "EnsureContainer without its image", n.EnsureContainer(ctx, changed), cke.CodeImage)
	_, err := n.Container(ctx, s.Join)
	is(t, "Container", err, cke.ErrNotFound)
	is(t, "EnsureContainer", n.EnsureContainer(ctx, s), nil)
	clear(t, n, s.Join)
}

func containerIsOurs(t *testing.T, n Node) {
	ctx, s, files := made(t, n)
	j := other(s).Join
	data, err := n.Data(ctx, j)
	is(t, "Data", err, cke.ErrConflict)
	if data == cke.DataPresent || data == cke.DataMissing {
		t.Errorf("Data is that of another membership: %s", data)
	}
	_, err = n.Container(ctx, j)
	is(t, "Container", err, cke.ErrConflict)
	_, _, err = n.Certificates(ctx, j)
	is(t, "Certificates", err, cke.ErrConflict)
	is(t, "PutFiles", n.PutFiles(ctx, j, files), cke.ErrConflict)
	is(t, "StartContainer", n.StartContainer(ctx, j), cke.ErrConflict)
	is(t, "KeepRunning", n.KeepRunning(ctx, j), cke.ErrConflict)
	is(t, "StopContainer", n.StopContainer(ctx, j, time.Second), cke.ErrConflict)
	is(t, "RemoveContainer", n.RemoveContainer(ctx, j), cke.ErrConflict)
	clear(t, n, s.Join)
}

func renamedIsFound(t *testing.T, n Node) {
	ctx, s, files := made(t, n)
	j := s.Join
	first, err := n.Container(ctx, j)
	must(t, "Container", err)
	n.Rename(j.Volume, j.Volume+"-old")
	if c, err := n.Container(ctx, j); err != nil || c.ID != first.ID {
		t.Errorf("%+v, %v", c, err)
	}
	is(t, "EnsureContainer", n.EnsureContainer(ctx, s), nil)
	is(t, "PutFounder", n.PutFounder(ctx, s, files), nil)
	is(t, "StartContainer", n.StartContainer(ctx, j), nil)
	await(t, "the member serves", func() bool { return n.Serves(j) })
	is(t, "StopContainer", n.StopContainer(ctx, j, 10*time.Second), nil)
	if c, err := n.Container(ctx, j); err != nil || c.ID != first.ID || c.Running() {
		t.Errorf("not stopped: %+v, %v", c, err)
	}
	is(t, "RemoveVolume in use", n.RemoveVolume(ctx, j), cke.ErrConflict)
	is(t, "RemoveContainer", n.RemoveContainer(ctx, j), nil)
	_, err = n.Container(ctx, j)
	is(t, "Container after its removal", err, cke.ErrNotFound)
	clear(t, n, j)
}

func unlabeledIsOurs(t *testing.T, n Node) {
	ctx := bounded(t)
	s, _ := n.Member()
	n.AddVolume(s.Join.Volume)
	is(t, "EnsureVolume", n.EnsureVolume(ctx, s), nil)
	is(t, "EnsureContainer", n.EnsureContainer(ctx, s), nil)
	is(t, "EnsureContainer again", n.EnsureContainer(ctx, s), nil)
	clear(t, n, s.Join)
}

func nothingThere(t *testing.T, n Node) {
	ctx := bounded(t)
	s, files := n.Member()
	j := s.Join
	_, err := n.Container(ctx, j)
	is(t, "Container", err, cke.ErrNotFound)
	_, err = n.Data(ctx, j)
	is(t, "Data", err, cke.ErrNotFound)
	_, _, err = n.Certificates(ctx, j)
	is(t, "Certificates", err, cke.ErrNotFound)
	_, err = n.DataSize(ctx, j)
	is(t, "DataSize", err, cke.ErrNotFound)
	_, err = n.Foreign(ctx, "c0ffee")
	is(t, "Foreign", err, cke.ErrNotFound)
	is(t, "PutFiles", n.PutFiles(ctx, j, files), cke.ErrNotFound)
	is(t, "StartContainer", n.StartContainer(ctx, j), cke.ErrNotFound)
	is(t, "KeepRunning", n.KeepRunning(ctx, j), cke.ErrNotFound)
	is(t, "StopContainer", n.StopContainer(ctx, j, time.Second), nil)
	is(t, "RemoveContainer", n.RemoveContainer(ctx, j), nil)
	is(t, "RemoveVolume", n.RemoveVolume(ctx, j), nil)
}

func filesArePut(t *testing.T, n Node) {
	ctx, s, files := made(t, n)
	for range 2 {
		is(t, "PutFiles", n.PutFiles(ctx, s.Join, files), nil)
	}
	got, _, err := n.Certificates(ctx, s.Join)
	must(t, "Certificates", err)
	for _, f := range files {
		found := false
		for _, g := range got {
			found = found || g.Path == f.Path && bytes.Equal(g.Data, f.Data)
		}
		if !found {
			t.Errorf("%s is not there as it was put", f.Path)
		}
	}
	clear(t, n, s.Join)
}

func emptyIsNotKept(t *testing.T, n Node) {
	ctx := bounded(t)
	s, _ := n.Member()
	s.Mode = cke.StartJoin
	s.Peers = append(s.Peers, cke.Peer{Name: s.Join.Member, URL: s.Join.PeerURL()})
	must(t, "EnsureVolume", n.EnsureVolume(ctx, s))
	must(t, "EnsureContainer", n.EnsureContainer(ctx, s))
	is(t, "KeepRunning", n.KeepRunning(ctx, s.Join), cke.ErrConflict)
	if c, err := n.Container(ctx, s.Join); err != nil || !c.KeptDown || !c.StartsEmpty {
		t.Errorf("%+v, %v", c, err)
	}
	clear(t, n, s.Join)
}

func memberLives(t *testing.T, n Node) {
	ctx, s, files := made(t, n)
	j := s.Join
	if data, err := n.Data(ctx, j); err != nil || data != cke.DataMissing {
		t.Errorf("Data before there is any: %s, %v", data, err)
	}
	if size, err := n.DataSize(ctx, j); err != nil || size != 0 {
		t.Errorf("DataSize before there is any: %d, %v", size, err)
	}
	is(t, "SaveData before there is any", n.SaveData(ctx, j, io.Discard), cke.ErrDataMissing)
	for range 2 {
		is(t, "PutFounder", n.PutFounder(ctx, s, files), nil)
	}
	if data, err := n.Data(ctx, j); err != nil || data != cke.DataPresent {
		t.Errorf("Data of a bootstrap member: %s, %v", data, err)
	}
	for range 2 {
		is(t, "StartContainer", n.StartContainer(ctx, j), nil)
	}
	await(t, "the member serves", func() bool { return n.Serves(j) })
	is(t, "PutFounder after the start", n.PutFounder(ctx, s, files), cke.ErrConflict)
	is(t, "SaveData of a member that runs", n.SaveData(ctx, j, io.Discard), cke.ErrConflict)
	is(t, "RemoveContainer that runs", n.RemoveContainer(ctx, j), cke.ErrConflict)
	changed := s
	changed.Join.Etcd.ExtraArgs = []string{"--heartbeat-interval=101"}
	has(t, "EnsureContainer without a start on record", n.EnsureContainer(ctx, s), cke.CodeOlderStore)
	s.Join.StartedAt, changed.Join.StartedAt = time.Now(), time.Now()
	is(t, "EnsureContainer of one that runs", n.EnsureContainer(ctx, changed), cke.ErrConflict)
	for range 2 {
		is(t, "KeepRunning", n.KeepRunning(ctx, j), nil)
	}
	if c, err := n.Container(ctx, j); err != nil || !c.Running() || c.KeptDown || c.StartedAt.IsZero() {
		t.Errorf("%+v, %v", c, err)
	}
	for range 2 {
		is(t, "StopContainer", n.StopContainer(ctx, j, 10*time.Second), nil)
	}
	if c, err := n.Container(ctx, j); err != nil || c.Running() || !c.KeptDown || c.Data != cke.DataPresent {
		t.Errorf("%+v, %v", c, err)
	}
	if size, err := n.DataSize(ctx, j); err != nil || size == 0 {
		t.Errorf("DataSize: %d, %v", size, err)
	}
	unrecorded := s
	unrecorded.Join.StartedAt = time.Time{}
	has(t, "EnsureContainer of a stopped one without a start on record", n.EnsureContainer(ctx, unrecorded), cke.CodeOlderStore)
	is(t, "SaveData", n.SaveData(ctx, j, io.Discard), nil)
	for range 2 {
		is(t, "RemoveContainer", n.RemoveContainer(ctx, j), nil)
	}
	own := s
	own.Mode = cke.StartOwnData
	is(t, "EnsureContainer on its own data", n.EnsureContainer(ctx, own), nil)
	if data, err := n.Data(ctx, j); err != nil || data != cke.DataPresent {
		t.Errorf("the volume did not stay: %s, %v", data, err)
	}
	is(t, "StartContainer on its own data", n.StartContainer(ctx, j), nil)
	await(t, "the member serves again", func() bool { return n.Serves(j) })
	clear(t, n, j)
}

func volumeIsKept(t *testing.T, n Node) {
	ctx, s, _ := made(t, n)
	is(t, "RemoveVolume in use", n.RemoveVolume(ctx, s.Join), cke.ErrConflict)
	is(t, "RemoveContainer", n.RemoveContainer(ctx, s.Join), nil)
	is(t, "RemoveVolume with other labels", n.RemoveVolume(ctx, other(s).Join), cke.ErrConflict)
	is(t, "RemoveVolume", n.RemoveVolume(ctx, s.Join), nil)
}

func foreignIsStopped(t *testing.T, n Node) {
	ctx, s, _ := made(t, n)
	is(t, "StopForeign of none", n.StopForeign(ctx, "c0ffee", []string{s.Join.PeerURL()}, time.Second), nil)
	c, err := n.Container(ctx, s.Join)
	must(t, "Container", err)
	is(t, "StopForeign of a membership's container", n.StopForeign(ctx, c.ID, []string{s.Join.PeerURL()}, time.Second), cke.ErrConflict)
	clear(t, n, s.Join)
}

func dataIsRestored(t *testing.T, n Node) {
	if n.Snapshot == nil {
		t.Skip("there is no snapshot here")
	}
	ctx, s, files := made(t, n)
	snapshot, content := n.Snapshot()
	opened := 0
	open := func(context.Context) (io.ReadCloser, error) {
		opened++
		return io.NopCloser(bytes.NewReader(content)), nil
	}
	r := cke.RestoreSpec{Member: s, Snapshot: snapshot, Bump: 1000}
	for range 2 {
		is(t, "RestoreData", n.RestoreData(ctx, r, open, func(string) {}), nil)
	}
	if opened != 1 {
		t.Errorf("the snapshot was sent %d times", opened)
	}
	if data, err := n.Data(ctx, s.Join); err != nil || data != cke.DataPresent {
		t.Errorf("Data after a restore: %s, %v", data, err)
	}
	must(t, "PutFiles", n.PutFiles(ctx, s.Join, files))
	must(t, "StartContainer", n.StartContainer(ctx, s.Join))
	await(t, "the restored member serves", func() bool { return n.Serves(s.Join) })
	is(t, "RestoreData under a member that was started", n.RestoreData(ctx, r, open, func(string) {}), cke.ErrConflict)
	clear(t, n, s.Join)
}
