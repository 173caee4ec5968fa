package cke

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/docker/go-units"
	"gopkg.in/yaml.v3"
)

// Duration is written as "10m" or "168h" in YAML and as seconds in JSON.
type Duration time.Duration

// Size is a number of bytes, written as "8GiB" (binary) or a plain number in YAML and as a number in JSON.
type Size int64

// ParseSize reads "8GiB", "512MiB", "10MB" (10·10⁶) or a number of bytes.
func ParseSize(s string) (Size, error) {
	parse := units.FromHumanSize
	if strings.Contains(strings.ToLower(s), "ib") {
		parse = units.RAMInBytes
	}
	n, err := parse(s)
	if err != nil || n < 0 {
		return 0, fmt.Errorf("%q is not a size: write bytes, or a number with KiB, MiB, GiB", s)
	}
	return Size(n), nil
}

// ParseDuration reads "90s", "10m", "168h"; negative durations are refused.
func ParseDuration(s string) (Duration, error) {
	d, err := time.ParseDuration(s)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is not a duration: write a number with s, m or h, as 10m", s)
	}
	return Duration(d), nil
}

func (d Duration) String() string { return time.Duration(d).String() }

func (s Size) String() string { return units.BytesSize(float64(s)) }

// UnmarshalYAML implements yaml.Unmarshaler.
func (d *Duration) UnmarshalYAML(n *yaml.Node) error {
	v, err := ParseDuration(n.Value)
	if err != nil {
		return err
	}
	*d = v
	return nil
}

// UnmarshalYAML implements yaml.Unmarshaler.
func (s *Size) UnmarshalYAML(n *yaml.Node) error {
	v, err := ParseSize(n.Value)
	if err != nil {
		return err
	}
	*s = v
	return nil
}

// MarshalYAML implements yaml.Marshaler.
func (d Duration) MarshalYAML() (any, error) { return d.String(), nil }

// MarshalYAML implements yaml.Marshaler.
func (s Size) MarshalYAML() (any, error) { return int64(s), nil }

// MarshalJSON implements json.Marshaler.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).Seconds()) }

// UnmarshalJSON implements json.Unmarshaler.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var seconds float64
	if err := json.Unmarshal(b, &seconds); err != nil {
		return err
	}
	*d = Duration(seconds * float64(time.Second))
	return nil
}
