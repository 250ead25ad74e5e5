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

// The loader and the provider speak HTTP/1.1 without net/http, which takes several
// times the processor time: on a machine of few cores, that would be measured too.
// They understand what they get here and no more.

// patience is how long anything may take that takes moments.
const patience = 30 * time.Second

// readHeader reads a header up to the empty line, and returns how long the body is.
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

// connection is one to a target. It carries one request at a time.
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

// do sends a request and returns the body of the answer, which has to be HTTP 200.
// It is valid until the next one.
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

// request is all that is sent for one.
func request(method, address, path string, body []byte) []byte {
	head := method + " " + path + " HTTP/1.1\r\nHost: " + address + "\r\n"
	if method == http.MethodPost {
		head += "Content-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n"
	}
	return append([]byte(head+"\r\n"), body...)
}

// once sends a single request over a connection of its own.
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
