package policy

import "slices"

// Names lists what the entries are for.
func (c *Config) Names() [][2]string {
	var list [][2]string
	for n := range c.entries {
		list = append(list, [2]string{string(n.service), n.operation})
	}
	slices.SortFunc(list, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	return list
}

// Nodes is the number of nodes whose tokens are kept, MaxNodes the most.
func (c *Config) Nodes() int { return len(*c.nodes.Load()) }

const MaxNodes = maxNodes
