package network

import "net/netip"

// metadata has the addresses of clouds' metadata services, which give credentials to the
// machine. Some are in networks that are allowed for other reasons, so each may be reached
// only if the operator allows it individually.
var metadata = map[netip.Addr]bool{
	netip.MustParseAddr("169.254.169.254"):    true, // AWS, Azure, Google Cloud, DigitalOcean, Oracle and others
	netip.MustParseAddr("169.254.169.252"):    true, // Google Kubernetes Engine, credentials of workloads
	netip.MustParseAddr("169.254.169.253"):    true, // AWS, the resolver of a VPC
	netip.MustParseAddr("169.254.170.2"):      true, // AWS ECS, credentials of tasks
	netip.MustParseAddr("169.254.170.23"):     true, // AWS EKS, credentials of pods
	netip.MustParseAddr("169.254.42.42"):      true, // Scaleway
	netip.MustParseAddr("169.254.0.23"):       true, // Tencent Cloud
	netip.MustParseAddr("100.100.100.200"):    true, // Alibaba Cloud
	netip.MustParseAddr("192.0.0.192"):        true, // Oracle Cloud
	netip.MustParseAddr("168.63.129.16"):      true, // Azure: a public address, but reachable only from its virtual machines
	netip.MustParseAddr("fd00:ec2::254"):      true, // AWS
	netip.MustParseAddr("fd00:ec2::253"):      true, // AWS, the resolver of a VPC
	netip.MustParseAddr("fd00:ec2::23"):       true, // AWS EKS
	netip.MustParseAddr("fd20:ce::254"):       true, // Google Cloud
	netip.MustParseAddr("fd00:42::42"):        true, // Scaleway
	netip.MustParseAddr("fd00:c1::a9fe:a9fe"): true, // Oracle Cloud
	netip.MustParseAddr("fd00:a9fe:a9fe::1"):  true, // Akamai (Linode)
	netip.MustParseAddr("fe80::a9fe:a9fe"):    true, // OpenStack
}

// Networks and interface identifiers of IPv6 addresses that contain an IPv4 address.
var (
	compatible      = netip.MustParsePrefix("::/96")           // RFC 4291, section 2.5.5.1
	translated      = netip.MustParsePrefix("::ffff:0:0:0/96") // RFC 2765, section 2.1
	nat64           = netip.MustParsePrefix("64:ff9b::/96")    // RFC 6052, section 2.1
	localNAT64      = netip.MustParsePrefix("64:ff9b:1::/48")  // RFC 8215
	sixToFour       = netip.MustParsePrefix("2002::/16")       // RFC 3056, section 2
	teredo          = netip.MustParsePrefix("2001::/32")       // RFC 4380, section 4
	isatapLocal     = [4]byte{0, 0, 0x5e, 0xfe}                // RFC 5214, section 6.1
	isatapUniversal = [4]byte{2, 0, 0x5e, 0xfe}
)

// embedded returns the IPv4 addresses that a translator or a tunnel may connect to for an
// IPv6 address. Bits is the prefix length of the network in which the operator has allowed
// the address: shorter prefixes of translators are not considered.
func embedded(address netip.Addr, bits int) []netip.Addr {
	if address.Is4In6() {
		return []netip.Addr{address.Unmap()}
	}
	if address.Is4() {
		return nil
	}
	b := address.As16()
	at := func(i, j, k, l int) netip.Addr { return netip.AddrFrom4([4]byte{b[i], b[j], b[k], b[l]}) }
	last := at(12, 13, 14, 15)
	switch {
	case compatible.Contains(address) && !address.IsLoopback() && !address.IsUnspecified(),
		translated.Contains(address), nat64.Contains(address):
		return []netip.Addr{last}
	case localNAT64.Contains(address):
		found := []netip.Addr{last}
		for _, place := range []struct { // RFC 6052, section 2.2
			prefix  int
			address netip.Addr
		}{{48, at(6, 7, 9, 10)}, {56, at(7, 9, 10, 11)}, {64, at(9, 10, 11, 12)}} {
			if place.prefix >= bits && leadsSomewhere(place.address) {
				found = append(found, place.address)
			}
		}
		if len(found) > 1 && !leadsSomewhere(last) { // with a prefix shorter than 96 bits, the end of the address is unused
			found = found[1:]
		}
		return found
	case sixToFour.Contains(address):
		return []netip.Addr{at(2, 3, 4, 5)}
	case teredo.Contains(address): // the server, and the client, whose bits are inverted
		return []netip.Addr{at(4, 5, 6, 7), netip.AddrFrom4([4]byte{^b[12], ^b[13], ^b[14], ^b[15]})}
	}
	if id := [4]byte(b[8:12]); id == isatapLocal || id == isatapUniversal {
		return []netip.Addr{last}
	}
	return nil
}

// leadsSomewhere reports whether a host can have an IPv4 address: no host has one in 0.0.0.0/8
// or 240.0.0.0/4.
func leadsSomewhere(address netip.Addr) bool {
	first := address.As4()[0]
	return 0 < first && first < 240
}
