package main

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"cke"
	"cke/backup"
)

// newerFile is a cluster file for data of etcd 3.7.
const newerFile = clusterFile + "options: {etcd: {version: 3.7.3}}\n"

// saved is a snapshot file of an etcd of 3.7 with some keys, as etcdctl saves it.
func (h *house) saved(change func(c *clientv3.Client) (admin *clientv3.Client)) (file string) {
	h.t.Helper()
	c := startEtcd(h.t)
	for i := range 3 {
		if _, err := c.Put(h.ctx(), fmt.Sprint("key", i), strings.Repeat("x", 1000)); err != nil {
			h.t.Fatal(err)
		}
	}
	if change != nil {
		c = change(c)
	}
	from, err := c.Snapshot(h.ctx())
	if err != nil {
		h.t.Fatal(err)
	}
	defer from.Close()
	data, err := io.ReadAll(from)
	if err != nil {
		h.t.Fatal(err)
	}
	return h.write("old.db", string(data))
}

func TestRestoreFromSnapshot_ShowsStoresAndOrders(t *testing.T) {
	h := newHouse(t)
	target := filepath.Join(h.dir, "target")
	h.run(exitDone, "cluster", "set", "--no-wait", h.write("cluster.yml", newerFile+"backup: {target: \"file://"+target+"\"}\n"))
	h.lead("prod")
	file := h.saved(nil)
	stdout, _ := h.run(exitDone, "restore", "--from-snapshot", file, "--plan")
	contains(t, stdout, "prod continues from snapshot "+file+", revision 4\n", "of etcd 3.7, ", "4, compacted to 0", "of a cluster of 1 member\n", "3 keys, 0 leases", "0 users, 0 roles, authentication off", "as prod.import in file://"+target)
	if _, err := os.Stat(target); !os.IsNotExist(err) {
		t.Errorf("a plan writes to the target: %v", err)
	}
	stdout, _ = h.run(exitDone, "restore", "--from-snapshot", file, "--plan", "-o", "json")
	var p restorePlan
	if err := json.Unmarshal([]byte(stdout), &p); err != nil || p.Import == nil || p.Import.Keys != 3 || p.Import.Version != "3.7.0" || p.Revision != 4 || p.Source != "prod.import" {
		t.Errorf("%+v, %v", p, err)
	}
	_, stderr := h.run(exitRefused, "restore", "--from-snapshot", file)
	contains(t, stderr, "CKE107", "--confirm prod")
	for range 2 { // the second time it is there
		_, stderr = h.run(exitDone, "restore", "--from-snapshot", file, "--confirm", "prod", "--no-wait")
		contains(t, stderr, file+" is stored as full "+p.Lineage+"/")
	}
	all, err := (&backup.Store{Bucket: backup.Dir(target), Cluster: "prod.import"}).Lineages(h.ctx())
	if err != nil || len(all) != 1 || len(all[0].Fulls) != 1 || all[0].Name != p.Lineage {
		t.Errorf("%+v, %v", all, err)
	}
	asked, err := h.store.RequestsOf(h.ctx(), "prod")
	if err != nil || len(asked.Tasks) == 0 {
		t.Fatal(asked, err)
	}
	o := asked.Tasks[0].Restore
	if o.Source != "prod.import" || o.Lineage != p.Lineage || o.Revision != 4 || o.ShownLineage != p.Lineage || o.ShownRevision != 4 || o.Target != "file://"+target {
		t.Errorf("%+v", o)
	}
	stdout, _ = h.run(exitDone, "backup", "list", "--target", "file://"+target)
	contains(t, stdout, "prod.import")
}

// What one member holds may lack what the others acknowledged, or be the data that is wrong.
func TestRestoreFromSnapshot_NotesWhatOnlyOtherMembersShow(t *testing.T) {
	for want, info := range map[string]backup.ImportInfo{
		"": {Members: 1, Index: 12},
		"one of 3 members, and holds their log up to index 12": {Members: 3, Index: 12},
		"alarm CORRUPT": {Members: 1, Corrupt: 1},
	} {
		i := importing{file: &backup.ImportFile{ImportInfo: info}}
		if notes := i.doubts(); len(notes) != min(len(want), 1) || want != "" && !strings.Contains(notes[0], want) {
			t.Errorf("%q", notes)
		}
	}
}

