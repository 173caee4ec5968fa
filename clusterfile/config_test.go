package clusterfile_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"cke"
	"cke/clusterfile"
)

func TestParseConfig_EverythingHasADefault(t *testing.T) {
	want := cke.Config{
		Store:         cke.StoreConfig{Embedded: cke.EmbeddedStore{DataDir: "/var/lib/cke/store"}, Prefix: "/cke/"},
		SecretKeyFile: "/etc/cke/secret.key",
		HTTP:          cke.HTTPConfig{Listen: "127.0.0.1:10180"},
		Images:        cke.ImagesConfig{ArchiveDir: "/var/lib/cke/images"},
		Backup:        cke.BackupConfig{ScratchDir: "/var/lib/cke/scratch"},
		SessionTTL:    cke.Duration(10 * time.Second),
		ProbeInterval: cke.Duration(5 * time.Second),
	}
	for _, file := range []string{"", "\n", "# nothing\n", "---\n# nothing\n", "store:\n", "{}", "http: {tls: {cert_file: , key_file: }}\n"} {
		got, err := clusterfile.ParseConfig("config.yml", []byte(file))
		if err != nil {
			t.Errorf("%q: %v", file, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", file, diff)
		}
	}
	if err := clusterfile.CheckConfig(want); err != nil {
		t.Errorf("the defaults are not good: %v", err)
	}
}

func TestParseConfig_ReadsAnExternalStore(t *testing.T) {
	got, err := clusterfile.ParseConfig("config.yml", []byte(`
store:
  endpoints: [https://10.0.0.5:2379, "https://[2001:db8::5]:2379"]
  prefix: /infra/cke/
  tls: {ca_file: /etc/cke/ca.crt, cert_file: /etc/cke/store.crt, key_file: /etc/cke/store.key}
  username: cke
  password_file: /etc/cke/store.password
secret_key_file: /etc/cke/key
http:
  listen: 0.0.0.0:10180
  tls: {cert_file: /etc/cke/http.crt, key_file: /etc/cke/http.key}
  basic_auth: {username: ops, password_file: /etc/cke/http.password}
images: {archive_dir: /srv/images}
backup: {scratch_dir: /srv/scratch}
session_ttl: 30s
probe_interval: 500ms
`))
	if err != nil {
		t.Fatal(err)
	}
	want := cke.Config{
		Store: cke.StoreConfig{
			Endpoints: []string{"https://10.0.0.5:2379", "https://[2001:db8::5]:2379"}, Prefix: "/infra/cke/",
			TLS:      cke.StoreTLS{CAFile: "/etc/cke/ca.crt", CertFile: "/etc/cke/store.crt", KeyFile: "/etc/cke/store.key"},
			Username: "cke", PasswordFile: "/etc/cke/store.password",
		},
		SecretKeyFile: "/etc/cke/key",
		HTTP: cke.HTTPConfig{
			Listen: "0.0.0.0:10180", TLS: cke.HTTPTLS{CertFile: "/etc/cke/http.crt", KeyFile: "/etc/cke/http.key"},
			BasicAuth: cke.BasicAuth{Username: "ops", PasswordFile: "/etc/cke/http.password"},
		},
		Images:     cke.ImagesConfig{ArchiveDir: "/srv/images"},
		Backup:     cke.BackupConfig{ScratchDir: "/srv/scratch"},
		SessionTTL: cke.Duration(30 * time.Second), ProbeInterval: cke.Duration(500 * time.Millisecond),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got.Store.IsEmbedded() {
		t.Error("the store is told to be embedded")
	}
}

func TestParseConfig_TellsTheOneThingThatIsWrong(t *testing.T) {
	const tls = "tls: {cert_file: /a, key_file: /b}"
	for _, c := range []one{
		{"stor: {}", "stor", "did you mean store?"},
		{"endpoints: []", "endpoints", "It belongs to store"},
		{"- a", "", "keys and values"},
		{"store: {embedded: {data_dir: store}}", "store.embedded.data_dir", "relative path"},
		{"store: {embedded: {data_dir: /a}, endpoints: ['https://a:2379']}", "store", "both embedded and endpoints"},
		{"store: {endpoints: []}", "store.endpoints", "is empty"},
		{"store: {endpoints: [a:2379]}", "store.endpoints[0]", "not a URL"},
		{"store: {endpoints: ['https://a']}", "store.endpoints[0]", "has no port"},
		{"store: {endpoints: ['https://a:2379/x']}", "store.endpoints[0]", "not a URL"},
		{"store: {endpoints: ['https://u:p@a:2379']}", "store.endpoints[0]", "password_file"},
		{"store: {endpoints: ['https://a:2379', 'https://a:2379']}", "store.endpoints[1]", "given twice"},
		{"store: {endpoints: ['http://a:2379'], tls: {ca_file: /a}}", "store.endpoints[0]", "would not use"},
		{"store: {endpoints: ['https://a:2379'], tls: {cert_file: /a}}", "store.tls.key_file", "is missing"},
		{"store: {endpoints: ['https://a:2379'], username: a}", "store.password_file", "is missing"},
		{"store: {tls: {ca_file: /a}}", "store", "there are none"},
		{"store: {prefix: cke}", "store.prefix", "Write /cke/"},
		{"secret_key_file: secret.key", "secret_key_file", "relative"},
		{"http: {listen: localhost}", "http.listen", "HOST:PORT"},
		{"http: {listen: '127.0.0.1:0'}", "http.listen", "HOST:PORT"},
		{"http: {listen: ':10180'}", "http.listen", "without encryption"},
		{"http: {listen: '10.0.0.1:10180'}", "http.listen", "without encryption"},
		{"http: {listen: '10.0.0.1:10180', " + tls + "}", "http.listen", "without authentication"},
		{"http: {tls: {cert_file: /a}}", "http.tls.key_file", "is missing"},
		{"http: {tls: {client_ca_file: /a}}", "http.tls.cert_file", "need TLS"},
		{"http: {basic_auth: {password_file: /a}}", "http.basic_auth.username", "is missing"},
		{"session_ttl: 1s", "session_ttl", "2s"},
		{"session_ttl: 2500ms", "session_ttl", "whole seconds"},
		{"session_ttl: 10", "session_ttl", "is not a duration"},
		{"probe_interval: 0s", "probe_interval", "100ms"},
		{"images: {archive_dir: ~/images}", "images.archive_dir", "relative"},
		{"images: {registries: [{host: registry, username: cke, password_file: /p}]}", "images.registries[0].host", "registry.example.com:5000"},
		{"images: {registries: [{host: 'https://a.example', username: cke, password_file: /p}]}", "images.registries[0].host", "is not a registry"},
		{"images: {registries: [{host: a.example, username: cke}]}", "images.registries[0].password_file", "is missing"},
		{"images: {registries: [{host: a.example}]}", "images.registries[0]", "no username"},
		{"images: {registries: [{host: a.example, username: a, password_file: p}]}", "images.registries[0].password_file", "relative"},
		{"images: {registries: [{host: a.example, username: a, password_file: /p}, {host: a.example, username: b, password_file: /p}]}", "images.registries[1].host", "given twice"},
		{"images: {registries: [{host: a.example, username: a, password_file: /p, user: a}]}", "images.registries[0].user", "unknown"},
		{"backup: {scratch_dir: scratch}", "backup.scratch_dir", "relative"},
		{"images: {}\nimages: {}", "images", "given twice"},
		{"images: {}\n---\nimages: {}", "", "second YAML document"},
	} {
		t.Run(c.path+" "+c.says, func(t *testing.T) {
			_, err := clusterfile.ParseConfig("config.yml", []byte(c.file))
			if err == nil {
				t.Fatalf("accepted:\n%s", c.file)
			}
			got := faults(t, err)
			if len(got) != 1 || got[0].Path != c.path || !strings.Contains(got[0].Message+" "+got[0].Remedy, c.says) || got[0].Line == 0 {
				t.Errorf("want %s: … %s …, got\n%v", c.path, c.says, err)
			}
		})
	}
}

func TestConfig_OpenListenersAskWhoIsThere(t *testing.T) {
	for _, h := range []cke.HTTPConfig{
		{Listen: "127.0.0.1:80"}, {Listen: "[::1]:80"}, {Listen: "localhost:80"}, {Listen: "127.1.2.3:80"},
		{Listen: ":80", TLS: cke.HTTPTLS{CertFile: "/a", KeyFile: "/b", ClientCAFile: "/c"}},
		{Listen: ":80", TLS: cke.HTTPTLS{CertFile: "/a", KeyFile: "/b"}, BasicAuth: cke.BasicAuth{Username: "a", PasswordFile: "/p"}},
	} {
		if err := clusterfile.CheckConfig(cke.Config{HTTP: h}); err != nil {
			t.Errorf("%+v: %v", h, err)
		}
	}
	for _, listen := range []string{":80", "0.0.0.0:80", "[::]:80", "10.0.0.1:80", "cke.example.com:80", "localhost.example.com:80"} {
		h := cke.HTTPConfig{Listen: listen, BasicAuth: cke.BasicAuth{Username: "a", PasswordFile: "/p"}}
		if err := clusterfile.CheckConfig(cke.Config{HTTP: h}); err == nil {
			t.Errorf("%s was accepted without encryption", listen)
		}
	}
}

func TestLoadConfig_AMissingFileIsAnErrorOnlyWhenNamed(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "config.yml")
	got, err := clusterfile.LoadConfig(missing, false)
	if err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(cke.DefaultConfig(), got); diff != "" {
		t.Error(diff)
	}
	_, err = clusterfile.LoadConfig(missing, true)
	if !errors.Is(err, fs.ErrNotExist) || cke.CodeOf(err) != cke.CodeConfig || !strings.Contains(err.Error(), missing) {
		t.Errorf("got %v", err)
	}
	if _, err := clusterfile.LoadConfig(dir, false); cke.CodeOf(err) != cke.CodeConfig { // there, but no file
		t.Errorf("got %v", err)
	}
	if err := os.WriteFile(missing, []byte("session_ttl: 20s\nprob_interval: 1s\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = clusterfile.LoadConfig(missing, false)
	if got := faults(t, err); len(got) != 1 || got[0].File != missing || got[0].Line != 2 {
		t.Errorf("got %v", err)
	}
}
