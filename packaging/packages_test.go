// Package packaging_test reads the packages that packaging/packages.sh built.
package packaging_test

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"debug/buildinfo"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"cke/clusterfile"
)

var dist = flag.String("dist", "", "directory with the packages; without it they are not tested (make packages-test)")

// built returns the packages by name of the architecture in Go; paths are those of the files.
func built(t *testing.T) (debs, rpms map[string]pack, paths []string) {
	t.Helper()
	if *dist == "" {
		t.Skip("no packages: make packages-test builds them")
	}
	debs, rpms = map[string]pack{}, map[string]pack{}
	for arch, other := range map[string]string{"amd64": "x86_64", "arm64": "aarch64"} {
		deb, rpm := only(t, "*_"+arch+".deb"), only(t, "*."+other+".rpm")
		debs[arch], rpms[arch] = readDeb(t, deb), readRPM(t, rpm)
		paths = append(paths, deb, rpm, only(t, "*_"+arch+".cdx.json"))
	}
	return debs, rpms, paths
}

// only returns the one file that matches.
func only(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(*dist, pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("%q match %s, %v", found, pattern, err)
	}
	return found[0]
}

// contents are all files of the packages; those of one format have its name.
var contents = []struct{ pattern, format string }{
	{`/usr/bin/(cke|ckecli|cke-probe)`, ""},
	{`/usr/lib/systemd/system/cke\.service`, ""},
	{`/usr/lib/(sysusers|tmpfiles)\.d/cke\.conf`, ""},
	{`/usr/share/man/man1/ckecli(-[a-z-]+)?\.1\.gz`, ""},
	{`/usr/share/man/man8/cke\.8\.gz`, ""},
	{`/usr/share/bash-completion/completions/ckecli`, ""},
	{`/usr/share/zsh/vendor-completions/_ckecli`, "deb"},
	{`/usr/share/zsh/site-functions/_ckecli`, "rpm"},
	{`/usr/share/fish/vendor_completions\.d/ckecli\.fish`, ""},
	{`/usr/share/doc/cke/(README\.md|copyright|sbom\.cdx\.json)`, ""},
	{`/usr/share/doc/cke/examples/(config|cluster)\.yml`, ""},
	{`/usr/share/doc/cke/docs/.*\.(md|json)`, ""},
	{`/usr/share/doc/cke/docs/images/[a-z]+\.png`, ""},
	{`/usr/share/doc/cke/changelog\.Debian\.gz`, "deb"},
	{`/usr/share/lintian/overrides/cke`, "deb"},
}

func TestPackages_HoldTheirFilesAndNoOthers(t *testing.T) {
	debs, rpms, _ := built(t)
	for format, packs := range map[string]map[string]pack{"deb": debs, "rpm": rpms} {
		for arch, p := range packs {
			used := map[string]bool{}
			for path, f := range p.files {
				if f.owner != "root" || f.group != "root" {
					t.Errorf("%s %s: %s belongs to %s:%s", arch, format, path, f.owner, f.group)
				}
				want := int64(0o644)
				if strings.HasPrefix(path, "/usr/bin/") || strings.HasSuffix(path, "/") {
					want = 0o755
				}
				if f.mode != want {
					t.Errorf("%s %s: %s has mode %o", arch, format, path, f.mode)
				}
				if strings.HasSuffix(path, "/") {
					// The directories of others belong to packages of the distribution, with their modes.
					if format == "rpm" && !strings.HasPrefix(path, "/usr/share/doc/cke/") {
						t.Errorf("%s rpm: owns %s", arch, path)
					}
					continue
				}
				i := slices.IndexFunc(contents, func(c struct{ pattern, format string }) bool {
					return regexp.MustCompile("^"+c.pattern+"$").MatchString(path) && (c.format == "" || c.format == format)
				})
				if i < 0 {
					t.Errorf("%s %s: has %s", arch, format, path)
					continue
				}
				used[contents[i].pattern] = true
			}
			for _, c := range contents {
				if !used[c.pattern] && (c.format == "" || c.format == format) {
					t.Errorf("%s %s: lacks %s", arch, format, c.pattern)
				}
			}
		}
	}
	for arch, p := range rpms {
		for path, f := range p.files {
			same := strings.Replace(path, "/zsh/site-functions/", "/zsh/vendor-completions/", 1)
			if !bytes.Equal(f.data, debs[arch].files[same].data) {
				t.Errorf("%s: %s differs between deb and rpm", arch, path)
			}
		}
	}
}

