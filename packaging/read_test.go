package packaging_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

// pack is a deb or an rpm, as it was read.
type pack struct {
	fields  map[string]string
	scripts map[string]string
	files   map[string]file // by path from the root; directories end with a slash
}

type file struct {
	mode         int64 // permissions
	owner, group string
	modified     int64
	data         []byte
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// readDeb reads a deb: an ar file of a version, an archive about the package and one of its files. Source: deb(5).
func readDeb(t *testing.T, path string) pack {
	t.Helper()
	data, magic := read(t, path), "!<arch>\n"
	p := pack{fields: map[string]string{}, scripts: map[string]string{}, files: map[string]file{}}
	if !strings.HasPrefix(string(data), magic) {
		t.Fatalf("%s is no ar file", path)
	}
	for at := len(magic); at < len(data); {
		header := data[at : at+60]
		size, err := strconv.Atoi(strings.TrimSpace(string(header[48:58])))
		if err != nil {
			t.Fatal(err)
		}
		body := data[at+60 : at+60+size]
		at += 60 + size + size%2
		switch name := strings.Trim(string(header[:16]), " /"); name {
		case "debian-binary":
			if string(body) != "2.0\n" {
				t.Errorf("%s: version %q of the format", path, body)
			}
		case "control.tar.gz":
			for name, f := range readTar(t, body) {
				p.scripts[strings.TrimPrefix(name, "/")] = string(f.data)
			}
		case "data.tar.gz":
			p.files = readTar(t, body)
		default:
			t.Errorf("%s has %s", path, name)
		}
	}
	for line := range strings.Lines(p.scripts["control"]) {
		if name, value, found := strings.Cut(line, ": "); found {
			p.fields[name] = strings.TrimSpace(value)
		}
	}
	return p
}

func readTar(t *testing.T, data []byte) map[string]file {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]file{}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeDir {
			t.Errorf("%s is of type %q", h.Name, h.Typeflag)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		f := file{h.Mode, h.Uname, h.Gname, h.ModTime.Unix(), data}
		if h.Uid == 0 && f.owner == "" {
			f.owner = "root"
		}
		if h.Gid == 0 && f.group == "" {
			f.group = "root"
		}
		all[strings.TrimPrefix(h.Name, ".")] = f
	}
}

// Tags of a header that are read. Source: https://rpm-software-management.github.io/rpm/manual/tags.html.
const (
	rpmName, rpmVersion, rpmRelease, rpmBuildHost, rpmArch = 1000, 1001, 1002, 1007, 1022
	rpmBuildTime                                           = 1006
	rpmPostIn, rpmPreUn, rpmPostUn                         = 1024, 1025, 1026
	rpmModes, rpmTimes, rpmOwners, rpmGroups               = 1030, 1034, 1039, 1040
	rpmRequires                                            = 1049
	rpmDirIndexes, rpmBaseNames, rpmDirNames               = 1116, 1117, 1118
)

// readRPM reads an rpm: a lead, a header with signatures, a header, and a cpio archive in zstd. Source:
// https://rpm-software-management.github.io/rpm/manual/format_v4.html.
func readRPM(t *testing.T, path string) pack {
	t.Helper()
	data := read(t, path)
	_, size := readHeader(t, data[96:])
	at := 96 + (size+7)/8*8
	header, size := readHeader(t, data[at:])
	payload := readCPIO(t, data[at+size:])
	p := pack{files: map[string]file{}, scripts: map[string]string{}, fields: map[string]string{"Requires": strings.Join(header.texts(rpmRequires), " ")}}
	for name, tag := range map[string]uint32{"Package": rpmName, "Version": rpmVersion, "Release": rpmRelease, "Architecture": rpmArch, "BuildHost": rpmBuildHost} {
		p.fields[name] = header.texts(tag)[0]
	}
	p.fields["BuildTime"] = fmt.Sprint(header.numbers(rpmBuildTime)[0])
	for name, tag := range map[string]uint32{"post": rpmPostIn, "preun": rpmPreUn, "postun": rpmPostUn} {
		p.scripts[name] = header.texts(tag)[0]
	}
	modes, times, dirs := header.numbers(rpmModes), header.numbers(rpmTimes), header.numbers(rpmDirIndexes)
	owners, groups, dirNames := header.texts(rpmOwners), header.texts(rpmGroups), header.texts(rpmDirNames)
	for i, base := range header.texts(rpmBaseNames) {
		name := dirNames[dirs[i]] + base
		content, there := payload[name]
		if !there {
			t.Errorf("%s: %s is in the header and not in the archive", path, name)
		}
		delete(payload, name)
		if modes[i]&0o170000 == 0o040000 {
			name += "/"
		}
		p.files[name] = file{modes[i] & 0o7777, owners[i], groups[i], times[i], content}
	}
	for name := range payload {
		t.Errorf("%s: %s is in the archive and not in the header", path, name)
	}
	return p
}

// header holds the values of tags, as they are stored.
type header map[uint32]struct {
	kind, count uint32
	data        []byte
}

func readHeader(t *testing.T, data []byte) (h header, size int) {
	t.Helper()
	if !bytes.HasPrefix(data, []byte{0x8e, 0xad, 0xe8, 1}) {
		t.Fatal("this is no header of an rpm")
	}
	word := func(at int) uint32 { return binary.BigEndian.Uint32(data[at:]) }
	count, length := int(word(8)), int(word(12))
	store := data[16+16*count:][:length]
	h = header{}
	for i := range count {
		at := 16 + 16*i
		h[word(at)] = struct {
			kind, count uint32
			data        []byte
		}{word(at + 4), word(at + 12), store[word(at+8):]}
	}
	return h, 16 + 16*count + length
}

func (h header) texts(tag uint32) []string {
	v := h[tag]
	return strings.SplitN(string(v.data), "\x00", int(v.count)+1)[:max(1, v.count)]
}

func (h header) numbers(tag uint32) (all []int64) {
	v := h[tag]
	for i := range v.count {
		if v.kind == 3 {
			all = append(all, int64(binary.BigEndian.Uint16(v.data[2*i:])))
		} else {
			all = append(all, int64(binary.BigEndian.Uint32(v.data[4*i:])))
		}
	}
	return all
}

// readCPIO returns the files of a cpio archive of the format "newc".
func readCPIO(t *testing.T, compressed []byte) map[string][]byte {
	t.Helper()
	z, err := zstd.NewReader(bytes.NewReader(compressed))
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	data, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	field := func(at, i int) int {
		n, err := strconv.ParseInt(string(data[at+6+8*i:][:8]), 16, 64)
		if err != nil {
			t.Fatal(err)
		}
		return int(n)
	}
	all := map[string][]byte{}
	for at := 0; ; {
		size, nameSize := field(at, 6), field(at, 11)
		name := string(data[at+110:][:nameSize-1])
		if name == "TRAILER!!!" {
			return all
		}
		body := (at + 110 + nameSize + 3) / 4 * 4
		all["/"+strings.TrimPrefix(strings.TrimPrefix(name, "."), "/")] = data[body:][:size]
		at = (body + size + 3) / 4 * 4
	}
}
