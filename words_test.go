package cke_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"cke/internal/golden"
	"cke/internal/source"
)

// words is the one table of words and turns that text for people does not use, with what to write instead.
var words = []struct{ not, say string }{
	// one thing has one name: docs/glossary.md has each name in quotes
	{`strangers?`, `"foreign member"`},
	{`found(ing|ings|ers?)`, `"bootstrap", or a member or node of the bootstrap`},
	{`(never|not|be|is|was|were|been|being) founded|founded (again|anew|on|it|the)|founds`, `"bootstrap"`},
	{`lineages?`, `"incarnation", or the "chain" of its backups`},
	{`(another|former|earlier|present|new|newest|formed|abandoned) (life|lives) of`, `"incarnation"`},
	{`(abandoned|replaced|formed|former) (life|lives)|lives? (before|that)`, `"incarnation"`},
	{`spec generation|(newer|newest|older|latest) (spec|edition)s?|editions?`, `"revision" of the "cluster file"`},
	{`(a|an|the|one|second|each|other|another|no) drains?`, `"maintenance lease", or: node drain`},

	// verbs
	{`tells?|told|telling`, `report, show, name, log or return`},
	{`looks? (at|for|into|after|through|again|in|on)|looked (at|for|into|after|through|again)|looking (at|for|into|after)`, `"observe", check, read or search`},
	{`(a|each|every|first|last|further|three|two|another) looks?`, `"observation"`},
	{`stands? (in|at|on|below|above|before|behind|beside|as|there|here|now|apart|by|under|free)|stood`, `is, is active, remains; for a place: is in`},
	{`lasts|lasted`, `is active, remains, takes`},
	{`bears?|bore`, `supports, allows`},
	{`go(es)? on|going on|went on|gone on`, `continue`},
	{`(comes?|came|coming) (up|to be)`, `start`},
	{`(brought|bring|brings) (up|about)`, `start, cause`},
	{`reckon(s|ed|ing)?`, `compute`},
	{`(take|takes|took|taken|taking)( \w+){0,3} back`, `revert, clear, withdraw`},
	{`mended|mends?`, `fixed`},
	{`begins?|began|begun|beginning`, `start`},
	{`(it|this|that|which|he|she|who|cluster|restore|pause|lease|operation|command|daemon|time|process|container|freeze) ends`, `stops, exits, expires, completes`},

	// subjects
	{`whoever|whomever`, `name the user, the daemon, the client`},
	{`nobody|no one`, `name who: no client, no daemon; or turn the sentence round`},
	{`somebody|someone|anybody|anyone|everybody|everyone`, `name who: a user, another tool, an administrator`},
	{`(a|the|each|no) persons?|persons|people`, `the operator, a user, you`},
	{`by hand`, `manually`},

	// turns
	{`is so|are so|is not so|are not so`, `holds, is true`},
	{`(all|others?|everything|members?|cluster|it|they) (is|are) well`, `healthy`},
	{`of cke's|of yours|of ours|one of ours`, `cke's …, your …`},
	{`does not do`, `is invalid, is not supported`},
	{`is wanted|are wanted`, `is required, is declared`},
	{`anew`, `again, from the start`},
	{`afresh|whence|thereof|therein|hereby|whereof|lest`, `plain words`},
	{`nothing (but|else than)|none but`, `only`},
	{`never without|not without`, `the positive: always with, requires`},
	{`cannot not|nothing that is not|none that (is|are|does|do) not`, `the positive`},

	// American spelling
	{`(colou|honou|favou|behaviou|neighbou|labou)r\w*`, `-or: color, honor, behavior`},
	{`label(led|ling)|cancel(led|ling)|model(led|ling)|signal(led|ling)|travel(led|ling)`, `one l: labeled, canceled`},
	{`(initiali|seriali|recogni|organi|summari|normali|synchroni|authori|optimi|minimi|maximi)s(e|es|ed|ing|ation)`, `-ize`},
	{`catalogue|centre|licence|defence|grey|whilst|amongst|afterwards|towards|backwards|forwards|upwards`, `American spelling: afterward, toward`},
}

// place is a text that people read: a page, a package of Go by its folder, or a script, a template or a file of a package.
type place struct{ path, kind string }

