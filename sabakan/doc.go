// Package sabakan reads inventories of machines: a server of sabakan, and a file.
package sabakan
