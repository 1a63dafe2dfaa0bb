package packets

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
)

// A cluster map names the nodes' addresses in two places: with the ports of their services in nodesExt, and in the list
// that vbuckets refer to.

// readdress gives a cluster map, of the node of that host, with the proxy's addresses. Everything that it does not
// change stays.
func (p *Proxy) readdress(host string, text []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var m map[string]any
	if err := d.Decode(&m); err != nil {
		return nil, err
	}
	nodes, _ := m["nodesExt"].([]any)
	for _, n := range nodes {
		if n, ok := n.(map[string]any); ok {
			if err := p.readdressNode(host, n); err != nil {
				return nil, err
			}
		}
	}
	if table, ok := m["vBucketServerMap"].(map[string]any); ok {
		list, _ := table["serverList"].([]any)
		for i, addr := range list {
			if addr, ok := addr.(string); ok {
				own, err := p.standIn(host, addr)
				if err != nil {
					return nil, err
				}
				list[i] = own
			}
		}
	}
	return json.Marshal(m)
}

// readdressNode replaces a node's name and its key-value port. Other services and networks are left out: the proxy
// does not stand in for them.
func (p *Proxy) readdressNode(of string, n map[string]any) error {
	services, _ := n["services"].(map[string]any)
	port, ok := services["kv"].(json.Number)
	delete(n, "alternateAddresses")
	if !ok {
		n["services"] = map[string]any{}
		return nil
	}
	host, _ := n["hostname"].(string)
	if host == "" {
		host = "$HOST"
	}
	own, err := p.standIn(of, net.JoinHostPort(host, port.String()))
	if err != nil {
		return err
	}
	ownHost, ownPort, err := net.SplitHostPort(own)
	if err != nil {
		return err
	}
	number, err := strconv.Atoi(ownPort)
	if err != nil {
		return err
	}
	n["hostname"], n["services"] = ownHost, map[string]any{"kv": number}
	return nil
}

// standIn is the address that stands in for a node's. "$HOST" in it is the host of the node that has sent the map.
func (p *Proxy) standIn(of, addr string) (string, error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("an address of the map: %w", err)
	}
	if host == "$HOST" {
		host = of
	}
	return p.listen(net.JoinHostPort(host, port), "127.0.0.1:0")
}
