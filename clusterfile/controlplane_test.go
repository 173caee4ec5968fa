package clusterfile_test

import (
	"strings"
	"testing"

	"cke/clusterfile"
)

const spare = `# our cluster
name: prod
nodes:
  - address: 10.0.0.1   # rack 1
    hostname: cp1
    control_plane: true # since May
  - address: 10.0.0.2
    hostname: spare

  # the others
  - {address: 10.0.0.3, hostname: cp3, control_plane: true}
  - {address: 10.0.0.4, annotations: {place: "Zürich"}, control_plane: false}
  - {address: 10.0.0.5, control_plane: true}
  - address: 10.0.0.6
policies: {reconcile: manual}   # we apply by hand
`

func TestMoveControlPlane_ChangesNothingElse(t *testing.T) {
	for name, row := range map[string]struct {
		from, to string
		old, new []string // lines that change
	}{
		"block to block":            {"10.0.0.1", "10.0.0.2", []string{"control_plane: true # since May", "    hostname: spare"}, []string{"control_plane: false # since May", "    control_plane: true\n    hostname: spare"}},
		"flow to flow":              {"10.0.0.3", "10.0.0.4", []string{"hostname: cp3, control_plane: true", `"Zürich"}, control_plane: false`}, []string{"hostname: cp3, control_plane: false", `"Zürich"}, control_plane: true`}},
		"to one key":                {"10.0.0.5", "10.0.0.6", []string{"10.0.0.5, control_plane: true", "- address: 10.0.0.6"}, []string{"10.0.0.5, control_plane: false", "- control_plane: true\n    address: 10.0.0.6"}},
		"to one that stands before": {"10.0.0.5", "10.0.0.2", []string{"10.0.0.5, control_plane: true", "    hostname: spare"}, []string{"10.0.0.5, control_plane: false", "    control_plane: true\n    hostname: spare"}},
	} {
		want := spare
		for i := range row.old {
			want = strings.Replace(want, row.old[i], row.new[i], 1)
		}
		got, err := clusterfile.MoveControlPlane([]byte(spare), row.from, row.to)
		if err != nil || string(got) != want {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
	}
}

func TestMoveControlPlane_RefusesWhatItCannotEdit(t *testing.T) {
	for name, file := range map[string]string{
		"by an alias":     "name: a\nnodes:\n  - &n {address: 10.0.0.1, control_plane: &t true}\n  - {address: 10.0.0.2, control_plane: true}\n  - {address: 10.0.0.3, control_plane: *t}\n",
		"no such address": "name: a\nnodes: [{address: 10.0.0.1, control_plane: true}]\n",
		"faulty":          "name: a\nnodez: []\n",
	} {
		if got, err := clusterfile.MoveControlPlane([]byte(file), "10.0.0.3", "10.0.0.9"); err == nil {
			t.Errorf("%s: %s", name, got)
		}
	}
}
