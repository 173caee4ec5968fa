package op

import "cke"

// Disruptive is an operation during which members do not serve although none of them stops, as while a database is
// rewritten. For members that stop, their stop shows what they take away.
type Disruptive interface {
	Operation
	// Disrupts returns the memberships that do not serve for a time; one at a time, so each counts alone.
	Disrupts() []cke.JoinID
}
