package target_test

import (
	"strings"
	"testing"

	"cke/backup/target"
)

func TestParseCredentials(t *testing.T) {
	const file = "# mine\n[default]\naws_access_key_id = AK1\naws_secret_access_key=a=b/c\n\n[ci]\nAWS_ACCESS_KEY_ID=AK2\naws_secret_access_key = s2\naws_session_token = t2\nregion = x\n[half]\naws_access_key_id = AK3\n"
	for profile, want := range map[string]target.Credentials{
		"":   {AccessKey: "AK1", SecretKey: "a=b/c"},
		"ci": {AccessKey: "AK2", SecretKey: "s2", SessionToken: "t2"},
	} {
		if got, err := target.ParseCredentials(file, profile); err != nil || got != want {
			t.Errorf("%q: got %+v, %v", profile, got, err)
		}
	}
	for name, bad := range map[string][2]string{
		"NoSuchProfile": {file, "none"}, "NoSecret": {file, "half"}, "Empty": {"", ""}, "NoSection": {"aws_access_key_id = AK1", ""},
		"OpenSection": {"[default\n", ""}, "NoFormat": {"[default]\nverysecret\n", ""},
	} {
		_, err := target.ParseCredentials(bad[0], bad[1])
		if err == nil || strings.Contains(err.Error(), "verysecret") || strings.Contains(err.Error(), "AK3") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