// places are all texts of the repository.
var places = sync.OnceValue(func() (all []place) {
	packages := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, e fs.DirEntry, err error) error {
		name, folder := e.Name(), filepath.Dir(path)
		switch {
		case err != nil:
		case e.IsDir() && path != "." && name != ".ci" && (name[0] == '.' || slices.Contains([]string{"bin", "dist", "testdata"}, name)):
			return fs.SkipDir
		case e.IsDir():
		case strings.HasSuffix(name, ".md"):
			all = append(all, place{path, "page"})
		case strings.HasSuffix(name, ".go"):
			if !strings.HasSuffix(name, "_test.go") && !packages[folder] {
				packages[folder] = true
				all = append(all, place{folder, "go"})
			}
		case folder == ".ci" || strings.HasPrefix(path, "packaging/") || strings.HasPrefix(path, "mtest/lab/"),
			slices.Contains([]string{".sh", ".html", ".js", ".css"}, filepath.Ext(name)), name == "Makefile":
			all = append(all, place{path, "plain"})
		}
		return err
	})
	if err != nil {
		panic(err)
	}
	return all
})

// Every text uses the words of the glossary and none that the table replaces.
func TestWords_PlainAndOneNameForEachThing(t *testing.T) {
	kinds := map[string]int{}
	for _, place := range places() {
		kinds[place.kind]++
		switch place.kind {
		case "page":
			report(t, place.path, 1, prose(golden.Read(t, place.path)))
		case "go":
			for _, said := range goTexts(t, place.path) {
				report(t, said.Position.Filename, said.Position.Line, said.text)
			}
		case "plain":
			text := golden.Read(t, place.path)
			for _, code := range []*regexp.Regexp{templateCode, codeSpan} {
				text = code.ReplaceAllStringFunc(text, blank)
			}
			report(t, place.path, 1, text)
		}
	}
	if kinds["page"] < 100 || kinds["go"] < 50 || kinds["plain"] < 20 {
		t.Errorf("texts of each kind: %v", kinds)
	}
}

// Prose has at most 120 columns; headings, tables, code, the texts of codes and the index of the changelog, one line each, are not wrapped.
func TestPages_ProseIsWrapped(t *testing.T) {
	for _, place := range places() {
		file, n := place.path, 0
		if place.kind != "page" || file == "docs/codes.md" || file == "docs/changelog/README.md" {
			continue
		}
		for line := range strings.Lines(codeBlock.ReplaceAllStringFunc(golden.Read(t, file), blank)) {
			n++
			if c := utf8.RuneCountInString(strings.TrimRight(line, "\n")); c > 120 && line[0] != '|' && line[0] != '#' {
				t.Errorf("%s:%d: %d columns", file, n, c)
			}
		}
	}
}

// A name that the table gives in quotes is a word of docs/glossary.md.
func TestWords_TheGlossaryHasEachName(t *testing.T) {
	glossary := golden.Read(t, "docs/glossary.md")
	for _, w := range words {
		for _, name := range regexp.MustCompile(`"([^"]+)"`).FindAllStringSubmatch(w.say, -1) {
			if !regexp.MustCompile(`(?m)^\|[^|]*\b` + regexp.QuoteMeta(name[1]) + `\b[^|]*\|`).MatchString(glossary) {
				t.Errorf("docs/glossary.md has no row for %q, which is to be written for %s", name[1], w.not)
			}
		}
	}
}

