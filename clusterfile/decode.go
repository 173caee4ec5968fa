package clusterfile

import (
	"fmt"
	"math"
	"reflect"
	"regexp"
	"strings"

	"gopkg.in/yaml.v3"

	"cke"
)

// What a file may expand to through aliases and merge keys: a file without them does not come to this.
const (
	// maxValues bounds the values; 64 bytes of text count as one more.
	maxValues = 1_000_000
	// maxKey bounds keys, in bytes: paths repeat them. The longest key of a Kubernetes label has 317.
	maxKey = 512
)

// decimal is how whole numbers are written.
var decimal = regexp.MustCompile(`^-?(0|[1-9][0-9]*)$`)

// decoder fills Go values from YAML nodes by the fields' yaml tags. It is strict and continues after a fault,
// so that all of them are shown at once. Its depth is bounded by the types, its breadth by maxValues.
type decoder struct {
	*findings
	left    int // values that may still be visited
	merging map[*yaml.Node]bool
	unknown unknownFunc
}

// unknownFunc reports a key that t, which is at path, does not have.
type unknownFunc func(d *decoder, at place, path, key string, t reflect.Type)

func newDecoder(f *findings, unknown unknownFunc) *decoder {
	return &decoder{findings: f, left: maxValues, merging: map[*yaml.Node]bool{}, unknown: unknown}
}

// spend reports whether one more node may be visited.
func (d *decoder) spend(n *yaml.Node) bool {
	d.left -= 1 + len(n.Value)/64
	if d.left <= 0 {
		d.fatal(place{}, fmt.Sprintf("with its aliases expanded, the file has more than %d values, or more than %d bytes of text", maxValues, 64*maxValues), "Write the values out.")
	}
	return d.left > 0
}

// value decodes n into v, which is at path.
func (d *decoder) value(n *yaml.Node, v reflect.Value, path string) {
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if !d.spend(n) || isNull(n) {
		return
	}
	switch v.Interface().(type) {
	case cke.Duration, cke.Size:
		d.unit(n, v, path)
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		d.structure(n, v, path)
	case reflect.Slice:
		d.list(n, v, path)
	case reflect.Map:
		d.mapping(n, v, path)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		d.value(n, v.Elem(), path)
	default:
		d.scalar(n, v, path)
	}
}

func (d *decoder) structure(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		d.wrongType(n, path, "keys and values")
		return
	}
	fields := yamlFields(v.Type())
	for _, e := range d.entries(n, path) {
		i, ok := fields[e.key]
		if !ok {
			d.unknown(d, e.at, path, e.key, v.Type())
			continue
		}
		d.value(e.value, v.Field(i), childPath(path, e.key))
	}
}

func (d *decoder) list(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.SequenceNode {
		d.wrongType(n, path, "a list, each item with \"- \" before it")
		return
	}
	for i, item := range n.Content {
		p := itemPath(path, i)
		d.places[p] = place{line: item.Line, column: item.Column, null: isNull(item)}
		e := reflect.New(v.Type().Elem()).Elem()
		if isNull(item) {
			d.fault(p, "is empty", "Give it a value, or remove the line.")
		}
		d.value(item, e, p)
		if d.left <= 0 {
			return
		}
		v.Set(reflect.Append(v, e))
	}
}

func (d *decoder) mapping(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.MappingNode {
		d.wrongType(n, path, "keys and values")
		return
	}
	for _, e := range d.entries(n, path) {
		if v.IsNil() {
			v.Set(reflect.MakeMap(v.Type()))
		}
		item := reflect.New(v.Type().Elem()).Elem()
		d.value(e.value, item, childPath(path, e.key))
		v.SetMapIndex(reflect.ValueOf(e.key), item)
	}
}

// unit decodes a Duration or a Size, in the words that they themselves have for what is wrong.
func (d *decoder) unit(n *yaml.Node, v reflect.Value, path string) {
	if n.Kind != yaml.ScalarNode {
		d.wrongType(n, path, "one value")
		return
	}
	if err := v.Addr().Interface().(yaml.Unmarshaler).UnmarshalYAML(n); err != nil {
		message, remedy, _ := strings.Cut(err.Error(), ": ")
		d.fault(path, message, sentence(remedy))
	}
}

// scalar decodes text, numbers and booleans. Any plain value is good as text, just as it is written.
func (d *decoder) scalar(n *yaml.Node, v reflect.Value, path string) {
	tag := n.ShortTag()
	switch v.Kind() {
	case reflect.String:
		switch tag {
		case "!!str", "!!int", "!!float", "!!bool", "!!timestamp", "!!merge":
			v.SetString(n.Value)
			return
		}
		d.wrongType(n, path, "text")
	case reflect.Bool:
		if tag != "!!bool" || n.Decode(v.Addr().Interface()) != nil {
			d.wrongType(n, path, "true or false, without quotes")
		}
	case reflect.Int, reflect.Int64:
		switch {
		case tag != "!!int" || n.Decode(v.Addr().Interface()) != nil:
			d.wrongType(n, path, "a whole number, without quotes")
		case !decimal.MatchString(n.Value):
			d.undecimal(n, path, v.Int())
		}
	case reflect.Float64:
		var whole int64
		if tag == "!!int" && !decimal.MatchString(n.Value) && n.Decode(&whole) == nil {
			d.undecimal(n, path, whole)
			return
		}
		if tag != "!!int" && tag != "!!float" || n.Decode(v.Addr().Interface()) != nil || math.IsNaN(v.Float()) || math.IsInf(v.Float(), 0) {
			v.SetFloat(0)
			d.wrongType(n, path, "a number, without quotes")
		}
	default:
		panic(fmt.Sprintf("decode: no rule for %s at %s", v.Type(), path))
	}
}

