package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
)

// The loader and the provider implement HTTP/1.1 without net/http, whose processor time would affect
// the measurement on a machine with few cores. They support only the messages of this program.

// patience is the timeout of operations that take milliseconds.
const patience = 30 * time.Second

// readHeader reads a header up to the empty line, and returns the length of the body.
func readHeader(r *bufio.Reader) (length int, err error) {
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
			return 0, errors.New("the body is chunked, which is not expected here")
		}
	}
}

// connection is a connection to a target, with one request at a time.
type connection struct {
	net.Conn
	r    *bufio.Reader
	body []byte // of the newest answer
}

func dial(address string) (*connection, error) {
	c, err := net.DialTimeout("tcp", address, patience)
	if err != nil {
		return nil, err
	}
	return &connection{Conn: c, r: bufio.NewReaderSize(c, 2<<10)}, nil
}

// do sends a request and returns the body of the answer, which is valid until the next request. It
// fails if the status is not 200.
func (c *connection) do(request []byte) ([]byte, error) {
	if _, err := c.Write(request); err != nil {
		return nil, fmt.Errorf("sending a request: %w", err)
	}
	return c.answer()
}

func (c *connection) answer() ([]byte, error) {
	line, err := c.r.ReadSlice('\n')
	if err != nil {
		return nil, fmt.Errorf("waiting for an answer: %w", err)
	}
	_, rest, _ := bytes.Cut(line, []byte(" "))
	status := string(rest[:min(3, len(rest))])
	length, err := readHeader(c.r)
	if err != nil {
		return nil, err
	}
	if cap(c.body) < length {
		c.body = make([]byte, length)
	}
	c.body = c.body[:length]
	if _, err := io.ReadFull(c.r, c.body); err != nil {
		return nil, fmt.Errorf("reading the body of an answer: %w", err)
	}
	if status != "200" {
		return nil, fmt.Errorf("HTTP %s: %.300s", status, c.body)
	}
	return c.body, nil
}

// request returns the bytes of a request.
func request(method, address, path string, body []byte) []byte {
	head := method + " " + path + " HTTP/1.1\r\nHost: " + address + "\r\n"
	if method == http.MethodPost {
		head += "Content-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n"
	}
	return append([]byte(head+"\r\n"), body...)
}

// once sends one request over a new connection.
func once(method, address, path string, body []byte) ([]byte, error) {
	c, err := dial(address)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	return c.do(request(method, address, path, body))
}