// What is code or an address is not judged, and what is prose is.
func TestWords_FindsThemInProseAndMessagesOnly(t *testing.T) {
	page := "a stranger\n\n    $ told `nobody`\n\n| `stranger` | nobody |\n```\nnobody\n```\nthe `stranger` at [x](nobody.md), by\nhand\n"
	var got []string
	for _, f := range find(prose(page)) {
		got = append(got, fmt.Sprintf("%d %s", f.line, f.word))
	}
	if want := []string{"1 stranger", "5 nobody", "9 by hand"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	dir := t.TempDir()
	for name, source := range map[string]string{
		"a.go":      "// Package a tells.\npackage a\n\nimport _ \"nobody\"\n\n// F is told.\nfunc F() string { return \"nobody\" } // nobody\n\n// g is told.\nfunc g(s struct {\n\tX int `json:\"stranger\"`\n}) {}\n",
		"a_test.go": "package a\n\nvar x = \"nobody\"\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(source), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got = nil
	for _, said := range goTexts(t, dir) {
		for _, f := range find(said.text) {
			got = append(got, fmt.Sprintf("%d %s", said.Line+f.line-1, f.word))
		}
	}
	if want := []string{"1 tells", "6 told", "7 nobody"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func report(t *testing.T, file string, first int, text string) {
	t.Helper()
	for _, f := range find(text) {
		t.Errorf("%s:%d: %q: write %s", file, first+f.line-1, f.word, f.say)
	}
}

type finding struct {
	line      int
	word, say string
}

var patterns = sync.OnceValue(func() (all []*regexp.Regexp) {
	for _, w := range words {
		all = append(all, regexp.MustCompile(`(?i)\b(?:`+strings.ReplaceAll(w.not, " ", `\s+`)+`)\b`))
	}
	return all
})

// find returns what the table replaces in a text, line by line; a turn may be wrapped over two lines.
func find(text string) (all []finding) {
	for i, pattern := range patterns() {
		for _, at := range pattern.FindAllStringIndex(text, -1) {
			word := strings.Join(strings.Fields(text[at[0]:at[1]]), " ")
			all = append(all, finding{1 + strings.Count(text[:at[0]], "\n"), word, words[i].say})
		}
	}
	slices.SortStableFunc(all, func(a, b finding) int { return a.line - b.line })
	return all
}

var (
	codeBlock    = regexp.MustCompile("(?ms)^```.*?^```$|^(?:    |\t).*?$")
	codeSpan     = regexp.MustCompile("(?s)`[^`]*`|\\]\\([^)]*\\)|<[^>\n]*>")
	codeName     = regexp.MustCompile(`^([a-z]+(-[a-z]+)+|begun|lineage|stranger)$`) // of an operation, a step, a file, a flag or a state
	templateCode = regexp.MustCompile("(?s){{.*?}}")
	flagName     = regexp.MustCompile(`--[a-z][a-z-]*|-----BEGIN`)
)

// prose returns a page with what is not prose blanked out: code and addresses.
func prose(page string) string {
	for _, code := range []*regexp.Regexp{codeBlock, codeSpan} {
		page = code.ReplaceAllStringFunc(page, blank)
	}
	return page
}

// blank keeps the lines of a text and nothing that is on them.
func blank(s string) string { return "§" + strings.Repeat("\n", strings.Count(s, "\n")) }

// stored are names of the API and of records that keep a word of the table.
var stored = []string{"stranger", "begin-recovery", "begin-restore"}

type goText struct {
	token.Position
	text string
}

// goTexts returns the package comments, the doc comments of what is exported and the string literals of a package, without its tests.
func goTexts(t *testing.T, folder string) (all []goText) {
	t.Helper()
	set := token.NewFileSet()
	files := source.Parse(t, folder, set, parser.ParseComments)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		file := files[name]
		comment := func(c *ast.CommentGroup, names ...*ast.Ident) {
			if c != nil {
				var lines []string
				for _, line := range c.List {
					lines = append(lines, strings.TrimPrefix(line.Text, "//"))
				}
				text := prose(strings.Join(lines, "\n"))
				for _, name := range names { // with which it starts
					text = regexp.MustCompile(`^\s*`+name.Name+`\b`).ReplaceAllString(text, "§")
				}
				all = append(all, goText{set.Position(c.Pos()), text})
			}
		}
		comment(file.Doc)
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Name.IsExported() {
					comment(n.Doc, n.Name)
				}
			case *ast.GenDecl:
				if slices.ContainsFunc(n.Specs, exported) {
					comment(n.Doc, declared(n.Specs)...)
				}
			case *ast.TypeSpec:
				if n.Name.IsExported() {
					comment(n.Doc, n.Name)
				}
			case *ast.ValueSpec:
				if exported(n) {
					comment(n.Doc, n.Names...)
				}
			case *ast.Field:
				if slices.ContainsFunc(n.Names, (*ast.Ident).IsExported) {
					comment(n.Doc, n.Names...)
				}
				if n.Tag != nil {
					n.Tag = nil // names of fields, not text
				}
			case *ast.ImportSpec:
				return false
			case *ast.BasicLit:
				if n.Kind == token.STRING {
					if s, err := strconv.Unquote(n.Value); err == nil && !slices.Contains(stored, s) && !codeName.MatchString(s) {
						all = append(all, goText{set.Position(n.Pos()), flagName.ReplaceAllString(codeSpan.ReplaceAllString(s, "§"), "§")})
					}
				}
			}
			return true
		})
	}
	return all
}

// declared returns the names of a declaration.
func declared(specs []ast.Spec) (all []*ast.Ident) {
	for _, s := range specs {
		switch s := s.(type) {
		case *ast.TypeSpec:
			all = append(all, s.Name)
		case *ast.ValueSpec:
			all = append(all, s.Names...)
		}
	}
	return all
}

func exported(s ast.Spec) bool {
	switch s := s.(type) {
	case *ast.TypeSpec:
		return s.Name.IsExported()
	case *ast.ValueSpec:
		return slices.ContainsFunc(s.Names, (*ast.Ident).IsExported)
	}
	return false
}
