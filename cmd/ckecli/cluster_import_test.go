package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cke"
)

// olderFile asks for an older minor version of etcd than the old cluster runs.
const olderFile = clusterFile + "options: {etcd: {version: 3.6.16}}\n"

// An old cluster is shown, and declared with its cluster id once the plan is confirmed; nothing is asked of its members but facts.
func TestClusterImport_ShowsThePlanAndDeclares(t *testing.T) {
	h := newHouse(t)
	h.run(exitDone, "cluster", "set", "--no-wait", h.write("other.yml", strings.Replace(clusterFile, "name: prod", "name: other", 1)))
	h.lead("other")
	c := startEtcd(t)
	list, err := c.MemberList(h.ctx())
	if err != nil {
		t.Fatal(err)
	}
	old := c.Endpoints()[0]
	file := h.write("cluster.yml", newerFile)
	stdout, _ := h.run(exitDone, "cluster", "import", file, "--endpoint", old, "--plan")
	contains(t, stdout, "prod continues the etcd at "+old, "of 1 member, etcd 3.7.", "without TLS, also of the members of cke", "cp1 joins as a learner, then votes", "an old member leaves")
	stdout, _ = h.run(exitDone, "cluster", "import", file, "--endpoint", old, "--plan", "-o", "json")
	var p oldPlan
	if err := json.Unmarshal([]byte(stdout), &p); err != nil || len(p.Old) != 1 || p.Old[0].URL != old || p.Steps[0].Old != 1 || p.Steps[len(p.Steps)-1].Old != 0 {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := h.store.Spec(h.ctx(), "prod"); err == nil {
		t.Error("a plan stores")
	}
	h.run(exitRefused, "cluster", "import", file, "--endpoint", old) // not confirmed
	h.run(exitDone, "cluster", "import", file, "--endpoint", old, "--confirm", "prod", "--no-wait")
	id, err := h.store.Identity(h.ctx(), "prod")
	if err != nil {
		t.Fatal(err)
	}
	i := id.Incarnation.Importing()
	if i == nil || id.Incarnation.State != cke.Formed || id.Incarnation.ClusterID != p.ClusterID || !i.PlainPeers || len(i.Members) != 1 || i.Members[0].URL != old || len(id.Joins) > 0 {
		t.Errorf("%+v", id.Incarnation)
	}
	_, stderr := h.run(exitRefused, "cluster", "import", file, "--endpoint", old, "--confirm", "prod")
	contains(t, stderr, "is in the store already")
	_, stderr = h.run(exitRefused, "cluster", "hibernate", "prod", "--confirm", "prod")
	contains(t, stderr, "CKE328")
	if after, err := c.MemberList(h.ctx()); err != nil || len(after.Members) != len(list.Members) {
		t.Errorf("%+v, %v", after, err)
	}
}

func TestClusterImport_RefusesWhatCannotBeImported(t *testing.T) {
	h := newHouse(t)
	h.run(exitDone, "cluster", "set", "--no-wait", h.write("other.yml", strings.Replace(clusterFile, "name: prod", "name: other", 1)))
	h.lead("other")
	old := startEtcd(t).Endpoints()[0]
	newer, older := h.write("newer.yml", newerFile), h.write("older.yml", olderFile)
	on := h.write("on.yml", strings.ReplaceAll(newerFile, "10.0.0.11", "127.0.0.1"))
	for _, c := range []struct {
		exit int
		says string
		args []string
	}{
		{exitUsage, "--endpoint names no member", []string{newer}},
		{exitUsage, "is no http or https URL", []string{newer, "--endpoint", "10.0.0.1:2379"}},
		{exitFailed, "no member of the old cluster answers", []string{newer, "--endpoint", "http://127.0.0.1:1"}},
		{exitRefused, "cannot ask the old members with these files", []string{newer, "--endpoint", old, "--cacert", newer}},
		{exitRefused, "declare options.etcd.version 3.7.", []string{older, "--endpoint", old}},
		{exitRefused, "which is declared", []string{on, "--endpoint", old}},
	} {
		_, stderr := h.run(c.exit, append([]string{"cluster", "import", "--confirm", "prod"}, c.args...)...)
		contains(t, stderr, c.says)
	}
	if names, err := h.store.Clusters(h.ctx()); err != nil || len(names) != 1 {
		t.Errorf("%v, %v", names, err)
	}
}

// A cluster of this name that has backups, or an identity, in the target of the file may serve, on other nodes.
func TestClusterImport_MakesNoSecondClusterOfAName(t *testing.T) {
	h := newLostHost(t)
	h.run(exitDone, "cluster", "set", "--no-wait", h.write("other.yml", strings.Replace(clusterFile, "name: prod", "name: other", 1)))
	h.lead("other")
	nobody := []string{"--endpoint", "http://127.0.0.1:1", "--plan"}
	_, stderr := h.run(exitRefused, append([]string{"cluster", "import", h.write("prod.yml", newerFile+"backup: {target: \""+h.url+"\"}\n")}, nobody...)...)
	contains(t, stderr, "CKE328", h.url+" has backups of a cluster prod", "ckecli restore", "give the new cluster another name\n")
	dir := filepath.Join(h.house.dir, "free")
	free := append([]string{"cluster", "import", h.write("free.yml", newerFile+"backup: {target: \"file://"+dir+"\"}\n")}, nobody...)
	_, stderr = h.run(exitRefused, free...)
	contains(t, stderr, "CKE405", "may have another cluster prod", "mount it")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	_, stderr = h.run(exitFailed, free...)
	contains(t, stderr, "not mounted", "no member of the old cluster answers")
}

// A target is a directory in each form of its URL.
func TestClusterImport_ChecksADirectoryInEachFormOfItsURL(t *testing.T) {
	h := newLostHost(t)
	for name, form := range map[string]string{"host": "file://localhost%s", "no host": "file:%s", "encoded": "file://%s%%20encoded"} {
		t.Run(name, func(t *testing.T) {
			url := fmt.Sprintf(form, filepath.Join(t.TempDir(), "b"))
			file := h.write("form.yml", newerFile+"backup: {target: \""+url+"\"}\n")
			args := []string{"cluster", "import", file, "--endpoint", "http://127.0.0.1:1", "--plan"}
			_, stderr := h.run(exitRefused, args...)
			contains(t, stderr, "CKE405", "may have another cluster prod", "mount it")
			to, _ := cke.ParseTarget(url)
			if err := os.Mkdir(to.Path, 0o700); err != nil {
				t.Fatal(err)
			}
			_, stderr = h.run(exitFailed, args...)
			contains(t, stderr, "not mounted", "no member of the old cluster answers")
		})
	}
}
