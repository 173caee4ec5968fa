package cke

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"math"
	"net"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// Defaults of a cluster file.
const (
	DefaultEtcdVersion = "3.6.16"
	DefaultImage       = "gcr.io/etcd-development/etcd" // the tag is "v" + version
	DefaultVolumeName  = "etcd-cke"
	DefaultClientPort  = 2379
	DefaultPeerPort    = 2380
	DefaultSSHPort     = 22
	DefaultSSHUser     = "root"
)

// KeyOptions precede a key in authorized_keys to leave it good for the engine's socket and nothing else: no shell, no
// command, no terminal, no agent, no TCP in either direction. OpenSSH matches permitopen against the path of a unix socket
// when the path is in brackets and the port is *. What the key can still do is make a unix socket of its own on the node
// (ssh -R); sshd_config's "AllowStreamLocalForwarding local" takes that too. Checked with OpenSSH 9.2; see docs/nodes.md.
const KeyOptions = `restrict,port-forwarding,permitopen="[/var/run/docker.sock]:*",permitlisten="localhost:1",command="/bin/false"`

// Cluster is the content of one cluster file. ParseCluster leaves out what the file leaves out; WithDefaults fills it
// in.
type Cluster struct {
	// Name identifies the cluster in the store, in labels and in certificates; 1–40 of [a-z0-9-].
	Name     string   `yaml:"name" json:"name"`
	Nodes    []Node   `yaml:"nodes" json:"nodes"`
	Options  Options  `yaml:"options,omitempty" json:"options,omitzero"`
	Policies Policies `yaml:"policies,omitempty" json:"policies,omitzero"`
	// Backup is off if zero.
	Backup Backup `yaml:"backup,omitempty" json:"backup,omitzero"`
	// Reboot says how nodes of the reboot queue are rebooted.
	Reboot RebootOptions `yaml:"reboot,omitempty" json:"reboot,omitzero"`
	// Repair says how nodes of the repair queue are repaired.
	Repair RepairOptions `yaml:"repair,omitempty" json:"repair,omitzero"`
	// Prefer are the management hosts whose daemons should lead the cluster, in any order. While none of those is alive, any daemon leads.
	Prefer []string `yaml:"prefer,omitempty" json:"prefer,omitempty"`
}

// Node is a declared machine.
type Node struct {
	// Address is an IP address at which other members and the management host reach the node. Unique in a cluster.
	Address string `yaml:"address" json:"address"`
	// Hostname is also the member's name in etcd; default: the address. Unique in a cluster.
	Hostname string `yaml:"hostname,omitempty" json:"hostname,omitempty"`
	User     string `yaml:"user,omitempty" json:"user,omitempty"`
	// ControlPlane marks a control-plane node: it should carry a member.
	ControlPlane bool              `yaml:"control_plane,omitempty" json:"control_plane,omitempty"`
	SSH          SSH               `yaml:"ssh,omitempty" json:"ssh,omitzero"`
	Zone         string            `yaml:"zone,omitempty" json:"zone,omitempty"`
	Labels       map[string]string `yaml:"labels,omitempty" json:"labels,omitempty"`
	Annotations  map[string]string `yaml:"annotations,omitempty" json:"annotations,omitempty"`
}

// SSH is how to reach a node.
type SSH struct {
	Port int `yaml:"port,omitempty" json:"port,omitempty"`
	// HostKey is one line of an authorized_keys file ("ssh-ed25519 AAAA…"); empty: pinned at the first connection.
	HostKey string `yaml:"host_key,omitempty" json:"host_key,omitempty"`
}

// Options are the technical options of a cluster.
type Options struct {
	Etcd EtcdOptions `yaml:"etcd,omitempty" json:"etcd,omitzero"`
}

// EtcdOptions describe how every member runs.
type EtcdOptions struct {
	// Version without "v", as "3.6.16".
	Version string `yaml:"version,omitempty" json:"version,omitempty"`
	// Image is a full reference, a digest allowed; default: the official image of Version.
	Image string `yaml:"image,omitempty" json:"image,omitempty"`
	// VolumeName is a base name: each membership has its own volume, VolumeName + "." + membership id.
	VolumeName string `yaml:"volume_name,omitempty" json:"volume_name,omitempty"`
	// VolumeRoot, when set, is an absolute directory on the nodes that holds the volumes as directories.
	VolumeRoot string   `yaml:"volume_root,omitempty" json:"volume_root,omitempty"`
	ClientPort int      `yaml:"client_port,omitempty" json:"client_port,omitempty"`
	PeerPort   int      `yaml:"peer_port,omitempty" json:"peer_port,omitempty"`
	ExtraArgs  []string `yaml:"extra_args,omitempty" json:"extra_args,omitempty"`

	ExtraEnv   map[string]string `yaml:"extra_env,omitempty" json:"extra_env,omitempty"`
	ExtraBinds []Bind            `yaml:"extra_binds,omitempty" json:"extra_binds,omitempty"`
	Resources  Resources         `yaml:"resources,omitempty" json:"resources,omitzero"`
}

