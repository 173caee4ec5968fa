package storage

import (
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"time"

	"cke"
)

// Defaults of Config.
const (
	DefaultPrefix     = "/cke/"
	DefaultDataDir    = "/var/lib/cke/store"
	DefaultSessionTTL = 10 * time.Second

	// MinSessionTTL is the shortest lease that etcd grants with its usual election timeout.
	MinSessionTTL = 2 * time.Second
)

// Config is where the store is. The zero value is an embedded store in DefaultDataDir.
type Config struct {
	// Endpoints are URLs of an existing etcd cluster; empty: the store is embedded.
	Endpoints []string
	// Prefix precedes every key; default DefaultPrefix.
	Prefix string
	// TLS is for Endpoints.
	TLS TLS
	// Username and PasswordFile log in to Endpoints; the file's first line is the password.
	Username     string
	PasswordFile string
	// Embedded describes the store inside the daemon; unused with Endpoints.
	Embedded EmbeddedConfig
	// SecretKeyFile has the age identity that unseals secrets. It is needed only to unseal.
	SecretKeyFile string
	// SessionTTL is how long a daemon leads without renewing its session; default DefaultSessionTTL.
	SessionTTL time.Duration
	// Patience is how long Open, and then each request, may wait for the store; default 2 s to open and 5 s a request.
	Patience time.Duration
	// Requested, if set, is called after each request with the method of etcd's API, as "Txn", and how long it took.
	Requested func(method string, took time.Duration)
	// Log receives background events; nil: they are not logged.
	Log *slog.Logger
}

// TLS names files in PEM. CertFile and KeyFile go together.
type TLS struct {
	CAFile   string
	CertFile string
	KeyFile  string
}

// EmbeddedConfig describes the store inside the daemon.
type EmbeddedConfig struct {
	// DataDir belongs only to the store; default DefaultDataDir. The socket for ckecli is in it.
	DataDir string
}

// IsEmbedded reports whether the store is inside the daemon.
func (c Config) IsEmbedded() bool { return len(c.Endpoints) == 0 }

// withDefaults fills in defaults and refuses what cannot work.
func (c Config) withDefaults() (Config, error) {
	faulty := func(what string, facts ...string) (Config, error) {
		return Config{}, &cke.Error{Code: cke.CodeConfig, What: "store configuration: " + what, Facts: facts, Unchanged: true}
	}
	if !c.IsEmbedded() && c.Embedded.DataDir != "" {
		return faulty("give either endpoints or embedded, not both")
	}
	for _, e := range c.Endpoints {
		u, err := url.Parse(e)
		if err != nil || u.Host == "" || !slices.Contains([]string{"http", "https"}, u.Scheme) {
			return faulty("endpoint "+e+" is not a URL", "write https://HOST:PORT")
		}
	}
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
		return faulty("cert_file and key_file must be set together")
	}
	if (c.Username == "") != (c.PasswordFile == "") {
		return faulty("username and password_file must be set together")
	}
	if c.Prefix == "" {
		c.Prefix = DefaultPrefix
	}
	if !strings.HasSuffix(c.Prefix, "/") {
		c.Prefix += "/"
	}
	if c.IsEmbedded() && c.Embedded.DataDir == "" {
		c.Embedded.DataDir = DefaultDataDir
	}
	if c.SessionTTL == 0 {
		c.SessionTTL = DefaultSessionTTL
	}
	if c.SessionTTL < MinSessionTTL {
		return faulty("session_ttl is shorter than " + MinSessionTTL.String())
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c, nil
}

// where names the store in messages.
func (c Config) where() string {
	if c.IsEmbedded() {
		return c.Embedded.DataDir
	}
	return strings.Join(c.Endpoints, ", ")
}
