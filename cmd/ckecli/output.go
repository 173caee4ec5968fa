package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

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
	// table writes it for people; wide asks for more columns.
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

// structured reports whether the output is for a program.
func (a *app) structured() bool { return a.output == formatJSON || a.output == formatYAML }

// jsonErrors reports whether errors are to be written as JSON. The command line may be one that could not be read,
// so it is looked at once more.
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

// writeYAML writes data as writeJSON does, in block style: names, order and units are those of the JSON.
func writeYAML(w io.Writer, data any) error {
	b, err := json.Marshal(data)
	if err != nil {
		return err
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(b, &doc); err != nil { // JSON is YAML in flow style
		return fmt.Errorf("write YAML: %w", err)
	}
	blockStyle(&doc)
	enc := yaml.NewEncoder(w)
	enc.SetIndent(2)
	if err := enc.Encode(&doc); err != nil {
		return err
	}
	return enc.Close()
}

func blockStyle(n *yaml.Node) {
	if n.Kind != yaml.ScalarNode {
		n.Style = 0
	} else if n.Tag == "!!str" {
		n.Style = 0 // quoted by the encoder where it must be
	}
	for _, c := range n.Content {
		blockStyle(c)
	}
	if len(n.Content) == 0 && n.Kind != yaml.ScalarNode {
		n.Style = yaml.FlowStyle
	}
}

func lines(all []string) string {
	if len(all) == 0 {
		return ""
	}
	return strings.Join(all, "\n") + "\n"
}
