package etcdnode

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"strings"

	"cke"
)

// Labels of containers and volumes.
const (
	LabelCluster     = "cke.cluster"
	LabelIncarnation = "cke.incarnation"
	LabelJoin        = "cke.join"
	// LabelDescription is the digest of the Description that a container was made from.
	LabelDescription = "cke.description"
	// LabelOptions is the digest of the EtcdOptions that a container was made with.
	LabelOptions = "cke.options"
	// LabelPlace is where the member of a container is reached: its client URL and its peer URL.
	LabelPlace = "cke.place"
	// LabelHelper marks a container that is no member: it is never started, or runs one command, and is removed.
	LabelHelper = "cke.helper"
	// LabelOver is the label of a volume that only marks incarnations as over: their ids, separated by spaces.
	LabelOver = "cke.over"
)

// Where things are in an etcd container. The volume is mounted at DataPath.
const (
	DataPath = "/var/lib/etcd"
	dataDir  = "data"
	pkiDir   = cke.CertificateDir
	// incomingDir has files that are on their way to their places.
	incomingDir = pkiDir + ".new"
)

// Bounds of every etcd container.
const (
	stopSeconds = 30 // etcd moves its leadership away first; source: etcd, request timeout
	logSize     = "10m"
	logFiles    = "3"
)

// restartPolicy is Docker's word for who starts a container again.
type restartPolicy string

const (
	restartNever restartPolicy = "no"
	// With "unless-stopped" containers stay down after an engine crashed. StopContainer takes this away before it stops.
	restartAlways restartPolicy = "always"
)

// Description is all that an etcd container is made from, in Docker's terms. The rest is the same for all: the host's
// network, a read-only root file system, no privilege, the volume at DataPath, the user of the image. There is no
// limit of open files: etcd raises its own to the engine's bound, as every Go program does, and an engine without
// CAP_SYS_RESOURCE could not set another.
type Description struct {
	Name         string // of the container
	Image        string
	Entrypoint   []string
	Args         []string
	Env          []string // sorted
	Volume       string
	Binds        []cke.Bind `json:",omitempty"`
	Labels       map[string]string
	NanoCPUs     int64 `json:",omitempty"` // 10⁻⁹ CPUs; 0: no limit
	Memory       int64 `json:",omitempty"` // bytes; 0: no limit
	Capabilities []string
	StopSeconds  int
	LogOptions   map[string]string
	// Restart is not part of the digest: KeepRunning changes it later.
	Restart restartPolicy `json:"-"`
	// Options is the digest of the options behind all this, Place where the member is reached; not part of the digest.
	Options string `json:"-"`
	Place   string `json:"-"`
}

// Digest is equal for descriptions that make the same container, apart from the restart policy.
func (d Description) Digest() string {
	b, err := json.Marshal(d)
	if err != nil {
		panic(err) // strings, numbers and lists only
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:16])
}

// Describe returns the full description of a member's container. It is a pure function of its argument.
//
// The engine may restart a member by itself only with StartOwnData: etcd with these arguments refuses to start on an
// empty volume.
func Describe(s cke.MemberSpec) Description {
	j := s.Join
	d := Description{
		Name: j.Volume, Image: j.Etcd.Image, Entrypoint: []string{"etcd"}, Args: arguments(s), Env: environment(j.Etcd.ExtraEnv),
		Volume: j.Volume, Binds: j.Etcd.ExtraBinds, Labels: labels(s),
		NanoCPUs: int64(j.Etcd.Resources.CPUs * 1e9), Memory: int64(j.Etcd.Resources.Memory),
		// The volume's directory may belong to another user than root.
		Capabilities: []string{"DAC_OVERRIDE"},
		StopSeconds:  stopSeconds,
		LogOptions:   map[string]string{"max-size": logSize, "max-file": logFiles},
		Restart:      restartNever,
		Options:      j.Etcd.Digest(),
		Place:        j.Place(),
	}
	if min(j.ClientPort, j.PeerPort) < 1024 {
		d.Capabilities = append(d.Capabilities, "NET_BIND_SERVICE")
	}
	if s.Mode == cke.StartOwnData {
		d.Restart = restartAlways
	}
	return d
}

