// Package stdio lets a client of MCP that starts a program and talks to its standard input and output use an
// MCP server of Streamable HTTP: a [Serve] sends each message as an HTTP request and writes each answer as a line.
//
// The server is either elsewhere, or an [http.Handler] in the same process (see [InProcess]). In both cases the messages go the
// same way, so that there is one implementation of the methods.
package stdio
