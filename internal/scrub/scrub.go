// Package scrub leaves secrets out of what is shown or leaves the host.
package scrub

import (
	"bytes"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"cke"
)

// LeftOut replaces a secret.
const LeftOut = "(left out)"

// Scrubber removes secrets: the values declared for etcd's environment, which may be anything, and everything that has the
// form of a key or a password.
type Scrubber struct{ values *strings.Replacer }

// leastSecret, in bytes, is how long a value of the environment is at least that is searched for everywhere: shorter ones occur
// in too many places with another meaning, and are left out only where they are declared.
const leastSecret = 6

// New knows the secrets of all revisions of a cluster file.
func New(log []cke.Spec) Scrubber {
	var values []string
	for _, spec := range log {
		for _, v := range spec.Cluster.Options.Etcd.ExtraEnv {
			values = append(values, v)
		}
	}
	var pairs []string
	slices.SortFunc(values, func(a, b string) int { return len(b) - len(a) }) // one may hold another
	for _, v := range values {
		if len(v) < leastSecret {
			continue
		}
		pairs = append(pairs, v, LeftOut)
		for _, quoted := range inJSON(v) {
			pairs = append(pairs, quoted, LeftOut)
		}
	}
	return Scrubber{strings.NewReplacer(pairs...)}
}

// inJSON is a text as logs in JSON have it: with the characters that have a meaning in HTML escaped, and without.
func inJSON(text string) []string {
	var all []string
	for _, escape := range []bool{true, false} {
		var b strings.Builder
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(escape)
		if e.Encode(text) == nil {
			all = append(all, strings.Trim(b.String(), "\n")[1:b.Len()-2])
		}
	}
	return all
}

var (
	secretName = regexp.MustCompile(`(?i)(password|passwd|secret|token|credential|access_?key|api_?key|secret_?key|private_?key|signature|authorization)s?$`)
	// What has the form of a secret, anywhere.
	secretText = regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|$)` +
		`|AGE-SECRET-KEY-(?:PQ-)?1[0-9A-Za-z]+|\b(?:AKIA|ASIA)[0-9A-Z]{16}\b`)
	secretURL = regexp.MustCompile(`://[^/\s:@"']*:[^/\s@"']*@`)
	// A value in quotes goes up to the closing one, and the quotes stay.
	secretPair = regexp.MustCompile(`(?i)([a-z0-9_.-]*(?:password|passwd|secret|token|credential|access_?key|api_?key|secret_?key|private_?key|signature|authorization|\bsig)(?:\\?["'])?\s*[=:]\s*)` +
		`(?:(\\")[^"\\\n]+(\\"|)|(")(?:[^"\\\n]|\\.)+("|)|(')[^'\n]+('|)|(?:(?:basic|bearer)\s+)?[^\s"'&,;]+)`)
)

// Text scrubs a text in no particular form.
func (s Scrubber) Text(b []byte) []byte { return []byte(s.words(string(b))) }

func (s Scrubber) words(text string) string {
	text = secretText.ReplaceAllString(s.values.Replace(text), LeftOut)
	text = secretURL.ReplaceAllString(text, "://"+LeftOut+"@")
	return secretPair.ReplaceAllString(text, "${1}${2}${4}${6}"+LeftOut+"${3}${5}${7}")
}

// JSON writes v without its secrets. Fields come in alphabetic order.
func (s Scrubber) JSON(v any) ([]byte, error) {
	text, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var plain any
	if err := d.Decode(&plain); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err = e.Encode(s.value(plain))
	return b.Bytes(), err
}

// value scrubs what was read from JSON.
func (s Scrubber) value(v any) any {
	switch v := v.(type) {
	case string:
		return s.words(v)
	case []any:
		for i := range v {
			v[i] = s.value(v[i])
		}
	case map[string]any:
		for name, field := range v {
			if text, ok := field.(string); ok && text != "" && secretName.MatchString(name) {
				v[name] = LeftOut
				continue
			}
			v[name] = s.value(field)
		}
	}
	return v
}

// Cluster returns a cluster file without what is declared for etcd's environment, and without comments.
func (s Scrubber) Cluster(c cke.Cluster) ([]byte, error) {
	text, err := cke.MarshalCluster(Values(c))
	return s.Text(text), err
}

// Values leaves out of a cluster file what etcd's environment is to hold.
func Values(c cke.Cluster) cke.Cluster {
	env := map[string]string{}
	for name := range c.Options.Etcd.ExtraEnv {
		env[name] = LeftOut
	}
	if len(env) > 0 {
		c.Options.Etcd.ExtraEnv = env
	}
	return c
}
