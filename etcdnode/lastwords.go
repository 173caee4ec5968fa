package etcdnode

import (
	"bufio"
	"bytes"
	"encoding/json"
	"strings"
)

const (
	// lastWordsLines is how much of a log is looked at, lastWordsLength how much of it is told, in bytes.
	lastWordsLines  = 100
	lastWordsLength = 300
)

// lastWords returns what an etcd process said last about its end, in one line: its last fatal message, else its last
// error, else its last line. A Go panic goes before all.
func lastWords(log []byte) string {
	var fatal, failed, last, panicked string
	lines := bufio.NewScanner(bytes.NewReader(log))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		text := strings.TrimSpace(lines.Text())
		if text == "" {
			continue
		}
		level, words := readLogLine(text)
		switch level {
		case "fatal", "panic", "dpanic":
			fatal = words
		case "error":
			failed = words
		case "":
			if strings.HasPrefix(text, "panic: ") || strings.HasPrefix(text, "fatal error: ") {
				panicked = words
			}
			if strings.HasPrefix(text, "goroutine ") || panicked != "" {
				continue // a stack trace
			}
		}
		last = words
	}
	for _, words := range []string{fatal, panicked, failed, last} {
		if words != "" {
			return shorten(strings.Join(strings.Fields(words), " "), lastWordsLength)
		}
	}
	return ""
}

// readLogLine reads a line of etcd's JSON log; a line that is none has no level.
func readLogLine(text string) (level, words string) {
	var l struct{ Level, Msg, Error string }
	if json.Unmarshal([]byte(text), &l) != nil || l.Msg == "" {
		return "", text
	}
	if l.Error == "" || strings.Contains(l.Msg, l.Error) {
		return l.Level, l.Msg
	}
	return l.Level, l.Msg + ": " + l.Error
}