func TestPackages_NameWhatTheyAreAndNeed(t *testing.T) {
	debs, rpms, _ := built(t)
	for arch, p := range debs {
		f := p.fields
		if f["Package"] != "cke" || f["Architecture"] != arch || !strings.Contains(f["Depends"], "systemd") || f["Installed-Size"] == "" {
			t.Errorf("%s deb: %v", arch, f)
		}
		for _, name := range []string{"postinst", "prerm", "postrm"} {
			if want := string(read(t, "deb/"+name)); p.scripts[name] != want {
				t.Errorf("%s deb: %s is\n%s", arch, name, p.scripts[name])
			}
		}
		r := rpms[arch].fields
		if other := map[string]string{"amd64": "x86_64", "arm64": "aarch64"}[arch]; r["Package"] != "cke" || r["Architecture"] != other ||
			r["Version"]+"-"+r["Release"] != f["Version"] || r["BuildHost"] != "localhost" || !slices.Contains(strings.Fields(r["Requires"]), "systemd") {
			t.Errorf("%s rpm: %v, the deb has version %s", arch, r, f["Version"])
		}
		for _, name := range []string{"post", "preun", "postun"} {
			if want := string(read(t, "rpm/"+name)); rpms[arch].scripts[name] != want {
				t.Errorf("%s rpm: %s is\n%s", arch, name, rpms[arch].scripts[name])
			}
		}
		for path, file := range rpms[arch].files {
			if fmt.Sprint(file.modified) != r["BuildTime"] {
				t.Errorf("%s rpm: %s is from %d, the package from %s", arch, path, file.modified, r["BuildTime"])
			}
		}
	}
}

func TestPackages_HaveStaticProgramsAndTheirBillOfMaterials(t *testing.T) {
	debs, _, _ := built(t)
	for arch, p := range debs {
		var bom struct {
			BOMFormat, SpecVersion string
			Components             []struct {
				Type, Name, Version string
				Hashes              []struct{ Alg, Content string }
			}
		}
		if err := json.Unmarshal(p.files["/usr/share/doc/cke/sbom.cdx.json"].data, &bom); err != nil || bom.BOMFormat != "CycloneDX" || bom.SpecVersion != "1.6" {
			t.Fatalf("%s: %+v, %v", arch, bom, err)
		}
		listed := map[string]bool{}
		for _, c := range bom.Components {
			listed[c.Name+" "+c.Version] = true
			for _, h := range c.Hashes {
				listed[c.Name+" "+h.Content] = true
			}
		}
		if want := read(t, only(t, "*_"+arch+".cdx.json")); !bytes.Equal(want, p.files["/usr/share/doc/cke/sbom.cdx.json"].data) {
			t.Errorf("%s: the bill of materials beside the packages is another one", arch)
		}
		version := strings.TrimSuffix(p.fields["Version"], "-1")
		for _, name := range []string{"cke", "ckecli", "cke-probe"} {
			data := p.files["/usr/bin/"+name].data
			e, err := elf.NewFile(bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			if want := map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64}[arch]; e.Machine != want {
				t.Errorf("%s: %s is for %s", arch, name, e.Machine)
			}
			if slices.ContainsFunc(e.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
				t.Errorf("%s: %s is linked dynamically", arch, name)
			}
			info, err := buildinfo.Read(bytes.NewReader(data))
			if err != nil {
				t.Fatal(err)
			}
			sum := sha256.Sum256(data)
			for _, want := range []string{name + " " + version, name + " " + hex.EncodeToString(sum[:]), "std " + strings.TrimPrefix(info.GoVersion, "go")} {
				if !listed[want] {
					t.Errorf("%s: the bill of materials lacks %s", arch, want)
				}
			}
			for _, m := range info.Deps {
				if !listed[m.Path+" "+m.Version] {
					t.Errorf("%s: the bill of materials lacks %s %s, which is in %s", arch, m.Path, m.Version, name)
				}
			}
			if arch == runtime.GOARCH && name != "cke-probe" {
				program := filepath.Join(t.TempDir(), name)
				if err := os.WriteFile(program, data, 0o700); err != nil {
					t.Fatal(err)
				}
				if out, err := exec.Command(program, "--version").Output(); err != nil || !strings.HasSuffix(string(out), " "+version+"\n") {
					t.Errorf("%s --version: %q, %v", name, out, err)
				}
			}
		}
	}
}

// A folder of numbered pages is one page in the packages, its README.md.
var (
	numberedPage = regexp.MustCompile(`/[0-9]+-[^/)]*\.md`)
	linked       = regexp.MustCompile(`\]\(([^)#:]+)(#[^)]*)?\)`)
	headings     = regexp.MustCompile(`(?m)^#+ `)
)

// leveled returns a page with headings of one level and with the links of the packages.
func leveled(page []byte) string {
	text := linked.ReplaceAllStringFunc(string(page), func(link string) string {
		return strings.Replace(numberedPage.ReplaceAllString(strings.Replace(link, "](", "](/", 1), "/README.md"), "](/", "](", 1)
	})
	return headings.ReplaceAllString(text, "# ")
}