// Bind mounts a directory of the node into the etcd container. Both paths are absolute.
type Bind struct {
	Source      string `yaml:"source" json:"source"`
	Destination string `yaml:"destination" json:"destination"`
	ReadOnly    bool   `yaml:"read_only,omitempty" json:"read_only,omitempty"`
}

// Resources limit one etcd container; zero means no limit.
type Resources struct {
	CPUs   float64 `yaml:"cpus,omitempty" json:"cpus,omitempty"`
	Memory Size    `yaml:"memory,omitempty" json:"memory,omitempty"`
}

// Of reports whether a container has these limits: `docker update` may have changed them.
func (r Resources) Of(c Container) bool {
	const grain = 1e-6 // engines count billionths of a CPU
	return math.Abs(r.CPUs-c.CPUs) < grain && int64(r.Memory) == c.Memory
}

// WithDefaults returns a copy of c with every default filled in. It is idempotent.
func (c Cluster) WithDefaults() Cluster {
	c.Nodes = slices.Clone(c.Nodes)
	for i := range c.Nodes {
		n := &c.Nodes[i]
		n.Hostname = cmp.Or(n.Hostname, n.Address)
		n.User = cmp.Or(n.User, DefaultSSHUser)
		n.SSH.Port = cmp.Or(n.SSH.Port, DefaultSSHPort)
	}
	e := &c.Options.Etcd
	e.Version = cmp.Or(e.NamedVersion(), DefaultEtcdVersion)
	e.Image = cmp.Or(e.Image, DefaultImage+":v"+e.Version)
	e.VolumeName = cmp.Or(e.VolumeName, DefaultVolumeName)
	e.ClientPort = cmp.Or(e.ClientPort, DefaultClientPort)
	e.PeerPort = cmp.Or(e.PeerPort, DefaultPeerPort)
	c.Policies = c.Policies.withDefaults()
	c.Reboot, c.Repair = c.Reboot.WithDefaults(), c.Repair.WithDefaults()
	return c
}

// ControlPlane returns the control-plane nodes in the order of the file. Do not modify the slice: it may be part of
// c.
func (c Cluster) ControlPlane() []Node {
	count, first := 0, 0
	for i := range c.Nodes {
		if c.Nodes[i].ControlPlane {
			if count == 0 {
				first = i
			}
			count++
		}
	}
	end := first + count
	nodes := c.Nodes[first:end:end]
	if slices.ContainsFunc(nodes, func(n Node) bool { return !n.ControlPlane }) { // others stand between them
		nodes = slices.DeleteFunc(slices.Clone(c.Nodes), func(n Node) bool { return !n.ControlPlane })
	}
	return nodes
}

// Node returns the declared node with this hostname or address.
func (c Cluster) Node(name string) (Node, bool) {
	for _, n := range c.Nodes {
		if n.Hostname == name || n.Address == name {
			return n, true
		}
	}
	return Node{}, false
}

// ClientURL returns where clients reach the member on n.
func (o EtcdOptions) ClientURL(n Node) string { return httpsURL(n.Address, o.ClientPort) }

// PeerURL returns where other members reach the member on n.
func (o EtcdOptions) PeerURL(n Node) string { return httpsURL(n.Address, o.PeerPort) }

// Volume returns the name of the volume, and of the container, of one membership.
func (o EtcdOptions) Volume(join JoinID) string { return o.VolumeName + "." + string(join) }

// Name returns the node's name: its hostname, or its address if it has none.
func (n Node) Name() string { return cmp.Or(n.Hostname, n.Address) }

// SSHAddress returns host:port of the node's sshd.
func (n Node) SSHAddress() string {
	return net.JoinHostPort(n.Address, strconv.Itoa(cmp.Or(n.SSH.Port, DefaultSSHPort)))
}

