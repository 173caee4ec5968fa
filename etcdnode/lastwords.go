package etcdnode

import (
	"bufio"
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"time"

	"cke"
)

const (
	// lastWordsLines is how much of a log is read, lastWordsLength how much of it is returned, in bytes.
	lastWordsLines  = 2000 // a panic is followed by the stacks of all goroutines
	lastWordsLength = 300
	// lastWordsSpan is how long before the end an error still belongs to it.
	lastWordsSpan = 2 * time.Second
)

// stackTrace matches lines of Go's stack traces: the goroutine, a call, where it is, and what made the goroutine.
var stackTrace = regexp.MustCompile(`^(goroutine \d+ .*|created by \S+.*|\S+\.(go|s):\d+( \+0x[0-9a-f]+)?|[\w./*%()\[\]{}·-]+\((\.\.\.|[0-9a-fx, .{}?]*)\)|runtime stack:|\[signal .*\])$`)

// lastWords returns what an etcd process said last about its end, in one line: that its member was removed, which etcd
// logs as a warning, else its last fatal message, else a Go panic, else an error if it came with the end, else its last
// line. An error after which it continued is not its last word.
func lastWords(log []byte) string {
	var removed, fatal, panicked, last string
	var failed logLine
	var ended time.Time
	lines := bufio.NewScanner(bytes.NewReader(log))
	lines.Buffer(nil, 1<<20)
	usage := false
	for lines.Scan() {
		text := strings.TrimSpace(lines.Text())
		if text == "" {
			continue
		}
		// After a flag that it does not know etcd explains those that it does, indented but for "Usage:".
		if text == "Usage:" {
			usage = true
		}
		if usage = usage && (text == "Usage:" || strings.HasPrefix(lines.Text(), " ")); usage {
			continue
		}
		l := readLogLine(text)
		if l.Error == cke.WordsOfRemoved { // of another member it is a part of a longer error
			removed = l.words()
		}
		switch l.Level {
		case "fatal", "panic", "dpanic":
			fatal = l.words()
		case "error":
			failed = l
		case "":
			if strings.HasPrefix(text, "panic: ") || strings.HasPrefix(text, "fatal error: ") {
				panicked = text
			}
			if strings.HasPrefix(text, "unexpected fault address ") {
				panicked = text
			}
			if panicked != "" || stackTrace.MatchString(text) {
				continue // a stack trace
			}
		}
		last = l.words()
		if t := l.time(); !t.IsZero() {
			ended = t
		}
	}
	if ended.Sub(failed.time()) > lastWordsSpan {
		failed = logLine{}
	}
	for _, words := range []string{removed, fatal, panicked, failed.words(), last} {
		if words != "" {
			return shorten(strings.Join(strings.Fields(words), " "), lastWordsLength)
		}
	}
	return ""
}

// logLine is a line of etcd's JSON log; one that is not JSON has no level.
type logLine struct{ Level, Msg, Error, TS string }

func readLogLine(text string) logLine {
	var l logLine
	if json.Unmarshal([]byte(text), &l) != nil || l.Msg == "" {
		return logLine{Msg: text}
	}
	return l
}

// time is zero where the line does not tell it. Source: etcd, logutil.DefaultZapLoggerConfig.
func (l logLine) time() time.Time {
	t, _ := time.Parse("2006-01-02T15:04:05.000000Z0700", l.TS)
	return t
}

func (l logLine) words() string {
	if l.Error == "" || strings.Contains(l.Msg, l.Error) {
		return l.Msg
	}
	return l.Msg + ": " + l.Error
}
