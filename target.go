package cke

import (
	"fmt"
	"maps"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
)

// TargetURL is the URL of a backup target, in its parts.
type TargetURL struct {
	// Scheme is file, s3, gs or azblob.
	Scheme string
	// Bucket is that of an object store; empty for a directory.
	Bucket string
	// Path is the absolute path of a directory, or the prefix in a bucket.
	Path string
	S3   S3Options
	// URL is how it was written, without a password.
	URL string
}

// S3Options are the options in the URL of an S3 target.
type S3Options struct {
	Region    string
	Endpoint  string // URL of a server other than AWS
	PathStyle bool
}

// s3Options has each option with its name in the URL. What set returns is wrong with a value, and what would be right.
var s3Options = []struct {
	name string
	set  func(o *S3Options, value string) (wrong, remedy string)
}{
	{"region", func(o *S3Options, v string) (string, string) {
		o.Region = v
		return "", ""
	}},
	{"endpoint", func(o *S3Options, v string) (string, string) {
		o.Endpoint = v
		if u, err := url.Parse(v); err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
			return "has an endpoint that is not a URL", "Write endpoint=https://HOST:PORT."
		}
		return "", ""
	}},
	{"path_style", truth("path_style", func(o *S3Options) *bool { return &o.PathStyle })},
}

// truth sets an option that is true or false.
func truth(name string, field func(*S3Options) *bool) func(o *S3Options, value string) (wrong, remedy string) {
	return func(o *S3Options, v string) (string, string) {
		is, err := strconv.ParseBool(v)
		if err != nil {
			return fmt.Sprintf("%s=%.40s is neither true nor false", name, v), fmt.Sprintf("Write %s=true.", name)
		}
		*field(o) = is
		return "", ""
	}
}

// TargetFault is what is wrong with the URL of a target, and how to fix it.
type TargetFault struct{ What, Remedy string }

// ParseTarget reads the URL of a target:
//
//	file:///var/backups/etcd
//	s3://bucket/prefix?region=eu-west-1&endpoint=https://s3.example.com&path_style=true
//	gs://bucket/prefix
//	azblob://container/prefix
func ParseTarget(s string) (TargetURL, []TargetFault) {
	const form = "Write file:///DIR, s3://BUCKET/PREFIX, gs://BUCKET/PREFIX or azblob://CONTAINER/PREFIX."
	fault := func(what, remedy string) (TargetURL, []TargetFault) {
		return TargetURL{}, []TargetFault{{what, remedy}}
	}
	u, err := url.Parse(s)
	switch {
	case err != nil: // the error is not told: it could hold a password
		return fault("is not a URL", form)
	case u.User != nil:
		return fault("has a user name or password in it", "Leave it out; credentials are never part of the cluster file.")
	}
	t := TargetURL{Scheme: u.Scheme, URL: u.Redacted()}
	switch u.Scheme {
	case "file":
		if u.Host != "" && u.Host != "localhost" || !path.IsAbs(u.Path) || path.Clean(u.Path) == "/" || u.RawQuery != "" {
			return fault(fmt.Sprintf("%.60q names no directory", s), "Write file:/// and the rest of an absolute path, as file:///var/backups/etcd.")
		}
		t.Path = path.Clean(u.Path)
		return t, nil
	case "s3", "gs", "azblob":
		t.Bucket, t.Path = u.Host, strings.Trim(u.Path, "/")
	case "":
		return fault(fmt.Sprintf("%.60q has no scheme", s), form)
	default:
		return fault(fmt.Sprintf("%.40s:// is not a backup target that cke supports", u.Scheme), form)
	}
	var faults []TargetFault
	if t.Bucket == "" {
		faults = append(faults, TargetFault{"names no bucket", form})
	}
	if u.Scheme == "s3" {
		faults = append(faults, t.S3.parse(u.RawQuery)...)
	}
	return t, faults
}

func (o *S3Options) parse(query string) (faults []TargetFault) {
	var names []string
	for _, option := range s3Options {
		names = append(names, option.name)
	}
	q, err := url.ParseQuery(query)
	if err != nil {
		faults = append(faults, TargetFault{"has options that cannot be read", "Write ?region=…&endpoint=https://…&path_style=true."})
	}
	for _, k := range slices.Sorted(maps.Keys(q)) {
		i := slices.Index(names, k)
		if i < 0 {
			last := len(names) - 1
			faults = append(faults, TargetFault{fmt.Sprintf("has the unknown option %.40s", k), fmt.Sprintf("The options are %s and %s.", strings.Join(names[:last], ", "), names[last])})
			continue
		}
		if wrong, remedy := s3Options[i].set(o, q.Get(k)); wrong != "" {
			faults = append(faults, TargetFault{wrong, remedy})
		}
	}
	return faults
}
