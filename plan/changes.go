package plan

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"cke"
)

// Changes names what differs between two clusters that have their defaults filled in, as "options.etcd.version: 3.6.15 → 3.6.16".
// Nodes go by name, and one that came or went is one change. Files that mean the same differ in nothing.
func Changes(before, after cke.Cluster) []string {
	var all []string
	for _, n := range before.Nodes {
		if _, stays := byName(after, n); !stays {
			all = append(all, fmt.Sprintf("node %s removed", n.Name()))
		}
	}
	for _, n := range after.Nodes {
		if was, there := byName(before, n); !there {
			all = append(all, fmt.Sprintf("node %s added", n.Name()))
		} else {
			all = append(all, differences("node "+n.Name()+" ", was, n)...)
		}
	}
	for _, c := range []*cke.Cluster{&before, &after} {
		if e := &c.Options.Etcd; e.Image == cke.DefaultImage+":v"+e.Version {
			e.Image = ""
		}
		c.Nodes = nil
	}
	return append(all, differences("", before, after)...)
}

func byName(c cke.Cluster, like cke.Node) (cke.Node, bool) {
	i := slices.IndexFunc(c.Nodes, func(n cke.Node) bool { return n.Name() == like.Name() })
	if i < 0 {
		return cke.Node{}, false
	}
	return c.Nodes[i], true
}

// differences compares two values of one type leaf by leaf.
func differences(prefix string, before, after any) []string {
	one, two := leaves(before), leaves(after)
	paths := maps.Clone(one)
	maps.Copy(paths, two)
	var all []string
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		a, had := one[path]
		b, has := two[path]
		switch {
		case a == b && had == has:
		case !had:
			all = append(all, fmt.Sprintf("%s%s: %s", prefix, path, b))
		case !has:
			all = append(all, fmt.Sprintf("%s%s: no longer %s", prefix, path, a))
		default:
			all = append(all, fmt.Sprintf("%s%s: %s → %s", prefix, path, a, b))
		}
	}
	return all
}

// leaves are the values in v by their path, as a user writes them in the file; a list is one value.
func leaves(v any) map[string]string {
	text, err := yaml.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("a cluster cannot be written: %v", err)) // plain data
	}
	var fields map[string]any
	if err := yaml.Unmarshal(text, &fields); err != nil {
		panic(fmt.Sprintf("a cluster cannot be read: %v", err))
	}
	all := map[string]string{}
	var walk func(path string, v any)
	walk = func(path string, v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, field := range v {
				walk(strings.TrimPrefix(path+"."+name, "."), field)
			}
		case string:
			all[path] = v
		default:
			text, _ := json.Marshal(v) // it came out of plain data
			all[path] = string(text)
		}
	}
	walk("", fields)
	return all
}
