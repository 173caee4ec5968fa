package preflight

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/crypto/ssh"

	"cke"
	"cke/internal/term"
	"cke/op"
	"cke/preflight/probe"
)

// What is asked of nodes.
const (
	// clockWarn is how far a clock may be off; engines tell theirs to the second.
	clockWarn = 2 * time.Second
	// syncLimit is what 99 of 100 small writes may take until they are on the disk; source: etcd docs, FAQ. A disk on which
	// half of them take longer is no disk for etcd; the slowest may be others' doing.
	syncLimit = 10 * time.Millisecond
)

// Judge makes the checks of each node from the observation and from what visits found, by address. A check that could not be
// made is a warning that says why.
func Judge(c cke.Cluster, own Members, seen cke.Observation, keys Keys, visits map[string]Visit) []Check {
	all := []Check{}
	for _, st := range seen.Nodes {
		j := judgement{c: c, own: own, st: st, all: seen.Nodes, keys: keys, visits: visits}
		j.connection()
		j.clock()
		if st.Node.ControlPlane {
			j.ports()
			j.disk()
		}
		all = append(all, j.checks...)
	}
	return all
}

// Keys is what is known of host keys.
type Keys struct {
	// Known are those that cke knows, and Shown those that nodes showed of which none is known, by address.
	Known, Shown map[string]string
	// Blind: those that cke knows could not be read.
	Blind bool
}

// judgement is about one node.
type judgement struct {
	c      cke.Cluster
	own    Members
	st     cke.NodeStatus
	all    []cke.NodeStatus
	keys   Keys
	visits map[string]Visit // by address
	checks []Check
}

func (j *judgement) say(name string, v Verdict, format string, args ...any) {
	j.checks = append(j.checks, Check{Node: j.st.Node.Name(), Check: name, Result: v, Detail: fmt.Sprintf(format, args...), address: j.st.Node.Address})
}

// last is the check that was made last.
func (j *judgement) last() *Check { return &j.checks[len(j.checks)-1] }

func (j *judgement) unchecked(name, why string) { j.say(name, Warn, "not checked: %s", why) }

// unanswered reports a check that was not made because the node did not answer in full.
func (j *judgement) unanswered(name string) {
	j.unchecked(name, noAnswer)
	j.because(obstacle(j.st))
}

// because names the check of which the last one is a consequence; "": none.
func (j *judgement) because(cause string) { j.last().Because = cause }

func (j *judgement) problem(name string) {
	p := j.st.Problem
	j.say(name, Fail, "%s", p.Message)
	j.last().Code, j.last().Remedy = p.Code, p.Remedy
}

// obstacle is the check that says why a node did not answer in full, "" for one that did.
func obstacle(st cke.NodeStatus) string {
	if st.Problem == nil {
		return ""
	}
	name := checkEngine
	switch st.Problem.Code {
	case cke.CodeHostKey:
		name = checkHostKey
	case cke.CodeUnreachable, cke.CodeSSHAuth, cke.CodeSSHKey, cke.CodeNoSSHKey:
		name = checkSSH
	}
	return st.Node.Name() + "/" + name
}

// obstacleTo is the check that says why another node was not checked from inside; "": it was.
func (j *judgement) obstacleTo(n cke.Node) string {
	for _, st := range j.all {
		if st.Node.Address == n.Address && st.Problem != nil {
			return obstacle(st)
		}
	}
	if j.visits[n.Address].Err != nil {
		return n.Name() + "/" + checkDisk
	}
	return ""
}

// noAnswer is why nothing further is known of a node that has a problem.
const noAnswer = "the node did not answer in full"

// connection judges SSH, the host key and the engine.
func (j *judgement) connection() {
	switch cause := obstacle(j.st); cause {
	case j.st.Node.Name() + "/" + checkHostKey:
		j.unchecked(checkSSH, "there is no login to a node with another host key")
		j.because(cause)
		j.problem(checkHostKey)
		j.unanswered(checkEngine)
	case j.st.Node.Name() + "/" + checkSSH:
		j.problem(checkSSH)
		j.unanswered(checkHostKey)
		j.unanswered(checkEngine)
	default:
		j.say(checkSSH, OK, "user %s at %s", j.st.Node.User, j.st.Node.SSHAddress())
		j.hostKey()
		if j.st.Problem != nil {
			j.problem(checkEngine)
		} else {
			j.say(checkEngine, OK, "Docker %s", j.st.EngineVersion)
		}
	}
}

