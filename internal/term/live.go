package term

import (
	"io"
	"strings"
)

// Live writes lines that stay and, on a terminal, below them lines that change until they are replaced.
type Live struct {
	w io.Writer
	// size returns columns and rows of the terminal; nil: w is no terminal, and changing lines are left out.
	size  func() (columns, rows int)
	shown int
}

// NewLive writes to w. size is nil when w is no terminal.
func NewLive(w io.Writer, size func() (columns, rows int)) *Live { return &Live{w: w, size: size} }

// Terminal reports whether changing lines are shown.
func (l *Live) Terminal() bool { return l.size != nil }

// Print writes lines that stay.
func (l *Live) Print(lines ...string) {
	if len(lines) == 0 {
		return
	}
	io.WriteString(l.w, l.erase()+strings.Join(lines, "\n")+"\n")
}

// Show replaces the changing lines. They must be plain text; each is cut to the terminal's width.
func (l *Live) Show(lines ...string) {
	if l.size == nil {
		return
	}
	columns, rows := l.size()
	if rows > 1 && len(lines) > rows-1 {
		lines = lines[:rows-1]
	}
	var b strings.Builder
	b.WriteString(l.erase())
	for _, line := range lines {
		b.WriteString(Paint(true, Dim, Cut(line, columns-1)) + "\n")
	}
	l.shown = len(lines)
	if b.Len() > 0 {
		io.WriteString(l.w, b.String())
	}
}

// erase returns what takes the changing lines off the screen.
func (l *Live) erase() string {
	n := l.shown
	l.shown = 0
	return strings.Repeat("\x1b[A\x1b[2K", n)
}

// Screen redraws one text again and again. Without a terminal every text is written in full, an empty line between.
type Screen struct {
	w     io.Writer
	size  func() (columns, rows int)
	drawn bool
}

// NewScreen writes to w. size is nil when w is no terminal.
func NewScreen(w io.Writer, size func() (columns, rows int)) *Screen {
	return &Screen{w: w, size: size}
}

// Draw shows text in place of the one before.
func (s *Screen) Draw(text string) error {
	var b strings.Builder
	switch {
	case s.size == nil && s.drawn:
		b.WriteString("\n" + text)
	case s.size == nil:
		b.WriteString(text)
	default:
		lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
		if _, rows := s.size(); rows > 1 && len(lines) > rows-1 {
			lines = append(lines[:rows-2], "…")
		}
		if !s.drawn {
			b.WriteString("\x1b[2J")
		}
		b.WriteString("\x1b[H")
		for _, line := range lines {
			b.WriteString(line + "\x1b[K\n")
		}
		b.WriteString("\x1b[J")
	}
	s.drawn = true
	_, err := io.WriteString(s.w, b.String())
	return err
}
