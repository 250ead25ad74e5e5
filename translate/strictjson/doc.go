// Package strictjson reads JSON texts in one pass, several times as fast as package jsontext, and without allocations. It accepts only
// what jsontext accepts. It refuses what is wrong, and some texts that are unusual, without saying why: [Fault] asks jsontext.
package strictjson
