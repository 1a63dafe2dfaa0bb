package topology

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
)

// maxHostName is above what DNS allows for a name, 253 bytes, and above what an address with a zone takes.
const maxHostName = 255

// CheckHost says why a text cannot be a host: it is no IP address, in brackets or without, and no name of letters,
// digits, hyphens, underscores and dots. Hosts come from servers and are made parts of addresses and of URLs: one with
// a slash, an at sign or a colon in it would lead somewhere else than it says. The error does not hold the text.
func CheckHost(host string) error {
	switch {
	case host == "":
		return errors.New("is empty")
	case len(host) > maxHostName:
		return fmt.Errorf("has %d bytes, limit %d", len(host), maxHostName)
	}
	if ip, err := netip.ParseAddr(unbracketed(host)); err == nil {
		return checkName(ip.Zone())
	}
	return checkName(host)
}

// checkName is CheckHost for a name, which may be empty.
func checkName(name string) error {
	for i := range len(name) {
		switch b := name[i]; {
		case b >= 'a' && b <= 'z', b >= 'A' && b <= 'Z', b >= '0' && b <= '9', b == '-', b == '_', b == '.':
		default:
			return fmt.Errorf("has the byte 0x%02x, which a host name cannot have", b)
		}
	}
	return nil
}

// hostName is a host of a map, without brackets; the otherwise one when the map leaves it out. A port beside it says
// nothing, because ports stand elsewhere, and is left out: nodes have been seen to send it.
func hostName(field, host, otherwise string) (string, error) {
	switch {
	case len(host) > maxHostName:
		return "", &ParseError{Field: "length of a hostname", Value: int64(len(host)), Limit: maxHostName}
	case host == "", unbracketed(host) == otherwise: // which is where the client is connected already
		return otherwise, nil
	}
	if strings.Count(host, ":") == 1 || strings.HasPrefix(host, "[") {
		if h, port, err := net.SplitHostPort(host); err == nil && isPort(port) {
			host = h
		}
	}
	if err := CheckHost(host); err != nil {
		return "", &ParseError{Field: field, Err: err}
	}
	return unbracketed(host), nil
}

func isPort(s string) bool {
	return s != "" && len(s) <= 5 && strings.Trim(s, "0123456789") == ""
}

func unbracketed(host string) string {
	if len(host) > 2 && host[0] == '[' && host[len(host)-1] == ']' {
		return host[1 : len(host)-1]
	}
	return host
}
