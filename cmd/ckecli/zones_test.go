package main

import (
	"strings"
	"testing"

	"cke"
	"cke/clusterfile"
	"cke/internal/golden"
	"cke/preflight"
)

// zoned is the cluster file of three members, with their zones; "": a node has none.
func zoned(zones ...string) string {
	file := clusterFile
	for i, z := range zones {
		name := []string{"cp1", "cp2", "cp3"}[i]
		if z != "" {
			file = strings.Replace(file, "hostname: "+name+",", "hostname: "+name+", zone: "+z+",", 1)
		}
	}
	return file
}

// What makes zones worse is asked about by every way into the store.
func TestSet_AsksBeforeZonesGetWorse(t *testing.T) {
	o := servingIn(newHouse(t), zoned("rack1", "rack2", "rack3"))
	worse := o.write("worse.yml", zoned("rack1", "rack2", "rack2"))
	_, stderr := o.run(exitRefused, "cluster", "set", "--no-wait", worse)
	contains(t, stderr, "warning: ", "2 of 3 control-plane nodes are in zone rack2: without it there is no quorum",
		"error[CKE107]: a worse spread of prod over zones was not confirmed\n", "Nothing was changed.\nTry: ckecli cluster set "+worse+" --yes\n")
	ask := o.onTerminal("cluster", "set", "--no-wait", worse)
	ask.stdout.await(t, "any one zone can be lost now. Then: rack1 cp1  can be lost · rack2 cp2, cp3  cannot: 1 of 3 would be left, 2 needed. Store it? [y/N] ")
	ask.types("n\n")
	ask.must(exitRefused)
	o.run(exitDone, "cluster", "set", "--no-wait", o.write("other.yml", zoned("rack1", "rack2", "rack4"))) // revision 2
	o.run(exitDone, "cluster", "set", "--no-wait", "--yes", worse)                                         // revision 3
	o.run(exitDone, "cluster", "set", "--no-wait", o.write("mirrored.yml", zoned("rack1", "rack1", "rack2")))

	all := o.write("all.yml", zoned("rack1", "rack1", "rack1"))
	ask = o.onTerminal("cluster", "set", "--no-wait", all)
	ask.stdout.await(t, "rack2 can be lost now. Then: rack1 cp1, cp2, cp3  cannot: 0 of 3 would be left, 2 needed. Store it? [y/N] ")
	ask.types("n\n")
	ask.must(exitRefused)

	o.run(exitDone, "cluster", "rollback", "2", "--no-wait")
	_, stderr = o.run(exitRefused, "cluster", "rollback", "3", "--no-wait")
	contains(t, stderr, "a worse spread of prod over zones was not confirmed\n", "Try: ckecli cluster rollback 3 --yes\n")

	h := newHouse(t) // nothing was bootstrapped that could get worse
	h.run(exitDone, "cluster", "set", "--no-wait", h.write("cluster.yml", zoned("rack1", "rack2", "rack3")))
	h.run(exitDone, "cluster", "set", "--no-wait", h.write("worse.yml", zoned("rack1", "rack2", "rack2")))
}

// A membership that moves to another node is a revision like any other.
func TestReplace_AsksBeforeZonesGetWorse(t *testing.T) {
	file := zoned("rack1", "rack2", "rack3") + "  - {address: 10.0.0.14, hostname: w1, zone: rack3, user: cke}\n  - {address: 10.0.0.15, hostname: w2, zone: rack2, user: cke}\n"
	o := servingIn(newHouse(t), file)
	_, stderr := o.run(exitRefused, "replace", "cp3", "w2", "--no-wait")
	contains(t, stderr, "error[CKE107]: a worse spread of prod over zones was not confirmed\n", "Try: ckecli replace cp3 w2 --yes\n")
	o.run(exitDone, "replace", "cp3", "w1", "--no-wait")
	servingIn(newHouse(t), file).run(exitDone, "replace", "cp3", "w2", "--no-wait", "--yes")
}

func TestPlan_ShowsTheZonesOfEveryOperation(t *testing.T) {
	o := servingIn(newHouse(t), zoned("rack1", "rack2", "rack3"))
	stdout, _ := o.run(exitDone, "plan", o.write("next.yml", zoned("rack1", "rack2", "rack3")+"options: {etcd: {extra_args: [--auto-compaction-retention=1h]}}\n"))
	golden.Compare(t, "testdata/plan/zones.txt", stdout)
}

func TestCanStop_SaysWhichZonesCanBeLostMeanwhile(t *testing.T) {
	o := servingIn(newHouse(t), zoned("rack1", "rack2", "rack3"))
	stdout, _ := o.run(exitDone, "etcd", "can-stop", "cp2")
	contains(t, stdout, "cp2 may go down: its member is healthy, and 1 more member can be lost now; rack1, rack3 cannot be lost meanwhile\n")
	ask := o.onTerminal("node", "drain", "cp2", "--no-wait")
	ask.stdout.await(t, "While it is down 0 more members can be lost, 1 more member now; rack1, rack3 cannot be lost meanwhile. Drain it? [y/N] ")
	ask.types("n\n")
	ask.must(exitRefused)
	stdout, _ = o.run(exitDone, "status", "-o", "json")
	contains(t, stdout, `can lose 1 more member, and any one zone`, `"zone": "rack2"`, `"canBeLost": true`)
}

// zonesOf is the spread of three members over zones.
func zonesOf(zones ...string) *cke.Spread {
	var voters []cke.Voter
	for i, z := range zones {
		voters = append(voters, cke.Voter{Name: []string{"cp1", "cp2", "cp3"}[i], Zone: z, Healthy: true})
	}
	s := cke.SpreadOf(voters)
	return &s
}

// Preflight says what would be so once all nodes carry what is declared.
func TestPreflight_SaysWhichZonesCouldBeLost(t *testing.T) {
	worker := "  - {address: 10.0.0.14, hostname: w1, user: cke}\n"
	for _, row := range []struct {
		file   string
		result preflight.Verdict
		detail string
	}{
		{zoned("rack1", "rack2", "rack3"), preflight.OK, "rack1 cp1 · rack2 cp2 · rack3 cp3  any one can be lost"},
		{zoned("rack1", "rack2", "rack2"), preflight.Warn, "rack1 cp1  can be lost · rack2 cp2, cp3  cannot: 1 of 3 would be left, 2 needed"},
		{zoned("rack1", "rack2", ""), preflight.Warn, "no zone: cp3 (as in every zone)"},
		{zoned("rack1", "rack2", "rack3") + worker, preflight.Warn, "; no zone is declared of w1"},
		{zoned("", "", ""), "", ""},
	} {
		c, _, err := clusterfile.ParseCluster("cluster.yml", []byte(row.file))
		if err != nil {
			t.Fatal(err)
		}
		var check preflight.Check
		if all := zonesCheck(c); len(all) > 0 {
			check = all[0]
		}
		if check.Result != row.result || !strings.Contains(check.Detail, row.detail) || (check.Remedy != "") != (row.result == preflight.Warn) {
			t.Errorf("%+v, want %s: %s", check, row.result, row.detail)
		}
	}
	h := newHouse(t)
	stdout, _ := h.run(exitFailed, "preflight", h.write("c.yml", "name: prod\nnodes:\n  - {address: 127.0.0.1, hostname: cp1, user: cke, control_plane: true, zone: rack1, ssh: {port: 1}}\n"))
	contains(t, stdout, "prod  zones ")
}
