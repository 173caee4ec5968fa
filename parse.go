package cke

import "gopkg.in/yaml.v3"

// ParseCluster reads one cluster file.
func ParseCluster(file string, data []byte) (Cluster, []Warning, error) {
	var c Cluster
	err := yaml.Unmarshal(data, &c)
	return c, nil, err
}

// ParseConfig reads one configuration file.
func ParseConfig(file string, data []byte) (Config, error) {
	var c Config
	err := yaml.Unmarshal(data, &c)
	return c.WithDefaults(), err
}

// MarshalCluster writes c as YAML.
func MarshalCluster(c Cluster) ([]byte, error) { return yaml.Marshal(c) }