func TestRestoreFromSnapshot_Declares(t *testing.T) {
	h := newHouse(t)
	file, target := h.saved(nil), "file://"+filepath.Join(h.dir, "target")
	args := []string{"restore", "--from-snapshot", file, "--file", h.write("prod.yml", newerFile), "--from", target}
	stdout, _ := h.run(exitDone, append(args, "--plan")...)
	contains(t, stdout, "not observed")
	h.run(exitDone, append(args, "--confirm", "prod", "--no-wait")...)
	id, err := h.store.Identity(h.ctx(), "prod")
	if err != nil || id.Incarnation == nil || id.Incarnation.State != cke.Awaiting {
		t.Errorf("%+v, %v", id.Incarnation, err)
	}
	_, stderr := h.run(exitRefused, append(args, "--plan")...)
	contains(t, stderr, "ckecli restore --from-snapshot "+file+" --cluster prod\n")
}

func TestRestoreFromSnapshot_IsRefused(t *testing.T) {
	h := newHouse(t)
	target := "file://" + filepath.Join(h.dir, "target")
	withAuth := h.saved(func(c *clientv3.Client) *clientv3.Client {
		for _, user := range []string{"root", "app"} {
			if _, err := c.UserAdd(h.ctx(), user, "secret"); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := c.UserGrantRole(h.ctx(), "root", "root"); err != nil {
			t.Fatal(err)
		}
		if _, err := c.AuthEnable(h.ctx()); err != nil {
			t.Fatal(err)
		}
		admin, err := clientv3.New(clientv3.Config{Endpoints: c.Endpoints(), Username: "root", Password: "secret", Logger: zap.NewNop()})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { admin.Close() })
		return admin
	})
	if err := os.Rename(withAuth, withAuth+".auth"); err != nil {
		t.Fatal(err)
	}
	file := h.saved(nil)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	bare := h.write("db", string(data[:len(data)-sha256.Size]))
	cut := h.write("cut.db", string(data[:len(data)-100]))
	in := func(section string) []string {
		return []string{"--file", h.write(fmt.Sprintf("prod.yml%d", len(section)), cmp.Or(section, newerFile)), "--from", target}
	}
	recipient := newIdentity(t)
	encrypted := in(newerFile + "backup: {target: \"" + target + "\", encryption: {recipients: [" + recipient.Recipient().String() + "]}}\n")
	for _, c := range []struct {
		exit int
		says []string
		file string
		args []string
	}{
		{exitUsage, []string{"--from-snapshot and --revision cannot be used together"}, file, []string{"--revision", "3"}},
		{exitUsage, []string{"--from-snapshot and --cancel cannot be used together"}, file, []string{"--cancel"}},
		{exitRefused, []string{"CKE421", "no such file"}, file + ".none", in("")},
		{exitRefused, []string{"CKE421", "the store has no cluster", "--file FILE"}, file, []string{"--from", target}},
		{exitRefused, []string{"CKE405", "--from URL"}, file, []string{"--file", h.write("prod.yml", newerFile)}},
		{exitRefused, []string{"CKE421", "no hash at its end", "--skip-hash-check"}, bare, in("")},
		{exitDone, nil, bare, append(in(""), "--skip-hash-check", "--plan")},
		{exitDone, nil, file, append(in(""), "--accept", "a1b2/identity", "--plan")},
		{exitDamaged, []string{"CKE421", "truncated", "Nothing was changed."}, cut, in("")},
		{exitRefused, []string{"CKE421", "no data directory"}, h.dir, in("")},
		{exitRefused, []string{"CKE113", "the data is of etcd 3.7, which etcd 3.6.16 cannot read"}, file, in(clusterFile)},
		{exitRefused, []string{"CKE325", "etcdctl user add cke"}, withAuth + ".auth", in("")},
		{exitRefused, []string{"CKE403", "--key FILE"}, file, encrypted},
	} {
		if !strings.Contains(strings.Join(c.args, " "), "prod.yml") || c.exit == exitDone {
			_, stderr := h.run(c.exit, append([]string{"restore", "--from-snapshot", c.file}, c.args...)...)
			contains(t, stderr, c.says...)
			continue
		}
		for _, how := range []string{"--plan", "--confirm=prod"} {
			_, stderr := h.run(c.exit, append([]string{"restore", "--from-snapshot", c.file, how}, c.args...)...)
			contains(t, stderr, c.says...)
		}
	}
	h.run(exitUsage, "restore", "--skip-hash-check")
	if names, err := h.store.Clusters(h.ctx()); err != nil || len(names) > 0 {
		t.Errorf("declared %q, %v", names, err)
	}
	if _, err := os.Stat(strings.TrimPrefix(target, "file://")); !os.IsNotExist(err) {
		t.Errorf("something was stored: %v", err)
	}
}

