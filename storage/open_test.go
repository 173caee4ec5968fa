package storage

import (
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cke"
)

func TestOpen_AnExternalStoreThatRefusesOrIsNotThere(t *testing.T) {
	good := startExternal(t)
	openStore(t, good)
	dead, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refusing := "https://" + dead.Addr().String()
	dead.Close()
	deaf, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and never answers
	if err != nil {
		t.Fatal(err)
	}
	defer deaf.Close()
	dir := t.TempDir()
	for name, test := range map[string]struct {
		spoil func(*Config)
		code  cke.Code
		says  string
	}{
		"NobodyThere":   {func(c *Config) { c.Endpoints = []string{refusing} }, cke.CodeStore, "connection refused"},
		"NoAnswer":      {func(c *Config) { c.Endpoints, c.Patience = []string{"https://" + deaf.Addr().String()}, 3*time.Second }, cke.CodeStore, "deadline"},
		"WrongPassword": {func(c *Config) { writeFile(t, filepath.Join(dir, "p"), "x"); c.PasswordFile = filepath.Join(dir, "p") }, cke.CodeStore, `refuses user "cke"`},
		"NoUser":        {func(c *Config) { c.Username, c.PasswordFile = "", "" }, cke.CodeStore, `refuses user ""`},
		"OtherPrefix":   {func(c *Config) { c.Prefix = "/elsewhere/" }, cke.CodeStore, "read and write below /elsewhere/"},
		"OtherCA": {func(c *Config) {
			c.TLS.CAFile = filepath.Join(dir, "other.crt")
			writeServerCert(t, c.TLS.CAFile, filepath.Join(dir, "other.key"))
		}, cke.CodeStore, "certificate"},
		"NoPasswordFile": {func(c *Config) { c.PasswordFile = filepath.Join(dir, "none") }, cke.CodeConfig, "password_file"},
		"NoCAFile":       {func(c *Config) { c.TLS.CAFile = filepath.Join(dir, "none") }, cke.CodeConfig, "ca_file"},
		"EmptyCAFile":    {func(c *Config) { c.TLS.CAFile = filepath.Join(dir, "e"); writeFile(t, c.TLS.CAFile, "") }, cke.CodeConfig, "no certificate"},
		"NoKeyPair":      {func(c *Config) { c.TLS.CertFile, c.TLS.KeyFile = "/none", "/none" }, cke.CodeConfig, "cert_file"},
	} {
		t.Run(name, func(t *testing.T) {
			c := good
			test.spoil(&c)
			begun := time.Now()
			s, err := Open(t.Context(), c)
			if err == nil {
				s.Close()
			}
			if cke.CodeOf(err) != test.code || !strings.Contains(err.Error(), test.says) {
				t.Errorf("got %s %v", cke.CodeOf(err), err)
			}
			t.Logf("%v: %v", time.Since(begun).Round(time.Millisecond), err)
		})
	}
}
