package cke

import "cmp"

// Release is a version of etcd and its image.
type Release struct {
	Version string `json:"version"` // without "v", as "3.6.16"
	Image   string `json:"image"`
}

// Release returns what o names; a part that it leaves out is empty.
func (o EtcdOptions) Release() Release { return Release{o.Version, o.Image} }

// Following returns the revision that c becomes after s, not stored yet. The version that c leaves out is that of
// was, and so is the image if neither names one; for a first revision they are the defaults of this cke. was is s, or
// the earlier revision to which c returns the cluster.
func (s Spec) Following(c Cluster, was Spec) Spec {
	named, is := c.Options.Etcd, was.Etcd
	r := Release{Version: cmp.Or(named.NamedVersion(), cmp.Or(is.Version, DefaultEtcdVersion))}
	switch kept := was.Cluster.Options.Etcd.Image == "" && r.Version == is.Version; {
	case named.Image != "":
		r.Image = named.Image
	case kept && is.Image != "":
		r.Image = is.Image
	default:
		r.Image = DefaultImage + ":v" + r.Version
	}
	s.Cluster, s.Etcd = c, r
	s.Generation++
	return s
}

// Resolved returns s with its release, which revisions of an older cke do not have: what is recorded as running
// remains. The next leader daemon reads it once, and then stores it.
func (s Spec) Resolved(id Identity) Spec {
	if s.Etcd == (Release{}) {
		s.Etcd = s.Following(s.Cluster, Spec{Etcd: id.release()}).Etcd
	}
	return s
}

// release is that of the newest version among the memberships; its zero value if there are none.
func (i Identity) release() Release {
	var newest Release
	for _, j := range i.Joins {
		a, known := ParseVersion(newest.Version)
		b, ok := ParseVersion(j.Etcd.Version)
		if ok && (!known || a.Compare(b) < 0) {
			newest = j.Etcd.Release()
		}
	}
	return newest
}

// Wanted returns the cluster with its release and all defaults filled in. What runs depends only on this: another cke
// that reads the revision changes nothing.
func (s Spec) Wanted() Cluster {
	c := s.Cluster
	if e := &c.Options.Etcd; e.NamedVersion() == "" || e.NamedVersion() == s.Etcd.Version {
		e.Version, e.Image = s.Etcd.Version, cmp.Or(e.Image, s.Etcd.Image)
	}
	return c.WithDefaults()
}
