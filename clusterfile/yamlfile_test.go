package clusterfile_test

import (
	"encoding/binary"
	"strings"
	"testing"
	"unicode/utf16"

	"cke/clusterfile"
)

func TestParseCluster_SyntaxErrorsHaveLineAndRemedy(t *testing.T) {
	for _, c := range []struct {
		file         string
		line         int
		says, remedy string
	}{
		{"name: prod\n\tnodes: []\n", 2, "a tab", "spaces only"},
		{"name: prod\nnodes:\n  -\taddress: 10.0.0.1\n    control_plane: true\n", 3, "", ""},
		{"name: prod\nnodes: [a\n", 0, "invalid YAML", "not closed"},
		{"name: \"prod\n", 0, "invalid YAML", "quote"},
		{"name: prod: x\n", 1, "mapping values", "quotes"},
		{"name: @prod\n", 1, "cannot start any token", "quotes"},
		{"name: prod\nzone: @rack\n", 2, "cannot start any token", "quotes"},
		{"name: prod\nnodes:\n  - address: 10.0.0.1\n    zone: a: b\n    user: c\n", 4, "mapping values", "quotes"},
		{"name: *prod\n", 1, "unknown anchor", "quotes"},
		{"name: prod\n nodes: []\n", 2, "invalid YAML", ""},
		{"name: prod\nnodes\n", 0, "invalid YAML", "colon"},
		{"name: prod\nzone: a\x01b\n", 2, "control characters", "UTF-8"},
		{"name: prod\nzone: a\xffb\n", 2, "UTF-8", "UTF-8"},
		{"name: prod\n" + strings.Repeat("#\n", 20) + "nodes:\n  - address: 10.0.0.1\n    user: a\n   zone: b\n", 25, "invalid YAML", "indentation"},
		{"%YAML 9.9\n---\nname: prod\n", 0, "invalid YAML", ""},
		{"name: prod\n---\nx: [\n", 0, "invalid YAML", "not closed"},
		{"just text\n", 1, "is the text \"just text\"", ""},
		{"- name: prod\n", 1, "is a list", ""},
		{"# only a comment\n", 0, "is empty", "cluster init"},
		{"---\n", 0, "is empty", "cluster init"},
		{strings.Repeat("# long\n", 1<<18), 0, "at most 1048576", ""},
		{strings.Repeat("[", 20000), 0, "invalid YAML", ""},
	} {
		_, _, err := clusterfile.ParseCluster("f", []byte(c.file))
		if err == nil {
			if c.says != "" {
				t.Errorf("%.80q was accepted", c.file)
			}
			continue
		}
		got := faults(t, err)
		if len(got) != 1 || !strings.Contains(got[0].Message, c.says) || !strings.Contains(got[0].Remedy, c.remedy) || c.line > 0 && got[0].Line != c.line {
			t.Errorf("%.80q: want line %d, … %s …, … %s …, got\n%v", c.file, c.line, c.says, c.remedy, err)
		}
	}
}

// Some editors save "Unicode" as UTF-16. It is one mistake, and has one way out.
func TestParseCluster_NamesAnotherEncoding(t *testing.T) {
	encode := func(order binary.AppendByteOrder, mark bool) []byte {
		var file []byte
		if mark {
			file = order.AppendUint16(nil, 0xfeff)
		}
		for _, u := range utf16.Encode([]rune(minimal)) {
			file = order.AppendUint16(file, u)
		}
		return file
	}
	for name, file := range map[string][]byte{
		"UTF-16LE":                           encode(binary.LittleEndian, true),
		"UTF-16BE":                           encode(binary.BigEndian, true),
		"UTF-16LE without a byte order mark": encode(binary.LittleEndian, false),
		"UTF-16BE without a byte order mark": encode(binary.BigEndian, false),
		"UTF-16LE, an odd number of bytes":   append(encode(binary.LittleEndian, true), 0),
		"UTF-32LE":                           append([]byte{0xff, 0xfe, 0, 0}, "n\x00\x00\x00"...),
		"UTF-32BE":                           append([]byte{0, 0, 0xfe, 0xff}, "\x00\x00\x00n"...),
	} {
		_, _, err := clusterfile.ParseCluster("c.yml", file)
		got := faults(t, err)
		want, _, _ := strings.Cut(name, " ")
		want = strings.TrimSuffix(want, ",")
		if len(got) != 1 || got[0].Message != "is encoded as "+want+", not as UTF-8" || !strings.Contains(got[0].Remedy, "iconv -f "+want+" -t UTF-8") {
			t.Errorf("%s: got %v", name, err)
		}
		if _, err := clusterfile.ParseConfig("config.yml", file); err == nil || !strings.Contains(err.Error(), "is encoded as "+want) {
			t.Errorf("%s: configuration: got %v", name, err)
		}
	}
}

func TestParseCluster_ReadsWhatEditorsWrite(t *testing.T) {
	for name, file := range map[string]string{
		"CRLF":            strings.ReplaceAll(minimal, "\n", "\r\n"),
		"byte order mark": "\xef\xbb\xbf" + minimal,
		"document marks":  "---\n" + minimal + "...\n",
		"JSON":            `{"name": "prod", "nodes": [{"address": "10.0.0.11", "control_plane": true}]}`,
		"no last newline": strings.TrimSpace(minimal),
	} {
		if c, _, err := clusterfile.ParseCluster("f", []byte(file)); err != nil || c.Name != "prod" || len(c.ControlPlane()) != 1 {
			t.Errorf("%s: %+v, %v", name, c, err)
		}
	}
}
