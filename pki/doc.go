// Package pki issues the certificates of a cluster: three CAs that only the store has, sealed, and short chains of
// one leaf under each. Which CA is trusted by which side:
//
//	peer CA    members, among each other
//	server CA  clients trust members by it
//	client CA  members trust clients by it
//
// An existing CA is never created again, even if it cannot be read.
package pki
