package clusterfile

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// errEdit is why the text of a file was not edited.
var errEdit = errors.New("the form of the file is one that a program cannot edit")

// MoveControlPlane edits the text of a cluster file: control_plane becomes false for the node at address from and true
// for the one at address to. Everything else, comments and line ends included, stays as it is. It fails if the text is not
// as it must be, or if the edit would change anything else.
func MoveControlPlane(source []byte, from, to string) ([]byte, error) {
	before, _, err := ParseCluster("", source)
	if err != nil {
		return nil, err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(source, &doc); err != nil || len(doc.Content) != 1 {
		return nil, errEdit
	}
	text := string(source)
	for _, change := range []struct {
		address string
		value   string
	}{{from, "false"}, {to, "true"}} {
		node := nodeAt(doc.Content[0], change.address)
		if node == nil {
			return nil, errEdit
		}
		if text, err = setControlPlane(text, node, change.value); err != nil {
			return nil, err
		}
		// What was inserted moves what stands behind it.
		doc = yaml.Node{}
		if err := yaml.Unmarshal([]byte(text), &doc); err != nil || len(doc.Content) != 1 {
			return nil, errEdit
		}
	}
	for i := range before.Nodes {
		n := &before.Nodes[i]
		n.ControlPlane = n.Address == to || n.ControlPlane && n.Address != from
	}
	after, _, err := ParseCluster("", []byte(text))
	if err != nil {
		return nil, err
	}
	wanted, err := yaml.Marshal(before)
	if err != nil {
		return nil, err
	}
	got, err := yaml.Marshal(after)
	if err != nil || !bytes.Equal(wanted, got) {
		return nil, errors.Join(errEdit, err)
	}
	return []byte(text), nil
}

// nodeAt returns the entry of `nodes` with this address; nil when there is none that is written out.
func nodeAt(root *yaml.Node, address string) *yaml.Node {
	nodes := valueOf(root, "nodes")
	if nodes == nil || nodes.Kind != yaml.SequenceNode {
		return nil
	}
	i := slices.IndexFunc(nodes.Content, func(n *yaml.Node) bool {
		a := valueOf(n, "address")
		return a != nil && a.Value == address
	})
	if i < 0 {
		return nil
	}
	return nodes.Content[i]
}

// valueOf returns the value of a key of a mapping; nil when there is none.
func valueOf(mapping *yaml.Node, key string) *yaml.Node {
	if mapping.Kind != yaml.MappingNode {
		return nil
	}
	for i := 0; i+1 < len(mapping.Content); i += 2 {
		if mapping.Content[i].Value == key {
			return mapping.Content[i+1]
		}
	}
	return nil
}

// setControlPlane writes a value of control_plane into the text of one node.
func setControlPlane(text string, node *yaml.Node, value string) (string, error) {
	if v := valueOf(node, "control_plane"); v != nil {
		at := offset(text, v)
		if at < 0 || v.Kind != yaml.ScalarNode || !strings.HasPrefix(text[at:], v.Value) {
			return "", errEdit
		}
		return text[:at] + value + text[at+len(v.Value):], nil
	}
	// Before the second key, so that the entry still starts with its address.
	next := node.Content[0]
	if len(node.Content) > 2 {
		next = node.Content[2]
	}
	at := offset(text, next)
	if at < 0 {
		return "", errEdit
	}
	between := ", "
	if node.Style&yaml.FlowStyle == 0 {
		between = "\n" + strings.Repeat(" ", next.Column-1)
	}
	return text[:at] + "control_plane: " + value + between + text[at:], nil
}

// offset is where a node starts in the text, in bytes; -1 when it is not in it. Columns count characters.
func offset(text string, n *yaml.Node) int {
	at := 0
	for line := 1; line < n.Line; line++ {
		i := strings.IndexByte(text[at:], '\n')
		if i < 0 {
			return -1
		}
		at += i + 1
	}
	for column := 1; column < n.Column; column++ {
		_, size := utf8.DecodeRuneInString(text[at:])
		if size == 0 {
			return -1
		}
		at += size
	}
	return at
}
