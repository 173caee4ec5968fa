package scrub

import (
	"testing"
	"time"

	"cke"
)

func TestScrub_TakesSecretsOutOfAnything(t *testing.T) {
	s := New([]cke.Spec{{Cluster: cke.Cluster{Options: cke.Options{Etcd: cke.EtcdOptions{ExtraEnv: map[string]string{"A": `quo"ted value`, "B": "4GiB", "C": `a "b" & <c>`}}}}}})
	for text, want := range map[string]string{
		`{"msg":"env","value":"quo\"ted value"}`: `{"msg":"env","value":"(left out)"}`,
		"limit 4GiB":                             "limit 4GiB",
		"password=abc next":                      "password=(left out) next",
		`"auth_token": "abc"`:                    `"auth_token": "(left out)"`,
		"https://ann:pw@example.org/x":           "https://(left out)@example.org/x",
		"-----BEGIN EC PRIVATE KEY-----\nx\n-----END EC PRIVATE KEY-----.": "(left out).",
		"-----BEGIN PRIVATE KEY-----\ncut off":                             "(left out)",
		"-----BEGIN CERTIFICATE-----":                                      "-----BEGIN CERTIFICATE-----",
		"AGE-SECRET-KEY-1QQQ":                                              "(left out)",
		"AGE-SECRET-KEY-PQ-1QQQ":                                           "(left out)",
		`password=back\slash next`:                                         `password=(left out) next`,
		`password: "two words", next`:                                      `password: "(left out)", next`,
		`password='it is' next`:                                            `password='(left out)' next`,
		`{"msg":"login","password":"a \"b\" & c","next":1}`:                `{"msg":"login","password":"(left out)","next":1}`,
		`{"msg":"password=\"two words\" next"}`:                            `{"msg":"password=\"(left out)\" next"}`,
		`Authorization: Basic YW5uOnB3`:                                    "Authorization: (left out)",
		`"authorization":"Bearer abc.def-g"`:                               `"authorization":"(left out)"`,
		`{"env":"a \"b\" & <c>"}`:                                          `{"env":"(left out)"}`,
	} {
		if got := string(s.Text([]byte(text))); got != want {
			t.Errorf("%q became %q, want %q", text, got, want)
		}
	}
	got, err := s.JSON(map[string]any{"clientSecret": "x", "token": 5, "deep": []any{map[string]string{"password": "x", "note": `quo"ted value`}}, "at": time.Unix(0, 0).UTC()})
	if err != nil {
		t.Fatal(err)
	}
	want := `{
  "at": "1970-01-01T00:00:00Z",
  "clientSecret": "(left out)",
  "deep": [
    {
      "note": "(left out)",
      "password": "(left out)"
    }
  ],
  "token": 5
}
`
	if string(got) != want {
		t.Errorf("got %s", got)
	}
}