func (j *judgement) hostKey() {
	if j.st.Node.SSH.HostKey != "" {
		j.say(checkHostKey, OK, "as the file says")
		return
	}
	if _, known := j.keys.Known[j.st.Node.Address]; known {
		j.say(checkHostKey, OK, "the one that cke knows")
		return
	}
	line := j.keys.Shown[j.st.Node.Address]
	key, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
	if err != nil {
		j.unanswered(checkHostKey)
		return
	}
	if j.keys.Blind {
		j.say(checkHostKey, Warn, "the file has none, and the store could not be asked for the one that cke knows; the node showed %s", ssh.FingerprintSHA256(key))
		return
	}
	j.say(checkHostKey, Warn, "none is known yet; cke will trust %s at first sight, unless ssh.host_key declares another", ssh.FingerprintSHA256(key))
}

func (j *judgement) clock() {
	if !j.st.Answered() || j.st.Clock.IsZero() {
		j.unanswered(checkClock)
		return
	}
	off := j.st.Clock.Add(time.Second / 2).Sub(j.st.SeenAt) // it is reported to the second, cut off
	how := term.Took(off.Abs()) + " ahead of this host"
	if off < 0 {
		how = term.Took(off.Abs()) + " behind this host"
	}
	switch {
	case off.Abs() <= clockWarn:
		j.say(checkClock, OK, "within %s of this host", clockWarn)
	case off.Abs() <= op.ClockLimit:
		j.say(checkClock, Warn, "%s", how)
	default:
		j.say(checkClock, Fail, "%s; certificates would not be valid", how)
	}
	j.last().off = off
}

// ports reports whether the node's ports are free or those of our member, and whether the others reach them.
func (j *judgement) ports() {
	o := j.c.Options.Etcd
	for _, p := range []struct {
		name  string
		port  int
		state cke.PortState
	}{{checkClient, o.ClientPort, j.st.ClientPort}, {checkPeer, o.PeerPort, j.st.PeerPort}} {
		address := net.JoinHostPort(j.st.Node.Address, strconv.Itoa(p.port))
		trouble := j.visits[j.st.Node.Address].Listened[address]
		ours := j.own.runsOn(j.st)
		reached, refused := j.reachedBy(address)
		switch {
		case !j.st.Answered():
			j.unanswered(p.name)
		case ours && reached:
			j.say(p.name, OK, "%d: our member listens", p.port)
		case ours && refused:
			j.say(p.name, Fail, "our member runs, but does not listen on %d", p.port)
		case ours:
			j.say(p.name, OK, "%d: our member runs", p.port)
		case p.state == cke.PortOpen || trouble == probe.Taken || j.holder(p.port) != "":
			j.taken(p.name, p.port)
		case trouble != "":
			j.say(p.name, Fail, "cannot listen on %s: %s", address, trouble)
		case !j.listened(address) && j.otherLife() != "":
			j.unchecked(p.name, fmt.Sprintf("container %s of another incarnation runs here and may use %d", j.otherLife(), p.port))
		case p.state == cke.PortUnknown:
			j.say(p.name, Warn, "%d is not taken, but this host got no answer from it: a firewall may keep cke from the member", p.port)
		default:
			j.say(p.name, OK, "%d is free", p.port)
		}
		j.last().port = p.port
		j.reach(*j.last(), address, ours || j.listened(address))
	}
}

// reachedBy reports whether any other control-plane node reached an address of the node, and whether the node refused one.
func (j *judgement) reachedBy(address string) (reached, refused bool) {
	for _, n := range j.c.ControlPlane() {
		said, asked := j.visits[n.Address].Dialled[address]
		reached, refused = reached || asked && said == "", refused || said == probe.Refused
	}
	return reached, refused
}

// listened reports whether our visit listened on an address of the node.
func (j *judgement) listened(address string) bool {
	trouble, asked := j.visits[j.st.Node.Address].Listened[address]
	return asked && trouble == ""
}

// otherLife is the container of a member of another incarnation of the cluster that runs on the node, or "".
func (j *judgement) otherLife() string {
	for _, c := range j.st.Containers {
		if c.Running() && c.Cluster == j.c.Name && !j.own.has(c) {
			return c.Name
		}
	}
	return ""
}

// taken says who holds a port as far as that is known, and else how to find out.
func (j *judgement) taken(name string, port int) {
	if holder := j.holder(port); holder != "" {
		j.say(name, Fail, "%d is taken by %s", port, holder)
		return
	}
	j.say(name, Fail, "%d is taken; it is not known by which process", port)
	j.last().Remedy = fmt.Sprintf("log in to the node; `ss -ltnp 'sport = :%d'` shows what listens", port)
}

