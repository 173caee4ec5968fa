package cke_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"cke"
)

const official = cke.DefaultImage

func named(version, image string) cke.Cluster {
	var c cke.Cluster
	c.Options.Etcd.Version, c.Options.Etcd.Image = version, image
	return c
}

func release(version string) cke.Release {
	return cke.Release{Version: version, Image: official + ":v" + version}
}

// What a file leaves out stays as it is; only what it names, or what was never settled, is chosen.
func TestSpec_FollowingKeepsTheReleaseThatAFileLeavesOut(t *testing.T) {
	ours := cke.Release{Version: "3.6.14", Image: "r.example.com/etcd:v3.6.14"}
	for name, row := range map[string]struct {
		stored cke.Cluster
		is     cke.Release
		file   cke.Cluster
		want   cke.Release
	}{
		"first, nothing named":              {file: named("", ""), want: release(cke.DefaultEtcdVersion)},
		"first, a version":                  {file: named("3.5.35", ""), want: release("3.5.35")},
		"first, an image of a version":      {file: named("", "r.example.com/etcd:v3.6.14"), want: ours},
		"nothing named":                     {named("", ""), release("3.6.1"), named("", ""), release("3.6.1")},
		"a version that was named before":   {named("3.6.1", ""), release("3.6.1"), named("", ""), release("3.6.1")},
		"another version":                   {named("", ""), release("3.6.1"), named("3.7.3", ""), release("3.7.3")},
		"an image that is named no more":    {named("", ours.Image), ours, named("", ""), release("3.6.14")},
		"an image that was never named":     {named("", ""), ours, named("", ""), ours},
		"the version of it is written down": {named("", ""), ours, named("3.6.14", ""), ours},
		"an image by digest":                {named("", ""), release("3.6.1"), named("", "r/etcd@sha256:0"), cke.Release{Version: "3.6.1", Image: "r/etcd@sha256:0"}},
	} {
		was := cke.Spec{Cluster: row.stored, Etcd: row.is, Generation: 3}
		next := was.Following(row.file, was)
		if next.Etcd != row.want || next.Generation != 4 {
			t.Errorf("%s: %+v of revision %d, want %+v", name, next.Etcd, next.Generation, row.want)
		}
		if w := next.Wanted().Options.Etcd.Release(); w != row.want {
			t.Errorf("%s: %+v is wanted, want %+v", name, w, row.want)
		}
	}
}

// A revision of an older cke says nothing of the release: what runs stays.
func TestSpec_ResolvedIsWhatIsOnRecord(t *testing.T) {
	runs := func(versions ...string) (id cke.Identity) {
		for _, v := range versions {
			id.Joins = append(id.Joins, cke.Join{Etcd: named(v, official+":v"+v).Options.Etcd})
		}
		return id
	}
	for name, row := range map[string]struct {
		file cke.Cluster
		id   cke.Identity
		want cke.Release
	}{
		"never founded":          {named("", ""), runs(), release(cke.DefaultEtcdVersion)},
		"an older default":       {named("", ""), runs("3.6.15", "3.6.15"), release("3.6.15")},
		"halfway to a newer one": {named("", ""), runs("3.6.9", "3.6.10", "3.6.9"), release("3.6.10")},
		"the file names one":     {named("3.7.3", ""), runs("3.6.15"), release("3.7.3")},
	} {
		s := cke.Spec{Cluster: row.file, Generation: 2}.Resolved(row.id)
		if s.Etcd != row.want || s.Generation != 2 {
			t.Errorf("%s: %+v of revision %d, want %+v", name, s.Etcd, s.Generation, row.want)
		}
		if again := s.Resolved(runs("3.5.35")); again.Etcd != s.Etcd {
			t.Errorf("%s: resolved twice: %+v", name, again.Etcd)
		}
	}
}

// Nothing that runs may follow from a default of the binary: what is wanted of a stored cluster is Spec.Wanted. Whoever
// fills defaults into a cluster elsewhere has a file that is not stored, or one that has them.
func TestDefaults_AreFilledInWhereARevisionIsStoredAndNowhereElse(t *testing.T) {
	may := []string{"cluster.go", "release.go", "config.go", "clusterfile/validate_config.go", "etcdnode/fleet.go", "backup/boot/boot.go",
		"server/strategy/scenes/scenes.go", "cmd/ckecli/cluster_validate.go", "cmd/ckecli/preflight.go", "cmd/ckecli/restore_declare.go"}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") || slices.Contains(may, path) {
			return err
		}
		text, err := os.ReadFile(path)
		if strings.Contains(string(text), ".WithDefaults()") {
			t.Errorf("%s fills in defaults: of a stored cluster take Spec.Wanted", path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
