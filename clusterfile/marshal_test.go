package clusterfile_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"cke"
	"cke/clusterfile"
)

func TestMarshalCluster_IsTidy(t *testing.T) {
	c := cke.Cluster{Name: "prod", Nodes: []cke.Node{{Address: "10.0.0.11", ControlPlane: true}}}
	c.Options.Etcd.Version = "3.6.16"
	c.Options.Etcd.Resources.Memory = 8 << 30
	c.Policies.Replace.Grace = cke.Duration(10 * time.Minute)
	c.Policies.Volumes.Keep = cke.Duration(168 * time.Hour)
	got, err := cke.MarshalCluster(c)
	if err != nil {
		t.Fatal(err)
	}
	want := `name: prod
nodes:
  - address: 10.0.0.11
    control_plane: true
options:
  etcd:
    version: 3.6.16
    resources:
      memory: 8GiB
policies:
  replace:
    grace: 10m
  volumes:
    keep: 168h
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
}

func TestMarshalCluster_ParsesBackToTheSame(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCluster(t)
		data, err := cke.MarshalCluster(c)
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := clusterfile.ParseCluster("cluster.yml", data)
		if err != nil {
			t.Fatalf("%v\n%s", err, data)
		}
		if diff := cmp.Diff(c, got); diff != "" {
			t.Fatalf("%s\n%s", diff, data)
		}
		full := c.WithDefaults()
		if diff := cmp.Diff(full, full.WithDefaults(), cmpopts.EquateEmpty()); diff != "" {
			t.Fatalf("defaults twice are not defaults once:\n%s", diff)
		}
		if _, err := clusterfile.Check(full); err != nil {
			t.Fatalf("with defaults: %v", err)
		}
	})
}

func TestCluster_SurvivesJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := drawCluster(t)
		data, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		var got cke.Cluster
		if err := json.Unmarshal(data, &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(c, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

// drawCluster draws a good cluster.
func drawCluster(t *rapid.T) cke.Cluster {
	word := rapid.StringMatching(`[a-z][a-z0-9-]{0,10}[a-z0-9]`)
	text := rapid.OneOf(word, rapid.SampledFrom([]string{"yes", "null", "~", "1.0", "0x1f", "2024-01-01", "a: b", "- a", "*a", "#x", "", " ", "é\u2028", "{", "true", "<<", "a\nb", "1_000", "\"", "'"}))
	labels := rapid.Map(rapid.MapOfN(word, text, 0, 3), func(m map[string]string) map[string]string {
		if len(m) == 0 {
			return nil
		}
		return m
	})
	maybe := func(name string) bool { return rapid.Bool().Draw(t, name) }
	duration := func(name string) cke.Duration {
		return cke.Duration(rapid.Int64Range(int64(time.Minute), int64(1000*time.Hour)).Draw(t, name))
	}
	c := cke.Cluster{Name: word.Draw(t, "name")}
	n := rapid.IntRange(1, 9).Draw(t, "nodes")
	for i := range n {
		node := cke.Node{Address: fmt.Sprintf("10.0.0.%d", i+1), ControlPlane: i == 0 || i < 7 && maybe("control plane")}
		if maybe("more") {
			node.Hostname = fmt.Sprintf("%s-%d", word.Draw(t, "hostname"), i)
			node.User, node.Zone = word.Draw(t, "user"), text.Draw(t, "zone")
			node.Labels, node.Annotations = labels.Draw(t, "labels"), labels.Draw(t, "annotations")
			node.SSH.Port = rapid.IntRange(3000, 65535).Draw(t, "port")
		}
		c.Nodes = append(c.Nodes, node)
	}
	if maybe("etcd") {
		e := &c.Options.Etcd
		e.Version = rapid.SampledFrom([]string{"", "3.5.33", "3.6.16", "3.7.3"}).Draw(t, "version")
		e.VolumeName, e.VolumeRoot = word.Draw(t, "volume"), "/mnt/"+word.Draw(t, "root")
		e.ClientPort, e.PeerPort = rapid.IntRange(1024, 1999).Draw(t, "client"), rapid.IntRange(2000, 2999).Draw(t, "peer")
		e.ExtraArgs = []string{"--quota-backend-bytes=" + fmt.Sprint(rapid.Int64Range(0, 8<<30).Draw(t, "quota"))}
		e.ExtraEnv = rapid.MapOfN(rapid.StringMatching(`[A-DF-Z_][A-Z0-9_]{0,8}`), text, 1, 3).Draw(t, "env")
		e.ExtraBinds = []cke.Bind{{Source: "/srv/etcd/" + word.Draw(t, "source"), Destination: "/mnt/" + word.Draw(t, "destination"), ReadOnly: maybe("read only")}}
		e.Resources = cke.Resources{CPUs: rapid.Float64Range(0, 64).Draw(t, "cpus"), Memory: cke.Size(rapid.Int64Range(6<<20, 1<<40).Draw(t, "memory"))}
	}
	if maybe("policies") {
		c.Policies = cke.Policies{
			Reconcile: cke.ReconcileWindow, Foreign: rapid.SampledFrom([]cke.ForeignPolicy{"", cke.ForeignHold, cke.ForeignRemove}).Draw(t, "foreign"),
			Window:  cke.Window{Schedule: "0 2 * * 6", Duration: duration("window"), TimeZone: "UTC"},
			Replace: cke.ReplacePolicy{Mode: cke.ReplaceManual, Grace: duration("grace")},
			Volumes: cke.VolumePolicies{OnRemoval: cke.VolumeRetain, Keep: duration("keep")},
		}
	}
	if maybe("backup") {
		c.Backup = cke.Backup{
			Target: "s3://" + word.Draw(t, "bucket") + "/p?region=x", Full: cke.BackupSchedule{Schedule: "*/5 * * * *"},
			Delta:     cke.BackupDelta{Period: duration("period"), Size: cke.Size(rapid.Int64Range(1, 1<<30).Draw(t, "size"))},
			Retention: cke.Retention{Last: rapid.IntRange(0, 9).Draw(t, "last")}, Compaction: cke.BackupCompaction{Events: rapid.Int64Range(0, 1<<40).Draw(t, "events")},
		}
	}
	return c
}

// FuzzParseCluster looks for files that make the parser panic, faults that say nothing, and clusters that do not
// come back from their own YAML.
func FuzzParseCluster(f *testing.F) {
	files, err := filepath.Glob("testdata/*.yml")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Add([]byte("a: &a {<<: *a}\n"))
	f.Add([]byte("name: &n [*n]\n? {a: b}\n: c\n"))
	f.Add([]byte("\xff\xfen\x00:\x00"))
	f.Add([]byte(minimal + "    ssh: {port: 026, <<: &m [*m]}\n"))
	f.Add([]byte("- !!binary aGk=\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		c, _, err := clusterfile.ParseCluster("f", data)
		if err != nil {
			for _, fault := range faults(t, err) {
				if fault.Message == "" || fault.Line < 0 || len(fault.String()) > 2000 {
					t.Errorf("%+v", fault)
				}
			}
			return
		}
		again, err := cke.MarshalCluster(c)
		if err != nil {
			t.Fatal(err)
		}
		got, _, err := clusterfile.ParseCluster("f", again)
		if err != nil {
			t.Fatalf("%v\n%s", err, again)
		}
		if diff := cmp.Diff(c, got); diff != "" {
			t.Error(diff)
		}
		if _, err := clusterfile.Check(c.WithDefaults()); err != nil {
			t.Errorf("with defaults: %v", err)
		}
	})
}
