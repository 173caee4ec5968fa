package target

import (
	"errors"
	"fmt"
	"strings"
)

// ParseCredentials reads a profile (empty: default) from a credentials file in the format of AWS:
//
//	[default]
//	aws_access_key_id = …
//	aws_secret_access_key = …
//	aws_session_token = …
//
// Errors quote only section names of the file.
func ParseCredentials(file, profile string) (Credentials, error) {
	if profile == "" {
		profile = "default"
	}
	var c Credentials
	fields := map[string]*string{
		"aws_access_key_id": &c.AccessKey, "aws_secret_access_key": &c.SecretKey, "aws_session_token": &c.SessionToken,
	}
	var profiles []string
	section := ""
	for n, line := range strings.Split(file, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		if name, ok := strings.CutPrefix(line, "["); ok {
			name, ok = strings.CutSuffix(name, "]")
			if !ok {
				return Credentials{}, fmt.Errorf("line %d: a section ends with ]", n+1)
			}
			section = strings.TrimSpace(name)
			profiles = append(profiles, section)
			continue
		}
		key, value, ok := strings.Cut(line, "=")
		if !ok {
			return Credentials{}, fmt.Errorf("line %d is neither a [section] nor key = value", n+1)
		}
		if field := fields[strings.ToLower(strings.TrimSpace(key))]; field != nil && section == profile {
			*field = strings.TrimSpace(value)
		}
	}
	switch {
	case len(profiles) == 0:
		return Credentials{}, errors.New("there is no section such as [default]; want the format of ~/.aws/credentials")
	case c.AccessKey == "" || c.SecretKey == "":
		return Credentials{}, fmt.Errorf("section [%s] lacks aws_access_key_id or aws_secret_access_key; the file has the sections %s",
			profile, strings.Join(profiles, ", "))
	}
	return c, nil
}
