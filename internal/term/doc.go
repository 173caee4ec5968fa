// Package term writes to terminals: tables, labeled lines, steps that are under way, and screens that are redrawn.
// Width is counted in characters as they appear, never in bytes and never with color codes.
package term
