package ui

// Renders is how often a live page was rendered.
func (p *Page) Renders() int {
	p.hub.mu.Lock()
	defer p.hub.mu.Unlock()
	return p.hub.renders
}

// Viewers is how many streams are open.
func (p *Page) Viewers() int {
	p.hub.mu.Lock()
	defer p.hub.mu.Unlock()
	return p.hub.viewers
}

// MostViewers and ShownText are bounds.
const (
	MostViewers = mostViewers
	ShownText   = shownText
)
