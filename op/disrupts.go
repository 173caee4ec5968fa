package op

import "cke"

// Disruptive is an operation during which members do not serve though none of them stops, as while a database is
// rewritten. What members that stop take away is seen from their stopping.
type Disruptive interface {
	Operation
	// Disrupts returns the memberships that do not serve for a time; one after the other, each is as if alone.
	Disrupts() []cke.JoinID
}
