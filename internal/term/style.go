package term

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// Style is the style of a text on a terminal with color; the zero value is plain.
type Style string

// Styles, as parameters of the escape sequence "select graphic rendition". Source: ECMA-48, 8.3.117.
const (
	Plain  Style = ""
	Bold   Style = "1"
	Dim    Style = "2"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
	Alarm  Style = "1;31"
)

// Paint returns text in a style, or text as it is without color.
func Paint(colour bool, s Style, text string) string {
	if !colour || s == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(s) + "m" + text + "\x1b[0m"
}

// Clean makes text from elsewhere fit for one line: control characters, which could drive the terminal, and line
// breaks become spaces, and spaces in a row become one.
func Clean(text string) string {
	plain := true
	for _, r := range text {
		if unicode.IsControl(r) || r == utf8.RuneError || isFormat(r) {
			plain = false
			break
		}
	}
	if plain {
		return text
	}
	clean := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsControl(r), r == utf8.RuneError:
			return ' '
		case isFormat(r):
			return -1
		}
		return r
	}, text)
	return strings.Join(strings.Fields(clean), " ")
}

// isFormat is true of invisible characters, such as those that turn the direction of writing.
func isFormat(r rune) bool { return unicode.Is(unicode.Cf, r) }

// Width returns the number of columns that text takes, without color codes.
func Width(text string) int {
	columns, escape := 0, false
	for _, r := range text {
		switch {
		case escape:
			escape = !(r >= '@' && r <= '~') || r == '['
		case r == '\x1b':
			escape = true
		case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		case wide(r):
			columns += 2
		default:
			columns++
		}
	}
	return columns
}

// wide is true of characters that take two columns. Source: Unicode, East Asian Width W and F, the main blocks.
func wide(r rune) bool {
	return r >= 0x1100 && (r <= 0x115f || r >= 0x2e80 && r <= 0xa4cf || r >= 0xac00 && r <= 0xd7a3 ||
		r >= 0xf900 && r <= 0xfaff || r >= 0xfe30 && r <= 0xfe6f || r >= 0xff00 && r <= 0xff60 ||
		r >= 0xffe0 && r <= 0xffe6 || r >= 0x1f300 && r <= 0x1faff || r >= 0x20000 && r <= 0x3fffd)
}

// Cut shortens plain text to a number of columns; zero means no limit.
func Cut(text string, columns int) string {
	if columns <= 0 || Width(text) <= columns {
		return text
	}
	taken := 0
	for i, r := range text {
		w := Width(string(r))
		if taken+w > columns-1 {
			return text[:i] + "…"
		}
		taken += w
	}
	return text
}

// Pad fills text with spaces up to a number of columns.
func Pad(text string, columns int) string {
	if missing := columns - Width(text); missing > 0 {
		return text + strings.Repeat(" ", missing)
	}
	return text
}
