package cke_test

import (
	"reflect"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"cke"
)

// The control-plane nodes are those of the file, in its order, wherever others stand; to get them changes nothing.
func TestControlPlane_IsInTheOrderOfTheFile(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var c cke.Cluster
		var want []string
		for i := range rapid.IntRange(0, 9).Draw(t, "nodes") {
			n := cke.Node{Address: string(rune('a' + i)), ControlPlane: rapid.Bool().Draw(t, "control plane")}
			c.Nodes = append(c.Nodes, n)
			if n.ControlPlane {
				want = append(want, n.Address)
			}
		}
		before := append([]cke.Node(nil), c.Nodes...)
		var got []string
		for _, n := range c.ControlPlane() {
			got = append(got, n.Address)
		}
		_ = append(c.ControlPlane(), cke.Node{Address: "z"})
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
		if d := cmp.Diff(before, c.Nodes); d != "" {
			t.Errorf("changed (-want +got):\n%s", d)
		}
	})
}

// Whatever makes a member run otherwise has another digest; where it runs does not.
func TestEtcdOptions_DigestDiffersWithEachOption(t *testing.T) {
	base := cke.EtcdOptions{Version: "3.6.16", Image: "etcd:1", VolumeName: "v", ClientPort: 2379, PeerPort: 2380}
	seen := map[string]string{base.Digest(): "none"}
	for name, change := range map[string]func(*cke.EtcdOptions){
		"version":                   func(o *cke.EtcdOptions) { o.Version = "3.6.17" },
		"image":                     func(o *cke.EtcdOptions) { o.Image = "etcd:2" },
		"arguments":                 func(o *cke.EtcdOptions) { o.ExtraArgs = []string{"a", "b"} },
		"one of them":               func(o *cke.EtcdOptions) { o.ExtraArgs = []string{"a b"} },
		"environment":               func(o *cke.EtcdOptions) { o.ExtraEnv = map[string]string{"A": "b"} },
		"two of it":                 func(o *cke.EtcdOptions) { o.ExtraEnv = map[string]string{"A": "b", "C": "d"} },
		"its names":                 func(o *cke.EtcdOptions) { o.ExtraEnv = map[string]string{"Ab": ""} },
		"as much of another option": func(o *cke.EtcdOptions) { o.ExtraArgs = []string{"A", "b"} },
		"two binds": func(o *cke.EtcdOptions) {
			o.ExtraBinds = []cke.Bind{{Source: "/a", Destination: "/b"}, {Source: "/c", Destination: "/d"}}
		},
		"binds":     func(o *cke.EtcdOptions) { o.ExtraBinds = []cke.Bind{{Source: "/a", Destination: "/b"}} },
		"read-only": func(o *cke.EtcdOptions) { o.ExtraBinds = []cke.Bind{{Source: "/a", Destination: "/b", ReadOnly: true}} },
		"CPUs":      func(o *cke.EtcdOptions) { o.Resources.CPUs = 0.5 },
		"memory":    func(o *cke.EtcdOptions) { o.Resources.Memory = 1 << 30 },
	} {
		o := base
		change(&o)
		if same, ok := seen[o.Digest()]; ok {
			t.Errorf("%s has the digest of %s", name, same)
		}
		seen[o.Digest()] = name
	}
	placed := base.PlacedAs(cke.EtcdOptions{VolumeName: "w", VolumeRoot: "/x", ClientPort: 1, PeerPort: 2})
	placed.ExtraArgs, placed.ExtraEnv = []string{}, map[string]string{}
	if placed.Digest() != base.Digest() {
		t.Error("a place, or an empty list, changes the digest")
	}
}

// What containers were labelled with by an older cke still tells: a digest that changed would restart every member. An option
// to come has to be digested where it is set.
func TestEtcdOptions_DigestStaysAsItWas(t *testing.T) {
	o := cke.EtcdOptions{Version: "3.6.16", Image: "etcd:1", ExtraArgs: []string{"--a=\"1\""}, ExtraEnv: map[string]string{"B": "2", "A": "1"},
		ExtraBinds: []cke.Bind{{Source: "/a", Destination: "/b", ReadOnly: true}}, Resources: cke.Resources{CPUs: 1.5, Memory: 1 << 30}}
	if got, want := o.Digest(), "362447a26d5a5970733c5008bdcda31a"; got != want {
		t.Errorf("%s, it was %s", got, want)
	}
	c := cke.Container{Options: o.Digest()}
	if n := testing.AllocsPerRun(100, func() { c.MadeWith(o) }); n > 12 {
		t.Errorf("%v allocations", n)
	}
}

// A field that one of these does not see would be stored, and never applied.
func TestEtcdOptions_EqualAndDigestSeeEveryField(t *testing.T) {
	place := []string{"VolumeName", "VolumeRoot", "ClientPort", "PeerPort"} // kept whatever is declared: not in the digest
	options := reflect.TypeFor[cke.EtcdOptions]()
	for i := range options.NumField() {
		var o cke.EtcdOptions
		name := options.Field(i).Name
		switch f := reflect.ValueOf(&o).Elem().Field(i); f.Kind() {
		case reflect.String:
			f.SetString("x")
		case reflect.Int:
			f.SetInt(1)
		case reflect.Slice:
			f.Set(reflect.MakeSlice(f.Type(), 1, 1))
		case reflect.Map:
			f.Set(reflect.ValueOf(map[string]string{"a": "b"}))
		case reflect.Struct:
			for k := range f.NumField() {
				if f.Field(k).CanInt() {
					f.Field(k).SetInt(1)
				} else {
					f.Field(k).SetFloat(1)
				}
			}
		default:
			t.Errorf("%s: set it in this test", name)
		}
		if o.Equal(cke.EtcdOptions{}) || len(o.Differences(cke.EtcdOptions{})) != 1 {
			t.Errorf("cluster.go: Differences does not compare %s", name)
		}
		if seen := o.Digest() != (cke.EtcdOptions{}).Digest(); seen == slices.Contains(place, name) {
			t.Errorf("cluster.go: %s changes the digest: %v", name, seen)
		}
	}
}
