package etcdnode

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"cke"
)

func testSpec(version string, mode cke.StartMode) cke.MemberSpec {
	n1 := cke.Node{Address: "10.0.0.1", Hostname: "n1"}
	o := cke.EtcdOptions{Version: version, Image: "gcr.io/etcd-development/etcd:v" + version, VolumeName: "etcd-cke", ClientPort: 2379, PeerPort: 2380}
	return cke.MemberSpec{
		Cluster: "demo", Mode: mode, Token: "demo-1234",
		Join:  cke.Join{ID: "abcdefabcdef", Incarnation: "fedcbafedcba", Node: n1, Member: "n1", Volume: "etcd-cke.abcdefabcdef", ClientPort: 2379, PeerPort: 2380, Etcd: o},
		Peers: []cke.Peer{{Name: "n2", URL: "https://10.0.0.2:2380"}, {Name: "n1", URL: "https://10.0.0.1:2380"}},
	}
}

func TestDescribe_WholeMember(t *testing.T) {
	s := testSpec("3.6.16", cke.StartPrepared)
	s.Join.Etcd.ExtraArgs = []string{"--quota-backend-bytes=8589934592", "--log-level=debug"}
	s.Join.Etcd.ExtraEnv = map[string]string{"B": "2", "A": "1"}
	s.Join.Etcd.ExtraBinds = []cke.Bind{{Source: "/etc/x", Destination: "/x", ReadOnly: true}}
	s.Join.Etcd.Resources = cke.Resources{CPUs: 1.5, Memory: 1 << 30}
	want := Description{
		Name: "etcd-cke.abcdefabcdef", Volume: "etcd-cke.abcdefabcdef", Image: "gcr.io/etcd-development/etcd:v3.6.16", Entrypoint: []string{"etcd"},
		Args: []string{
			"--name=n1",
			"--data-dir=/var/lib/etcd/data",
			"--listen-client-urls=https://10.0.0.1:2379,https://127.0.0.1:2379",
			"--advertise-client-urls=https://10.0.0.1:2379",
			"--listen-peer-urls=https://10.0.0.1:2380",
			"--initial-advertise-peer-urls=https://10.0.0.1:2380",
			"--client-cert-auth=true",
			"--trusted-ca-file=/var/lib/etcd/pki/client-ca.crt",
			"--cert-file=/var/lib/etcd/pki/server.crt",
			"--key-file=/var/lib/etcd/pki/server.key",
			"--peer-client-cert-auth=true",
			"--peer-trusted-ca-file=/var/lib/etcd/pki/peer-ca.crt",
			"--peer-cert-file=/var/lib/etcd/pki/peer.crt",
			"--peer-key-file=/var/lib/etcd/pki/peer.key",
			"--pre-vote=true",
			"--logger=zap",
			"--log-level=info",
			"--feature-gates=InitialCorruptCheck=true,CompactHashCheck=true",
			"--initial-cluster=n1=https://10.0.0.1:2380",
			"--initial-cluster-token=demo-1234",
			"--initial-cluster-state=existing",
			"--quota-backend-bytes=8589934592",
			"--log-level=debug",
		},
		Env:      []string{"A=1", "B=2"},
		Binds:    []cke.Bind{{Source: "/etc/x", Destination: "/x", ReadOnly: true}},
		Labels:   map[string]string{"cke.cluster": "demo", "cke.incarnation": "fedcbafedcba", "cke.join": "abcdefabcdef"},
		NanoCPUs: 1_500_000_000, Memory: 1 << 30, Capabilities: []string{"DAC_OVERRIDE"}, StopSeconds: 30,
		LogOptions: map[string]string{"max-size": "10m", "max-file": "3"}, Restart: "no", Options: s.Join.Etcd.Digest(), Place: "https://10.0.0.1:2379 https://10.0.0.1:2380",
	}
	if d := cmp.Diff(want, Describe(s)); d != "" {
		t.Error(d)
	}
}

func TestDescribe_EachVersionAndMode(t *testing.T) {
	all := "--initial-cluster=n1=https://10.0.0.1:2380,n2=https://10.0.0.2:2380"
	alone := "--initial-cluster=n1=https://10.0.0.1:2380"
	gates := "--feature-gates=InitialCorruptCheck=true,CompactHashCheck=true"
	for _, test := range []struct {
		version string
		mode    cke.StartMode
		want    []string
		restart restartPolicy
	}{
		{"3.5.35", cke.StartPrepared, []string{"--experimental-initial-corrupt-check=true", "--experimental-compact-hash-check-enabled=true", alone, "--initial-cluster-state=existing"}, "no"},
		{"3.5.35", cke.StartJoin, []string{"--experimental-initial-corrupt-check=true", "--experimental-compact-hash-check-enabled=true", all, "--initial-cluster-state=existing"}, "no"},
		{"3.5.35", cke.StartOwnData, []string{"--experimental-initial-corrupt-check=true", "--experimental-compact-hash-check-enabled=true", alone, "--initial-cluster-state=existing"}, "always"},
		{"3.6.16", cke.StartPrepared, []string{gates, alone, "--initial-cluster-state=existing"}, "no"},
		{"3.6.16", cke.StartJoin, []string{gates, all, "--initial-cluster-state=existing"}, "no"},
		{"3.6.16", cke.StartOwnData, []string{gates, alone, "--initial-cluster-state=existing"}, "always"},
		{"3.7.3", cke.StartPrepared, []string{gates, alone, "--initial-cluster-state=existing"}, "no"},
		{"3.7.3", cke.StartJoin, []string{gates, all, "--initial-cluster-state=existing"}, "no"},
		{"3.7.3", cke.StartOwnData, []string{gates, alone, "--initial-cluster-state=existing"}, "always"},
	} {
		d := Describe(testSpec(test.version, test.mode))
		got := slices.DeleteFunc(slices.Clone(d.Args), func(a string) bool {
			return !strings.HasPrefix(a, "--experimental") && !strings.HasPrefix(a, "--feature") && !strings.HasPrefix(a, "--initial-cluster=") && !strings.HasPrefix(a, "--initial-cluster-state")
		})
		if diff := cmp.Diff(test.want, got); diff != "" || d.Restart != test.restart {
			t.Errorf("%s %s: restart %s, %s", test.version, test.mode, d.Restart, diff)
		}
	}
}

