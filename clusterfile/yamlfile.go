package clusterfile

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"sort"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

var (
	parserError = regexp.MustCompile(`^yaml: (?:line (\d+): )?(?s:(.*))$`)
)

// maxFileSize bounds a configuration file; 1 MiB holds some five thousand nodes.
const maxFileSize = 1 << 20

// readYAML returns the one document of a file, or nil after it has put what is wrong into f.
// remedy shows how to come by a file where there is none.
func readYAML(f *findings, data []byte, remedy string) *yaml.Node {
	if len(data) > f.maxSize {
		f.fatal(place{}, fmt.Sprintf("is %d bytes long, at most %d are read", len(data), f.maxSize), "")
		return nil
	}
	if encoding := otherEncoding(data); encoding != "" {
		f.fatal(place{}, fmt.Sprintf("is encoded as %s, not as UTF-8", encoding),
			fmt.Sprintf("Save it as UTF-8, or convert it: iconv -f %s -t UTF-8 FILE > NEWFILE.", encoding))
		return nil
	}
	d := yaml.NewDecoder(bytes.NewReader(data))
	var doc yaml.Node
	switch err := d.Decode(&doc); {
	case errors.Is(err, io.EOF):
		f.fatal(place{}, "is empty", remedy)
		return nil
	case err != nil:
		syntaxFault(f, data, err)
		return nil
	}
	var second yaml.Node
	switch err := d.Decode(&second); {
	case err == nil:
		f.fatal(place{line: second.Line, column: second.Column}, "a second YAML document starts here, only one is read",
			"Put it into a file of its own, or remove the line with ---.")
		return nil
	case !errors.Is(err, io.EOF):
		syntaxFault(f, data, err)
		return nil
	}
	if len(doc.Content) != 1 || isNull(doc.Content[0]) {
		f.fatal(place{}, "is empty", remedy)
		return nil
	}
	return doc.Content[0]
}

// otherEncoding names the encoding of a file that is not written in UTF-8, by its byte order mark or by the zero
// bytes beside its first character; "" if it has neither.
func otherEncoding(data []byte) string {
	for _, e := range []struct{ begin, name string }{
		{"\xff\xfe\x00\x00", "UTF-32LE"}, {"\x00\x00\xfe\xff", "UTF-32BE"}, {"\xff\xfe", "UTF-16LE"}, {"\xfe\xff", "UTF-16BE"},
	} {
		if bytes.HasPrefix(data, []byte(e.begin)) {
			return e.name
		}
	}
	switch {
	case len(data) < 4:
	case data[0] != 0 && data[1] == 0 && data[2] != 0 && data[3] == 0:
		return "UTF-16LE"
	case data[0] == 0 && data[1] != 0 && data[2] == 0 && data[3] != 0:
		return "UTF-16BE"
	}
	return ""
}

// syntaxFault puts what the YAML parser said into words.
func syntaxFault(f *findings, data []byte, err error) {
	message := err.Error()
	line := 0
	if m := parserError.FindStringSubmatch(message); m != nil {
		line, _ = strconv.Atoi(m[1])
		message = m[2]
	}
	lines := strings.Split(string(data), "\n")
	if anchor, ok := strings.CutPrefix(message, "unknown anchor '"); ok && line == 0 {
		anchor, _, _ = strings.Cut(anchor, "'")
		line = lineWith(lines, func(s string) bool { return strings.Contains(s, "*"+anchor) })
	}
	if line == 0 {
		line = lineWith(lines, func(s string) bool { return !printable(s) })
	}
	if line == 0 || strings.HasPrefix(message, "did not find expected") {
		line = cmp.Or(lineOfError(lines, err), line)
	}
	text := ""
	if line >= 1 && line <= len(lines) {
		text = strings.TrimSuffix(lines[line-1], "\r")
	}
	message, remedy := syntaxWords(message, text)
	if tab := tabbedLine(lines, line); tab > 0 {
		line, message, remedy = tab, "a tab where YAML requires spaces", "Indent with spaces only."
	}
	f.fatal(place{line: line}, message, remedy)
}

// syntaxWords says what the parser's message means for the line and what to do about it.
func syntaxWords(message, text string) (what, remedy string) {
	what = "invalid YAML: " + message
	switch {
	case strings.Contains(message, "alphabetic or numeric character"):
		return what, "A value that starts with * or & must be in quotes, as in schedule: \"* * * * *\"."
	case strings.Contains(message, "cannot start any token"):
		return what, "A value that starts with @, % or ` must be in quotes."
	case strings.Contains(message, "mapping values are not allowed"):
		return what, "Check the indentation of this line; a value that has a colon and a space in it must be in quotes."
	case strings.Contains(message, "unknown anchor"):
		return what, "A value that starts with * must be in quotes; an alias needs its anchor (&name) further up."
	case strings.Contains(message, "unexpected end of stream"), strings.Contains(message, "found unexpected document indicator"):
		return what, "A quote that was opened is not closed."
	case strings.Contains(message, "UTF-8"), strings.Contains(message, "control characters"), strings.Contains(message, "UTF-16"), strings.Contains(message, "surrogate"):
		return what, "Save the file as plain UTF-8 text."
	case strings.Contains(message, "expected ',' or"), strings.Contains(message, "node content"):
		return what, "A bracket or brace that was opened is not closed, or a comma is missing."
	case strings.Contains(message, "could not find expected ':'"):
		return what, "A key needs a colon and a space after it."
	case strings.Contains(message, "did not find expected"), strings.Contains(message, "block"):
		return what, "Check the indentation: what belongs together starts in the same column, a list item with \"- \"."
	case strings.Contains(text, "\t"):
		return what, "Indent with spaces only."
	}
	return what, ""
}

// lineOfError finds the line at which err occurs. The parser names the line where the block around it starts,
// which can be far above: the first lines up to the one in question are the fewest with which it fails like this.
func lineOfError(lines []string, err error) int {
	fails := func(n int) bool {
		var doc yaml.Node
		e := yaml.NewDecoder(strings.NewReader(strings.Join(lines[:n], "\n"))).Decode(&doc)
		return e != nil && e.Error() == err.Error()
	}
	n := sort.Search(len(lines), func(i int) bool { return fails(i + 1) }) + 1
	if n > len(lines) || !fails(n) {
		return 0
	}
	return n
}

// tabbedLine is the number of a line close before line that has a tab in its indentation, or 0.
func tabbedLine(lines []string, line int) int {
	for n := min(line+1, len(lines)); n >= max(line-1, 1); n-- {
		s := lines[n-1]
		if indent := s[:len(s)-len(strings.TrimLeft(s, " \t-"))]; strings.Contains(indent, "\t") && strings.TrimSpace(s) != "" {
			return n
		}
	}
	return 0
}

func lineWith(lines []string, has func(string) bool) int {
	for i, s := range lines {
		if has(s) {
			return i + 1
		}
	}
	return 0
}

func printable(s string) bool {
	if !utf8.ValidString(s) {
		return false
	}
	return !strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 && r != '\t' && r != '\r' || r == 0x7f })
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }
