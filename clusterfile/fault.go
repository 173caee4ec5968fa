package clusterfile

import (
	"cmp"
	"fmt"
	"strings"
)

// Fault is one error in a file, with its place and its remedy.
type Fault struct {
	File string `json:"file,omitempty"`
	// Line and Column count from 1; 0: not about one place in a file.
	Line   int `json:"line,omitempty"`
	Column int `json:"column,omitempty"`
	// Path names the value, as "nodes[2].address"; empty: about the whole file.
	Path    string `json:"path,omitempty"`
	Message string `json:"message"`
	// Remedy is what to write instead, or empty.
	Remedy string `json:"remedy,omitempty"`
}

// String returns "cluster.yml:12: nodes[2].address: message", with the remedy on an indented line of its own.
func (f Fault) String() string {
	var parts []string
	switch {
	case f.File != "" && f.Line > 0:
		parts = append(parts, fmt.Sprintf("%s:%d", f.File, f.Line))
	case f.File != "":
		parts = append(parts, f.File)
	case f.Line > 0:
		parts = append(parts, fmt.Sprintf("line %d", f.Line))
	}
	if f.Path != "" {
		parts = append(parts, f.Path)
	}
	s := strings.Join(append(parts, f.Message), ": ")
	if f.Remedy != "" {
		s += "\n    " + f.Remedy
	}
	return s
}

// Warning is something that is allowed but seldom intended; it has the fields of a Fault.
type Warning Fault

func (w Warning) String() string { return Fault(w).String() }

// FaultList is all errors in one file, sorted by place. It is never empty.
type FaultList struct {
	Faults []Fault
}

// Error returns all faults, each on lines of its own.
func (l *FaultList) Error() string {
	lines := make([]string, len(l.Faults))
	for i, f := range l.Faults {
		f.File = "" // the error around it names the file
		lines[i] = f.String()
	}
	return strings.Join(lines, "\n")
}

func comparePlaces(a, b Fault) int {
	return cmp.Or(cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column))
}
