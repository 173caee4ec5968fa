package server

// ErrResigned is what a loop ends with that a person asked to resign.
var ErrResigned = errResigned
