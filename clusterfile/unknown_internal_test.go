package clusterfile

import "testing"

func TestNearestWord_FindsWhatIsMeant(t *testing.T) {
	words := []string{"address", "annotations", "control_plane", "hostname", "labels", "ssh", "user", "zone"}
	for word, want := range map[string]string{
		"adress": "address", "adresss": "address", "controlPlane": "control_plane", "control-plane": "control_plane", "CONTROL_PLANE": "control_plane",
		"hostnmae": "hostname", "label": "labels", "shs": "ssh", "users": "user", "port": "", "x": "", "": "", "kubelet": "",
	} {
		if got := NearestWord(word, words); got != want {
			t.Errorf("%q: got %q, want %q", word, got, want)
		}
	}
}

func TestPath_ParentUndoesChild(t *testing.T) {
	for _, parent := range []string{"", "nodes[2]", "nodes[2].labels"} {
		for _, key := range []string{"rack", "example.com/rack", `a["b"]`, "a.b[1]", "", "]", `"]`, "é"} {
			if got := parentPath(childPath(parent, key)); got != parent {
				t.Errorf("parent of %s is %q, want %q", childPath(parent, key), got, parent)
			}
		}
		if got := parentPath(itemPath(parent, 3)); got != parent {
			t.Errorf("parent of %s is %q", itemPath(parent, 3), got)
		}
	}
}
