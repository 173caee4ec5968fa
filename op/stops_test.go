package op

import (
	"go/ast"
	"slices"
	"testing"

	"cke/internal/source"
)

// A member that is to be started again is stopped by stopKept. What these stop is not needed, or cannot run.
func TestStops_OnlyWhatIsNotNeededWithoutALookAtItsData(t *testing.T) {
	unguarded := []string{
		"stopKept", "stopStep", "StopContainer", // they are the ways to stop
		"needLog", "bearsKeys", // of a container that its engine starts again and again: nothing is open
		"AbandonBootstrap.Stages", "CleanUp.Stages", "CancelRestore.Stages", "Restore.stopAbandoned", // of a life that served nobody
		"Restore.stopUnjoined",             // of the life that a person has replaced
		"DeleteCluster.Stages",             // of a cluster that a person has deleted
		"StopApart.Stages",                 // of the one of two clusters that a person did not choose
		"retireStep", "PurgeVolume.remove", // of a membership that has ended
	}
	found := map[string]bool{}
	for _, fn := range source.Functions(t) {
		name := fn.Name.Name
		if fn.Recv != nil && name != "StopContainer" {
			if id, is := fn.Recv.List[0].Type.(*ast.Ident); is {
				name = id.Name + "." + name
			}
		}
		ast.Inspect(fn, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if n.Sel.Name == "StopContainer" {
					found[name] = true
				}
			case *ast.Ident:
				if n.Name == "stopStep" && n != fn.Name {
					found[name] = true
				}
			}
			return true
		})
	}
	for name := range found {
		if !slices.Contains(unguarded, name) {
			t.Errorf("%s stops a member without a look at its data: stopKept does that", name)
		}
	}
	for _, name := range unguarded {
		if !found[name] {
			t.Errorf("%s stops nothing any more", name)
		}
	}
}
