package sim

// MissDisk boots the machine without the disk of its engine, which answers as one that never had anything. The function that is returned boots
// it with that disk again, and without what was made meanwhile.
func (n *Node) MissDisk() (mount func()) {
	over, images, volumes, containers := n.over, n.images, n.volumes, n.containers
	n.Blank()
	return func() {
		n.change("boots with its former disk", func() {
			n.powerOff()
			n.wipe()
			n.over, n.images, n.volumes, n.containers = over, images, volumes, containers
			n.powerOn()
		})
	}
}
