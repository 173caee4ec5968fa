package etcdnode

import (
	"context"
	"slices"
	"testing"

	"cke"
)

// The words are those of etcd 3.5.35, 3.6.16 and 3.7.3 in a network namespace of its own, without a volume.
func TestTryOptions_RefusesOnlyForValuesThatEtcdRefuses(t *testing.T) {
	for log, want := range map[string]bool{
		`{"level":"info","ts":"2026-11-22T15:05:21.788615Z","caller":"embed/etcd.go:140","msg":"configuring peer listeners","listen-peer-urls":["https://172.30.0.9:2380"]}
{"level":"fatal","ts":"2026-11-22T15:05:21.788664Z","caller":"etcdmain/etcd.go:157","msg":"discovery failed","error":"open /var/lib/etcd/pki/peer.crt: no such file or directory","stacktrace":"x"}`: false,
		`{"level":"info","ts":"2026-11-22T15:05:24.612850Z","caller":"embed/etcd.go:140","msg":"configuring peer listeners","listen-peer-urls":["https://172.30.0.9:2380"]}
{"level":"fatal","ts":"2026-11-22T15:05:24.612924Z","caller":"etcdmain/etcd.go:157","msg":"discovery failed","error":"unexpected TLS cipher suite \"FOO\"","stacktrace":"x"}`: true,
		`{"level":"info","ts":"2026-11-22T15:05:23.089683Z","caller":"etcdmain/etcd.go:63","msg":"Running: ","args":["etcd","--peer-cert-file=/var/lib/etcd/pki/peer.crt"]}
{"level":"warn","ts":"2026-11-22T15:05:23.089742Z","caller":"etcdmain/etcd.go:65","msg":"failed to verify flags","error":"--election-timeout[1000ms] should be at least as 5 times as --heartbeat-interval[1000ms]"}`: true,
		"flag provided but not defined: -nope\nUsage:\n\n  etcd [flags]\n    Start an etcd server.\n": true,
		// what the try alone lacks
		`{"level":"warn","ts":"2026-11-22T15:05:23.089742Z","caller":"etcdmain/etcd.go:65","msg":"failed to verify flags","error":"open sink \"/var/lib/etcd/etcd.log\": open /var/lib/etcd/etcd.log: no such file or directory"}`: false,
		`{"level":"warn","ts":"2026-11-22T15:05:23.089742Z","caller":"etcdmain/etcd.go:65","msg":"failed to verify flags","error":"open sink \"/srv/logs/etcd.log\": open /srv/logs/etcd.log: read-only file system"}`:             false,
		`{"level":"fatal","ts":"2026-11-22T15:05:24.612924Z","caller":"etcdmain/etcd.go:157","msg":"discovery failed","error":"listen tcp 172.30.0.9:2380: bind: cannot assign requested address"}`:                                false,
		// what nobody knows
		"": false,
		"runtime: failed to create new OS thread (have 2 already; errno=11)":                                                   false,
		`{"level":"info","ts":"2026-11-22T15:05:23.089683Z","caller":"etcdmain/etcd.go:63","msg":"Running: ","args":["etcd"]}`: false,
	} {
		if words := lastWords([]byte(log)); refuses(words) != want {
			t.Errorf("%q: got %v, want %v", words, !want, want)
		}
	}
}

const (
	tried        = visitPrefix + "etcd-cke.j1.try"
	noSuchCipher = `{"level":"fatal","msg":"discovery failed","error":"unexpected TLS cipher suite \"FOO\""}`
)

func TestTryOptions_EndsAndLeavesNothing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change map[string]string // answers
		hang   string
		code   cke.Code
		fails  bool
		remove string // the last container that is asked to go
	}{
		"etcd took them":                {remove: "o1"},
		"etcd refuses one":              {change: map[string]string{"GET /containers/o1/logs": "\x02\x00\x00\x00\x00\x00\x00" + string(rune(len(noSuchCipher))) + noSuchCipher}, code: cke.CodeOptions, fails: true, remove: "o1"},
		"etcd does not end":             {hang: "/o1/wait", remove: "o1"},
		"an engine that takes no start": {change: map[string]string{"POST /containers/o1/start": "500 context deadline exceeded"}, fails: true, remove: "o1"},
		"a mount from nowhere":          {change: map[string]string{"POST /containers/create": `500 invalid mount config for type "bind": bind source path does not exist: /x`}, code: cke.CodeOptions, fails: true, remove: tried},
		"a program that does not run":   {change: map[string]string{"POST /containers/o1/start": "500 OCI runtime create failed: exec /usr/local/bin/etcd: exec format error: unknown"}, code: cke.CodeOptions, fails: true, remove: "o1"},
		"a node with no room":           {change: map[string]string{"POST /containers/o1/start": "500 mkdir /run/containerd/x: no space left on device"}, fails: true, remove: "o1"},
		"an engine that cannot be used": {change: map[string]string{"POST /containers/create": "500 open /var/lib/docker/x: no such file or directory"}, fails: true, remove: tried},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			node := newFakeNode(t, "127.0.19.3", "ed25519", "ed25519")
			for request, body := range map[string]string{
				"GET /images/etcd:v3/json": "{}", "POST /containers/create": `{"Id":"o1"}`, "POST /containers/o1/start": "", "POST /containers/o1/wait": `{"StatusCode":1}`,
				"GET /containers/o1/logs": "", "DELETE /containers/o1": "", "DELETE /containers/" + tried: "",
			} {
				node.engine.answer(request, body)
			}
			for request, body := range test.change {
				node.engine.answer(request, body)
			}
			if test.hang != "" {
				node.engine.pauseOn(test.hang)
			}
			f := fleetOf(t, newMemoryHostKeys(), nil, node)
			ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
			defer cancel()
			j := cke.Join{ID: "j1", Incarnation: "life", Volume: "etcd-cke.j1", Member: "n1", Node: node.node, ClientPort: 2379, PeerPort: 2380, Etcd: cke.EtcdOptions{Image: "etcd:v3"}}
			err := f.Machine(node.node).TryOptions(ctx, cke.MemberSpec{Cluster: "demo", Join: j, Mode: cke.StartOwnData, Token: "token"})
			if (err != nil) != test.fails || test.code != "" && cke.CodeOf(err) != test.code || test.code == "" && cke.CodeOf(err) == cke.CodeOptions {
				t.Errorf("%v", err)
			}
			requests := node.engine.calls()
			left := slices.Index(requests, "DELETE /containers/"+tried) // by a daemon that was killed
			if made := slices.Index(requests, "POST /containers/create"); left < 0 || left > made {
				t.Errorf("asked %q", requests)
			}
			if n := len(requests); n == 0 || requests[n-1] != "DELETE /containers/"+test.remove {
				t.Errorf("asked %q", requests)
			}
		})
	}
}
