// Package wire speaks HTTP/1.1 without net/http, whose processor time would affect a measurement on a machine with few cores. It supports
// only the messages of the benchmark.
package wire

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Patience is the timeout of operations that take milliseconds.
const Patience = 30 * time.Second

// Chunked is the length of a body that has none.
const Chunked = -1

// ReadHeader reads a header up to the empty line, and returns the length of the body.
func ReadHeader(r *bufio.Reader) (length int, err error) {
	for {
		line, err := r.ReadSlice('\n')
		if err != nil {
			return 0, fmt.Errorf("reading a header: %w", err)
		}
		if len(line) <= 2 {
			return length, nil
		}
		name, value, _ := bytes.Cut(line, []byte(":"))
		switch {
		case len(name) == len("Content-Length") && bytes.EqualFold(name, []byte("Content-Length")):
			if length, err = strconv.Atoi(string(bytes.TrimSpace(value))); err != nil {
				return 0, fmt.Errorf("reading a Content-Length: %w", err)
			}
		case len(name) == len("Transfer-Encoding") && bytes.EqualFold(name, []byte("Transfer-Encoding")):
			length = Chunked
		}
	}
}

// Connection is a connection to a target, with one request at a time.
type Connection struct {
	net.Conn
	r    *bufio.Reader
	body []byte // of the newest answer
}

// Dial connects to an address.
func Dial(address string) (*Connection, error) {
	c, err := net.DialTimeout("tcp", address, Patience)
	if err != nil {
		return nil, err
	}
	return &Connection{Conn: c, r: bufio.NewReaderSize(c, 2<<10)}, nil
}

// Do sends a request and returns the body of the answer, which is valid until the next request. It
// fails if the status is not 200.
func (c *Connection) Do(request []byte) ([]byte, error) {
	if _, err := c.Write(request); err != nil {
		return nil, fmt.Errorf("sending a request: %w", err)
	}
	return c.answer()
}

func (c *Connection) answer() ([]byte, error) {
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		return nil, fmt.Errorf("waiting for an answer: %w", err)
	}
	_, rest, _ := bytes.Cut(line, []byte(" "))
	status := string(rest[:min(3, len(rest))])
	length, err := ReadHeader(c.r)
	if err != nil {
		return nil, err
	}
	c.body = c.body[:0]
	if length == Chunked {
		err = c.readChunks()
	} else {
		err = c.read(length)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the body of an answer: %w", err)
	}
	if status != "200" {
		return nil, fmt.Errorf("HTTP %s: %.300s", status, c.body)
	}
	return c.body, nil
}

// read appends bytes to the body.
func (c *Connection) read(length int) error {
	have := len(c.body)
	c.body = slices.Grow(c.body, length)[:have+length]
	_, err := io.ReadFull(c.r, c.body[have:])
	return err
}

// readChunks appends chunks to the body. There is no trailer.
func (c *Connection) readChunks() error {
	for {
		line, err := c.r.ReadSlice('\n')
		if err != nil {
			return err
		}
		length, err := strconv.ParseInt(string(bytes.TrimSpace(line)), 16, 32)
		if err != nil {
			return err
		}
		if err := c.read(int(length)); err != nil {
			return err
		}
		if _, err := c.r.Discard(len("\r\n")); err != nil || length == 0 {
			return err
		}
	}
}

// Request returns the bytes of a request.
func Request(method, address, path string, body []byte) []byte {
	head := method + " " + path + " HTTP/1.1\r\nHost: " + address + "\r\n"
	if method == http.MethodPost {
		head += "Content-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n"
	}
	return append([]byte(head+"\r\n"), body...)
}

// Once sends one request over a new connection.
func Once(method, address, path string, body []byte) ([]byte, error) {
	c, err := Dial(address)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(Patience)); err != nil {
		return nil, err
	}
	return c.Do(Request(method, address, path, body))
}
