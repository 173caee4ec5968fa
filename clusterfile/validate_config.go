package clusterfile

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"net/url"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/distribution/reference"

	"cke"
)

// ParseConfig reads /etc/cke/config.yml, checks it in full and fills in the defaults. An empty file is one with
// all defaults. The error is an *Error with CodeConfig that wraps a *FaultList: all errors together.
func ParseConfig(file string, data []byte) (cke.Config, error) {
	var c cke.Config
	f := newFindings(file)
	if blank(data) || parse(f, data, &c, unknownConfigKey, "") {
		checkConfig(f, c)
	}
	if err := f.err(); err != nil {
		return cke.Config{}, err
	}
	return c.WithDefaults(), nil
}

// LoadConfig reads the configuration file and fills in the defaults. A missing file is an error only if it
// was named (explicit); else the defaults apply. Errors have CodeConfig.
func LoadConfig(path string, explicit bool) (cke.Config, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) && !explicit {
		return cke.DefaultConfig(), nil
	}
	if err != nil {
		return cke.Config{}, &cke.Error{Code: cke.CodeConfig, What: fmt.Sprintf("configuration file %s cannot be read", path), Err: err}
	}
	return ParseConfig(path, data)
}

// ReadPassword returns the password in a password_file: its first line.
func ReadPassword(file string) (string, error) {
	data, err := os.ReadFile(file)
	line, _, _ := strings.Cut(string(data), "\n")
	return strings.TrimSuffix(line, "\r"), err
}

// CheckConfig checks a configuration after flags or variables have changed it, by the rules of ParseConfig.
// Faults have paths and no lines.
func CheckConfig(c cke.Config) error {
	f := newFindings("")
	checkConfig(f, c)
	return f.err()
}

// blank reports whether a file has comments and white space only.
func blank(data []byte) bool {
	for line := range strings.Lines(string(data)) {
		if s := strings.TrimSpace(line); s != "" && s != "---" && !strings.HasPrefix(s, "#") {
			return false
		}
	}
	return true
}

func checkConfig(f *findings, c cke.Config) {
	checkStore(f, "store", c.Store)
	checkFile(f, "secret_key_file", c.SecretKeyFile)
	checkHTTP(f, "http", c.HTTP)
	checkFile(f, "images.archive_dir", c.Images.ArchiveDir)
	checkRegistries(f, "images.registries", c.Images.Registries)
	checkFile(f, "backup.scratch_dir", c.Backup.ScratchDir)
	checkCommands(f, "commands", c.Commands)
	if d := time.Duration(c.SessionTTL); f.given("session_ttl") || d != 0 {
		if d < 2*time.Second || d > time.Hour || d%time.Second != 0 {
			f.fault("session_ttl", fmt.Sprintf("invalid time to wait for a silent leader: %s", c.SessionTTL), "Write whole seconds, from 2s to 1h; 10s is usual.")
		}
	}
	if d := time.Duration(c.ProbeInterval); f.given("probe_interval") || d != 0 {
		if d < 100*time.Millisecond || d > time.Hour {
			f.fault("probe_interval", fmt.Sprintf("invalid interval of observations: %s", c.ProbeInterval), "Write a time from 100ms to 1h; 5s is usual.")
		}
	}
}

func checkStore(f *findings, p string, s cke.StoreConfig) {
	checkFile(f, p+".embedded.data_dir", s.Embedded.DataDir)
	if s.Prefix != "" && (!strings.HasPrefix(s.Prefix, "/") || !strings.HasSuffix(s.Prefix, "/")) {
		f.fault(p+".prefix", fmt.Sprintf("%q does not start and end with a slash", shorten(s.Prefix)), fmt.Sprintf("Write /%s/.", strings.Trim(shorten(s.Prefix), "/")))
	}
	for _, file := range []struct{ key, value string }{
		{"tls.ca_file", s.TLS.CAFile}, {"tls.cert_file", s.TLS.CertFile}, {"tls.key_file", s.TLS.KeyFile}, {"password_file", s.PasswordFile},
	} {
		checkFile(f, p+"."+file.key, file.value)
	}
	if s.IsEmbedded() {
		if f.given(p + ".endpoints") {
			f.fault(p+".endpoints", "is empty", "Name the URLs of an etcd, or remove the key: then the store is embedded.")
		}
		if s.TLS != (cke.StoreTLS{}) || s.Username != "" || s.PasswordFile != "" {
			f.fault(p, "tls, username and password_file are for an etcd that endpoints name, and there are none", "Add endpoints, or remove them.")
		}
		return
	}
	if s.Embedded != (cke.EmbeddedStore{}) {
		f.fault(p, "has both embedded and endpoints: the store is either in the daemon or in an etcd of its own", "Remove one of them.")
	}
	checkEndpoints(f, p, s)
	together(f, p+".tls", "cert_file", s.TLS.CertFile, "key_file", s.TLS.KeyFile)
	together(f, p, "username", s.Username, "password_file", s.PasswordFile)
}

