package rig

import (
	"os"
	"path/filepath"
	"testing"
)

func TestPage_IsWhereTheConfigurationSays(t *testing.T) {
	for config, want := range map[string]string{
		"{}":                            "http://127.0.0.1:10180/clusters/demo",
		"http: {listen: 10.0.0.1:8080}": "http://10.0.0.1:8080/clusters/demo",
		"http: {listen: ':8080'}":       "http://127.0.0.1:8080/clusters/demo",
		"http: {listen: '[::]:8080'}":   "http://127.0.0.1:8080/clusters/demo",
		"http: {listen: '[fd00::1]:443', tls: {cert_file: x}}": "https://[fd00::1]:443/clusters/demo",
	} {
		r := &Rig{Cluster: "demo", Config: filepath.Join(t.TempDir(), "config.yml")}
		if err := os.WriteFile(r.Config, []byte(config), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, err := r.Page(); err != nil || got != want {
			t.Errorf("%s: %s, %v; want %s", config, got, err, want)
		}
	}
}
