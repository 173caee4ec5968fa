package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"

	"gopkg.in/yaml.v3"
)

// Formats of --output.
const (
	formatTable = "table"
	formatWide  = "wide"
	formatJSON  = "json"
	formatYAML  = "yaml"
	formatName  = "name"
)

var formats = []string{formatTable, formatWide, formatJSON, formatYAML, formatName}

// view is one thing that can be shown in every format.
type view struct {
	// data is written as JSON or YAML, with the same field names.
	data any
	// names are written with -o name, one on a line.
	names []string
	// table writes it for users; wide asks for more columns.
	table func(w io.Writer, colour, wide bool) error
}

// show writes v to stdout in the format that was asked for.
func (a *app) show(v view) error { return a.showOn(a.stdout, v, a.colour(a.stdout)) }

func (a *app) showOn(w io.Writer, v view, colour bool) error {
	switch a.output {
	case formatJSON:
		return writeJSON(w, v.data)
	case formatYAML:
		return writeYAML(w, v.data)
	case formatName:
		_, err := io.WriteString(w, lines(v.names))
		return err
	}
	return v.table(w, colour, a.output == formatWide)
}

// showLine shows what is one thing to programs and one line to users.
func (a *app) showLine(data any, name, line string) error {
	return a.show(view{data: data, names: []string{name}, table: func(w io.Writer, _, _ bool) error {
		_, err := fmt.Fprintln(w, line)
		return err
	}})
}

// structured reports whether the output is for a program.
func (a *app) structured() bool { return a.output == formatJSON || a.output == formatYAML }

// jsonErrors reports whether errors are to be written as JSON. The command line may be one that could not be read,
// so it is checked once more.
func (a *app) jsonErrors(args []string) bool {
	format := a.output
	if format == "" {
		format = a.getenv("CKECLI_OUTPUT")
	}
	for i, arg := range args {
		next := ""
		if i+1 < len(args) {
			next = args[i+1]
		}
		switch {
		case arg == "--":
			return format == formatJSON
		case arg == "-o" || arg == "--output":
			format = next
		case strings.HasPrefix(arg, "--output="):
			format = strings.TrimPrefix(arg, "--output=")
		case strings.HasPrefix(arg, "-o"):
			format = strings.TrimPrefix(strings.TrimPrefix(arg, "-o"), "=")
		}
	}
	return format == formatJSON
}

func writeJSON(w io.Writer, data any) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return enc.Encode(data)
}

// writeYAML writes data as writeJSON does: names, order and units are those of the JSON.
func writeYAML(w io.Writer, data any) error {
	b, err := json.Marshal(data)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	doc, err := yamlNode(d)
	if err != nil {
		return fmt.Errorf("write YAML: %w", err)
	}
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(doc); err != nil {
		return err
	}
	return enc.Close()
}

// yamlNode reads one JSON value. Through a map the order of fields would be lost; as YAML, which JSON almost is, some
// characters could not be read.
func yamlNode(d *json.Decoder) (*yaml.Node, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	scalar := func(tag, value string) (*yaml.Node, error) {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: value}, nil
	}
	switch t := token.(type) {
	case json.Delim:
		n := &yaml.Node{Kind: yaml.MappingNode}
		if t == '[' {
			n.Kind = yaml.SequenceNode
		}
		for d.More() {
			child, err := yamlNode(d) // of an object: its name, then its value
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, child)
		}
		if len(n.Content) == 0 {
			n.Style = yaml.FlowStyle
		}
		_, err := d.Token()
		return n, err
	case string:
		n, err := scalar("!!str", t)
		if !plainBlock(t) {
			n.Style = yaml.DoubleQuotedStyle
		}
		return n, err
	case json.Number:
		return &yaml.Node{Kind: yaml.ScalarNode, Value: t.String()}, nil
	case bool:
		return scalar("!!bool", strconv.FormatBool(t))
	}
	return scalar("!!null", "null")
}

// plainBlock reports whether the encoder may choose the style. As a block it loses line ends at the beginning of a text, and
// it does not quote "<<", which means something in YAML.
func plainBlock(s string) bool {
	switch {
	case s == "<<":
		return false
	case !strings.Contains(s, "\n"):
		return true
	case strings.ContainsAny(s[:1], " \t\n"):
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool { return r != '\n' && !unicode.IsPrint(r) })
}

func lines(all []string) string {
	if len(all) == 0 {
		return ""
	}
	return strings.Join(all, "\n") + "\n"
}
