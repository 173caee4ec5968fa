package cke_test

import (
	"encoding/json"
	"errors"
	"io"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// layers says what packages may import, tests left aside: packages of this module and of others; the standard library is free.
// The key is a package or a folder. Of several that match a package the longest decides. An entry allows what lies below it,
// too, but for testOnly.
//
//	cmd ─► plan ─► server ─► op ─► cke ─► quorum, cke ◄─ clusterfile, etcdnode, storage, pki, backup, sabakan, sim   (siblings never import each other)
var layers = map[string]string{
	"cke":                          "cke/quorum github.com/docker/go-units gopkg.in/yaml.v3",
	"cke/backup":                   "cke cke/backup/internal cke/internal/contain " + age + backoff + "go.etcd.io/bbolt golang.org/x/sync golang.org/x/sys",
	"cke/backup/backuptest":        "cke/backup cke/internal/need golang.org/x/sys",
	"cke/backup/boot":              "cke cke/backup cke/internal/contain go.etcd.io/bbolt go.etcd.io/etcd/client/v3 go.uber.org/zap",
	"cke/backup/internal/damage":   "",
	"cke/backup/internal/etcdtest": "cke/internal/need go.etcd.io/etcd go.uber.org/zap google.golang.org/grpc",
	"cke/backup/internal/pages":    "cke/backup/internal/damage go.etcd.io/bbolt golang.org/x/sys",
	"cke/backup/internal/stream":   "cke/backup/internal/damage cke/internal/contain " + age + "github.com/klauspost/compress",
	"cke/backup/internal/taketest": "cke cke/backup cke/backup/internal/etcdtest go.etcd.io/etcd/client/v3 google.golang.org/protobuf",
	"cke/backup/keep":              "cke cke/backup cke/internal/contain " + age + backoff + "golang.org/x/sync gopkg.in/yaml.v3",
	"cke/backup/take":              "cke cke/backup " + age + backoff + "cke/internal/contain cke/internal/schedule " + etcd + "golang.org/x/sync",
	"cke/backup/target":            "cke cke/backup cke/internal/contain github.com/aws/aws-sdk-go-v2 gocloud.dev",
	"cke/bench":                    "cke cke/backup cke/mtest/fleet cke/mtest/lab cke/mtest/rig cke/sabakan cke/sabakan/sabakantest cke/server cke/sim cke/ui " + age + "go.etcd.io/etcd/api/v3 go.etcd.io/etcd/client/v3 golang.org/x/sync",
	"cke/cketest":                  "cke", // held by tests to what stands in ports.go
	"cke/clusterfile":              "cke cke/quorum " + age + "github.com/distribution/reference golang.org/x/crypto gopkg.in/yaml.v3",
	"cke/cmd/cke": "cke cke/backup cke/clusterfile cke/etcdnode cke/internal/bounded cke/internal/contain cke/pki cke/preflight cke/sabakan cke/server cke/storage cke/storage/embedded cke/ui " + age + command +
		"github.com/coreos/go-systemd/v22 github.com/cybozu-go/log github.com/cybozu-go/well github.com/prometheus/client_golang golang.org/x/sync",
	"cke/cmd/cke-lab":   "cke/mtest/gameday cke/mtest/lab cke/mtest/rig github.com/docker/go-units github.com/spf13/cobra golang.org/x/sync golang.org/x/term gopkg.in/yaml.v3",
	"cke/cmd/cke-probe": "cke/preflight/probe",
	"cke/cmd/ckecli": "cke cke/backup cke/clusterfile cke/etcdnode cke/internal/bundle cke/internal/follow cke/internal/scrub cke/internal/term cke/internal/words cke/monitoring cke/op cke/pki cke/plan cke/preflight cke/quorum cke/sabakan cke/server cke/storage " + age + command +
		"golang.org/x/crypto golang.org/x/sync golang.org/x/term gopkg.in/yaml.v3",
	"cke/etcdnode": "cke " + backoff + "github.com/containerd/errdefs github.com/distribution/reference github.com/docker/docker github.com/docker/go-units " +
		"github.com/klauspost/compress go.etcd.io/etcd/api/v3 golang.org/x/crypto golang.org/x/sync golang.org/x/sys google.golang.org/grpc google.golang.org/protobuf",
	"cke/internal/bundle":        "cke cke/clusterfile cke/etcdnode cke/internal/scrub cke/internal/words gopkg.in/yaml.v3", // it asks nodes, and the daemon as the configuration says
	"cke/internal/follow":        "cke cke/internal/term cke/internal/words cke/op cke/storage",                             // it reads what leaders store
	"cke/internal/contain":       "",
	"cke/internal/scrub":         "cke",
	"cke/internal/term":          "",
	"cke/internal/words":         "cke cke/internal/term",
	"cke/internal/golden":        "github.com/google/go-cmp",
	"cke/internal/gotest":        "",
	"cke/internal/cache":         "",
	"cke/internal/bounded":       "",
	"cke/internal/need":          "cke/internal/cache",
	"cke/internal/gzipped":       "",
	"cke/internal/sbom":          "",
	"cke/internal/source":        "",
	"cke/monitoring":             "",
	"cke/mtest/fleet":            "cke github.com/docker/docker go.etcd.io/etcd/api/v3 golang.org/x/crypto google.golang.org/grpc google.golang.org/protobuf",
	"cke/mtest/gameday":          "cke cke/internal/term cke/internal/words cke/mtest/lab cke/mtest/rig",
	"cke/mtest/lab":              "cke cke/internal/cache github.com/containerd/errdefs github.com/docker/docker golang.org/x/crypto golang.org/x/sync golang.org/x/term",
	"cke/mtest/rig":              "cke cke/internal/cache cke/mtest/lab github.com/anishathalye/porcupine go.etcd.io/etcd/client/v3 go.uber.org/zap google.golang.org/grpc gopkg.in/yaml.v3",
	"cke/op":                     "cke cke/quorum",
	"cke/quorum":                 "",
	"cke/server/strategy":        "cke cke/internal/schedule cke/op cke/quorum",
	"cke/internal/schedule":      "github.com/netresearch/go-cron",
	"cke/pki":                    "cke golang.org/x/sync",
	"cke/plan":                   "cke cke/internal/term cke/quorum cke/op cke/server cke/sim gopkg.in/yaml.v3",
	"cke/preflight":              "cke cke/etcdnode cke/internal/term cke/op cke/preflight/probe golang.org/x/crypto",
	"cke/preflight/probe":        "",
	"cke/sabakan":                "cke cke/quorum",
	"cke/sabakan/keep":           "cke cke/internal/contain cke/plan cke/sabakan cke/server/strategy",
	"cke/sabakan/sabakantest":    "cke cke/internal/need go.etcd.io/etcd/client/v3 go.etcd.io/etcd/server/v3 go.uber.org/zap golang.org/x/sys",
	"cke/server":                 "cke cke/internal/gzipped cke/op cke/server/balance cke/server/strategy github.com/prometheus/client_golang github.com/prometheus/common",
	"cke/server/balance":         "cke",
	"cke/server/strategy/scenes": "cke cke/server/strategy",
	"cke/sim":                    "cke",
	"cke/ui":                     "cke cke/internal/gzipped cke/internal/scrub cke/internal/term cke/internal/words cke/plan cke/server/strategy",
	"cke/storage":                "cke cke/clusterfile cke/storage/internal/local go.etcd.io/etcd/api/v3 go.etcd.io/etcd/client/v3 golang.org/x/crypto google.golang.org/grpc " + age, // it reads a password as clusterfile does
	"cke/storage/embedded":       "cke cke/storage/internal/local go.etcd.io/etcd/api/v3 go.etcd.io/etcd/client/v3 go.etcd.io/etcd/server/v3 go.etcd.io/raft/v3 golang.org/x/sys google.golang.org/grpc",
	"cke/storage/internal":       "go.uber.org/zap",
}

const (
	age     = "filippo.io/age "
	backoff = "github.com/cenkalti/backoff/v5 "
	command = "github.com/spf13/cobra github.com/spf13/pflag "
	etcd    = "go.etcd.io/etcd/api/v3 go.etcd.io/etcd/client/v3 go.uber.org/zap google.golang.org/grpc "
)

// testOnly are packages that only tests, and packages for tests, import: a row has to name them themselves.
var testOnly = []string{"cke/backup/backuptest", "cke/backup/internal/etcdtest", "cke/internal/cache", "cke/internal/need", "cke/backup/internal/taketest",
	"cke/cketest", "cke/internal/golden", "cke/internal/source", "cke/mtest", "cke/sabakan/sabakantest", "cke/server/strategy/scenes"}

// instead says what to do in place of importing a module that few packages may import.
var instead = map[string]string{
	"github.com/docker/docker":            "reach containers through the ports in ports.go, which etcdnode implements",
	"github.com/aws/aws-sdk-go-v2":        "open targets with backup/target, and use them as a backup.Bucket",
	"gocloud.dev":                         "open targets with backup/target, and use them as a backup.Bucket",
	"go.etcd.io/bbolt":                    "read and write files of etcd's database through package backup",
	"go.etcd.io/etcd/server/v3":           "only storage/embedded runs an etcd server; tests may, too",
	"github.com/prometheus/client_golang": "return the value, and export it in server/metrics.go",
	"cke/cketest":                         "it is for tests",
	"cke/internal/golden":                 "it is for tests",
	"cke/internal/source":                 "it is for tests",
	"cke/mtest":                           "it is for tests and cke-lab",
	"cke/sabakan/sabakantest":             "it is for tests",
	"cke/server/strategy/scenes":          "it is for tests",
	"cke/sim":                             "only plans and proofs need a simulated world",
	"cke/backup/backuptest":               "it is for tests",
	"cke/clusterfile":                     "take a cke.Cluster or cke.Config that was read already",
	"cke/server":                          "move what both need to the vocabulary, or down to op",
	"github.com/spf13/cobra":              "commands belong in cmd",
	"github.com/cenkalti/backoff/v5":      "rules and operations do not retry: the loop observes again",
	"golang.org/x/crypto":                 "SSH belongs in etcdnode",
	"go.etcd.io/etcd/client/v3":           "speak to members through the ports in ports.go, and to the store through storage",
}

// programs are the commands for users, and what must not be linked into them by any way.
var programs = map[string][]string{
	"cke/cmd/cke":    append([]string{"testing"}, testOnly...),
	"cke/cmd/ckecli": append([]string{"testing", "go.etcd.io/etcd/server/v3"}, testOnly...),
}

// Requirement D5: each package has one job.
func TestLayering_EveryPackageImportsOnlyWhatStandsBelowIt(t *testing.T) {
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,Deps", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	used, linked := map[string]bool{}, 0
	for d := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p struct {
			ImportPath    string
			Imports, Deps []string
		}
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		layer := longest(p.ImportPath, slices.Collect(maps.Keys(layers)))
		if layer == "cke" && p.ImportPath != "cke" {
			if len(p.Imports) > 0 {
				t.Errorf("%s is in no row of layers in layering_test.go: add one with what it may import", p.ImportPath)
			}
			continue
		}
		used[layer] = true
		for _, i := range p.Imports {
			if first, _, _ := strings.Cut(i, "/"); first != "cke" && !strings.Contains(first, ".") {
				continue // the standard library
			}
			entry := allows(strings.Fields(layers[layer]), i)
			if used[layer+" "+entry] = true; entry == "" {
				t.Errorf("%s imports %s, which its layer may not import.%s\n\tIf it has to, add it to the row %q of layers in layering_test.go.", p.ImportPath, i, advice(i), layer)
			}
		}
		for _, not := range programs[p.ImportPath] {
			for _, dep := range p.Deps {
				if within(dep, not) {
					t.Errorf("%s links %s through another package: take that import out, or move what is needed to a package of its own", p.ImportPath, dep)
				}
			}
		}
		if programs[p.ImportPath] != nil {
			linked++
		}
	}
	if linked != len(programs) {
		t.Errorf("%d programs, want %d", linked, len(programs))
	}
	for layer, row := range layers {
		if !used[layer] {
			t.Errorf("layering_test.go has a row for %q, where no package is", layer)
		}
		for _, entry := range strings.Fields(row) {
			if !used[layer+" "+entry] {
				t.Errorf("layering_test.go allows %q to import %q, which it does not: take it out", layer, entry)
			}
		}
	}
}

// allows returns the entry of a row that allows an import, "" if none does.
func allows(row []string, imported string) string {
	least := longest(imported, testOnly)
	entry := longest(imported, row)
	if entry == "cke" && imported != "cke" || len(entry) < len(least) {
		return "" // the vocabulary has the name of the module
	}
	return entry
}

// longest returns the longest of some prefixes that a package is within, "" if it is in none.
func longest(path string, prefixes []string) (best string) {
	for _, p := range prefixes {
		if within(path, p) && len(p) > len(best) {
			best = p
		}
	}
	return best
}

func advice(imported string) string {
	if say := instead[longest(imported, slices.Collect(maps.Keys(instead)))]; say != "" {
		return " Instead: " + say + "."
	}
	return ""
}
