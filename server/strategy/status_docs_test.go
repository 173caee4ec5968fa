package strategy_test

import (
	"go/ast"
	"go/token"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"cke"
	"cke/internal/source"
)

const statusPage = "../../docs/status.md"

func readStatusPage(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile(statusPage)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Requirements A21, D14: every condition with every reason that the code knows stands in the page, and nothing else.
func TestDocs_NameEveryConditionAndReason(t *testing.T) {
	inCode := conditionReasons(t)
	var inPage []string
	for _, m := range regexp.MustCompile("(?m)^\\| (\\w+) \\| (?:True|False|Unknown) \\| `(\\w+)` \\| [^|]+ \\|[^|]*\\|$").FindAllStringSubmatch(readStatusPage(t), -1) {
		inPage = append(inPage, m[1]+" "+m[2])
	}
	for _, r := range inCode {
		if !slices.Contains(inPage, r) {
			t.Errorf("%s does not tell of %s", statusPage, r)
		}
	}
	for _, r := range inPage {
		if !slices.Contains(inCode, r) {
			t.Errorf("%s tells of %s, which there is not", statusPage, r)
		}
	}
	if len(inCode) < 40 {
		t.Errorf("only %d reasons were found in the code", len(inCode))
	}
}

// The table has every condition that a report carries, and the truth that the code gives a reason.
func TestDocs_ReasonsHaveTheTruthThatIsReported(t *testing.T) {
	page := readStatusPage(t)
	for name, s := range map[string]*scene{
		"all is well": formed(3).certified(300, 300, 300), "never founded": blank(3), "being bootstrapped": forming(3, true), "silent": formed(3).silent(2),
		"blank": formed(3).wiped(1, 2, 3).lost(), "lost": formed(3).silent(2, 3).lost(), "paused": formed(3).held(), "expiring": formed(3).certified(1, 300, 300),
		"data is gone": formed(3).emptied(2), "moved storage": formed(3).with(func(s *scene) { s.Spec.Options.Etcd.VolumeRoot = "/mnt/x" }),
		"two clusters": formed(3).with(func(s *scene) { s.endpoint(3).ClusterID = "c2" }), "to be deleted": formed(3).with(func(s *scene) { s.Deleting = true }),
	} {
		for _, c := range s.report().Conditions {
			if row := "| " + string(c.Type) + " | " + string(c.Status) + " | `" + c.Reason + "` |"; !strings.Contains(page, row) {
				t.Errorf("%s: %s has no row %q", name, statusPage, row)
			}
		}
	}
}

func TestDocs_NameEveryHealthAndMemberState(t *testing.T) {
	page := readStatusPage(t)
	for _, h := range cke.Healths() {
		if !strings.Contains(page, "\n| "+string(h)+" |") {
			t.Errorf("%s does not tell of %s", statusPage, h)
		}
	}
	for _, state := range memberStates(t) {
		if !strings.Contains(page, "\n| `"+state+"` |") {
			t.Errorf("%s does not tell of members that are %s", statusPage, state)
		}
	}
}

// conditionReasons returns "Type Reason" for every condition that a function of this package makes. Such a function
// makes one type of condition, and its reasons are its only words in CamelCase.
func conditionReasons(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, fn := range source.Functions(t) {
		if fn.Type.Results == nil || len(fn.Type.Results.List) != 1 || typeName(fn.Type.Results.List[0].Type) != "Condition" {
			continue
		}
		kind, reasons := "", []string{}
		ast.Inspect(fn, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.SelectorExpr:
				if name, is := strings.CutPrefix(n.Sel.Name, "Cond"); is && n.Sel.Name != "Condition" {
					kind = name
				}
				if name, is := strings.CutPrefix(n.Sel.Name, "Reason"); is && name != "" {
					reasons = append(reasons, name)
				}
			case *ast.BasicLit:
				if s, err := strconv.Unquote(n.Value); err == nil && n.Kind == token.STRING && regexp.MustCompile(`^[A-Z][a-zA-Z]+$`).MatchString(s) {
					reasons = append(reasons, s)
				}
			}
			return true
		})
		for _, r := range reasons {
			if kind != "" && !slices.Contains(all, kind+" "+r) {
				all = append(all, kind+" "+r)
			}
		}
	}
	return all
}

// memberStates returns the words that are assigned to a member's State.
func memberStates(t *testing.T) []string {
	t.Helper()
	var all []string
	add := func(e ast.Expr) {
		if l, is := e.(*ast.BasicLit); is && l.Kind == token.STRING {
			s, _ := strconv.Unquote(l.Value)
			all = append(all, s)
		}
	}
	for _, fn := range source.Functions(t) {
		ast.Inspect(fn, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.AssignStmt:
				for i, left := range n.Lhs {
					if s, is := left.(*ast.SelectorExpr); is && s.Sel.Name == "State" && len(n.Lhs) == len(n.Rhs) {
						add(n.Rhs[i])
					}
				}
			case *ast.CompositeLit:
				for _, e := range n.Elts {
					if kv, is := e.(*ast.KeyValueExpr); is && typeName(n.Type) == "MemberStatus" && typeName(kv.Key) == "State" {
						add(kv.Value)
					}
				}
			}
			return true
		})
	}
	if len(all) < 8 {
		t.Errorf("only %q were found in the code", all)
	}
	return all
}

func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		return e.Sel.Name
	case *ast.Ident:
		return e.Name
	}
	return ""
}
