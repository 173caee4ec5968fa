package sim_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"cke"
	"cke/internal/golden"
	"cke/sim"
)

// TestStories plays the stories in testdata: commands of persons and of fate, and what the daemon decides, does and
// tells. `go test ./sim -run Stories -update` writes them anew.
func TestStories(t *testing.T) {
	files, err := filepath.Glob("testdata/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txt"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { playStory(t, file) })
		})
	}
}

// A story is a list of blocks: comment lines, a command, "----", and what came of it up to an empty line.
func playStory(t *testing.T, file string) {
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	p := &storyteller{stage: newStage(t, 0), names: map[string]string{}}
	defer p.stop()
	var out strings.Builder
	for block := range strings.SplitSeq(strings.TrimSpace(string(b)), "\n\n") {
		told := false
		for line := range strings.SplitSeq(block, "\n") {
			if line == "----" {
				break
			}
			fmt.Fprintln(&out, line)
			if line != "" && !strings.HasPrefix(line, "#") {
				fmt.Fprintf(&out, "----\n%s\n", p.obey(strings.Fields(line)))
				told = true
			}
		}
		if !told {
			fmt.Fprintln(&out)
		}
	}
	if v := p.Violations(); v != nil {
		t.Error(strings.Join(v, "\n"))
	}
	golden.Compare(t, file, strings.TrimSpace(out.String())+"\n")
}

// storyteller obeys commands and writes down what happens.
type storyteller struct {
	*stage
	began time.Time
	said  strings.Builder
	last  string            // what a daemon said last
	names map[string]string // ids as they are told
}

var randomID = regexp.MustCompile(`\b[0-9a-f]{12}\b`)

// line writes a line, with the time since the world began and with ids that are the same in every telling.
func (p *storyteller) line(text string) {
	text = randomID.ReplaceAllStringFunc(text, func(id string) string {
		if p.names[id] == "" {
			p.names[id] = fmt.Sprintf("id%d", len(p.names)+1)
		}
		return p.names[id]
	})
	for i, l := range strings.Split(text, "\n") {
		at := ""
		if i == 0 {
			at = fmt.Sprintf("%.2fs", time.Since(p.began).Seconds())
		}
		fmt.Fprintf(&p.said, "%9s  %s\n", at, l)
	}
}

// obey does one command and returns what came of it.
func (p *storyteller) obey(words []string) string {
	p.said.Reset()
	command, args := words[0], words[1:]
	switch {
	case command == "nodes":
		p.nodes(args)
	case p.onNode(command, args), p.onCluster(command, args):
	default:
		p.t.Fatalf("unknown command %q", words)
	}
	if p.said.Len() == 0 {
		return "ok\n"
	}
	return p.said.String()
}

func (p *storyteller) nodes(args []string) {
	n, _ := strconv.Atoi(args[0])
	for i := 1; i <= n; i++ {
		p.AddNode(fmt.Sprintf("n%d", i), fmt.Sprintf("10.0.0.%d", i))
	}
	p.declare(p.Nodes()...)
	p.began = time.Now()
	p.tell = p.tellOnce
	p.OnTrace(func(format string, args ...any) {
		text := fmt.Sprintf(format, args...)
		if strings.Contains(text, "etcd of") || strings.Contains(text, "elected") || strings.Contains(text, "killed") || strings.Contains(text, "lands late") {
			p.line(text)
		}
	})
}

var countdown = regexp.MustCompile(` (again|replaced) in [0-9.hms]+`)

// tellOnce writes what a daemon says, unless it has only counted down since it said it last.
func (p *storyteller) tellOnce(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if plain := countdown.ReplaceAllString(text, ""); plain != p.last || !strings.HasPrefix(text, "daemon") {
		p.line(text)
		p.last = plain
	}
}

