package ui

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"time"

	"cke"
	"cke/internal/words"
	"cke/plan"
)

// problem is what is wrong with one node or several, and what to do.
type problem struct {
	// Text says what is wrong, with the nodes.
	Text  string
	Since time.Time
	Code  cke.Code
	// First is what to do, Last what to do only in the case that When names; they may be empty.
	First, When, Last      string
	Commands, LastCommands []string
}

// Problems are the problems of the status: those of one cause are one, and that the quorum is unknown comes first.
func (f facts) Problems() (all []problem) {
	type cause struct {
		code            cke.Code
		message, remedy string
	}
	at, of := map[cause]int{}, [][]cke.Problem{}
	unseen := slices.ContainsFunc(f.S.Problems, func(p cke.Problem) bool { return p.Code == cke.CodeUnseen })
	for _, p := range f.S.Problems {
		c := cause{p.Code, p.Message, p.Remedy}
		if unseen && p.Code != cke.CodeUnseen { // no command is offered, so one text is enough
			c.message, c.remedy = f.anyNode(p.Message, p), f.anyNode(p.Remedy, p)
		}
		if i, ok := at[c]; ok && p.Node != "" {
			of[i] = append(of[i], p)
			names, addresses := f.nodes(of[i])
			fill := strings.NewReplacer(anyName, and(names), anyAddress, and(addresses), "once it answers", "once they answer")
			all[i].Text = cut(shownText, strings.Join(names, ", ")+": "+fill.Replace(c.message))
			all[i].First, _, _ = resort(fill.Replace(c.remedy))
			if p.Since.Before(all[i].Since) {
				all[i].Since = p.Since
			}
			continue
		}
		shown := problem{Since: p.Since, Code: p.Code}
		shown.First, shown.When, shown.Last = resort(p.Remedy)
		if unseen && p.Code != cke.CodeUnseen {
			shown.When, shown.Last = "", "" // it is unknown whether anything is gone
		}
		shown.Commands, shown.LastCommands = f.Commands(shown.First), f.Commands(shown.Last)
		one := []cke.Problem{p}
		p.Code = ""
		shown.Text = upper(cut(shownText, words.Problem(p)))
		if p.Node != "" {
			at[c] = len(all)
		}
		all, of = append(all, shown), append(of, one)
	}
	slices.SortStableFunc(all, func(a, b problem) int { return cke.CompareBools(a.Code != cke.CodeUnseen, b.Code != cke.CodeUnseen) })
	return all
}

// What stands for the name and for the address of any node.
const anyName, anyAddress = "\x00", "\x01"

// anyNode is a text about a problem's node as a text about any.
func (f facts) anyNode(text string, p cke.Problem) string {
	names, addresses := f.nodes([]cke.Problem{p})
	for i := range addresses {
		text = regexp.MustCompile(`\b`+regexp.QuoteMeta(addresses[i])+`\b(:\d+)?`).ReplaceAllString(text, anyAddress)
	}
	for i := range names {
		text = regexp.MustCompile(`\b`+regexp.QuoteMeta(names[i])+`\b`).ReplaceAllString(text, anyName)
	}
	return text
}

// nodes are the names of the nodes of problems, and their addresses.
func (f facts) nodes(problems []cke.Problem) (names, addresses []string) {
	for _, p := range problems {
		if p.Node == "" {
			continue
		}
		names = append(names, p.Node)
		for _, m := range f.S.Members {
			if m.Name == p.Node && m.Address != "" {
				addresses = append(addresses, m.Address)
			}
		}
	}
	return names, addresses
}

// and joins names.
func and(names []string) string {
	if n := len(names); n > 1 {
		return strings.Join(names[:n-1], ", ") + " and " + names[n-1]
	}
	return strings.Join(names, "")
}

// Told reports whether a problem says why a member does not serve.
func (f facts) Told(m member) bool {
	return slices.ContainsFunc(f.S.Problems, func(p cke.Problem) bool { return p.Node == m.Name && p.Message == m.Reason })
}

var (
	// gone is where a remedy turns to the last resort, givenUp where it does so without the case.
	gone    = regexp.MustCompile("; (?:only )?(if [^;:`]*gone for good): ")
	givenUp = regexp.MustCompile(", or (?:give it up: |(`ckecli replace ))")
)

// resort takes the last resort out of a remedy: it must not be what is copied first.
func resort(remedy string) (first, when, last string) {
	if at := gone.FindStringSubmatchIndex(remedy); at != nil {
		return remedy[:at[0]], "Only " + remedy[at[2]:at[3]] + ":", remedy[at[1]:]
	}
	if at := givenUp.FindStringSubmatchIndex(remedy); at != nil {
		end := at[1]
		if at[2] >= 0 {
			end = at[2]
		}
		return remedy[:at[0]], "Only if it is gone for good:", remedy[end:]
	}
	return remedy, "", ""
}

// More reports whether the last resort is more than its command.
func (p problem) More() bool { return len(p.LastCommands) == 0 || strings.Contains(p.Last, "`:") }

// Acts says who acts next: cke, or the operator; empty: there is nothing to do.
func (f facts) Acts() string {
	next := f.next()
	switch {
	case !f.Known && !f.Led:
		return "You: start a cke daemon on a management host."
	case f.Past() && f.Led:
		return "You: check the cke daemon on " + cmp.Or(f.S.Leader.Host, "the management host") + "."
	case f.Past():
		return "You: start a cke daemon, for example on " + cmp.Or(f.S.Leader.Host, "a management host") + "."
	case !f.Known || f.row().healthy() || f.Running():
		return ""
	case f.Health() == cke.HealthFrozen:
		return "You: judge what was found (`ckecli cluster evidence " + f.Name + "`). cke changes nothing until you lift the freeze."
	case f.Hold != nil:
		return "cke changes nothing while it is paused."
	case next != "" && f.Health() != cke.HealthReady:
		if !slices.ContainsFunc(f.S.Problems, func(p cke.Problem) bool { return p.Remedy != "" }) {
			next += " You do not have to do anything."
		}
		return next
	}
	for _, p := range f.Problems() {
		if first := advice.FindString(p.First); first != "" && !strings.Contains(first, "`") {
			return "You: " + strings.ToLower(first[:1]) + first[1:] + "."
		}
	}
	return next
}