func checkEndpoints(f *findings, p string, s cke.StoreConfig) {
	seen := map[string]string{}
	for i, e := range s.Endpoints {
		at := itemPath(p+".endpoints", i)
		u, err := url.Parse(e)
		switch {
		case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || u.Path != "" || u.RawQuery != "" || u.Fragment != "":
			f.fault(at, "is not a URL of an etcd", "Write https://HOST:2379.")
		case u.User != nil:
			f.fault(at, "has a user name or password in it", "Write it as username and password_file.")
		case !goodPort(u.Port()):
			f.fault(at, fmt.Sprintf("%q has no port", shorten(e)), "Write https://HOST:2379.")
		case u.Scheme == "http" && s.TLS != (cke.StoreTLS{}):
			f.fault(at, fmt.Sprintf("%q would not use the certificates that tls names", shorten(e)), "Write https://, or remove tls.")
		}
		twice(f, seen, at, e, "endpoint", "Remove one of them.")
	}
}

func checkRegistries(f *findings, p string, registries []cke.RegistryLogin) {
	seen := map[string]string{}
	for i, r := range registries {
		at := itemPath(p, i)
		// Docker takes a first part without a dot or port for a name in its own registry.
		if named, err := reference.ParseNormalizedNamed(r.Host + "/etcd"); err != nil || reference.Domain(named) != r.Host {
			f.fault(at+".host", fmt.Sprintf("%q is not a registry", shorten(r.Host)), "Write it as names of images have it: registry.example.com or registry.example.com:5000.")
		}
		twice(f, seen, at+".host", r.Host, "registry", "Remove one of them.")
		checkFile(f, at+".password_file", r.PasswordFile)
		if r.Username == "" && r.PasswordFile == "" {
			f.fault(at, "has no username and no password_file", "Add both, or remove it: pulls need no login then.")
		}
		together(f, at, "username", r.Username, "password_file", r.PasswordFile)
	}
}

// checkHTTP refuses a listener that others can reach and that does not ask who they are.
func checkHTTP(f *findings, p string, h cke.HTTPConfig) {
	for _, file := range []struct{ key, value string }{
		{"tls.cert_file", h.TLS.CertFile}, {"tls.key_file", h.TLS.KeyFile}, {"tls.client_ca_file", h.TLS.ClientCAFile},
		{"basic_auth.password_file", h.BasicAuth.PasswordFile}, {"fleet_lock.password_file", h.FleetLock.PasswordFile},
	} {
		checkFile(f, p+"."+file.key, file.value)
	}
	together(f, p+".tls", "cert_file", h.TLS.CertFile, "key_file", h.TLS.KeyFile)
	together(f, p+".basic_auth", "username", h.BasicAuth.Username, "password_file", h.BasicAuth.PasswordFile)
	together(f, p+".fleet_lock", "username", h.FleetLock.Username, "password_file", h.FleetLock.PasswordFile)
	if f.given(p+".fleet_lock") && h.FleetLock.Username == "" && h.FleetLock.PasswordFile == "" {
		f.fault(p+".fleet_lock", "has no username and no password_file", "Add both, or remove it: then no agent may ask for a reboot.")
	}
	for i, s := range h.FleetLock.Proxies {
		if n, err := netip.ParsePrefix(s); err != nil || n.Masked() != n {
			f.fault(itemPath(p+".fleet_lock.proxies", i), fmt.Sprintf("%q is not a network", shorten(s)), "Write it as 10.0.0.5/32 or 10.0.0.0/24.")
		}
	}
	if h.TLS.ClientCAFile != "" && h.TLS.CertFile == "" {
		f.fault(p+".tls.cert_file", "is missing: client certificates need TLS", "Name the daemon's certificate and key.")
	}
	if h.Listen == "" {
		return
	}
	at := p + ".listen"
	_, port, err := net.SplitHostPort(h.Listen)
	switch {
	case err != nil || !goodPort(port):
		f.fault(at, fmt.Sprintf("%q is not an address with a port", shorten(h.Listen)), "Write HOST:PORT, as "+cke.DefaultListen+".")
	case h.Loopback():
	case h.TLS.CertFile == "":
		f.fault(at, fmt.Sprintf("%s can be reached from other machines, without encryption", h.Listen), "Add http.tls with cert_file and key_file, or listen on "+cke.DefaultListen+".")
	case h.TLS.ClientCAFile == "" && h.BasicAuth == (cke.BasicAuth{}):
		f.fault(at, fmt.Sprintf("%s can be reached from other machines without authentication", h.Listen), "Add http.tls.client_ca_file or http.basic_auth, or listen on "+cke.DefaultListen+".")
	}
}

// checkFile checks a path that may be left out. It must be absolute, since cke and ckecli run in different places.
func checkFile(f *findings, at, s string) {
	if s != "" && !path.IsAbs(s) {
		f.fault(at, fmt.Sprintf("%q is a relative path", shorten(s)), "Write an absolute path, as "+cke.DefaultSecretKeyFile+".")
	}
}

// together checks two settings of which neither is of use alone.
func together(f *findings, p, a, aValue, b, bValue string) {
	switch {
	case aValue != "" && bValue == "":
		f.fault(p+"."+b, "is missing: "+a+" is given", "Give both or neither.")
	case aValue == "" && bValue != "":
		f.fault(p+"."+a, "is missing: "+b+" is given", "Give both or neither.")
	}
}

func goodPort(s string) bool {
	n, err := strconv.ParseUint(s, 10, 16)
	return err == nil && n > 0
}