// A target with backups of the cluster's name, or with its identity, has members on record that may serve: the one that the data is
// stored in, and the cluster's own.
func TestRestoreFromSnapshot_DeclaresNoSecondClusterOfAName(t *testing.T) {
	h := newLostHost(t)
	file, empty, none := h.saved(nil), "file://"+filepath.Join(h.house.dir, "empty"), filepath.Join(h.house.dir, "none")
	declared := h.write("prod.yml", newerFile+"backup: {target: \""+h.url+"\"}\n")
	undeclared := h.write("bare.yml", newerFile)
	refused := func(args ...string) {
		t.Helper()
		_, stderr := h.run(exitRefused, append([]string{"restore", "--from-snapshot", file, "--plan"}, args...)...)
		contains(t, stderr, "CKE421", h.url+" has backups of a cluster prod", "give the new cluster another name\n")
	}
	refused("--file", undeclared, "--from", h.url)
	refused("--file", declared, "--from", empty)
	h.put(t, h.signer, "a1b2", clusterFile, identityOf(t, "a1b2", clusterFile))
	for _, folder := range []string{"full", "delta"} {
		h.remove(t, "a1b2/"+folder)
	}
	if left, err := backup.Clusters(t.Context(), h.to); err != nil || left != nil {
		t.Fatal(left, err)
	}
	refused("--file", undeclared, "--from", h.url)
	h.run(exitDone, "restore", "--from-snapshot", file, "--plan", "--file", undeclared, "--from", "file://"+none)
	h.run(exitDone, "cluster", "set", "--no-wait", declared) // and nothing was made of it
	refused()
	refused("--from", empty)
}

// A declaration that was deleted stopped no member of the cluster whose backups are in its target.
func TestRestoreFromSnapshot_NotBesideAClusterWhoseDeclarationWasDeleted(t *testing.T) {
	h := newLostHost(t)
	file := h.saved(nil)
	h.put(t, h.signer, "a1b2", clusterFile, identityOf(t, "a1b2", clusterFile))
	h.run(exitDone, append(slices.DeleteFunc(slices.Clone(h.args), func(arg string) bool { return arg == "--plan" }), "--confirm", "prod", "--no-wait")...)
	l := h.lead("prod")
	h.run(exitDone, "cluster", "delete", "prod", "--confirm", "prod", "--no-wait")
	if err := l.term.FinishDelete(h.ctx()); err != nil {
		t.Fatal(err)
	}
	_, stderr := h.run(exitRefused, "restore", "--from-snapshot", file, "--plan", "--file", h.write("bare.yml", newerFile), "--from", h.url)
	contains(t, stderr, "CKE421", h.url+" has backups of a cluster prod")
}

// Where no key file can be read, nothing can be signed, and no leader would restore it.
func TestRestoreFromSnapshot_NeedsAKeyToSign(t *testing.T) {
	h := newHouse(t)
	h.run(exitDone, "cluster", "set", "--no-wait", h.write("cluster.yml", newerFile))
	file := h.saved(nil)
	config, err := os.ReadFile(h.config)
	if err != nil {
		t.Fatal(err)
	}
	h.config = h.write("other.yml", strings.Replace(string(config), "secret.key", "none.key", 1))
	args := []string{"restore", "--from-snapshot", file, "--from", "file://" + filepath.Join(h.dir, "target"), "--plan"}
	_, stderr := h.run(exitDamaged, args...)
	contains(t, stderr, "CKE417", "cannot sign what is imported")
	h.run(exitDone, append(args, "--trust", "any")...)
}
