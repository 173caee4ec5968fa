package strategy

import (
	"cmp"
	"fmt"

	"cke"
	"cke/op"
)

// couldFound: a voter runs in a container whose arguments could start it on an empty volume, as an earlier version of cke made
// them, and as a learner's is whom an operator promoted. If its data were removed, its engine or an operator could start it empty under its id. It is restarted in another
// container, one member after the other. No consent is asked: nothing that the file declares changes, and until it is done
// acknowledged writes may be lost.
func couldFound(in *Input) verdict {
	for j := range inTurn(in) {
		c, there := in.node(j.Node).Of(j.ID)
		m, listed := in.listed(j)
		if !there || !listed || m.Learner || in.silent(j) || !c.StartsEmpty || !c.Running() {
			continue
		}
		told := fmt.Sprintf("the container of %s could start the member without its data", j.Node.Name())
		if g := cmp.Or(mayRestart(in, m), noneLags(in)); g != open {
			return note(fmt.Sprintf("%s, and restarting it waits: %s", told, g), cke.Problem{Code: cke.CodeCouldFound, Node: j.Node.Name(), Message: told + ": " + string(g)})
		}
		if in.fewVoters() && roomForMore(in) {
			return pass() // with another voter it goes without a gap
		}
		if g := mayInterrupt(in, m); g != open {
			return note(fmt.Sprintf("%s, and restarting it interrupts service: %s", told, g),
				cke.Problem{Code: cke.CodeInterrupt, Node: j.Node.Name(), Message: told + ": " + string(g), Remedy: cke.WayOut(cke.CodeInterrupt)})
		}
		restart := op.RestartMember{Join: j, Etcd: j.Etcd, Gap: in.fewVoters()}
		restart.Runs, restart.Image = runsInstead(in, j)
		return act(restart, told)
	}
	return pass()
}