func labels(s cke.MemberSpec) map[string]string {
	return map[string]string{LabelCluster: s.Cluster, LabelIncarnation: s.Join.Incarnation, LabelJoin: string(s.Join.ID)}
}

func environment(extra map[string]string) []string {
	var env []string
	for _, k := range slices.Sorted(maps.Keys(extra)) {
		env = append(env, k+"="+extra[k])
	}
	return env
}

// arguments are etcd's. The user's extra ones come last: etcd takes the last of a flag that stands twice.
func arguments(s cke.MemberSpec) []string {
	j := s.Join
	args := []string{
		"--name=" + j.Member,
		"--data-dir=" + DataPath + "/" + dataDir,
		"--listen-client-urls=" + strings.Join(listenURLs(j), ","),
		"--advertise-client-urls=" + j.ClientURL(),
		"--listen-peer-urls=" + j.PeerURL(),
		"--initial-advertise-peer-urls=" + j.PeerURL(),
		"--client-cert-auth=true",
		"--trusted-ca-file=" + DataPath + "/" + cke.ClientCAFile,
		"--cert-file=" + DataPath + "/" + cke.ServerCertFile,
		"--key-file=" + DataPath + "/" + cke.ServerKeyFile,
		"--peer-client-cert-auth=true",
		"--peer-trusted-ca-file=" + DataPath + "/" + cke.PeerCAFile,
		"--peer-cert-file=" + DataPath + "/" + cke.PeerCertFile,
		"--peer-key-file=" + DataPath + "/" + cke.PeerKeyFile,
		"--pre-vote=true",
		"--logger=zap",
		"--log-level=info",
	}
	args = append(args, corruptionChecks(j.Etcd.Version)...)
	args = append(args, initialCluster(s)...)
	return append(args, j.Etcd.ExtraArgs...)
}

// listenURLs are the node's address and the loopback one, for etcdctl on the node.
func listenURLs(j cke.Join) []string {
	urls := []string{j.ClientURL()}
	if loopback := "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(j.ClientPort)); loopback != urls[0] {
		urls = append(urls, loopback)
	}
	return urls
}

// corruptionChecks turns on the cheap checks, under the names that the minor version knows. Unknown versions count as
// new ones: 3.7 does not start with an --experimental flag. Source: etcd, upgrade guides to 3.6 and 3.7.
func corruptionChecks(version string) []string {
	if v, ok := cke.ParseVersion(version); ok && v.Minor == 5 {
		return []string{"--experimental-initial-corrupt-check=true", "--experimental-compact-hash-check-enabled=true"}
	}
	return []string{"--feature-gates=InitialCorruptCheck=true,CompactHashCheck=true"}
}

// initialCluster says with whom to start. A member that has its data ignores it, and one that should have refuses to
// start without: it is alone in its list, in a cluster that exists.
func initialCluster(s cke.MemberSpec) []string {
	peers := s.Peers
	if s.Mode != cke.StartJoin {
		peers = []cke.Peer{{Name: s.Join.Member, URL: s.Join.PeerURL()}}
	}
	peers = slices.SortedFunc(slices.Values(peers), func(a, b cke.Peer) int { return cmp.Compare(a.URL, b.URL) })
	var list []string
	for _, p := range peers {
		list = append(list, p.Name+"="+p.URL)
	}
	return []string{
		"--initial-cluster=" + strings.Join(list, ","),
		"--initial-cluster-token=" + s.Token,
		"--initial-cluster-state=existing",
	}
}

// startsEmpty reports whether etcd could start with these arguments, which are a member's, on an empty volume: they found a
// cluster, or name others to ask.
func startsEmpty(args []string) bool {
	return slices.ContainsFunc(args, func(a string) bool {
		peers, ok := strings.CutPrefix(a, "--initial-cluster=")
		return a == "--initial-cluster-state=new" || ok && strings.Contains(peers, ",")
	})
}

// ours returns cke.ErrConflict unless the container is the join's.
func ours(c cke.Container, j cke.Join) error {
	if c.Join == j.ID && c.Incarnation == j.Incarnation {
		return nil
	}
	return fmt.Errorf("%s on %s carries the labels of another membership (%q): %w", c.Name, j.Node.Name(), c.Join, cke.ErrConflict)
}
