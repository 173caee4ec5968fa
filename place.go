package cke

import (
	"net/url"
	"strconv"
	"strings"
)

// HostPort returns the host and the port of a member's URL, as member lists, labels and settings have it; "" and 0: it has none.
func HostPort(text string) (host string, port int) {
	u, err := url.Parse(text)
	if err != nil {
		return "", 0
	}
	port, _ = strconv.Atoi(u.Port()) // 0 if it has none
	return u.Hostname(), port
}

// placeOf reads the label of a place, as Join.Place writes it: a client URL and a peer URL. Both are empty if it is none.
func placeOf(label string) (client, peer string) {
	urls := strings.Fields(label)
	if len(urls) != 2 || urls[0] != httpsURL(HostPort(urls[0])) {
		return "", ""
	}
	if secure := httpsURL(HostPort(urls[1])); urls[1] != secure && urls[1] != plain(secure) {
		return "", ""
	}
	return urls[0], urls[1]
}

// ClientURL is the one that the container was made for; empty: its label does not name one.
func (c Container) ClientURL() string {
	client, _ := placeOf(c.Place)
	return client
}

// PeerURL is the one that the container was made for; empty: its label does not name one.
func (c Container) PeerURL() string {
	_, peer := placeOf(c.Place)
	return peer
}
