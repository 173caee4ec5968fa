package etcdnode

import (
	"strings"
	"testing"

	"cke"
)

// etcd's last words did not fit onto the disk; that the engine cannot write either is found once for each end.
func TestObserve_AFullDiskThatLeavesNoWords(t *testing.T) {
	for name, tt := range map[string]struct {
		exit  string
		made  string
		words string
		asked int
	}{
		"there is room":        {exit: "1", made: `{"Id":"room"}`, asked: 1},
		"there is none":        {exit: "1", made: "500 write /var/lib/docker/containers/x: no space left on device", words: noSpaceText, asked: 1},
		"it was stopped":       {exit: "0", made: `{"Id":"room"}`},
		"the engine is unwell": {exit: "1", made: "500 something else", asked: 1},
	} {
		t.Run(name, func(t *testing.T) {
			node := newFakeNode(t, "127.0.19.3", "ed25519", "ed25519")
			labels := `"Labels":{"` + LabelCluster + `":"demo","` + LabelIncarnation + `":"i1","` + LabelJoin + `":"j1"}`
			e := node.engine
			e.answer("GET /containers/json", `[{"Id":"m1","Names":["/etcd-cke.j1"],"Image":"etcd:v3","State":"exited",`+labels+`}]`)
			e.answer("GET /containers/m1/json", `{"Id":"m1","Name":"/etcd-cke.j1","Config":{"Image":"etcd:v3",`+labels+`},"HostConfig":{},
				"State":{"Status":"exited","ExitCode":`+tt.exit+`,"StartedAt":"2026-11-22T10:00:00Z","FinishedAt":"2026-11-22T11:00:00Z"}}`)
			e.answer("GET /containers/m1/logs", "")
			e.answer("POST /containers/create", tt.made)
			f := fleetOf(t, newMemoryHostKeys(), func(c *Config) { c.Guard = func() error { return nil } }, node)
			f.Update(clusterOf(node), cke.Identity{})
			awaitProblem(t, f, "", patience)
			for range 2 {
				n := f.Observe(t.Context()).Nodes[0]
				if len(n.Containers) != 1 || !strings.Contains(n.Containers[0].LastWords, tt.words) || tt.words == "" && n.Containers[0].LastWords != "" {
					t.Fatalf("%+v", n)
				}
			}
			if n := e.asked("POST /containers/create"); n != tt.asked || e.asked("DELETE /containers/"+visitPrefix) != tt.asked {
				t.Errorf("asked %v", e.calls())
			}
		})
	}
}
