package scrub

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"cke"
)

// withEnv is a cluster file that declares a value for etcd's environment.
func withEnv(value string) cke.Cluster {
	return cke.Cluster{Name: "prod", Options: cke.Options{Etcd: cke.EtcdOptions{ExtraEnv: map[string]string{"LOGIN": value}}}}
}

// A value of etcd's environment is in nothing that leaves: as it is, and as JSON has it, with HTML escaped or not.
func FuzzScrubber_LetsOutNoValueOfTheEnvironment(f *testing.F) {
	for _, secret := range []string{"s3cr3t-of-env", `quo"ted value`, `a "b" & <c>`, "two\nlines\tof it", `back\slash`, "日本語のひみつ", "\u2028\u2029 in JavaScript", "password=abcdef", "aaaaaaa",
		"https://ann:pw@example.org", "-----BEGIN PRIVATE KEY-----", "'single'", "\\u003c\\u003e", "\"\"\"\"\"\"", "null, true", "{\"a\":1}"} {
		f.Add(secret, "before ", " after")
		f.Add(secret, `{"password":"`, `","next":1}`)
		f.Add(secret, "token: '", "' AGE-SECRET-KEY-1QQQ")
		f.Add(secret, secret[:1], secret[len(secret)-1:])
	}
	f.Fuzz(func(t *testing.T, secret, before, after string) {
		if len(secret) < leastSecret || !utf8.ValidString(secret) || resembles(secret) {
			return // no cluster file holds what is not UTF-8
		}
		s := New([]cke.Spec{{Cluster: withEnv("another value")}, {Cluster: withEnv(secret)}})
		said := before + secret + after
		if out := string(s.Text([]byte(said))); strings.Contains(out, secret) {
			t.Errorf("text %q became %q", said, out)
		}
		for _, escape := range []bool{true, false} {
			out := string(s.Text(logged(t, said, escape)))
			for _, form := range append(inJSON(secret), secret) {
				if strings.Contains(out, form) {
					t.Errorf("the log of %q became %q, which holds %q", said, out, form)
				}
			}
			within(t, secret, out, json.Unmarshal)
		}
		out, err := s.JSON(map[string]any{"deep": []any{map[string]string{"reason": said}}, "log": string(logged(t, said, true))})
		if err != nil {
			t.Fatal(err)
		}
		within(t, secret, string(out), json.Unmarshal)
		file, err := s.Cluster(withEnv(secret))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(file), secret) {
			t.Errorf("the file is %q", file)
		}
		within(t, secret, string(file), yaml.Unmarshal)
	})
}

// resembles reports whether a secret can come about where LeftOut is written beside other text.
func resembles(secret string) bool {
	if strings.Contains(LeftOut, secret) || strings.Contains(secret, LeftOut) {
		return true
	}
	for i := 1; i < len(secret); i++ {
		if strings.HasSuffix(LeftOut, secret[:i]) || strings.HasPrefix(LeftOut, secret[i:]) {
			return true
		}
	}
	return false
}

// logged is a line of a log in JSON.
func logged(t *testing.T, message string, escape bool) []byte {
	t.Helper()
	var b strings.Builder
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(escape)
	if err := e.Encode(map[string]string{"msg": message}); err != nil {
		t.Fatal(err)
	}
	return []byte(b.String())
}

// within fails if a document that can still be read holds a secret in a text. One whose structure was scrubbed is read by nobody.
func within(t *testing.T, secret, document string, read func([]byte, any) error) {
	t.Helper()
	var v any
	if read([]byte(document), &v) != nil {
		return
	}
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case string:
			if strings.Contains(v, secret) {
				t.Errorf("%q holds the secret %q", document, secret)
			}
		case []any:
			for _, e := range v {
				walk(e)
			}
		case map[string]any:
			for _, e := range v {
				walk(e)
			}
		}
	}
	walk(v)
}

// What is named as a secret, or looks like one, is left out though nobody declared it.
func FuzzScrubber_KnowsWhatIsNamedAsASecret(f *testing.F) {
	for _, around := range []string{"", " ", `"`, `\`, `\"`, "'", "&", "@", "/", ":", "\n", "é", "<>", "=", "\\u0022"} {
		f.Add(uint64(1<<40), around, "x")
		f.Add(uint64(7), "x"+around, around)
	}
	f.Fuzz(func(t *testing.T, n uint64, before, after string) {
		marker := fmt.Sprintf("Zq%016x", n)
		if strings.Contains(before+after, "Zq") {
			return
		}
		s := New(nil)
		value := before + marker + after
		quoted, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		said := []string{
			"password=" + marker, "PASSWORD: " + marker + "\n", "client-secret = " + marker + "&x=1", "?sig=" + marker, "access_key:" + marker + ", next",
			"Authorization: Bearer " + marker, "authorization=Basic " + marker, `{\"token\":\"` + marker + `\"}`, "api_key='" + marker + "'", "aws_secret_access_key = " + marker,
			"AGE-SECRET-KEY-1" + marker, "AGE-SECRET-KEY-PQ-1" + marker,
			"-----BEGIN EC PRIVATE KEY-----\n" + value + "\n-----END EC PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----\n" + marker,
			`{"password":` + string(quoted) + `,"next":1}`, `"clientSecret": ` + string(quoted),
			"fetch " + (&url.URL{Scheme: "https", User: url.UserPassword("ann", value), Host: "example.org"}).String() + "/x",
		}
		for _, text := range said {
			if out := string(s.Text([]byte(text))); strings.Contains(out, marker) {
				t.Errorf("%q became %q", text, out)
			}
		}
		out, err := s.JSON(map[string]any{"clientSecret": value, "deep": map[string]any{"accessToken": value, "notes": said}})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(out), marker) {
			t.Errorf("%q became %s", value, out)
		}
	})
}
