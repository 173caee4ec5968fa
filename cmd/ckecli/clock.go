package main

import (
	"time"

	"cke/internal/term"
)

// ago is how long ago t was, as "4m"; "-" when t is unknown.
func (a *app) ago(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return term.Age(a.now().Sub(t))
}

// in is how long until t, as "312d"; "expired" when that has passed.
func (a *app) in(t time.Time) string {
	switch left := t.Sub(a.now()); {
	case t.IsZero():
		return "-"
	case left <= 0:
		return "expired"
	default:
		return term.Age(left)
	}
}
