package stdio

import (
	"context"
	"io"
	"log"
	"net"
	"net/http"
	"time"
)

// InProcess returns a function that sends requests to a handler in this process: over HTTP, through a pipe. So the handler's context ends with that of
// the request, or once the body of the answer is closed, and its writes wait until they are read.
func InProcess(h http.Handler) Do {
	server := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0)} // a handler reports its panics
	transport := &http.Transport{
		DisableKeepAlives: true, DisableCompression: true, // each request has a connection of its own
		DialContext: func(context.Context, string, string) (net.Conn, error) {
			client, conn := net.Pipe()
			_ = server.Serve(&once{conn}) // at once, since there is one connection
			return client, nil
		},
	}
	return transport.RoundTrip
}

// once is a listener with one connection.
type once struct{ conn net.Conn }

// Accept implements [net.Listener].
func (o *once) Accept() (net.Conn, error) {
	conn := o.conn
	if o.conn = nil; conn == nil {
		return nil, net.ErrClosed
	}
	return local{conn}, nil
}

// Close implements [net.Listener].
func (*once) Close() error { return nil }

// Addr implements [net.Listener].
func (*once) Addr() net.Addr { return localAddress }

// local is a connection to this process.
type local struct{ net.Conn }

var localAddress = &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}

// RemoteAddr implements [net.Conn].
func (local) RemoteAddr() net.Addr { return localAddress }

// SetWriteDeadline implements [net.Conn]. The client may read its answers as late as it wants.
func (local) SetWriteDeadline(time.Time) error { return nil }
