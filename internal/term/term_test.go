package term

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestTable_AlignsByVisibleWidthWithAndWithoutColour(t *testing.T) {
	table := NewTable("MEMBER", "HEALTH", "NOTE")
	table.Add(Text("cp1"), Styled(Green, "healthy"), Text("first"))
	table.Add(Text("コントロール"), Styled(Red, "unreachable"), Text(""))
	table.Add(Text("é\u0301"), Text("x"))
	var plain, coloured strings.Builder
	if err := table.Write(&plain, false); err != nil {
		t.Fatal(err)
	}
	want := `MEMBER        HEALTH       NOTE
cp1           healthy      first
コントロール  unreachable  -
é` + "\u0301" + `             x            -
`
	if d := cmp.Diff(want, plain.String()); d != "" {
		t.Error(d)
	}
	if err := table.Write(&coloured, true); err != nil {
		t.Fatal(err)
	}
	for i, line := range strings.Split(coloured.String(), "\n") {
		if got, want := Width(line), Width(strings.Split(plain.String(), "\n")[i]); got != want {
			t.Errorf("line %d is %d wide with colour, %d without: %q", i, got, want, line)
		}
	}
	if !strings.Contains(coloured.String(), "\x1b[32mhealthy\x1b[0m      ") {
		t.Errorf("padding is not after the colour: %q", coloured.String())
	}
}

func TestTable_WritesNothingAfterTheLastTextOfALine(t *testing.T) {
	table := NewTable("A", "B")
	table.Add(Text("1"), Text("2"))
	table.Add(Text("1"), Text("much longer"))
	var b strings.Builder
	if err := table.Write(&b, false); err != nil {
		t.Fatal(err)
	}
	for _, line := range strings.Split(b.String(), "\n") {
		if strings.TrimRight(line, " ") != line {
			t.Errorf("%q ends with spaces", line)
		}
	}
}

func TestClean_LetsNoTextDriveTheTerminal(t *testing.T) {
	for in, want := range map[string]string{
		"plain  text stays":          "plain  text stays",
		"clear \x1b[2J the screen":   "clear [2J the screen",
		"two\nlines\tand a tab":      "two lines and a tab",
		"title \x1b]0;owned\x07 bar": "title ]0;owned bar",
		"8-bit \u009b31m":            "8-bit 31m",
		"turned \u202eround":         "turned round",
		"broken \xff byte":           "broken byte",
	} {
		if got := Clean(in); got != want {
			t.Errorf("Clean(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestCut_NeverExceedsTheColumns(t *testing.T) {
	for _, text := range []string{"", "short", "a text that is too long", "コントロールプレーン"} {
		for columns := 1; columns < 30; columns++ {
			if got := Cut(text, columns); Width(got) > columns {
				t.Errorf("Cut(%q, %d) = %q", text, columns, got)
			}
		}
	}
	if got := Cut("abcdef", 4); got != "abc…" {
		t.Errorf("got %q", got)
	}
}

func TestLive_ReplacesItsLinesAndLeavesWhatStays(t *testing.T) {
	var b strings.Builder
	l := NewLive(&b, func() (int, int) { return 20, 10 })
	l.Show("image  0.1s", "a line that is far too long for it")
	l.Print("image done")
	l.Show("start  0.1s")
	l.Show()
	up := "\x1b[A\x1b[2K"
	want := "\x1b[2mimage  0.1s\x1b[0m\n\x1b[2ma line that is far…\x1b[0m\n" + up + up + "image done\n" + "\x1b[2mstart  0.1s\x1b[0m\n" + up
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Error(d)
	}
}

func TestLive_ShowsNoChangingLinesWithoutATerminal(t *testing.T) {
	var b strings.Builder
	l := NewLive(&b, nil)
	l.Show("image  0.1s")
	l.Print("image done")
	l.Show()
	if got := b.String(); got != "image done\n" {
		t.Errorf("got %q", got)
	}
}

func TestScreen_RedrawsInPlaceAndFitsTheTerminal(t *testing.T) {
	var b strings.Builder
	s := NewScreen(&b, func() (int, int) { return 20, 3 })
	for _, text := range []string{"one\n", "1\n2\n3\n4\n"} {
		if err := s.Draw(text); err != nil {
			t.Fatal(err)
		}
	}
	want := "\x1b[2J\x1b[Hone\x1b[K\n\x1b[J" + "\x1b[H1\x1b[K\n…\x1b[K\n\x1b[J"
	if d := cmp.Diff(want, b.String()); d != "" {
		t.Error(d)
	}
}

func TestScreen_WritesOneAfterTheOtherWithoutATerminal(t *testing.T) {
	var b strings.Builder
	s := NewScreen(&b, nil)
	for _, text := range []string{"one\n", "two\n"} {
		if err := s.Draw(text); err != nil {
			t.Fatal(err)
		}
	}
	if got := b.String(); got != "one\n\ntwo\n" {
		t.Errorf("got %q", got)
	}
}

func TestUnits_AreShort(t *testing.T) {
	ages := map[time.Duration]string{-time.Second: "0s", 0: "0s", 59 * time.Second: "59s", 4 * time.Minute: "4m", 47 * time.Hour: "47h", 312 * 24 * time.Hour: "312d"}
	for d, want := range ages {
		if got := Age(d); got != want {
			t.Errorf("Age(%s) = %s, want %s", d, got, want)
		}
	}
	tooks := map[time.Duration]string{0: "0ms", 41 * time.Millisecond: "41ms", 940 * time.Millisecond: "0.9s", 12 * time.Second: "12s", 192 * time.Second: "3m12s", 125 * time.Minute: "2h5m"}
	for d, want := range tooks {
		if got := Took(d); got != want {
			t.Errorf("Took(%s) = %s, want %s", d, got, want)
		}
	}
	sizes := map[int64]string{0: "0B", 999: "999B", 1000: "1.0kB", 20480: "20kB", 84_000_000: "84MB", 999_600: "1.0MB", 2_147_483_648: "2.1GB"}
	for n, want := range sizes {
		if got := Size(n); got != want {
			t.Errorf("Size(%d) = %s, want %s", n, got, want)
		}
	}
}