// docs returns the paths of README.md and everything in docs.
func docs(t *testing.T) []string {
	t.Helper()
	paths := []string{"README.md"}
	err := filepath.WalkDir("../docs", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			paths = append(paths, strings.TrimPrefix(path, "../"))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return paths
}

func TestPackages_HaveTheUnitTheExamplesAndThePages(t *testing.T) {
	debs, _, _ := built(t)
	for arch, p := range debs {
		for path, source := range map[string]string{
			"/usr/lib/systemd/system/cke.service": "cke.service", "/usr/lib/sysusers.d/cke.conf": "cke.sysusers", "/usr/lib/tmpfiles.d/cke.conf": "cke.tmpfiles",
		} {
			if !bytes.Equal(p.files[path].data, read(t, source)) {
				t.Errorf("%s: %s is not %s", arch, path, source)
			}
		}
		const doc = "/usr/share/doc/cke/"
		for _, path := range docs(t) {
			data, page := p.files[doc+path].data, read(t, "../"+path)
			if numberedPage.MatchString("/" + path) {
				data = p.files[doc+filepath.Dir(path)+"/README.md"].data
			}
			if !strings.Contains(leveled(data), leveled(page)) {
				t.Errorf("%s: %s is not in the package as it is here", arch, path)
			}
			for _, link := range linked.FindAllSubmatch(data, -1) {
				if to := filepath.Join(doc, filepath.Dir(path), string(link[1])); filepath.Ext(path) == ".md" && filepath.Ext(to) == ".md" && p.files[to].data == nil {
					t.Errorf("%s: %s has a link to %s, which is not in the package", arch, path, to)
				}
			}
		}
		config := filepath.Join(t.TempDir(), "config.yml")
		if err := os.WriteFile(config, p.files["/usr/share/doc/cke/examples/config.yml"].data, 0o600); err != nil {
			t.Fatal(err)
		}
		if c, err := clusterfile.LoadConfig(config, true); err != nil || !c.Store.IsEmbedded() {
			t.Errorf("%s: the example of a configuration: %+v, %v", arch, c, err)
		}
		if c, _, err := clusterfile.ParseCluster("cluster.yml", p.files["/usr/share/doc/cke/examples/cluster.yml"].data); err != nil || len(c.Nodes) < 3 {
			t.Errorf("%s: the example of a cluster file: %+v, %v", arch, c, err)
		}
		for path, text := range map[string]string{
			"/usr/share/man/man8/cke.8.gz": "--data-dir", "/usr/share/man/man1/ckecli.1.gz": "ckecli-cluster(1)",
			"/usr/share/man/man1/ckecli-cluster-set.1.gz": "ckecli-cluster(1)",
		} {
			if page := gunzip(t, p.files[path].data); !strings.Contains(page, ".TH ") || !strings.Contains(strings.ReplaceAll(page, `\fP`, ""), text) && !strings.Contains(page, text) {
				t.Errorf("%s: %s lacks %s:\n%s", arch, path, text, page)
			}
		}
		for path, text := range map[string]string{
			"/usr/share/bash-completion/completions/ckecli": "complete -o default", "/usr/share/zsh/vendor-completions/_ckecli": "#compdef ckecli",
			"/usr/share/fish/vendor_completions.d/ckecli.fish": "complete -c ckecli",
		} {
			if !strings.Contains(string(p.files[path].data), text) {
				t.Errorf("%s: %s lacks %q", arch, path, text)
			}
		}
	}
}

func gunzip(t *testing.T, data []byte) string {
	t.Helper()
	z, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestPackages_HaveChecksums(t *testing.T) {
	_, _, paths := built(t)
	want := map[string]bool{}
	for _, path := range paths {
		want[fmt.Sprintf("%x  %s\n", sha256.Sum256(read(t, path)), filepath.Base(path))] = true
	}
	got := map[string]bool{}
	for line := range strings.Lines(string(read(t, only(t, "SHA256SUMS")))) {
		got[line] = true
	}
	if !maps.Equal(got, want) {
		t.Errorf("SHA256SUMS has %v, want %v", got, want)
	}
}

// The same source in another directory, with another mask, time zone and home, gives the same bytes.
func TestPackages_AreTheSameFromAnotherDirectory(t *testing.T) {
	debs, rpms, _ := built(t)
	list, err := exec.Command("git", "-C", "..", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		t.Fatal(err)
	}
	there := filepath.Join(t.TempDir(), "elsewhere")
	for name := range strings.SplitSeq(strings.TrimRight(string(list), "\x00"), "\x00") {
		info, err := os.Stat(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Dir(filepath.Join(there, name)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(there, name), read(t, filepath.Join("..", name)), info.Mode().Perm()&0o700); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("bash", "-c", "umask 077; exec packaging/packages.sh")
	cmd.Dir = there
	cmd.Env = append(os.Environ(), "VERSION="+strings.TrimSuffix(debs["amd64"].fields["Version"], "-1"), "SOURCE_DATE_EPOCH="+rpms["amd64"].fields["BuildTime"],
		"MAINTAINER="+debs["amd64"].fields["Maintainer"], "TZ=Asia/Tokyo", "LC_ALL=C.UTF-8", "USER=other")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v:\n%s", err, out)
	}
	if got, want := read(t, filepath.Join(there, "dist/SHA256SUMS")), read(t, only(t, "SHA256SUMS")); !bytes.Equal(got, want) {
		t.Errorf("built again:\n%s\nwant\n%s", got, want)
	}
}
