package clusterfile

import (
	"flag"
	"slices"
	"strings"
	"testing"

	"go.etcd.io/etcd/server/v3/embed"

	"cke"
)

func TestEtcdFlags_AreThoseOfTheNewestEtcd(t *testing.T) {
	real := flag.NewFlagSet("etcd", flag.ContinueOnError)
	embed.NewConfig().AddFlags(real)
	real.VisitAll(func(f *flag.Flag) {
		known := lookupFlag(f.Name)
		switch {
		case reserved(f.Name) != "":
			if known != nil {
				t.Errorf("--%s is reserved, and in the table of free ones", f.Name)
			}
		case known == nil || known.last < cke.NewestMinor:
			t.Errorf("--%s is not in the table for 3.%d", f.Name, cke.NewestMinor)
		default:
			b, ok := f.Value.(interface{ IsBoolFlag() bool })
			if takesNone := ok && b.IsBoolFlag(); takesNone != (known.kind == flagBool) {
				t.Errorf("--%s needs no value: %v, the table says %v", f.Name, takesNone, known.kind == flagBool)
			}
			for _, value := range []string{"maybe", "true", "-1", "1", "1h", "0.5"} {
				err, want := f.Value.Set(value), known.kind.reads(value)
				if (err != nil) != (want != "") && (known.kind != flagText || want != "") {
					t.Errorf("--%s=%s: etcd says %v, the table wants %q", f.Name, value, err, want)
				}
			}
		}
	})
	for _, name := range flagNames(cke.NewestMinor) {
		if real.Lookup(name) == nil && name != "v2-deprecation" { // which the command adds by itself
			t.Errorf("--%s is in the table, and etcd 3.%d does not have it", name, cke.NewestMinor)
		}
	}
}

func TestEtcdFlags_ReplacementsExist(t *testing.T) {
	for _, f := range etcdFlags() {
		if !strings.HasPrefix(f.name, "experimental-") || f.instead == "" {
			continue
		}
		name, gate, isGate := splitArg(f.instead)
		if to := lookupFlag(name); to == nil || to.first > 6 || to.last < 7 {
			t.Errorf("--%s is replaced by %s, which is not there in 3.6 and 3.7", f.name, f.instead)
		}
		if gate, _, _ = strings.Cut(gate, "="); isGate && !slices.Contains(featureGates(6), gate) {
			t.Errorf("--%s is replaced by %s, which 3.6 does not have", f.name, f.instead)
		}
	}
}