func TestDescribe_AddressesAndPorts(t *testing.T) {
	s := testSpec("3.6.16", cke.StartPrepared)
	s.Join.Node.Address = "fd00::1"
	if args := Describe(s).Args; !slices.Contains(args, "--listen-client-urls=https://[fd00::1]:2379,https://127.0.0.1:2379") {
		t.Errorf("IPv6: %q", args)
	}
	s.Join.Node.Address = "127.0.0.1"
	if args := Describe(s).Args; !slices.Contains(args, "--listen-client-urls=https://127.0.0.1:2379") {
		t.Errorf("on loopback: %q", args)
	}
	s.Join.ClientPort = 443
	if caps := Describe(s).Capabilities; !slices.Contains(caps, "NET_BIND_SERVICE") {
		t.Errorf("low port: %q", caps)
	}
}

func TestDigest_TellsWhatMakesAnotherContainer(t *testing.T) {
	base := Describe(testSpec("3.6.16", cke.StartPrepared))
	if again := Describe(testSpec("3.6.16", cke.StartPrepared)); again.Digest() != base.Digest() {
		t.Error("the same spec has two digests")
	}
	running := base
	running.Restart = restartAlways
	if running.Digest() != base.Digest() {
		t.Error("the restart policy is part of the digest")
	}
	options := reflect.TypeFor[cke.EtcdOptions]()
	// What a membership keeps of its options is in its own fields.
	seen := map[string]bool{"VolumeName": true, "VolumeRoot": true, "ClientPort": true, "PeerPort": true}
	for name, change := range map[string]func(*cke.MemberSpec){
		"mode":      func(s *cke.MemberSpec) { s.Mode = cke.StartJoin },
		"token":     func(s *cke.MemberSpec) { s.Token = "x" },
		"image":     func(s *cke.MemberSpec) { s.Join.Etcd.Image = "x" },
		"version":   func(s *cke.MemberSpec) { s.Join.Etcd.Version = "3.5.35" },
		"arguments": func(s *cke.MemberSpec) { s.Join.Etcd.ExtraArgs = []string{"--x"} },
		"variable":  func(s *cke.MemberSpec) { s.Join.Etcd.ExtraEnv = map[string]string{"A": "1"} },
		"CPUs":      func(s *cke.MemberSpec) { s.Join.Etcd.Resources.CPUs = 1 },
		"memory":    func(s *cke.MemberSpec) { s.Join.Etcd.Resources.Memory = 1 },
		"bind":      func(s *cke.MemberSpec) { s.Join.Etcd.ExtraBinds = []cke.Bind{{Source: "/a", Destination: "/b"}} },
	} {
		s := testSpec("3.6.16", cke.StartPrepared)
		change(&s)
		if Describe(s).Digest() == base.Digest() {
			t.Errorf("another %s has the same digest", name)
		}
		is, was := reflect.ValueOf(s.Join.Etcd), reflect.ValueOf(testSpec("3.6.16", cke.StartPrepared).Join.Etcd)
		for i := range options.NumField() {
			if !reflect.DeepEqual(is.Field(i).Interface(), was.Field(i).Interface()) {
				seen[options.Field(i).Name] = true
			}
		}
	}
	for i := range options.NumField() {
		if name := options.Field(i).Name; !seen[name] {
			t.Errorf("etcdnode/description_test.go: no row changes %s of cke.EtcdOptions, which must change the container", name)
		}
	}
}

// Requirement A3: no member is ever started with force-new-cluster, and one that starts on data of its own could form no
// cluster either.
func TestDescribe_NeverForcesANewCluster(t *testing.T) {
	for _, mode := range []cke.StartMode{cke.StartJoin, cke.StartOwnData, cke.StartPrepared} {
		for _, version := range []string{"3.5.35", "3.6.16", "3.7.3"} {
			args := strings.Join(Describe(testSpec(version, mode)).Args, " ")
			if strings.Contains(args, "force-new-cluster") || strings.Contains(args, "--initial-cluster-state=new") {
				t.Errorf("%s %s: %s", version, mode, args)
			}
		}
	}
}
