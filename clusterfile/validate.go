package clusterfile

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"golang.org/x/crypto/ssh"

	"cke"
	"cke/quorum"
)

var (
	clusterName = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,38}[a-z0-9])?$`)
	hostLike    = regexp.MustCompile(`^[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?$`)
	userName    = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_.@\\-]*\$?$`)
)

// checkCluster puts everything that is wrong with c into f.
func checkCluster(f *findings, c cke.Cluster) {
	checkName(f, c.Name)
	checkNodes(f, c)
	checkEtcd(f, "options.etcd", c)
	checkPolicies(f, "policies", c.Policies)
	checkBackup(f, "backup", c.Backup)
	checkReboot(f, "reboot", c.Reboot)
	checkRepair(f, "repair", c.Repair)
	checkPrefer(f, "prefer", c.Prefer)
	checkRemoval(f, c)
}

// maxPreferred is how many management hosts a cluster may prefer.
const maxPreferred = 16

// checkPrefer checks names of management hosts. Whether they have a daemon is not known here, and may change at any time.
func checkPrefer(f *findings, path string, hosts []string) {
	if n := len(hosts); n > maxPreferred {
		f.fault(path, fmt.Sprintf("has %d management hosts", n), fmt.Sprintf("Name at most %d.", maxPreferred))
	}
	names := map[string]string{}
	for i, host := range hosts {
		p := itemPath(path, i)
		if len(host) > 253 || !hostLike.MatchString(host) {
			f.fault(p, fmt.Sprintf("invalid host name %q", shorten(host)), "Write the name of a management host, as `ckecli leader` shows it.")
			continue
		}
		twice(f, names, p, host, "name", "Name each management host once.")
	}
}

func checkName(f *findings, name string) {
	const path = "name"
	switch {
	case name == "":
		f.fault(path, "is missing", "Give the cluster a name, as in name: prod.")
	case !clusterName.MatchString(name):
		f.fault(path, fmt.Sprintf("invalid cluster name %q", shorten(name)),
			"Write 1 to 40 lower-case letters, digits and hyphens, no hyphen at either end.")
	}
}

// checkNodes checks every node by itself, then against the others.
func checkNodes(f *findings, c cke.Cluster) {
	const path = "nodes"
	if len(c.Nodes) == 0 {
		f.fault(path, "is missing: a cluster needs at least one node", "Declare a node with its address, as in - address: 10.0.0.11.")
		return
	}
	names := map[string]string{}     // every name and address of a node to the path that has it
	addresses := map[string]string{} // canonical
	keys := map[string]string{}
	etcd := c.Options.Etcd
	for i, n := range c.Nodes {
		p := itemPath(path, i)
		address := checkAddress(f, p+".address", n.Address)
		checkHostname(f, p+".hostname", n)
		checkUser(f, p+".user", n.User)
		checkPort(f, p+".ssh.port", n.SSH.Port)
		key := checkHostKey(f, p+".ssh.host_key", n.SSH.HostKey)
		checkLabels(f, p+".labels", n.Labels)
		checkLabels(f, p+".annotations", n.Annotations)
		if n.ControlPlane {
			checkSSHPortFree(f, p, cmp.Or(n.SSH.Port, cke.DefaultSSHPort), etcd)
		}
		twice(f, addresses, p+".address", address, "address", "Every node has its own address.")
		if n.Hostname != "" && n.Hostname != n.Address {
			twice(f, names, p+".hostname", n.Hostname, "name", "Every node has its own name.")
		}
		if first, ok := keys[key]; ok && key != "" {
			f.warn(p+".ssh.host_key", fmt.Sprintf("is the same host key as %s", at(f, first)), "Two machines with one key are clones, or one machine is declared twice.")
		}
		keys[key] = p + ".ssh.host_key"
	}
	checkControlPlane(f, path, len(c.ControlPlane()))
	checkZones(f, path, c)
}

// checkControlPlane checks the number of members that are to be.
func checkControlPlane(f *findings, path string, n int) {
	if faultyBelow(f, path, ".control_plane") { // then the count is not what the person meant
		return
	}
	switch {
	case n == 0:
		f.fault(path, "no node is a control-plane node: there would be no member", fmt.Sprintf("Mark 1 to %d nodes with control_plane: true; three or five are usual.", quorum.MostVoters))
	case n > quorum.MostVoters:
		f.fault(path, fmt.Sprintf("%d nodes are control-plane nodes: etcd supports at most %d members", n, quorum.MostVoters), "Remove control_plane: true from some; three or five are usual.")
	case n%2 == 0:
		f.warn(path, fmt.Sprintf("%d control-plane nodes tolerate the loss of %d, no more than %d do: quorum of %d is %d, of %d it is %d",
			n, n-quorum.Of(n), n-1, n, quorum.Of(n), n-1, quorum.Of(n-1)),
			fmt.Sprintf("Declare %d or %d.", n-1, n+1))
	}
}

// checkZones warns where zones are declared and one of them cannot be lost although the number of members would allow it.
func checkZones(f *findings, path string, c cke.Cluster) {
	s := c.DeclaredSpread()
	n := len(s.Voters)
	most := n - quorum.Of(n)
	if len(s.Zones) == 0 || most == 0 || s.AnyOne() {
		return
	}
	if names := s.Unplaced(); names != nil {
		f.warn(path, fmt.Sprintf("no zone is declared of %s: each counts as in every zone", strings.Join(names, ", ")), "Declare the zone of every control-plane node.")
		return
	}
	for _, z := range s.Zones {
		if !z.CanBeLost {
			f.warn(path, fmt.Sprintf("%d of %d control-plane nodes are in zone %s: without it there is no quorum", len(z.Voters), n, shorten(z.Name)),
				fmt.Sprintf("Have at most %d in one zone; that takes three zones or more.", most))
		}
	}
}

