package term

import (
	"fmt"
	"io"
	"strings"
)

// gap is the space between columns.
const gap = "  "

// Cell is one field of a table. An empty text is shown as "-".
type Cell struct {
	Text  string
	Style Style
}

// Text returns a plain cell.
func Text(s string) Cell { return Cell{Text: s} }

// Textf returns a plain cell with a formatted text.
func Textf(format string, args ...any) Cell { return Cell{Text: fmt.Sprintf(format, args...)} }

// Styled returns a cell in a style.
func Styled(style Style, s string) Cell { return Cell{Text: s, Style: style} }

// Table is a borderless table. Every row has as many cells as the header.
type Table struct {
	header []string
	rows   [][]Cell
}

// NewTable makes an empty table.
func NewTable(header ...string) *Table { return &Table{header: header} }

// Add appends a row.
func (t *Table) Add(cells ...Cell) {
	row := make([]Cell, len(t.header))
	copy(row, cells)
	for i := range row {
		if row[i].Text = Clean(row[i].Text); row[i].Text == "" {
			row[i].Text = "-"
		}
	}
	t.rows = append(t.rows, row)
}

// Write writes header and rows; nothing follows the last text of a line.
func (t *Table) Write(w io.Writer, colour bool) error {
	widths := make([]int, len(t.header))
	for i, h := range t.header {
		widths[i] = Width(h)
	}
	for _, row := range t.rows {
		for i, c := range row {
			widths[i] = max(widths[i], Width(c.Text))
		}
	}
	var b strings.Builder
	header := make([]Cell, len(t.header))
	for i, h := range t.header {
		header[i] = Styled(Bold, h)
	}
	for _, row := range append([][]Cell{header}, t.rows...) {
		for i, c := range row {
			b.WriteString(Paint(colour, c.Style, c.Text))
			if i < len(row)-1 {
				b.WriteString(strings.Repeat(" ", widths[i]-Width(c.Text)) + gap)
			}
		}
		b.WriteByte('\n')
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Labels writes lines of a label and a text: labels in one column, texts in the next.
type Labels struct{ lines [][2]Cell }

// Add appends a line. With an empty label the text is placed below the one before.
func (l *Labels) Add(label string, text Cell) {
	l.lines = append(l.lines, [2]Cell{{Text: label, Style: Bold}, {Text: Clean(text.Text), Style: text.Style}})
}

// Write writes the lines.
func (l *Labels) Write(w io.Writer, colour bool) error {
	width := 0
	for _, line := range l.lines {
		width = max(width, Width(line[0].Text))
	}
	var b strings.Builder
	for _, line := range l.lines {
		pad := strings.Repeat(" ", width-Width(line[0].Text))
		b.WriteString(Paint(colour, line[0].Style, line[0].Text) + pad + gap + Paint(colour, line[1].Style, line[1].Text) + "\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