// holder is what a port belongs to by the labels and settings of containers, "" if none has it. Which process listens cannot
// be seen through the engine: that a container runs here proves nothing about a port.
func (j *judgement) holder(port int) string {
	if owner := j.st.PortOwner(port); owner != "" {
		return fmt.Sprintf("cluster %s, by the label of its container", owner)
	}
	for _, c := range j.st.Containers {
		switch {
		case !c.MadeFor(port) || j.own.has(c):
		case c.Cluster == j.c.Name && c.Running():
			return fmt.Sprintf("another incarnation of cluster %s, by the label of container %s", c.Cluster, c.Name)
		case c.Cluster == "" && c.Running():
			return fmt.Sprintf("container %s, by its settings", c.Name)
		}
	}
	return ""
}

// reach judges which of the other control-plane nodes reach an address of the node, whose check of the port is done. Where nothing
// listens because of what that found, they are refused.
func (j *judgement) reach(port Check, address string, listens bool) {
	name, closed := checkReach+"-"+strings.TrimSuffix(port.Check, "-port"), ""
	if port.Result != OK && port.Because == "" {
		closed = port.name()
	}
	var from, refused, trouble, unknown []string
	var ways []way
	why, cause := "", obstacle(j.st)
	for _, n := range j.c.ControlPlane() {
		if n.Address == j.st.Node.Address {
			continue
		}
		v, visited := j.visits[n.Address]
		said, asked := v.Dialled[address]
		if !asked && cause == "" {
			cause = j.obstacleTo(n)
		}
		switch {
		case !asked && visited && v.Err != nil:
			unknown, why = append(unknown, n.Name()), plainWhy(v.Err)
		case !asked:
			unknown, why = append(unknown, n.Name()), "it did not answer in full"
		case said == "":
			from = append(from, n.Name())
		case said == probe.Refused && !listens:
			refused = append(refused, n.Name())
		default:
			trouble = append(trouble, fmt.Sprintf("%s: %s", n.Name(), said))
			ways = append(ways, way{n.Name(), j.st.Node.Name(), port.port, said})
		}
	}
	switch {
	case len(trouble) > 0:
		j.say(name, Fail, "%s is not reached from %s", address, strings.Join(trouble, ", "))
		if j.st.Problem != nil && j.st.Problem.Code == cke.CodeUnreachable {
			j.because(obstacle(j.st))
			return
		}
		if port.Result == Fail && closed != "" && !slices.ContainsFunc(ways, func(w way) bool { return w.why != probe.Refused }) {
			j.because(closed)
			return
		}
		j.last().ways = ways
	case len(unknown) > 0:
		j.unchecked(name, fmt.Sprintf("from %s: %s", strings.Join(unknown, ", "), why))
		j.because(cause)
	case len(refused) > 0:
		j.unchecked(name, fmt.Sprintf("nothing listens on %s, as %s found", address, strings.Join(refused, ", ")))
		j.because(cmp.Or(j.obstacleTo(j.st.Node), closed))
	case len(from) > 0:
		j.say(name, OK, "reached from %s", strings.Join(from, ", "))
	default:
		j.say(name, OK, "there is no other control-plane node")
	}
}

func (j *judgement) disk() {
	v, visited := j.visits[j.st.Node.Address]
	root := j.c.Options.Etcd.VolumeRoot
	where := root
	if where == "" {
		where = "the engine's directory for volumes"
	}
	s := v.Sync
	switch {
	case !visited:
		j.unanswered(checkDisk)
	case v.Err != nil:
		j.unchecked(checkDisk, plainWhy(v.Err))
		if code := cke.CodeOf(v.Err); code == cke.CodeImage {
			j.last().Code, j.last().Remedy = code, cke.WayOut(code)
		}
	case v.NoDir:
		j.unchecked(checkDisk, root+" does not exist; cke creates it, on whatever disk that is")
	case s == nil || s.Problem != "" || s.Writes == 0:
		why := "nothing was measured"
		if s != nil && s.Problem != "" {
			why = s.Problem
		}
		j.unchecked(checkDisk, where+": "+why)
	default:
		p99, median := time.Duration(s.P99*float64(time.Second)), time.Duration(s.Median*float64(time.Second))
		verdict, said := OK, ""
		if p99 > syncLimit {
			verdict, said = Warn, "; etcd needs 99 within 10ms"
		}
		if median > syncLimit {
			verdict = Fail
		}
		j.say(checkDisk, verdict, "99 of 100 small writes are synced within %s, half of them within %s%s (%d writes, %s)",
			millis(p99), millis(median), said, s.Writes, where)
	}
}

func millis(d time.Duration) string { return fmt.Sprintf("%.1fms", float64(d.Microseconds())/1000) }

// plainWhy is why a visit failed, in one line.
func plainWhy(err error) string {
	var coded *cke.Error
	if errors.As(err, &coded) && coded.Code == cke.CodeImage {
		return coded.What
	}
	return strings.ReplaceAll(err.Error(), "\n", "; ")
}
