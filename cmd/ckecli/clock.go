package main

import (
	"time"

	"cke/internal/words"
)

// ago is how long ago t was, as "4m"; "-" when t is unknown.
func (a *app) ago(t time.Time) string {
	return words.Ago(a.now(), t)
}

// in is how long until t, as "312d"; "expired" when that has passed.
func (a *app) in(t time.Time) string {
	return words.In(a.now(), t)
}
