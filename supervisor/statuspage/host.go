package statuspage

import (
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// AtItsAddress lets only requests through whose Host header is an IP address, localhost, or the host of listen, which is an address as net.Listen takes it. Others get 421: a web site whose name is
// made to resolve to this node could else read the page in the browser of somebody who reaches it (DNS rebinding). A listener with TLS does not need it, since its certificate has no such name.
func AtItsAddress(listen string, h http.Handler) http.Handler {
	own := hostOf(listen)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := hostOf(r.Host)
		if _, err := netip.ParseAddr(host); err != nil && !strings.EqualFold(host, "localhost") && (own == "" || !strings.EqualFold(host, own)) {
			w.Header().Set("Cache-Control", "no-store")
			http.Error(w, "the status page does not answer to this host name: use an IP address, localhost, or the host of metrics.address", http.StatusMisdirectedRequest)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// hostOf is the host of an address with or without a port.
func hostOf(address string) string {
	if host, _, err := net.SplitHostPort(address); err == nil {
		return host
	}
	return strings.TrimSuffix(strings.TrimPrefix(address, "["), "]")
}
