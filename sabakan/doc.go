// Package sabakan reads inventories of machines, a server of sabakan or a file, and chooses the one change of a cluster that follows
// from one. The choice is pure: Choose.
package sabakan
