// Package pki issues the certificates of a cluster: three CAs that only the store holds, sealed, and short chains
// of one leaf under each. Who trusts whom:
//
//	peer CA    members, among each other
//	server CA  clients trust members by it
//	client CA  members trust clients by it
//
// A CA is made once and never made again over one that is there but cannot be read.
package pki
