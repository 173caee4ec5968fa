package clusterfile

import (
	"fmt"
	"slices"
	"strings"

	"cke"
)

// What one file can make us print.
const (
	// maxFaults bounds the faults, and the warnings; the rest is counted.
	maxFaults = 1000
	// maxMessage bounds the path, the message and the remedy of each, in bytes: they repeat what the file says.
	maxMessage = 600
)

// findings collects what is wrong in one file, and where every value stands, so that a rule can name a value
// by its path and still point at its line. Without places (a value that came from no file) faults have no line.
type findings struct {
	file     string
	maxSize  int // of the file, in bytes
	faults   []Fault
	warnings []Warning
	places   map[string]place
	// faulty holds the paths that have a fault already: what follows from one fault is no second one.
	faulty map[string]bool
	// guesses counts the words of which the nearest was searched.
	guesses int
}

// place is where the value of a path stands.
type place struct {
	line, column int
	null         bool // "key:" without a value, which means: not given
}

func newFindings(file string) *findings {
	return &findings{file: file, maxSize: maxFileSize, places: map[string]place{}, faulty: map[string]bool{}}
}

// given reports whether the file has a value at path, also one that equals the zero value.
func (f *findings) given(path string) bool {
	p, ok := f.places[path]
	return ok && !p.null
}

// line is the line of a path, or 0.
func (f *findings) line(path string) int { return f.nearest(path).line }

// nearest is the place of path or, where that is missing, of the innermost value around it.
func (f *findings) nearest(path string) place {
	for {
		if p, ok := f.places[path]; ok || path == "" {
			return p
		}
		path = parentPath(path)
	}
}

// fault adds a fault at path, unless the value or one around it has a fault already.
func (f *findings) fault(path, message, remedy string) {
	if !f.isFaulty(path) {
		f.faultAt(f.nearest(path), path, message, remedy)
	}
}

// faultAt adds a fault at a place of its own choosing. A fault of the whole file (no path) is not the last one.
func (f *findings) faultAt(at place, path, message, remedy string) {
	if path != "" {
		f.faulty[path] = true
	}
	f.faults = append(f.faults, f.finding(at, path, message, remedy))
}

// fatal adds a fault of the whole file, after which no other is shown.
func (f *findings) fatal(at place, message, remedy string) {
	if !f.isFaulty("") {
		f.faultAt(at, "", message, remedy)
		f.faulty[""] = true
	}
}

// warn adds a warning at path, unless the value or one around it has a fault.
func (f *findings) warn(path, message, remedy string) {
	if f.isFaulty(path) {
		return
	}
	at := f.nearest(path)
	f.warnings = append(f.warnings, Warning(f.finding(at, path, message, remedy)))
}

func (f *findings) finding(at place, path, message, remedy string) Fault {
	return Fault{f.file, at.line, at.column, cut(path), cut(message), cut(remedy)}
}

// cut bounds a text at maxMessage.
func cut(s string) string {
	if len(s) <= maxMessage {
		return s
	}
	return strings.ToValidUTF8(s[:maxMessage], "") + "…"
}

// isFaulty reports whether the value at path, or one around it, has a fault.
func (f *findings) isFaulty(path string) bool {
	for ; path != ""; path = parentPath(path) {
		if f.faulty[path] {
			return true
		}
	}
	return f.faulty[""]
}

// sortedWarnings are the warnings in the order of the file.
func (f *findings) sortedWarnings() []Warning {
	slices.SortStableFunc(f.warnings, func(a, b Warning) int { return comparePlaces(Fault(a), Fault(b)) })
	if more := len(f.warnings) - maxFaults; more > 0 {
		return append(f.warnings[:maxFaults:maxFaults], Warning{File: f.file, Message: "and " + cke.Count(more, "more warning")})
	}
	return f.warnings
}

// err is nil without faults; else an *Error with CodeConfig that wraps a *FaultList.
func (f *findings) err() error {
	if len(f.faults) == 0 {
		return nil
	}
	faults := slices.Clone(f.faults)
	slices.SortStableFunc(faults, comparePlaces)
	what := cke.Count(len(faults), "fault")
	if f.file != "" {
		what += " in " + f.file
	}
	if more := len(faults) - maxFaults; more > 0 {
		faults = append(faults[:maxFaults], Fault{File: f.file, Message: fmt.Sprintf("and %s", cke.Count(more, "more fault"))})
	}
	return &cke.Error{Code: cke.CodeConfig, What: what, Err: &FaultList{Faults: faults}}
}

// childPath is the path of key within path. A key that is no plain word is quoted: labels["example.com/rack"].
func childPath(path, key string) string {
	switch {
	case !isWord(key):
		return fmt.Sprintf("%s[%q]", path, key)
	case path == "":
		return key
	}
	return path + "." + key
}

// itemPath is the path of the item with this index, counted from 0.
func itemPath(path string, i int) string { return fmt.Sprintf("%s[%d]", path, i) }

// parentPath undoes childPath and itemPath.
func parentPath(path string) string {
	at := strings.LastIndexAny(path, ".[")
	if strings.HasSuffix(path, `"]`) {
		at = strings.LastIndex(path, `["`)
	}
	return path[:max(at, 0)]
}

func isWord(s string) bool {
	for _, r := range s {
		if !(r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z') {
			return false
		}
	}
	return s != ""
}
