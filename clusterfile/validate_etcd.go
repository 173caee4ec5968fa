package clusterfile

import (
	"cmp"
	"fmt"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/distribution/reference"

	"cke"
)

var (
	volumeName   = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,199}$`)
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
)

// dataDir is where a member's volume is in its container.
const dataDir = "/var/lib/etcd"

// minMemory is the least that the Docker engine accepts as a limit.
const minMemory = 6 << 20

// checkEtcd checks how the members of c are to run.
func checkEtcd(f *findings, p string, c cke.Cluster) {
	o := c.Options.Etcd
	checkVersion(f, p+".version", o.Version)
	checkImage(f, p, o)
	checkVolume(f, p, o)
	checkPort(f, p+".client_port", o.ClientPort)
	checkPort(f, p+".peer_port", o.PeerPort)
	if port := cmp.Or(o.ClientPort, cke.DefaultClientPort); port == cmp.Or(o.PeerPort, cke.DefaultPeerPort) {
		at := p + ".peer_port"
		if !f.given(at) {
			at = p + ".client_port"
		}
		f.fault(at, fmt.Sprintf("clients and peers cannot share port %d", port), "Give client_port and peer_port different numbers.")
	}
	checkArgs(f, p+".extra_args", o)
	checkEnv(f, p+".extra_env", o.ExtraEnv)
	checkBinds(f, p+".extra_binds", o.ExtraBinds)
	if o.Resources.CPUs < 0 {
		f.fault(p+".resources.cpus", fmt.Sprintf("%v is negative", o.Resources.CPUs), "Write how many processors a member may use, as 2 or 0.5, or leave it out.")
	}
	if m := o.Resources.Memory; m != 0 && m < minMemory {
		f.fault(p+".resources.memory", fmt.Sprintf("%s is less than the 6MiB that the Docker engine asks for", m), "Write a limit that is enough for etcd, as 2GiB.")
	}
}

// checkVersion refuses what cke cannot or must not run. Source: etcd README and changelogs.
func checkVersion(f *findings, p, s string) {
	if s == "" {
		return
	}
	v, ok := cke.ParseVersion(s)
	ok = ok && v.String() == s // nodes get images of releases alone
	switch {
	case !ok && strings.HasPrefix(s, "v"):
		f.fault(p, fmt.Sprintf("%q is not a version", shorten(s)), "Write it without the v, as "+cke.DefaultEtcdVersion+".")
	case !ok:
		f.fault(p, fmt.Sprintf("%q is not a version", shorten(s)), "Write all three numbers, as "+cke.DefaultEtcdVersion+"; a build of your own is named by image.")
	case v.Major > 3:
		f.fault(p, fmt.Sprintf("cke runs etcd 3.5 and newer 3.x, not %s", s), "Choose "+cke.DefaultEtcdVersion+".")
	case v.Major != 3 || v.Minor < 5:
		f.fault(p, fmt.Sprintf("cke runs etcd 3.5 and newer 3.x, not %s", s), "Choose "+cke.DefaultEtcdVersion+"; bring an older cluster to 3.5 first.")
	case v.Corrupts():
		f.fault(p, fmt.Sprintf("etcd %s corrupts data when it is killed under load", s), fmt.Sprintf("Choose %s or newer.", cke.GoodRelease(v.Minor)))
	case v.Minor > cke.NewestMinor:
		f.warn(p, fmt.Sprintf("cke does not know etcd 3.%d yet: its arguments and its way to upgrade are not checked", v.Minor), "")
	case v.Compare(cke.GoodRelease(v.Minor)) < 0:
		f.warn(p, fmt.Sprintf("etcd %s has faults in security or consistency that later releases fix", s), fmt.Sprintf("Choose %s or newer.", cke.GoodRelease(v.Minor)))
	}
}

func checkImage(f *findings, p string, o cke.EtcdOptions) {
	if o.Image == "" {
		return
	}
	at := p + ".image"
	ref, err := reference.ParseNormalizedNamed(o.Image)
	if err != nil {
		f.fault(at, fmt.Sprintf("invalid image reference %q", shorten(o.Image)), "Write REGISTRY/NAME:TAG or REGISTRY/NAME@sha256:DIGEST, lower case, without https://.")
		return
	}
	_, pinned := ref.(reference.Digested)
	tag := ""
	if t, ok := ref.(reference.Tagged); ok {
		tag = t.Tag()
	}
	if !pinned && (tag == "" || tag == "latest") {
		f.warn(at, "does not name one definite image: nodes could run different ones", "Give it a tag or a digest.")
	}
	// The version decides on arguments and on the order of upgrades: it must be the image's own.
	switch tagged := o.TaggedVersion(); {
	case o.Version == "" && tagged != "":
		checkVersion(f, at, tagged)
	case tagged != "" && tagged != o.Version:
		f.fault(at, fmt.Sprintf("has the tag %s, but the version is %s", tag, o.Version), fmt.Sprintf("Set version: %s, or choose another image.", tagged))
	}
}

func checkVolume(f *findings, p string, o cke.EtcdOptions) {
	if n := o.VolumeName; n != "" && !volumeName.MatchString(n) {
		f.fault(p+".volume_name", fmt.Sprintf("invalid volume name %q", shorten(n)), "Write letters, digits, hyphens, underscores and dots, a letter or digit first; for a directory use volume_root.")
	}
	if o.VolumeRoot == "" || !checkPath(f, p+".volume_root", o.VolumeRoot) {
		return
	}
	for _, no := range []string{"/proc", "/sys", "/dev", "/run", "/var/run"} {
		if within(o.VolumeRoot, no) {
			f.fault(p+".volume_root", fmt.Sprintf("the content of %s is lost in a restart of the node", no), "Name a directory on a disk, as /mnt/nvme/etcd.")
		}
	}
	if within(o.VolumeRoot, "/tmp") {
		f.warn(p+".volume_root", "many systems empty /tmp when they start", "Name a directory on a disk, as /mnt/nvme/etcd.")
	}
}

func checkBinds(f *findings, p string, binds []cke.Bind) {
	destinations := map[string]string{}
	for i, b := range binds {
		at := itemPath(p, i)
		if checkPath(f, at+".source", b.Source) {
			checkBindSource(f, at+".source", b)
		}
		if !checkPath(f, at+".destination", b.Destination) {
			continue
		}
		if within(b.Destination, dataDir) || within(dataDir, b.Destination) {
			f.fault(at+".destination", fmt.Sprintf("%s clashes with %s, where the member's own volume is", b.Destination, dataDir), "Choose another path in the container; to put the data on a disk of its own, use volume_root.")
		}
		for _, hides := range []string{"/bin", "/dev", "/etc", "/lib", "/lib64", "/proc", "/sbin", "/sys", "/usr", "/usr/local", "/usr/local/bin", "/var", "/var/lib"} {
			if b.Destination == hides || (hides == "/proc" || hides == "/sys" || hides == "/dev" || hides == "/usr/local/bin") && within(b.Destination, hides) {
				f.fault(at+".destination", fmt.Sprintf("%s would hide the content of %s in etcd's image, and etcd would not start", b.Destination, hides), "Choose a path that the image does not have, as /extra.")
			}
		}
		twice(f, destinations, at+".destination", b.Destination, "destination", "Every bind has its own path in the container.")
	}
}

// checkBindSource refuses what gives a member the node, or the data of others.
func checkBindSource(f *findings, p string, b cke.Bind) {
	s := b.Source
	switch {
	case within(s, "/proc"), within(s, "/sys"), within(s, "/dev"):
		f.fault(p, fmt.Sprintf("%s is the kernel's, not a directory of the node", s), "Name a directory on a disk, as /mnt/fast.")
	case strings.HasSuffix(s, "/docker.sock"), s == "/run", s == "/var/run", s == "/var", s == "/var/lib", within(s, "/var/lib/docker"):
		f.fault(p, fmt.Sprintf("with %s a member could do everything on the node that root can, and reach the data of other members", s), "Name a directory of its own, as /mnt/fast.")
	case !b.ReadOnly && slices.Contains([]string{"/bin", "/boot", "/etc", "/home", "/lib", "/lib64", "/opt", "/root", "/sbin", "/srv", "/usr", "/usr/bin", "/usr/local"}, s):
		f.fault(p, fmt.Sprintf("a member could write to all of %s on the node", s), "Add read_only: true, or name a directory of its own.")
	}
}

// checkPath reports whether s is an absolute path below the root, written plainly.
func checkPath(f *findings, p, s string) bool {
	switch {
	case s == "":
		f.fault(p, "is missing", "Write an absolute path, as /mnt/fast.")
	case strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f }):
		f.fault(p, "has a control character in it", "Write an absolute path, as /mnt/fast.")
	case !path.IsAbs(s):
		f.fault(p, fmt.Sprintf("%q is a relative path", shorten(s)), "Write an absolute path, as /mnt/fast.")
	case path.Clean(s) == "/":
		f.fault(p, "is the root of the file system", "Write a directory below it, as /mnt/fast.")
	case path.Clean(s) != s:
		f.fault(p, fmt.Sprintf("%q is not a canonical path", shorten(s)), fmt.Sprintf("Write %s.", path.Clean(s)))
	default:
		return true
	}
	return false
}

// within reports whether the path p is dir or lies in it.
func within(p, dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }

func checkEnv(f *findings, p string, env map[string]string) {
	for _, name := range slices.Sorted(maps.Keys(env)) {
		value := env[name]
		at := childPath(p, name)
		switch {
		case !variableName.MatchString(name):
			f.fault(at, "is not a valid name of an environment variable", "Write letters, digits and underscores, no digit first.")
		case strings.HasPrefix(name, "ETCD_"):
			arg := strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(name, "ETCD_")), "_", "-")
			remedy := fmt.Sprintf("Write --%s=%s in extra_args, where it is checked.", arg, shorten(value))
			if reserved(arg) != "" {
				remedy = reservedRemedy(arg)
			}
			f.fault(at, fmt.Sprintf("etcd takes this variable for the argument --%s", arg), remedy)
		case strings.ContainsRune(value, 0):
			f.fault(at, "has a null character in it", "")
		}
	}
}
