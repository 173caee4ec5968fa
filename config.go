package cke

import (
	"cmp"
	"net"
	"net/netip"
	"time"
)

// DefaultConfigFile is where cke and ckecli read their configuration by default.
const DefaultConfigFile = "/etc/cke/config.yml"

// Defaults of the configuration file.
const (
	DefaultStoreDir      = "/var/lib/cke/store"
	DefaultStorePrefix   = "/cke/"
	DefaultSecretKeyFile = "/etc/cke/secret.key"
	DefaultListen        = "127.0.0.1:10180"
	DefaultImageDir      = "/var/lib/cke/images"
	DefaultScratchDir    = "/var/lib/cke/scratch"
	DefaultSessionTTL    = Duration(10 * time.Second)
	DefaultProbeInterval = Duration(5 * time.Second)
)

// Config is the content of /etc/cke/config.yml, used by both cke and ckecli.
type Config struct {
	Store StoreConfig `yaml:"store,omitempty"`
	// SecretKeyFile seals CA keys, SSH keys and credentials in the store; the same on every management host.
	SecretKeyFile string       `yaml:"secret_key_file,omitempty"`
	HTTP          HTTPConfig   `yaml:"http,omitempty"`
	Images        ImagesConfig `yaml:"images,omitempty"`
	Backup        BackupConfig `yaml:"backup,omitempty"`
	// Commands are the programs that cluster files may name, with their arguments. Who may write the store must not run
	// programs of their choice on management hosts.
	Commands map[string][]string `yaml:"commands,omitempty"`
	// SessionTTL is how long a silent leader daemon keeps its term.
	SessionTTL Duration `yaml:"session_ttl,omitempty"`
	// ProbeInterval is how often every node and member is probed, apart from events.
	ProbeInterval Duration `yaml:"probe_interval,omitempty"`
}

// StoreConfig is where the store is: embedded in the daemon, or in a separate etcd cluster.
type StoreConfig struct {
	// Embedded is used when there are no Endpoints.
	Embedded EmbeddedStore `yaml:"embedded,omitempty"`
	// Endpoints are URLs of an existing etcd; empty: the embedded store.
	Endpoints []string `yaml:"endpoints,omitempty"`
	// Prefix precedes every key; it has a slash at both ends.
	Prefix       string   `yaml:"prefix,omitempty"`
	TLS          StoreTLS `yaml:"tls,omitempty"`
	Username     string   `yaml:"username,omitempty"`
	PasswordFile string   `yaml:"password_file,omitempty"`
}

// IsEmbedded reports whether the daemon runs the store itself.
func (s StoreConfig) IsEmbedded() bool { return len(s.Endpoints) == 0 }

// EmbeddedStore is the store in the daemon's own process.
type EmbeddedStore struct {
	DataDir string `yaml:"data_dir,omitempty"`
}

// StoreTLS is how to reach an external store; CertFile and KeyFile go together.
type StoreTLS struct {
	CAFile   string `yaml:"ca_file,omitempty"`
	CertFile string `yaml:"cert_file,omitempty"`
	KeyFile  string `yaml:"key_file,omitempty"`
}

// HTTPConfig is the daemon's status page, API and metrics.
type HTTPConfig struct {
	// Listen is an address and port. If it is not loopback, TLS and client certificates or BasicAuth are required.
	Listen    string    `yaml:"listen,omitempty"`
	TLS       HTTPTLS   `yaml:"tls,omitempty"`
	BasicAuth BasicAuth `yaml:"basic_auth,omitempty"`
	// FleetLock lets agents of machines ask for reboots; zero: they may not.
	FleetLock FleetLockConfig `yaml:"fleet_lock,omitempty"`
}

// FleetLockConfig is who may ask for reboots over FleetLock: who knows the password, for the node whose address the request comes
// from.
type FleetLockConfig struct {
	Username     string `yaml:"username,omitempty"`
	PasswordFile string `yaml:"password_file,omitempty"`
	// Proxies are networks from which requests for any node may come, as 10.0.0.5/32.
	Proxies []string `yaml:"proxies,omitempty"`
}

// Set reports whether agents may ask at all.
func (f FleetLockConfig) Set() bool { return f.Username != "" }

// HTTPTLS is the daemon's own certificate; with ClientCAFile it requires client certificates of that CA.
type HTTPTLS struct {
	CertFile     string `yaml:"cert_file,omitempty"`
	KeyFile      string `yaml:"key_file,omitempty"`
	ClientCAFile string `yaml:"client_ca_file,omitempty"`
}

// BasicAuth requires a user name and the password in the first line of PasswordFile.
type BasicAuth struct {
	Username     string `yaml:"username,omitempty"`
	PasswordFile string `yaml:"password_file,omitempty"`
}

// ImagesConfig provides etcd images for nodes that cannot pull.
type ImagesConfig struct {
	// ArchiveDir holds the output of `docker save`, one image or more in each file.
	ArchiveDir string `yaml:"archive_dir,omitempty"`
	// Registries are those that nodes log in to when they pull. No node keeps the password.
	Registries []RegistryLogin `yaml:"registries,omitempty"`
}

// RegistryLogin is the user name, and the password in the first line of PasswordFile, for one registry.
type RegistryLogin struct {
	// Host is the registry as names of images have it: registry.example.com, or with a port.
	Host         string `yaml:"host,omitempty"`
	Username     string `yaml:"username,omitempty"`
	PasswordFile string `yaml:"password_file,omitempty"`
}

// Registry returns the login for a registry; false: there is none.
func (c ImagesConfig) Registry(host string) (RegistryLogin, bool) {
	for _, r := range c.Registries {
		if r.Host == host {
			return r, true
		}
	}
	return RegistryLogin{}, false
}

// BackupConfig is how the daemon works on backups; the target is part of each cluster file.
type BackupConfig struct {
	// ScratchDir has room for one snapshot and its compressed copy of each cluster, and for two more databases.
	ScratchDir string `yaml:"scratch_dir,omitempty"`
}

// DefaultConfig returns the configuration without a file.
func DefaultConfig() Config { return Config{}.WithDefaults() }

// WithDefaults returns a copy of c with every default filled in. It is idempotent.
func (c Config) WithDefaults() Config {
	if c.Store.IsEmbedded() {
		c.Store.Embedded.DataDir = cmp.Or(c.Store.Embedded.DataDir, DefaultStoreDir)
	}
	c.Store.Prefix = cmp.Or(c.Store.Prefix, DefaultStorePrefix)
	c.SecretKeyFile = cmp.Or(c.SecretKeyFile, DefaultSecretKeyFile)
	c.HTTP.Listen = cmp.Or(c.HTTP.Listen, DefaultListen)
	c.Images.ArchiveDir = cmp.Or(c.Images.ArchiveDir, DefaultImageDir)
	c.Backup.ScratchDir = cmp.Or(c.Backup.ScratchDir, DefaultScratchDir)
	c.SessionTTL = cmp.Or(c.SessionTTL, DefaultSessionTTL)
	c.ProbeInterval = cmp.Or(c.ProbeInterval, DefaultProbeInterval)
	return c
}

// Loopback reports whether only this host can reach the listener.
func (h HTTPConfig) Loopback() bool {
	host, _, err := net.SplitHostPort(h.Listen)
	if err != nil {
		return false
	}
	if host == "localhost" {
		return true
	}
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsLoopback()
}