var nodeCommands = map[string]func(*sim.Node){
	"power-off": (*sim.Node).PowerOff, "power-on": (*sim.Node).PowerOn, "reboot": (*sim.Node).Reboot, "blank": (*sim.Node).Blank,
	"freeze": (*sim.Node).Freeze, "thaw": (*sim.Node).Thaw, "hang-engine": (*sim.Node).Hang, "unhang-engine": (*sim.Node).Unhang,
	"fill-disk": (*sim.Node).FillDisk, "free-disk": (*sim.Node).FreeDisk, "change-host-key": (*sim.Node).ChangeHostKey,
	"accept-host-key": (*sim.Node).AcceptHostKey, "kill-etcd": (*sim.Node).KillEtcd, "docker-stop": (*sim.Node).StopByHand,
	"docker-rm": (*sim.Node).RemoveContainers, "remove-volumes": (*sim.Node).RemoveVolumes, "empty-volumes": (*sim.Node).EmptyVolumes,
	"take-port": func(n *sim.Node) { n.TakePort(2379) }, "release-port": func(n *sim.Node) { n.ReleasePort(2379) },
	"foreign-etcd": func(n *sim.Node) { n.AddForeignEtcd("etcd", 2379, 2380) }, "remove-foreign-etcd": func(n *sim.Node) { n.Remove("etcd") },
	"leftover-volume": func(n *sim.Node) { n.AddVolume(cke.Volume{Name: "etcd-cke"}) }, "remove-leftover": func(n *sim.Node) { n.Remove("etcd-cke") },
}

func (p *storyteller) onNode(command string, args []string) bool {
	do := nodeCommands[command]
	if do == nil {
		return false
	}
	for _, name := range args {
		do(p.Node(name))
	}
	return true
}

func (p *storyteller) onCluster(command string, args []string) bool {
	switch command {
	case "daemon":
		p.daemon()
	case "declare":
		var nodes []*sim.Node
		for _, name := range args {
			nodes = append(nodes, p.Node(name))
		}
		p.declare(nodes...)
	case "isolate":
		p.Isolate(args[0])
	case "rejoin":
		p.Rejoin(args[0])
	case "delete":
		p.Store().RequestDelete()
	case "write":
		p.line(fmt.Sprintf("acknowledged: %v", p.Write(args[0], args[1])))
	case "kill-at": // port.Call node before|halfway|after
		p.killAt(args)
	case "run":
		p.run(args)
	case "status":
		p.status()
	case "world":
		for _, n := range p.Nodes() {
			p.line(strings.TrimSpace(p.Describe(n.Name())))
		}
	default:
		return false
	}
	return true
}

func (p *storyteller) killAt(args []string) {
	verdict := map[string]sim.Verdict{"before": sim.KillBefore, "halfway": sim.KillHalfway, "after": sim.KillAfter}[args[2]]
	p.Judge = func(_ int, c sim.Call) sim.Verdict {
		if c.Port+"."+c.Name == args[0] && c.Node == strings.Trim(args[1], "-") {
			p.Judge = nil
			return verdict
		}
		return sim.Proceed
	}
}

// run lets time pass, or runs until the daemon is content, has died or has nothing to do for a while.
func (p *storyteller) run(args []string) {
	limit := 20 * time.Second
	if len(args) > 0 {
		limit, _ = time.ParseDuration(args[0])
		p.pass(limit)
		return
	}
	rounds := p.latest().count()
	p.until(limit, func() bool { return p.latest().Dead() || p.latest().count() > rounds+1 && p.settled() })
}

func (p *storyteller) status() {
	_, s := p.latest().now()
	p.line(fmt.Sprintf("%s: %s", s.Health, s.Summary))
	var conditions []string
	for _, t := range []cke.ConditionType{cke.CondReady, cke.CondAllMembersReady, cke.CondQuorate, cke.CondDataVolumesReady} {
		c, _ := s.Condition(t)
		conditions = append(conditions, fmt.Sprintf("%s=%s (%s)", c.Type, c.Status, c.Reason))
	}
	p.line("  " + strings.Join(conditions, ", "))
	for _, m := range s.Members {
		text := fmt.Sprintf("  %s %s %s", m.Name, m.Role, m.State)
		if m.Reason != "" {
			text += ": " + m.Reason
		}
		p.line(text)
	}
	for _, q := range s.Problems {
		p.line(strings.TrimRight(fmt.Sprintf("  %s %s: %s → %s", q.Code, q.Node, q.Message, q.Remedy), " →"))
	}
}
