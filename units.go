package cke

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/docker/go-units"
	"gopkg.in/yaml.v3"
)

// Duration is written as "10m" or "168h" in YAML and as seconds in JSON.
type Duration time.Duration

// Size is a number of bytes, written as "8GiB" (binary) or a plain number in YAML and as a number in JSON.
type Size int64

// parseSize reads "8GiB", "512MiB", "10MB" (10·10⁶) or a number of bytes.
func parseSize(s string) (Size, error) {
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

// Count returns a number of things in words: "1 member", "2 members".
func Count[N int | int64](n N, noun string) string { return Plural(n, noun, noun+"s") }

// Plural is Count for text where more than the noun depends on the number: "1 revision waits", "2 revisions wait".
func Plural[N int | int64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func (d Duration) String() string { return time.Duration(d).String() }

// Short is String without parts that are zero: "168h", not "168h0m0s".
func (d Duration) Short() string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// exact is a whole number of GiB, MiB or KiB, or else of bytes; parseSize reads it back to the same.
func (s Size) exact() any {
	for _, unit := range []struct {
		bytes Size
		name  string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if s > 0 && s%unit.bytes == 0 {
			return fmt.Sprintf("%d%s", s/unit.bytes, unit.name)
		}
	}
	return int64(s)
}

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
	v, err := parseSize(n.Value)
	if err != nil {
		return err
	}
	*s = v
	return nil
}

// MarshalYAML implements yaml.Marshaler.
func (d Duration) MarshalYAML() (any, error) { return d.Short(), nil }

// MarshalYAML implements yaml.Marshaler.
func (s Size) MarshalYAML() (any, error) { return s.exact(), nil }

// MarshalJSON implements json.Marshaler.
func (d Duration) MarshalJSON() ([]byte, error) { return json.Marshal(time.Duration(d).Seconds()) }

// UnmarshalJSON implements json.Unmarshaler.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var seconds float64
	if err := json.Unmarshal(b, &seconds); err != nil {
		return err
	}
	*d = Duration(math.Round(seconds * float64(time.Second)))
	return nil
}

// CompareBools orders false before true.
func CompareBools(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return 1
	}
	return -1
}
