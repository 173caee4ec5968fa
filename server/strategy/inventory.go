package strategy

import "cke"

// unreadAfter is how many reads of an inventory in a row have to fail before that is a problem. Nothing follows from the first one
// on.
const unreadAfter = 3

// inventoryProblems are what is wrong with the inventory, or contradicts what is observed. An operator who has to decide is not one.
func inventoryProblems(s *cke.InventoryStatus) []cke.Problem {
	if s == nil {
		return nil
	}
	var all []cke.Problem
	switch reads := s.Source != "" && s.Failures < unreadAfter; {
	case s.Code == cke.CodeInventory && reads && (s.Failures == 0 || !s.ReadAt.IsZero()):
	case s.Code == cke.CodeInventory, s.Code == cke.CodeManyHosts, s.Code == cke.CodeNoHost:
		all = append(all, cke.Problem{Code: s.Code, Message: "inventory: " + s.Reason, Remedy: cke.WayOut(s.Code)})
	}
	for _, n := range s.Notes {
		if n.Code != "" {
			all = append(all, cke.Problem{Code: n.Code, Node: n.Node, Message: "inventory: " + n.Text, Remedy: cke.WayOut(n.Code)})
		}
	}
	return all
}
