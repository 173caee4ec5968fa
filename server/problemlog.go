package server

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	"cke"
)

const (
	// problemLines bounds what is logged of one problem within problemTime: it may come and go with each probe.
	problemLines = 4
	problemTime  = time.Minute
	// maxLogged bounds the problems that are remembered and logged at a time.
	maxLogged = 200
)

// problemLog logs each problem once when it appears, when it changes and when it ends. Its zero value has logged nothing.
type problemLog struct {
	logged map[problemKey]*loggedProblem
}

// problemKey is what makes a problem the same one at two times.
type problemKey struct {
	code cke.Code
	node string
}

type loggedProblem struct {
	message string // the last one that was logged; "": its end was
	since   time.Time
	lines   int // logged since from
	from    time.Time
}

// update logs what has changed since the last call. What exceeds problemLines is logged later, if it still holds then.
func (p *problemLog) update(log *slog.Logger, problems []cke.Problem, now time.Time) {
	current := map[problemKey]cke.Problem{}
	for _, x := range problems {
		k := problemKey{x.Code, x.Node}
		if first, twice := current[k]; twice {
			first.Message += "; " + x.Message
			x = first
		}
		current[k] = x
	}
	if p.logged == nil {
		p.logged = map[problemKey]*loggedProblem{}
	}
	for k := range current {
		if p.logged[k] == nil && len(p.logged) < maxLogged {
			p.logged[k] = &loggedProblem{from: now}
		}
	}
	for _, k := range slices.SortedFunc(maps.Keys(p.logged), func(a, b problemKey) int {
		return cmp.Or(strings.Compare(string(a.code), string(b.code)), strings.Compare(a.node, b.node))
	}) {
		x, there := current[k]
		p.logged[k].update(log, k, x, there, now)
		if l := p.logged[k]; !there && l.message == "" && now.Sub(l.from) >= problemTime {
			delete(p.logged, k)
		}
	}
}

func (l *loggedProblem) update(log *slog.Logger, k problemKey, x cke.Problem, there bool, now time.Time) {
	if !there && l.message == "" || there && sameMessage(l.message, x.Message) {
		return
	}
	if now.Sub(l.from) >= problemTime || now.Before(l.from) {
		l.lines, l.from = 0, now
	}
	if l.lines >= problemLines {
		return
	}
	l.lines++
	log = log.With("code", k.code)
	if k.node != "" {
		log = log.With("node", k.node)
	}
	switch {
	case !there:
		log.Info("problem resolved", "was", l.message, "since", l.since)
	case l.message == "":
		log.Warn("problem", "message", x.Message, "remedy", x.Remedy)
		l.since = x.Since
	default:
		log.Warn("problem changed", "message", x.Message, "remedy", x.Remedy)
	}
	l.message = x.Message
}

// sameMessage leaves numbers out, which count and measure times.
func sameMessage(a, b string) bool {
	digits := func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}
	return strings.Map(digits, a) == strings.Map(digits, b)
}