// advice is the first thing to do of a remedy, without its details.
var advice = regexp.MustCompile(`^[A-Za-z](?:[^;:.]|[:.][^\s])*`)

// verbs are what cke does in operations.
var verbs = map[string]string{"start-members": "starts", "start-changed": "starts", "restart-member": "restarts", "add-member": "adds", "remove-member": "removes", "promote-member": "promotes"}

// next says what cke does next; empty: nothing, or not without being allowed to.
func (f facts) next() string {
	if f.Plan == nil || len(f.Plan.Steps) == 0 {
		return ""
	}
	s := f.Plan.Steps[0]
	if s.Operation == "" || s.Held || s.Error != "" {
		return ""
	}
	on := ""
	if n := len(s.Targets); n > 0 {
		on = " " + and(s.Targets)
	}
	if v := verbs[s.Operation]; v != "" && on != "" {
		return "cke " + v + on + " next."
	}
	return "cke runs " + s.Operation + on + " next."
}

// Whole reports whether nothing is under way and nothing follows, which takes one section.
func (f facts) Whole() bool { return !f.Running() && (f.Plan == nil || len(f.Plan.Steps) == 0) }

// Idle says that nothing is under way, IdleBecause why.
func (f facts) Idle() string {
	switch {
	case f.Past():
		return "Nothing was being changed"
	case f.Plan != nil && f.Whole() && f.Plan.Operations == 0 && slices.Contains([]plan.Outcome{plan.Converged, plan.Blocked}, f.Plan.Outcome):
		return upper(f.Plan.Sum())
	}
	return "Nothing is being changed"
}

// IdleBecause are the reasons for Idle, each once.
func (f facts) IdleBecause() (all []string) {
	idle := strings.ToLower(f.Idle())
	add := func(why string) {
		if why != "" && strings.ToLower(why) != idle && !slices.Contains(all, why) {
			all = append(all, why)
		}
	}
	add(rest(f.S.Reason))
	if f.Whole() && !f.Past() {
		if f.Plan == nil {
			add("no plan can be made now")
		} else {
			add(rest(f.Plan.Reason))
		}
	}
	return all
}

// shortReason is how long the reasons for Idle may be to be shown in its line.
const shortReason = 60

// Short reports whether what is done fits one line: nothing, for a short reason.
func (f facts) Short() bool {
	return f.Whole() && len(f.Idle()+strings.Join(f.IdleBecause(), ". ")) <= shortReason
}

// Because is why a member must stay up. What is decided and has not started is not under way.
func (f facts) Because(why string) string {
	if name, ok := strings.CutSuffix(why, " is under way"); ok && !f.Running() {
		return name + " comes next"
	}
	return why
}

// note is something that the operator asked for, or that changes how the page is to be read.
type note struct {
	Label, Text string
	Commands    []string
}

// Notes are what is active beside the problems.
func (f facts) Notes() (all []note) {
	if f.Hold != nil {
		all = append(all, note{"Paused", words.Hold(*f.Hold), f.Commands("`ckecli resume`")})
	}
	for _, d := range f.S.Drains {
		all = append(all, note{"Drained", words.Drain(f.Now, d), nil})
	}
	if h := f.S.Hibernation; h != nil {
		all = append(all, note{"Hibernated", strings.ReplaceAll(words.Hibernation(f.Name, *h), "`", ""), f.Commands("`ckecli cluster resume " + f.Name + "`")})
	}
	for _, r := range f.S.Authorities {
		all = append(all, note{"Authority", words.Authority(r), nil})
	}
	if c := f.S.Compared; c != nil && !c.Equal() {
		all = append(all, note{"Data", words.Compared(f.Now, *c), nil})
	}
	return all
}

// Commands are the commands in a remedy that can be copied as they are, aimed at the cluster.
func (f facts) Commands(remedy string) (all []string) {
	for i, text := range strings.Split(remedy, "`") {
		if i%2 == 0 {
			if _, after, ok := strings.Cut(text, ": ckecli "); ok {
				text = "ckecli " + after
			}
			if i > 0 || !strings.HasPrefix(text, "ckecli ") {
				continue
			}
			text, _, _ = strings.Cut(text, ",")
			text, _, _ = strings.Cut(text, ";")
			text, _, _ = strings.Cut(text, " when ")
		}
		if !strings.HasPrefix(text, "ckecli ") || hasPlaceholder(text) {
			continue
		}
		switch {
		case strings.Contains(text, "--cluster"):
		case !strings.HasPrefix(text, "ckecli cluster "):
			text += " --cluster " + f.Name
		case len(strings.Fields(text)) == 3: // the commands of `ckecli cluster` take the name as an argument
			text += " " + f.Name
		}
		if !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	return all
}

// hasPlaceholder reports whether the operator has to replace a word of a command, as FILE.
func hasPlaceholder(command string) bool {
	return slices.ContainsFunc(strings.Fields(command), func(word string) bool {
		word = strings.Trim(word, "[]…<>")
		return len(word) > 1 && word == strings.ToUpper(word) && strings.ContainsAny(word, "ABCDEFGHIJKLMNOPQRSTUVWXYZ")
	})
}
