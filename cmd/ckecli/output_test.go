package main

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"
	"time"

	"gopkg.in/yaml.v3"
	"pgregory.net/rapid"

	"cke"
)

func TestYAML_SaysTheSameAsJSON(t *testing.T) {
	word := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"yes", "no", "null", "~", "1", "0x1f", "1e3", "2026-11-20", "a: b", "- a", "# c", "two\nlines\n", " led", "é\u0301", "\x1b[2J", "{}", "\u2028"}))
	rapid.Check(t, func(t *rapid.T) {
		data := map[string]any{
			"text": word.Draw(t, "text"), "list": rapid.SliceOf(word).Draw(t, "list"),
			"map":    rapid.MapOf(word, rapid.Int32()).Draw(t, "map"),
			"number": rapid.Float64Range(-1e9, 1e9).Draw(t, "number"), "yes": rapid.Bool().Draw(t, "yes"), "none": nil,
		}
		var asYAML bytes.Buffer
		if err := writeYAML(&asYAML, data); err != nil {
			t.Fatal(err)
		}
		var got any
		if err := yaml.Unmarshal(asYAML.Bytes(), &got); err != nil {
			t.Fatalf("%v in\n%s", err, asYAML.String())
		}
		if want := throughJSON(t, data); !reflect.DeepEqual(throughJSON(t, got), want) {
			t.Fatalf("got %#v, want %#v from\n%s", got, want, asYAML.String())
		}
	})
}

// throughJSON makes values of different readers comparable.
func throughJSON(t *rapid.T, v any) (out any) {
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestYAML_KeepsOrderAndUnitsOfJSON(t *testing.T) {
	c := cke.Cluster{Name: "prod", Policies: cke.Policies{Replace: cke.ReplacePolicy{Grace: cke.Duration(10 * time.Minute)}}}
	c.Options.Etcd.Resources.Memory = 8 << 30
	var b bytes.Buffer
	if err := writeYAML(&b, cke.Spec{Cluster: c, Generation: 3, SetAt: noon}); err != nil {
		t.Fatal(err)
	}
	want := `cluster:
  name: prod
  nodes: null
  options:
    etcd:
      resources:
        memory: 8589934592
  policies:
    replace:
      grace: 600
generation: 3
setAt: "2026-11-20T12:00:00Z"
`
	if b.String() != want {
		t.Errorf("got\n%s", b.String())
	}
}

func TestShellQuote_IsOneWord(t *testing.T) {
	for in, want := range map[string]string{"": "''", "/a/b.crt": "/a/b.crt", "a b": "'a b'", "it's": `'it'\''s'`, "$(x)": "'$(x)'", "a\nb": "'a\nb'", "~/x": "'~/x'"} {
		if got := shellQuote(in); got != want {
			t.Errorf("shellQuote(%q) = %s, want %s", in, got, want)
		}
	}
}
