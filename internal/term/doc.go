// Package term writes for people: tables, labelled lines, steps that are under way, and screens that are redrawn.
// Width is counted in characters as they appear, never in bytes and never with colour codes.
package term
