package cke

import (
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
)

// Digest is equal for options with which a member runs alike, apart from its place: a container's label records it.
// An option that is not set does not count, so that a new one changes no digest.
func (o EtcdOptions) Digest() string {
	d := o.digest()
	return string(d[:])
}

// MadeWith reports whether the container was made with these options, or has no label of them. It is called for every
// member in every observation, so it must be cheap.
func (c Container) MadeWith(o EtcdOptions) bool {
	if c.Options == "" {
		return true
	}
	d := o.digest()
	return c.Options == string(d[:])
}

// digest hashes each option that is set, by its name and in quotes: no two look alike.
func (o *EtcdOptions) digest() (text [32]byte) {
	var room [1024]byte
	b := room[:0]
	if o.Version != "" {
		b = appendOption(b, "version", o.Version)
	}
	if o.Image != "" {
		b = appendOption(b, "image", o.Image)
	}
	for _, arg := range o.ExtraArgs {
		b = appendOption(b, "extra_args", arg)
	}
	if len(o.ExtraEnv) > 0 {
		for _, name := range slices.Sorted(maps.Keys(o.ExtraEnv)) {
			b = appendOption(b, "extra_env", name)
			b = appendOption(b, "value", o.ExtraEnv[name])
		}
	}
	for _, bind := range o.ExtraBinds {
		b = appendOption(b, "source", bind.Source)
		b = appendOption(b, "destination", bind.Destination)
		if bind.ReadOnly {
			b = appendOption(b, "read_only", "true")
		}
	}
	if o.Resources.CPUs != 0 {
		b = strconv.AppendFloat(append(b, "cpus="...), o.Resources.CPUs, 'g', -1, 64)
	}
	if o.Resources.Memory != 0 {
		b = strconv.AppendInt(append(b, "memory="...), int64(o.Resources.Memory), 10)
	}
	sum := sha256.Sum256(b)
	hex.Encode(text[:], sum[:16])
	return text
}

func appendOption(b []byte, name, value string) []byte {
	return append(strconv.AppendQuote(append(append(b, name...), '='), value), '\n')
}