// Login returns how a command names a login to the node: USER@ADDRESS, with the port where that is not the usual one.
func (n Node) Login() string {
	at := n.Address
	if cmp.Or(n.SSH.Port, DefaultSSHPort) != DefaultSSHPort {
		at = n.SSHAddress()
	}
	return n.User + "@" + at
}

func httpsURL(host string, port int) string {
	return "https://" + net.JoinHostPort(host, strconv.Itoa(port))
}

// plain is an https URL without TLS.
func plain(url string) string { return "http" + strings.TrimPrefix(url, "https") }

// PlacedAs returns o with the volume and the ports of p, which a membership keeps whatever is declared.
func (o EtcdOptions) PlacedAs(p EtcdOptions) EtcdOptions {
	o.VolumeName, o.VolumeRoot, o.ClientPort, o.PeerPort = p.VolumeName, p.VolumeRoot, p.ClientPort, p.PeerPort
	return o
}

// Differences names the options in which members of o and p would run differently; none: they would run alike.
func (o EtcdOptions) Differences(p EtcdOptions) []string {
	var names []string
	for _, option := range [...]struct {
		name string
		same bool
	}{
		{"version", o.Version == p.Version},
		{"image", o.Image == p.Image},
		{"volume", o.VolumeName == p.VolumeName && o.VolumeRoot == p.VolumeRoot},
		{"ports", o.ClientPort == p.ClientPort && o.PeerPort == p.PeerPort},
		{"arguments", slices.Equal(o.ExtraArgs, p.ExtraArgs)},
		{"environment", maps.Equal(o.ExtraEnv, p.ExtraEnv)},
		{"binds", slices.Equal(o.ExtraBinds, p.ExtraBinds)},
		{"limits", o.Resources == p.Resources},
	} {
		if !option.same {
			names = append(names, option.name)
		}
	}
	return names
}

// Equal reports whether members of o and p would run alike.
func (o EtcdOptions) Equal(p EtcdOptions) bool { return o.Differences(p) == nil }

// Digest is equal for options with which a member runs alike, apart from its place: a container's label records it.
// An option that is not set does not count, so that a new one changes no digest.
func (o EtcdOptions) Digest() string {
	d := o.digest()
	return string(d[:])
}

// MadeWith reports whether the container was made with these options, or has no label of them. It is called for every
// member in every observation, so it must be cheap.
func (c Container) MadeWith(o EtcdOptions) bool {
	if c.Options == "" {
		return true
	}
	d := o.digest()
	return c.Options == string(d[:])
}

// digest hashes each option that is set, by its name and in quotes: no two look alike.
func (o *EtcdOptions) digest() (text [32]byte) {
	var room [1024]byte
	b := room[:0]
	if o.Version != "" {
		b = appendOption(b, "version", o.Version)
	}
	if o.Image != "" {
		b = appendOption(b, "image", o.Image)
	}
	for _, arg := range o.ExtraArgs {
		b = appendOption(b, "extra_args", arg)
	}
	if len(o.ExtraEnv) > 0 {
		for _, name := range slices.Sorted(maps.Keys(o.ExtraEnv)) {
			b = appendOption(b, "extra_env", name)
			b = appendOption(b, "value", o.ExtraEnv[name])
		}
	}
	for _, bind := range o.ExtraBinds {
		b = appendOption(b, "source", bind.Source)
		b = appendOption(b, "destination", bind.Destination)
		if bind.ReadOnly {
			b = appendOption(b, "read_only", "true")
		}
	}
	if o.Resources.CPUs != 0 {
		b = strconv.AppendFloat(append(b, "cpus="...), o.Resources.CPUs, 'g', -1, 64)
	}
	if o.Resources.Memory != 0 {
		b = strconv.AppendInt(append(b, "memory="...), int64(o.Resources.Memory), 10)
	}
	sum := sha256.Sum256(b)
	hex.Encode(text[:], sum[:16])
	return text
}

func appendOption(b []byte, name, value string) []byte {
	return append(strconv.AppendQuote(append(append(b, name...), '='), value), '\n')
}

// MarshalCluster returns c as YAML that ParseCluster reads back unchanged; what is not set is left out.
func MarshalCluster(c Cluster) ([]byte, error) {
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := e.Encode(c); err != nil {
		return nil, fmt.Errorf("write cluster %q as YAML: %w", c.Name, err)
	}
	return b.Bytes(), nil
}