// undecimal reports a number that YAML reads otherwise than most users.
func (d *decoder) undecimal(n *yaml.Node, path string, means int64) {
	what := shorten(n.Value)
	if strings.HasPrefix(strings.TrimLeft(what, "+-"), "0") && !strings.ContainsAny(what, "xXoObB_") {
		what += " is octal and"
	}
	d.fault(path, fmt.Sprintf("%s would mean %d", what, means), "Write the number in decimal digits, without a leading zero.")
}

// entry is one key with its value, merge keys resolved.
type entry struct {
	key   string
	at    place
	value *yaml.Node
}

// entries returns the keys of the mapping at path in the order of the file, and notes where they stand; what
// merge keys add comes after its own.
func (d *decoder) entries(n *yaml.Node, path string) []entry {
	d.merging[n] = true
	entries := d.collect(n, path, false)
	delete(d.merging, n)
	for _, e := range entries {
		d.remember(childPath(path, e.key), e.at, e.value)
	}
	return entries
}

// collect returns the keys of a mapping. One that is merged into another has told its faults where it stands.
func (d *decoder) collect(n *yaml.Node, path string, merged bool) []entry {
	var entries []entry
	seen := map[string]int{} // key to line
	var merges []*yaml.Node
	for i := 0; i+1 < len(n.Content) && d.spend(n.Content[i]); i += 2 {
		k, v := n.Content[i], n.Content[i+1]
		at := place{line: k.Line, column: k.Column}
		for k.Kind == yaml.AliasNode {
			k = k.Alias
		}
		switch first := seen[k.Value]; {
		case k.Kind != yaml.ScalarNode || isNull(k):
			if !merged {
				d.faultAt(at, path, "a key must be plain text", "Write KEY: VALUE.")
			}
		case len(k.Value) > maxKey:
			if !merged {
				d.faultAt(at, path, fmt.Sprintf("the key %s is longer than %d bytes", shorten(k.Value), maxKey), "Write a shorter one.")
			}
		case k.ShortTag() == "!!merge":
			merges = append(merges, v)
		case first > 0:
			if !merged {
				d.faultAt(at, childPath(path, k.Value), fmt.Sprintf("is given twice, first in line %d", first), "Remove one of them.")
			}
		default:
			seen[k.Value] = at.line
			entries = append(entries, entry{k.Value, at, v})
		}
	}
	for _, m := range merges {
		for _, e := range d.merged(m, path) {
			if seen[e.key] == 0 {
				seen[e.key] = e.at.line
				entries = append(entries, e)
			}
		}
	}
	return entries
}

// merged returns the keys that the value of a merge key stands for: a mapping, or a list of mappings of which
// the earlier win.
func (d *decoder) merged(n *yaml.Node, path string) []entry {
	at := place{line: n.Line, column: n.Column}
	for n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	if !d.spend(n) {
		return nil
	}
	if d.merging[n] {
		d.faultAt(at, path, "a merge key (<<) merges keys and values into themselves", "Name another anchor, or remove this one.")
		return nil
	}
	d.merging[n] = true
	defer delete(d.merging, n)
	switch n.Kind {
	case yaml.MappingNode:
		return d.collect(n, path, true)
	case yaml.SequenceNode:
		var all []entry
		seen := map[string]bool{}
		for _, item := range n.Content {
			for _, e := range d.merged(item, path) {
				if !seen[e.key] {
					seen[e.key] = true
					all = append(all, e)
				}
			}
		}
		return all
	}
	d.faultAt(at, path, "a merge key (<<) needs an alias of keys and values", "Write <<: *NAME, with &NAME further up.")
	return nil
}

// remember notes where the value of path stands: at its key where it goes over several lines.
func (d *decoder) remember(path string, key place, v *yaml.Node) {
	at := place{line: v.Line, column: v.Column}
	for v.Kind == yaml.AliasNode {
		v = v.Alias
	}
	if v.Kind != yaml.ScalarNode || isNull(v) {
		at = key
	}
	at.null = isNull(v)
	d.places[path] = at
}

func (d *decoder) wrongType(n *yaml.Node, path, want string) {
	message := fmt.Sprintf("is %s, want %s", describe(n), want)
	if path == "" {
		d.fatal(place{line: n.Line, column: n.Column}, message, "")
		return
	}
	d.fault(path, message, "")
}

func describe(n *yaml.Node) string {
	switch {
	case n.Kind == yaml.MappingNode:
		return "keys and values"
	case n.Kind == yaml.SequenceNode:
		return "a list"
	case n.ShortTag() == "!!str":
		return fmt.Sprintf("the text %q", shorten(n.Value))
	case strings.HasPrefix(n.ShortTag(), "!!"):
		return shorten(n.Value)
	}
	return fmt.Sprintf("tagged %s", n.Tag)
}

// shorten keeps a value that is quoted back within one line.
func shorten(s string) string {
	if r := []rune(s); len(r) > 60 {
		return string(r[:57]) + "…"
	}
	return s
}

// yamlFields maps the keys of a struct to the indexes of its fields.
func yamlFields(t reflect.Type) map[string]int {
	fields := map[string]int{}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("yaml"), ",")
		fields[name] = i
	}
	return fields
}

// sentence starts s with a capital letter and ends it with a full stop.
func sentence(s string) string {
	if s == "" {
		return ""
	}
	return strings.ToUpper(s[:1]) + s[1:] + "."
}
