package cke_test

import (
	"testing"

	"cke"
)

// Only what etcd's own list says is dialled, and of that only what means one machine.
func TestStrangerURL_IsOneThatTheMemberListHas(t *testing.T) {
	ours := []cke.Join{{Node: cke.Node{Address: "10.0.0.1"}, ClientPort: 2379}}
	loopback := []cke.Join{{Node: cke.Node{Address: "127.0.0.2"}, ClientPort: 2379}}
	for _, tt := range []struct {
		urls  []string
		known []cke.Join
		want  string
	}{
		{nil, ours, ""},
		{[]string{"https://10.9.9.9:2379"}, ours, "https://10.9.9.9:2379"},
		{[]string{"https://127.0.0.1:2379", "https://10.9.9.9:2379"}, ours, "https://10.9.9.9:2379"},
		{[]string{"https://127.0.0.1:2379"}, loopback, "https://127.0.0.1:2379"},
		{[]string{"http://10.9.9.9:2379"}, ours, ""},
		{[]string{"https://10.0.0.1:2379"}, ours, ""},
		{[]string{"https://0.0.0.0:2379"}, ours, ""},
		{[]string{"https://[::]:2379"}, ours, ""},
		{[]string{"https://[::ffff:127.0.0.1]:2379"}, ours, ""},
		{[]string{"https://169.254.169.254:80"}, ours, ""},
		{[]string{"https://[fe80::1%25eth0]:2379"}, ours, ""},
		{[]string{"https://etcd.example:2379"}, ours, ""},
		{[]string{"https://10.9.9.9"}, ours, ""},
		{[]string{"https://[2001:db8::9]:2379/x"}, ours, "https://[2001:db8::9]:2379"},
		{[]string{"%"}, ours, ""},
	} {
		got, found := cke.StrangerURL(cke.Member{ClientURLs: tt.urls}, tt.known)
		if got != tt.want || found != (tt.want != "") {
			t.Errorf("%v: %q %v", tt.urls, got, found)
		}
	}
}