// checkAddress returns the address in its canonical form, or "" when it is none.
func checkAddress(f *findings, path, s string) string {
	a, err := netip.ParseAddr(s)
	switch {
	case s == "":
		f.fault(path, "is missing", "Give the node's IP address, as in address: 10.0.0.11.")
	case err != nil && looksLikeHost(s):
		f.fault(path, fmt.Sprintf("%q is a host name, want an IP address", shorten(s)), "Write the node's IP address here and the name in hostname. Members must find each other without DNS.")
	case err != nil:
		f.fault(path, fmt.Sprintf("invalid IP address %q", shorten(s)), "Write it without port and without network mask, as 10.0.0.11 or 2001:db8::11.")
	case a.Zone() != "":
		f.fault(path, fmt.Sprintf("%q has a zone, which is valid on one machine only", s), "Write an address that all nodes can reach.")
	case a.IsUnspecified(), a.IsMulticast(), a.Unmap() == netip.AddrFrom4([4]byte{255, 255, 255, 255}):
		f.fault(path, fmt.Sprintf("%s is not the address of a machine", s), "Write the address by which the other nodes reach this one.")
	case a.Unmap().String() != s:
		f.fault(path, fmt.Sprintf("%q is not the usual way to write this address", s), fmt.Sprintf("Write %s: addresses are compared as text.", a.Unmap()))
	case a.IsLoopback():
		f.warn(path, fmt.Sprintf("%s is a loopback address: every machine reaches only itself by it", s), "Write the address by which the other nodes reach this one.")
		return s
	default:
		return s
	}
	return ""
}

func looksLikeHost(s string) bool {
	return hostLike.MatchString(s) && strings.ContainsFunc(s, unicode.IsLetter)
}

func checkHostname(f *findings, path string, n cke.Node) {
	if n.Hostname == "" || n.Hostname == n.Address {
		return
	}
	if _, err := netip.ParseAddr(n.Hostname); err == nil {
		f.fault(path, fmt.Sprintf("%s is an IP address other than the node's own", n.Hostname), "Give the node a name of its own, or leave it out.")
	} else if !cke.ValidHostname(n.Hostname) {
		f.fault(path, fmt.Sprintf("invalid host name %q", shorten(n.Hostname)), "Write letters, digits, hyphens and dots; it is also the member's name in etcd.")
	}
}

func checkUser(f *findings, path, s string) {
	if s != "" && !userName.MatchString(s) {
		f.fault(path, fmt.Sprintf("invalid user name %q", shorten(s)), "Write the name of the user that cke logs in as.")
	}
}

// checkPort accepts 0 only where it was left out.
func checkPort(f *findings, path string, port int) {
	if port < 0 || port > 65535 || port == 0 && f.given(path) {
		f.fault(path, fmt.Sprintf("invalid port %d", port), "Write a number from 1 to 65535.")
	}
}

func checkSSHPortFree(f *findings, node string, sshPort int, o cke.EtcdOptions) {
	if sshPort == cmp.Or(o.ClientPort, cke.DefaultClientPort) || sshPort == cmp.Or(o.PeerPort, cke.DefaultPeerPort) {
		f.fault(node+".ssh.port", fmt.Sprintf("port %d is also a port of etcd", sshPort), "Choose another client_port or peer_port in options.etcd.")
	}
}

// checkHostKey returns the key in the wire format, or "".
func checkHostKey(f *findings, path, s string) string {
	if s == "" {
		return ""
	}
	const remedy = "Write the type and the key, as ssh-keyscan prints them after the host: \"ssh-ed25519 AAAA…\"."
	key, _, options, rest, err := ssh.ParseAuthorizedKey([]byte(s))
	switch {
	case strings.Contains(s, "PRIVATE KEY"):
		f.fault(path, "is a private key, want the public host key", remedy+" Remove the private key from this file, and make a new one if others could read it.")
	case err != nil:
		f.fault(path, "is not a public host key", remedy)
	case len(bytes.TrimSpace(rest)) > 0:
		f.fault(path, "is more than one key", "Write the one key that cke must expect; an ed25519 key is best.")
	case len(options) > 0:
		f.fault(path, fmt.Sprintf("has %q before the key", shorten(options[0])), remedy)
	case strings.Contains(key.Type(), "-cert-"):
		f.fault(path, "is a certificate, want a plain key", remedy)
	default:
		return string(key.Marshal())
	}
	return ""
}

func checkLabels(f *findings, path string, labels map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		if !cke.ValidLabelKey(key) {
			f.fault(childPath(path, key), "is not a valid key of a label", "Write a word without spaces.")
		}
	}
}

// twice reports a value that is at two paths.
func twice(f *findings, seen map[string]string, path, value, what, remedy string) {
	if value == "" {
		return
	}
	if first, ok := seen[value]; ok {
		f.fault(path, fmt.Sprintf("%s %s is given twice, first at %s", what, value, at(f, first)), remedy)
		return
	}
	seen[value] = path
}

// at names a path, and its line where there is one.
func at(f *findings, path string) string {
	if line := f.line(path); line > 0 {
		return fmt.Sprintf("%s in line %d", path, line)
	}
	return path
}
