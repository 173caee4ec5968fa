package monitoring

// Scrape is the part of a configuration of Prometheus that says what to collect.
type Scrape struct {
	Configs []ScrapeConfig `json:"scrape_configs"`
}

// ScrapeConfig is a job of Prometheus.
type ScrapeConfig struct {
	Job    string     `json:"job_name"`
	Scheme string     `json:"scheme"`
	TLS    *TLS       `json:"tls_config,omitempty"`
	Auth   *BasicAuth `json:"basic_auth,omitempty"`
	Static []Targets  `json:"static_configs"`
}

// TLS names the files with which Prometheus connects.
type TLS struct {
	CAFile   string `json:"ca_file,omitempty"`
	CertFile string `json:"cert_file,omitempty"`
	KeyFile  string `json:"key_file,omitempty"`
}

// BasicAuth is the name and the password file with which Prometheus logs in.
type BasicAuth struct {
	Username     string `json:"username"`
	PasswordFile string `json:"password_file"`
}

// Targets are addresses with HOST:PORT, and the labels that their series get.
type Targets struct {
	Targets []string          `json:"targets"`
	Labels  map[string]string `json:"labels,omitempty"`
}

// DaemonJob is the name of the job that collects the metrics of daemons.
const DaemonJob = "cke"

// MembersJob returns the name of the job that collects the metrics of the members of a cluster. Clusters have jobs of
// their own, because each has its own certificate authorities.
func MembersJob(cluster string) string { return "etcd-" + cluster }
