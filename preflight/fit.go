package preflight

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"cke"
	"cke/etcdnode"
)

// Fit observes machines that are not declared, as control-plane nodes of a cluster, and returns what keeps each from carrying a
// member, and what helps, by address; "": nothing does. Nothing is changed on them, and no host key is stored. config says how they are reached;
// known are the host keys that cke knows, by address.
func Fit(ctx context.Context, spec cke.Spec, id cke.Identity, nodes []cke.Node, config etcdnode.Config, known map[string]string) (map[string]string, error) {
	declared := spec.Cluster.Nodes
	spec.Cluster.Nodes = nodes
	c := spec.Wanted()
	keys := &HostKeys{Known: known}
	config.HostKeys, config.Beside = keys, true
	fleet := etcdnode.New(config)
	defer fleet.Close()
	fleet.Update(c, cke.Identity{}) // members are not asked
	seen := Observe(ctx, fleet)
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return unfit(c, id, declared, seen, keys.Seen(false)), nil
}

// unfit returns what keeps each observed machine from carrying a member, by address. Of this cluster, none may carry a membership that
// has not ended, other than that of the declared node which is this machine at another address. What ended is removed later.
func unfit(c cke.Cluster, id cke.Identity, declared []cke.Node, seen cke.Observation, keys Keys) map[string]string {
	found := map[string]string{}
	for _, check := range Judge(c, Members{Cluster: c.Name, Identity: &id}, seen, keys, nil) {
		if check.Result == Fail && check.Because == "" && found[check.address] == "" {
			found[check.address] = check.Check + ": " + check.Detail
			if check.Remedy != "" {
				found[check.address] += "; " + check.Remedy
			}
		}
	}
	leave := func(n cke.Node, format string, args ...any) {
		if found[n.Address] == "" {
			found[n.Address] = fmt.Sprintf(format, args...)
		}
	}
	for _, u := range id.Unrecorded(c.Name, seen.Nodes) {
		leave(u.Node, "%s is left there of a membership of %s that is not on record", u.Name, c.Name)
	}
	for _, st := range seen.Nodes {
		for _, j := range id.Joins {
			_, container := st.Of(j.ID)
			_, volume := st.VolumeOf(j)
			same := func(n cke.Node) bool {
				return n.Address == j.Node.Address && cmp.Or(n.Annotations[cke.AnnotationSerial], n.Hostname) == st.Node.Hostname
			}
			if (container || volume) && !slices.ContainsFunc(declared, same) {
				leave(st.Node, "it carries the member of %s", j.Node.Name())
			}
		}
		for _, other := range st.Neighbors {
			leave(st.Node, "it carries a member of cluster %s", other.Cluster)
		}
	}
	return found
}
