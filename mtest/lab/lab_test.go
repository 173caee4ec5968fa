package lab

import (
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestOpen_RefusesNamesThatDockerOrDNSWouldNotTake(t *testing.T) {
	for _, name := range []string{"", "Lab", "a_b", "-a", "a-", "a b", "../x"} {
		if _, err := Open(t.TempDir(), name); err == nil {
			t.Errorf("Open accepted %q", name)
		}
	}
}

func TestNode_SaysHowToMakeALabThatIsNotThere(t *testing.T) {
	l, err := Open(t.TempDir(), "lab")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := l.Node("n1"); !errors.Is(err, ErrNoLab) {
		t.Errorf("got %v, want ErrNoLab", err)
	}
}

func TestFind_TakesFullShortNameAndAddress(t *testing.T) {
	s := state{Nodes: []nodeState{{Name: "lab-n1", Address: "10.213.0.11"}}}
	for _, name := range []string{"lab-n1", "n1", "10.213.0.11"} {
		if s.find("lab", name) == nil {
			t.Errorf("%s is not found", name)
		}
	}
	for _, name := range []string{"n2", "lab", "", "1"} {
		if s.find("lab", name) != nil {
			t.Errorf("%q is found", name)
		}
	}
}

func TestFreeSubnet_AvoidsWhatTheMachineUses(t *testing.T) {
	for _, tt := range []struct {
		name  string
		taken []string
		want  string
	}{
		{"nothing taken", nil, "10.213.0.0/24"},
		{"another lab", []string{"10.213.0.0/24"}, "10.213.1.0/24"},
		{"a part of the first", []string{"10.213.0.128/25", "10.213.1.7/32"}, "10.213.2.0/24"},
		{"a company that routes 10/8", []string{"10.0.0.0/8"}, "172.29.0.0/24"},
		{"and 172.16/12", []string{"10.0.0.0/8", "172.16.0.0/12"}, "192.168.0.0/24"},
		{"all of it", []string{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16"}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var taken []netip.Prefix
			for _, p := range tt.taken {
				taken = append(taken, netip.MustParsePrefix(p))
			}
			got, err := freeSubnet(taken)
			if tt.want == "" {
				if err == nil {
					t.Errorf("got %s, want an error", got)
				}
				return
			}
			if err != nil || got.String() != tt.want {
				t.Errorf("got %s, %v; want %s", got, err, tt.want)
			}
		})
	}
}

func TestParseRoute(t *testing.T) {
	for line, want := range map[string]string{
		"Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT": "",
		"eth0\t00000000\t010200C0\t0003\t0\t0\t0\t00000000\t0\t0\t0":                          "",
		"br0\t0000D50A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0":                           "10.213.0.0/24",
		"x\t0000": "",
	} {
		got := ""
		if p, ok := parseRoute(line); ok {
			got = p.String()
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", line, got, want)
		}
	}
}

func TestCutRules(t *testing.T) {
	s := state{Subnet: "10.213.0.0/24", Nodes: []nodeState{{Name: "lab-n1", Address: "10.213.0.11"}, {Name: "lab-n2", Address: "10.213.0.12"}}}
	for _, tt := range []struct {
		name string
		cuts []Cut
		want []string
	}{
		{"whole", nil, nil},
		{"from all", []Cut{{FromAll, Both}}, []string{"-A INPUT ! -i lo -j DROP", "-A OUTPUT ! -o lo -j DROP"}},
		{"from the host, in", []Cut{{FromHost, In}}, []string{"-A INPUT ! -i lo -s 10.213.0.1 -j DROP"}},
		{"from a peer, out", []Cut{{"lab-n2", Out}}, []string{"-A OUTPUT ! -o lo -d 10.213.0.12 -j DROP"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n := s.Nodes[0]
			n.Cuts = tt.cuts
			got, err := cutRules(s, n)
			if err != nil {
				t.Fatal(err)
			}
			want := "*filter\n:INPUT ACCEPT\n:FORWARD ACCEPT\n:OUTPUT ACCEPT\n"
			for _, line := range tt.want {
				want += line + "\n"
			}
			if diff := cmp.Diff(want+"COMMIT\n", got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWriteArchive_GivesTheSameBytesForTheSameBinaries(t *testing.T) {
	bin, dir := t.TempDir(), t.TempDir()
	for _, name := range etcdBinaries {
		if err := os.WriteFile(filepath.Join(bin, name), []byte(name), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	created := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var images []Image
	for _, name := range []string{"a.tar", "b.tar"} {
		path := filepath.Join(dir, name)
		if err := writeArchive(path, EtcdRepository+":v1.2.3", bin, created); err != nil {
			t.Fatal(err)
		}
		img, err := readArchive(path)
		if err != nil {
			t.Fatal(err)
		}
		images = append(images, img)
	}
	if images[0].Ref != "gcr.io/etcd-development/etcd:v1.2.3" || len(images[0].ID) != len("sha256:")+64 || images[0].ID != images[1].ID {
		t.Errorf("got %+v", images)
	}
	out := t.TempDir()
	if err := images[0].Binaries(out); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(out, "etcdctl")); err != nil || string(data) != "etcdctl" {
		t.Errorf("the archive gives back %q, %v", data, err)
	}
	if left, _ := os.ReadDir(dir); len(left) != 2 {
		t.Errorf("files are left over: %v", left)
	}
}

func TestEtcdImage_RefusesWhatIsNoVersion(t *testing.T) {
	t.Setenv("CKE_CACHE", t.TempDir())
	for _, version := range []string{"", "3.6", "latest", "3.6.16;id"} {
		if _, err := EtcdImage(t.Context(), version, nil); err == nil {
			t.Errorf("accepted %q", version)
		}
	}
}

func TestFit_PrefersTheSmallestLabThatIsLargeEnough(t *testing.T) {
	labs := map[int]*Lab{}
	for _, n := range []int{1, 3, 5} {
		l, err := Open(t.TempDir(), "lab")
		if err != nil {
			t.Fatal(err)
		}
		if err := l.update(t.Context(), func(s *state) error {
			s.Nodes = make([]nodeState, n)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		labs[n] = l
	}
	for want, better := range map[int][2]int{2: {3, 5}, 3: {3, 5}, 4: {5, 3}, 6: {5, 1}} {
		if fit(labs[better[0]], want) <= fit(labs[better[1]], want) {
			t.Errorf("for %d nodes, %d is not preferred to %d", want, better[0], better[1])
		}
	}
}
